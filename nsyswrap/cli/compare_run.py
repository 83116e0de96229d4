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
from nsyswrap.base.run_folder import PROGRAM_ERRORS, PROGRAM_OUTPUT, claim_output, make_folder, outcome_words
from nsyswrap.base.text import quoted
from nsyswrap.cli.help import option
from nsyswrap.cli.options import with_options
from nsyswrap.cli.output import note, note_broken, note_renamed, progress_line

if TYPE_CHECKING:
    from nsyswrap.record.program import RunSpec

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.analysis import no_gpu_work
    from nsyswrap.base.nsys import command as nsys_command
    from nsyswrap.base.nsys import find
    from nsyswrap.capture import capture as captures
    from nsyswrap.cli import repeats
    from nsyswrap.record import program as programs

RUN = "Record both sides first"  # a heading of the help
SIDES = ("base", "new")
# After the first run of a side, the series goes on without a run that ends so.
_LOST = ("program_failed", "timed_out", "nsys_failed")

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
) -> tuple[Path, Path, int]:
    """Make the runs. Return the folders of both sides, and the exit code of the first run that failed, or 0.

    What the programs print goes to the run folders. A first run of a side that is not done ends the process
    with its exit code, and so does an interruption or a full disk. Raises CaptureError for a first run
    without GPU work, UsageError for wrong command lines, and Unavailable, OutputError or ProgramNotFound
    before anything is run.
    """
    resolved = [programs.resolve(command, chooses_python=True) for command in split_commands(words)]
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
        code = _record_each(specs, runs)
    note(f"nsyswrap: {runs * len(SIDES):,} runs in {folder}/")
    return specs[SIDES[0]].output, specs[SIDES[1]].output, code


def _record_each(specs: dict[str, RunSpec], runs: int) -> int:
    """Make the runs in turns and return the exit code of the first that failed, or 0."""
    code, rewind = 0, repeats.stdin_rewinder()
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
            note(f"nsyswrap: {label}: {status.message or outcome_words(status.outcome)}{hint}")
            _note_output(spec.output)
            if number == 1 or status.outcome not in _LOST:
                done = spec.output.parent.parent
                note(f"nsyswrap: the other runs were not started; what is done is in {done}/")
                sys.exit(status.exit_code)
            code = code or status.exit_code
        elif number == 1:
            _check_gpu_work(spec.output)
    return code


def _note_output(folder: Path) -> None:
    """Name the files with what the program of a run printed."""
    for name in (PROGRAM_OUTPUT, PROGRAM_ERRORS):
        if paths.size(folder / name):
            note(f"  it printed  {quoted(str(folder / name))}")


def _check_gpu_work(run: Path) -> None:
    """Raise CaptureError if a run has no GPU work: the others would have none either."""
    if not no_gpu_work.has_gpu_work(captures.open_capture(run)):
        raise CaptureError(
            f"no GPU work was recorded in {run}: the other runs were not started",
            f"see why: nsyswrap report {quoted(str(run))}",
        )
