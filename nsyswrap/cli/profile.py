"""``nsyswrap profile``: a program goes in, one screen comes out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.cli.show import (
    Look,
    asked,
    make,
    note,
    note_silence,
    progress_line,
    reporting_options,
    show_tables,
    summary_text,
    write_csv,
)
from nsyswrap.errors import UsageError

if TYPE_CHECKING:
    from nsyswrap.api import Run
    from nsyswrap.nsys_install import Nsys
    from nsyswrap.program import Program
    from nsyswrap.run import RunSpec


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@click.option("-m", "--module", is_flag=True, help="PROGRAM is a Python module, as in `python -m`.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run folder [nsyswrap-runs/<program>-<time>].",
)
@click.option("--force", is_flag=True, help="Replace the run that is in the folder.")
@click.option("--trace", default="cuda,nvtx", show_default=True, help="What nsys traces.")
@click.option("--no-stats", is_flag=True, help="Skip nsys' own tables: export only, for large runs.")
@click.option("--um-faults", is_flag=True, help="Record unified-memory page faults (slows the program).")
@click.option(
    "--graphs", type=click.Choice(["graph", "node"]), help="Record CUDA graphs whole or node by node."
)
@click.option(
    "--capture-range", metavar="RANGE", help="Record only inside `cudaProfilerApi` or `nvtx:NAME[@DOMAIN]`."
)
@click.option("--delay", type=click.FloatRange(min=0), metavar="S", help="Start recording after S seconds.")
@click.option(
    "--duration", type=click.FloatRange(min=0), metavar="S", help="Record S seconds, then end the program."
)
@click.option(
    "--env", "variables", multiple=True, metavar="K=V", help="Set an environment variable; repeatable."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="End the run after S seconds (exit 75).",
)
@click.option(
    "--arch", metavar="sm_XY", help="Compile a .cu PROGRAM for this architecture, not for the GPU here."
)
@click.option(
    "--nsys", "nsys_path", metavar="PATH", help="The nsys to use [$NSYSWRAP_NSYS, PATH, the usual places]."
)
@click.option(
    "--nsys-arg", "nsys_args", multiple=True, metavar="ARG", help="Hand ARG to nsys as it is; repeatable."
)
@click.option("--keep-environment", is_flag=True, help="Leave the environment variables in the export.")
@click.option("--discard-rep", is_flag=True, help="Delete the .nsys-rep: it cannot be redacted.")
@click.option("--dry-run", is_flag=True, help="Print the exact command line, run nothing.")
@reporting_options
def command(program: tuple[str, ...], variables: tuple[str, ...], *, dry_run: bool, **options: Any) -> None:  # noqa: ANN401
    """Run a program under nsys and show what the GPU did.

    PROGRAM is a Python script, a module (-m), a .cu file (compiled first) or an executable; all that
    follows belongs to it. Its stdin, stdout, stderr and exit code are its own.
    """
    from nsyswrap.program import resolve  # noqa: PLC0415

    asked(options["reports"])  # a wrong name is told before the program runs
    env = dict(map(_variable, variables))
    found = resolve(program, module=options["module"], arch=options["arch"])
    spec = _spec(found, options, env, make_folder=not dry_run)
    if dry_run:
        click.echo(_shell_line(spec))
        return
    if found.warning:
        note(f"nsyswrap: {found.warning}")
    from nsyswrap import api  # noqa: PLC0415

    run = api.run(
        spec,
        keep_environment=options["keep_environment"],
        discard_rep=options["discard_rep"],
        on_progress=progress_line(),
        on_broken=warn_of_broken,
    )
    _show(run, options)
    sys.exit(run.status.exit_code)


def _shell_line(spec: RunSpec) -> str:
    """Return what runs the same from a shell: nsys writes elsewhere where there is no folder."""
    from nsyswrap.nsys_install import find  # noqa: PLC0415
    from nsyswrap.run import command_line  # noqa: PLC0415

    environment = [f"{name}={value}" for name, value in spec.env.items()]
    command = command_line(spec, find(spec.nsys_path)[0].path)
    line = shlex.join([*(["env", *environment] if environment else []), *command])
    return line if spec.output.exists() else f"mkdir -p {shlex.quote(str(spec.output))} && {line}"


def _spec(program: Program, options: dict[str, Any], env: dict[str, str], *, make_folder: bool) -> RunSpec:
    from nsyswrap.folder import default_output  # noqa: PLC0415
    from nsyswrap.nsys import Options  # noqa: PLC0415
    from nsyswrap.run import RunSpec, claim_output  # noqa: PLC0415

    output = options["output"]
    if output is None and make_folder:
        output = claim_output(program, options["nsys_path"])
    nsys_options = Options(
        trace=options["trace"],
        stats=not options["no_stats"],
        um_faults=options["um_faults"],
        graphs=options["graphs"],
        capture_range=options["capture_range"],
        delay=options["delay"],
        duration=options["duration"],
        extra=options["nsys_args"],
    )
    return RunSpec(
        program,
        output or default_output(program.name),
        nsys_options,
        options["nsys_path"],
        env,
        options["timeout"],
        options["force"],
    )


def _variable(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not name or not equals:
        raise UsageError(f"--env {assignment!r} is not K=V", "as in --env CUDA_VISIBLE_DEVICES=0")
    return name, value


def warn_of_broken(nsys: Nsys) -> None:
    """Name an nsys that was passed over, and its cure."""
    note(f"nsyswrap: {nsys.path} was passed over: {nsys.fault}\n  {nsys.cure}")


def _show(run: Run, options: dict[str, Any]) -> None:
    """Print what was recorded, how the run ended, where it lies and how to see it again."""
    from nsyswrap.folder import EXPORT, REPORT  # noqa: PLC0415

    try:
        if (run.folder / EXPORT).exists() and run.status.outcome not in ("nsys_failed", "not_started"):
            _show_capture(run, options)
    finally:
        if run.status.message:
            note(f"nsyswrap: {run.status.message}" + (f"\n  {run.status.hint}" if run.status.hint else ""))
        folder = shlex.quote(str(run.folder))
        note(f"\nrun folder  {folder}/")
        if (run.folder / EXPORT).exists():
            note(f"again       nsyswrap report {folder}")
        if (run.folder / REPORT).exists():
            note(
                f"timeline    nsys-ui {folder}/{REPORT}   (holds the environment: see nsyswrap redact --help)"
            )


def _show_capture(run: Run, options: dict[str, Any]) -> None:
    """Print the summary, or the reports asked for."""
    from nsyswrap.folder import RunFolder  # noqa: PLC0415

    look = Look(options["top"])
    capture = run.capture
    wanted = options["reports"] or options["csv_folder"]
    tables = make({"": capture}, asked(options["reports"])).tables if wanted else []
    facts = RunFolder(run.folder).read_run()
    if options["reports"]:
        note_silence(capture, facts)
        click.echo(show_tables(tables, "text", look), nl=False)
    else:
        click.echo(summary_text(capture, look, facts), nl=False)
    if options["csv_folder"] and tables:
        write_csv(options["csv_folder"], tables, look)
