"""``nsyswrap compare --run``: record two command lines in turns, into two folders of equal runs.

The order is base, new, new, base, base, new, ...: a GPU that gets warm or a machine that gets busy slows both
sides alike. With all runs of one side first, a drift would look like a change of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, UsageError
from nsyswrap.base.folder_lock import locked
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import PROGRAM_ERRORS, PROGRAM_OUTPUT, claim_output, make_folder
from nsyswrap.base.text import quoted
from nsyswrap.cli.help import option
from nsyswrap.cli.options import with_options
from nsyswrap.cli.output import note, note_broken, note_renamed, progress_line

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Side
    from nsyswrap.record.program import RunSpec

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.base.nsys import command as nsys_command
    from nsyswrap.base.nsys import find
    from nsyswrap.cli import repeats
    from nsyswrap.record import program as programs

RUN = "Record both sides first"  # a heading of the help
SIDES = ("base", "new")
_GPU = ("kernel", "copy")  # groups of rows that only GPU work has

run_options = with_options(
    option(
        RUN,
        "--run",
        "runs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run each command N times, in turns.",
    ),
    option(
        RUN,
        "--into",
        type=click.Path(readable=False, path_type=Path),
        metavar="DIR",
        help="Record into DIR/base/run-1, DIR/new/run-1, ...",
    ),
    option(RUN, "--trace", default="cuda,nvtx", show_default=True, metavar="APIS", help="Trace these APIs."),
    option(RUN, "--force", is_flag=True, help="Replace runs in DIR, and files."),
)


def split_commands(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both command lines of ``A... -- B...``. Raises UsageError for another number of them."""
    places = [place for place, word in enumerate(words) if word == "--"]
    if len(places) != 1 or places[0] in (0, len(words) - 1):
        found = "one command line" if words and not places else f"{len(places) + 1} parts"
        raise UsageError(
            f"--run needs two command lines with -- before each: got {found if words else 'none'}",
            "nsyswrap compare --run 5 -- python old.py -- python new.py",
        )
    return tuple(words[: places[0]]), tuple(words[places[0] + 1 :])


def in_turns(runs: int) -> Iterator[tuple[int, str]]:
    """Yield number and side of each run in their order: base, new, new, base, base, new, ..."""
    for number in range(1, runs + 1):
        yield from ((number, side) for side in (SIDES if number % 2 else reversed(SIDES)))


def record(
    words: Sequence[str], runs: int, *, into: Path | None, trace: str, force: bool
) -> tuple[Path, Path]:
    """Make the runs and return the folders of both sides. What the programs print goes to the run folders.

    The first run that is not done ends the series and the process, with its exit code. Raises UsageError for
    wrong command lines, and Unavailable, OutputError or ProgramNotFound before anything is run.
    """
    resolved = [programs.resolve(command) for command in split_commands(words)]
    find.find_nsys(None)
    if into and not force and paths.is_filled(into):
        raise OutputError(
            f"{into} exists and is not empty", "use another --into, or --force to replace its runs"
        )
    folder = into or claim_output("compare")
    specs = {
        side: programs.RunSpec(
            program,
            folder / side,
            nsys_command.Options(trace=trace, stats=False),
            force=force,
            keep_output=True,
            keep_errors=True,
        )
        for side, program in zip(SIDES, resolved, strict=True)
    }
    with paths.writing(folder, "use another --into"):
        make_folder(folder, None)
    with locked(folder, "another series", "use another --into, or wait"):
        for spec in specs.values():
            if spec.program.warning:
                note(f"nsyswrap: {spec.program.warning}")
            repeats.make_series_folder(spec)
        _record_each(specs, runs)
    note(f"nsyswrap: {runs * len(SIDES):,} runs in {folder}/")
    return specs[SIDES[0]].output, specs[SIDES[1]].output


def _record_each(specs: dict[str, RunSpec], runs: int) -> None:
    rewind = repeats.stdin_rewinder()
    callbacks = programs.Callbacks(progress=progress_line(), broken=note_broken, renamed=note_renamed)
    for number, side in in_turns(runs):
        rewind()
        label = f"{side}, run {number:,} of {runs:,}"
        note(f"nsyswrap: {label}")
        spec = repeats.numbered(specs[side], number, runs)
        status = api.run(spec, callbacks).status
        callbacks = replace(callbacks, broken=lambda _: None, renamed=lambda _: None)  # told once
        if status.exit_code:
            hint = f"\n  {status.hint}" if status.hint else ""
            note(f"nsyswrap: {label}: {status.message or status.outcome}{hint}")
            _note_output(spec.output)
            note(
                f"nsyswrap: the other runs were not started; what is done is in {spec.output.parent.parent}/"
            )
            sys.exit(status.exit_code)


def _note_output(folder: Path) -> None:
    """Name the files with what the program of a run printed."""
    for name in (PROGRAM_OUTPUT, PROGRAM_ERRORS):
        if paths.size(folder / name):
            note(f"  it printed  {quoted(str(folder / name))}")


def check_gpu_work(base: Side, new: Side) -> None:
    """Raise CaptureError if no run of either side has kernels or copies."""
    if not any(key.group in _GPU for side in (base, new) for run in side.runs for key in run.rows):
        raise CaptureError(
            "no GPU work was recorded in the runs of either side",
            f"see why: nsyswrap report {base.name}/run-1",
        )
