"""``nsyswrap profile``: a program goes in, one screen comes out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.cli.output import (
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
from nsyswrap.cli.recording import environment, nsys_options, recording_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.api import Run
    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.cli.profile_rank import OneRank
    from nsyswrap.record.program import Program
    from nsyswrap.record.spec import RunSpec


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
@recording_options
@click.option(
    "--ranks",
    metavar="N,N-N",
    help="Inside torchrun, mpirun or srun: profile these ranks, run the others without nsys.",
)
@click.option("--dry-run", is_flag=True, help="Print the exact command line, run nothing.")
@reporting_options
def command(program: tuple[str, ...], variables: tuple[str, ...], *, dry_run: bool, **options: Any) -> None:  # noqa: ANN401
    """Run a program under nsys and show what the GPU did.

    PROGRAM is a Python script or a module (-m), run by the Python that nsyswrap is installed in, a .cu file
    (compiled first) or an executable, as another Python is; all that follows belongs to it. Its stdin,
    stdout, stderr and exit code are its own.

    Started by torchrun, mpirun or srun, every rank writes a run folder of its own, DIR/rank-N, and ends in
    one line; -r is kept for `nsyswrap report DIR --by rank`, --csv writes a folder for each rank.
    """
    from nsyswrap.cli import profile_rank as one_rank  # noqa: PLC0415
    from nsyswrap.record.program import resolve  # noqa: PLC0415

    one = one_rank.find(options["ranks"])
    _check_names(options["reports"], one)  # a wrong name is told before the program runs
    env = environment(variables)
    found = resolve(program, module=options["module"], arch=options["arch"])
    if dry_run:
        click.echo(_dry_run(found, options, env, one))
    elif one and not one.profiled:
        one_rank.run_bare(found, env)
    else:
        sys.exit(_record(found, options, env, one))


def _dry_run(program: Program, options: dict[str, Any], env: dict[str, str], one: OneRank | None) -> str:
    """Return what runs the same from a shell: nsys writes elsewhere where there is no folder."""
    from nsyswrap.base.nsys.command import trips_over  # noqa: PLC0415
    from nsyswrap.base.nsys.find import find  # noqa: PLC0415
    from nsyswrap.record.run import command_line  # noqa: PLC0415

    if one and not one.profiled:
        return _shell_line(program.argv, env)
    spec = _spec(program, options, env, one, make_folder=False)
    if trips_over(spec.output):
        raise UsageError(
            f"nsys itself cannot write into {str(spec.output)!r}: there is no such command line",
            "give another --output, or leave out --dry-run: nsyswrap has a way",
        )
    line = _shell_line(command_line(spec, find(spec.nsys_path)[0]), env)
    return line if spec.output.exists() else f"mkdir -p {shlex.quote(str(spec.output))} && {line}"


def _shell_line(argv: Sequence[str], env: dict[str, str]) -> str:
    assignments = [f"{name}={value}" for name, value in env.items()]
    return shlex.join([*(["env", *assignments] if assignments else []), *argv])


def _record(program: Program, options: dict[str, Any], env: dict[str, str], one: OneRank | None) -> int:
    """Run the program under nsys, show what was recorded, and return the exit code."""
    spec = _spec(program, options, env, one, make_folder=True)
    if program.warning and (not one or one.speaks):
        note(f"nsyswrap: {program.warning}")
    from nsyswrap import api  # noqa: PLC0415
    from nsyswrap.record.spec import Callbacks  # noqa: PLC0415

    callbacks = Callbacks(progress=(lambda _: None) if one else progress_line(), broken=warn_of_broken)
    run = api.run(spec, callbacks)
    try:
        if one:
            one.show(run, options)
        else:
            _show(run, options)
    except OSError:  # nobody reads on, or the disk is full: how the program ended says more
        if not run.status.exit_code:
            raise
    return run.status.exit_code


def _spec(
    program: Program, options: dict[str, Any], env: dict[str, str], one: OneRank | None, *, make_folder: bool
) -> RunSpec:
    from nsyswrap.base.run_folder import check_share, default_output  # noqa: PLC0415
    from nsyswrap.record.run import claim_output  # noqa: PLC0415
    from nsyswrap.record.spec import RunSpec  # noqa: PLC0415

    check_share(options["share"], keep_environment=options["keep_environment"])
    output = one.folder(program, options["output"]) if one else options["output"]
    if output is None and make_folder:
        output = claim_output(program, options["nsys_path"])
    return RunSpec(
        program,
        output or default_output(program.name),
        nsys_options(options),
        options["nsys_path"],
        env,
        options["timeout"],
        options["force"],
        rank=one.facts if one else {},
        keep_environment=options["keep_environment"],
        discard_rep=options["discard_rep"],
        share=options["share"],
    )


def _check_names(reports: tuple[str, ...], one: OneRank | None) -> None:
    """Raise UsageError for a report there is none of; reports over ranks are made later, of all ranks."""
    from nsyswrap.reports.ranks import split  # noqa: PLC0415

    of_one, over_ranks = split(reports)
    if over_ranks and not one:
        raise UsageError(f"{over_ranks[0]} is a report over several ranks, and this is one program")
    if of_one or not over_ranks:
        asked(of_one)


def warn_of_broken(nsys: Nsys) -> None:
    """Name an nsys that was passed over, and its cure."""
    note(f"nsyswrap: {nsys.path} was passed over: {nsys.fault}\n  {nsys.cure}")


def _show(run: Run, options: dict[str, Any]) -> None:
    """Print what was recorded, how the run ended, where it lies and how to see it again."""
    from nsyswrap.base.run_folder import EXPORT, REPORT  # noqa: PLC0415

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
    from nsyswrap.base.run_folder import RunFolder  # noqa: PLC0415

    look = Look(options["top"])
    capture = run.capture
    wanted = options["reports"] or options["csv_folder"]
    tables = make({"": capture}, asked(options["reports"])).tables if wanted else []
    facts = RunFolder(run.folder).read_run()
    if options["reports"]:
        click.echo(show_tables(tables, "text", look), nl=False)
    else:
        click.echo(summary_text(capture, look), nl=False)
    note_silence(capture, facts)
    if options["csv_folder"] and tables:
        write_csv(options["csv_folder"], tables, look)
