"""``nsyswrap profile``: run a program under nsys and show what the GPU did."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT, REPORT, RunFolder, check_share, default_output
from nsyswrap.cli.options import reporting_options
from nsyswrap.cli.output import (
    make_tables,
    note,
    note_silence,
    progress_line,
    summary_text,
    tables_text,
    terminal_layout,
    write_csv,
)
from nsyswrap.cli.recording import environment, nsys_options, recording_options, warn_of_broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.api import Run
    from nsyswrap.cli.profile_rank import OneRank
    from nsyswrap.record.program import Program
    from nsyswrap.record.spec import RunSpec

with lazy_imports():
    from nsyswrap import api, reports
    from nsyswrap.base.nsys import command as nsys_command
    from nsyswrap.base.nsys import find
    from nsyswrap.cli import profile_rank
    from nsyswrap.record import program as record_program
    from nsyswrap.record import run as record_run
    from nsyswrap.record import spec as record_spec
    from nsyswrap.reports import ranks


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
def command(
    program: tuple[str, ...],
    variables: tuple[str, ...],
    *,
    dry_run: bool,
    **options: Any,  # noqa: ANN401 - by name, of the types above
) -> None:
    """Run a program under nsys and show what the GPU did.

    PROGRAM is a Python script or a module (-m), run by the Python that nsyswrap is installed in, a .cu file
    (compiled first) or an executable, as another Python is; all that follows belongs to it. Its stdin,
    stdout, stderr and exit code are its own.

    Started by torchrun, mpirun or srun, every rank writes a run folder of its own, DIR/rank-N, and ends in
    one line; -r is kept for `nsyswrap report DIR --by rank`, --csv writes a folder for each rank.
    """
    one_rank = profile_rank.find(options["ranks"])
    _check_reports(options["reports"], one_rank)  # before the program runs
    env = environment(variables)
    resolved = record_program.resolve(program, module=options["module"], arch=options["arch"])
    if dry_run:
        click.echo(_dry_run(resolved, options, env, one_rank))
    elif one_rank and not one_rank.profiled:
        profile_rank.run_bare(resolved, env)
    else:
        sys.exit(_record(resolved, options, env, one_rank))


def _dry_run(program: Program, options: dict[str, Any], env: dict[str, str], one_rank: OneRank | None) -> str:
    """Return a shell command that does the same run.

    The command creates the run folder if needed: without it nsys would write somewhere else.
    """
    if one_rank and not one_rank.profiled:
        return _shell_line(program.argv, env)
    spec = _spec(program, options, env, one_rank, make_folder=False)
    if nsys_command.cannot_write_into(spec.output):
        raise UsageError(
            f"nsys itself cannot write into {str(spec.output)!r}: there is no such command line",
            "give another --output, or leave out --dry-run: nsyswrap has a way",
        )
    line = _shell_line(record_run.command_line(spec, find.find(spec.nsys_path)[0]), env)
    return line if spec.output.exists() else f"mkdir -p {shlex.quote(str(spec.output))} && {line}"


def _shell_line(argv: Sequence[str], env: dict[str, str]) -> str:
    assignments = [f"{name}={value}" for name, value in env.items()]
    return shlex.join([*(["env", *assignments] if assignments else []), *argv])


def _record(program: Program, options: dict[str, Any], env: dict[str, str], one_rank: OneRank | None) -> int:
    """Run the program under nsys, show what was recorded, and return the exit code."""
    spec = _spec(program, options, env, one_rank, make_folder=True)
    if program.warning and (not one_rank or one_rank.speaks):
        note(f"nsyswrap: {program.warning}")
    progress = (lambda _: None) if one_rank else progress_line()
    run = api.run(spec, record_spec.Callbacks(progress=progress, broken=warn_of_broken))
    try:
        if one_rank:
            one_rank.show(run, options)
        else:
            _show(run, options)
    except OSError:  # stdout is closed, or the disk is full: the program's exit code matters more
        if not run.status.exit_code:
            raise
    return run.status.exit_code


def _spec(
    program: Program,
    options: dict[str, Any],
    env: dict[str, str],
    one_rank: OneRank | None,
    *,
    make_folder: bool,
) -> RunSpec:
    check_share(options["share"], keep_environment=options["keep_environment"])
    output = one_rank.folder(program, options["output"]) if one_rank else options["output"]
    if output is None and make_folder:
        output = record_run.claim_output(program, options["nsys_path"])
    return record_spec.RunSpec(
        program,
        output or default_output(program.name),
        nsys_options(options),
        options["nsys_path"],
        env,
        options["timeout"],
        options["force"],
        rank=one_rank.facts if one_rank else {},
        keep_environment=options["keep_environment"],
        discard_rep=options["discard_rep"],
        share=options["share"],
    )


def _check_reports(names: tuple[str, ...], one_rank: OneRank | None) -> None:
    """Raise UsageError for an unknown report, and for a report over ranks outside of a launch.

    The names are compared with the lists of reports. A report is imported only to check its options.
    """
    if not names:
        return
    of_one, over_ranks = ranks.split(names)
    if over_ranks and not one_rank:
        raise UsageError(f"{over_ranks[0]} is a report over several ranks, and this is one program")
    for name in of_one:
        if name not in ("all", *reports.NAMES):
            reports.parse(name)


def _show(run: Run, options: dict[str, Any]) -> None:
    """Print what was recorded, how the run ended, its folder, and the commands that show it again."""
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
    """Print the summary, or the requested reports."""
    layout, capture = terminal_layout(options["top"]), run.capture
    named, csv_folder = options["reports"], options["csv_folder"]
    tables = make_tables({"": capture}, reports.parse_all(named)).combined() if named or csv_folder else []
    if not named:
        click.echo(summary_text(capture, layout), nl=False)
    elif not csv_folder:
        click.echo(tables_text(tables, layout), nl=False)
    note_silence(capture, RunFolder(run.folder).read_run())
    if csv_folder and tables:
        write_csv(csv_folder, tables, layout)
