"""Equal runs of one program, one after the other: make them, show their spread, and what profiling cost."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import UNREADABLE, OutputError, UnreadCapture, UsageError, exit_code_of, not_read
from nsyswrap.base.files import locked
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import program_of, repeats_in
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder, Status, ending, make_folder, outcome_words
from nsyswrap.base.text import counted, printable, quoted, screen_width, shorten
from nsyswrap.base.units import Unit, human
from nsyswrap.cli.output import (
    confirm,
    note,
    note_not_read,
    note_problem,
    note_remarks,
    note_silence,
    progress_line,
    say,
)

if TYPE_CHECKING:
    from nsyswrap.record.program import Callbacks, RunSpec

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.analysis import answer, steps
    from nsyswrap.base.nsys import find
    from nsyswrap.capture import capture as captures
    from nsyswrap.record import attached, stored_runs
    from nsyswrap.reports.runs import tables
    from nsyswrap.reports.wording import advice

_WIDEST = 32  # columns of a cell
_NOISE = "cannot tell the difference from noise"
_FEWEST_PAIRS = 4  # three equal pairs differ without overlap in one case of ten by chance
_GAP = "  "


def show(folder: Path, open_one: Callable[[Path], captures.Capture] | None = None) -> int:
    """Print the spread over the runs of a folder that are done, and how to see each.

    ``open_one`` opens a capture. Return the exit code of captures that cannot be read: they are named.
    """
    runs = repeats_in(folder)
    if not runs:  # the first was not started
        return 0
    done = [run for run in runs if paths.exists(run / EXPORT) and not ending(run)]
    if not_done := [run.name for run in runs if run not in done]:
        note(f"nsyswrap: not done, not included: {', '.join(not_done)}")
    of_runs, left_out = _opened(done, open_one)
    if of_runs:
        read = list(of_runs)
        opened, loop = steps.judged_alike(list(of_runs.values()))
        facts = [RunFolder(run).read_run() for run in read]
        say("\n".join(_spread_lines(tables.spread(opened, facts), read, program_of(facts[0]))))
        if loop:
            say(f"All runs are judged by {printable(loop)}, the loop that they share.")
        show_cost(read)
        note_silence(opened[0])
        for run, capture in of_runs.items():
            withheld = answer.withheld_because(capture)
            note_remarks(run, (*capture.remarks, *([advice.words(withheld).what] if withheld else [])))
    note(f"\none run     nsyswrap report {quoted(str(runs[0]))}")
    note(f"all runs    nsyswrap collect {quoted(str(folder))}")
    return exit_code_of(left_out)


def show_cost(runs: Sequence[Path]) -> None:
    """Print what profiling cost in runs that are done, if they have a run without nsys each."""
    facts = [RunFolder(run).read_run() for run in runs]
    if not any("bare" in one for one in facts):
        return
    cost, why_not = tables.profiling_cost(facts)
    if cost:
        say("\n".join(["", *_cost_lines(cost)]))
    else:
        note(f"nsyswrap: cost of profiling not known: {why_not}")


def _opened(
    runs: Sequence[Path], open_one: Callable[[Path], captures.Capture] | None
) -> tuple[dict[Path, captures.Capture], list[UnreadCapture]]:
    """Return the captures of runs, and those that cannot be read. A single one raises its error."""
    open_one = open_one or captures.open_capture
    show_progress, opened = progress_line(), {}
    left_out = []
    for number, run in enumerate(runs, 1):
        show_progress(f"reading {number} of {len(runs)} captures …")
        try:
            opened[run] = open_one(run)
        except UNREADABLE as error:
            if len(runs) == 1:
                raise
            left_out.append(not_read(run.name, run, error))
    show_progress("")
    note_not_read(left_out)
    return opened, left_out


def _spread_lines(figures: Sequence[tables.RunsFigure], runs: Sequence[Path], program: str) -> list[str]:
    head = (f"{program}: {counted(len(runs), 'runs')}", "median", "min", "max", "spread", "runs")
    rows = [
        (
            figure.name,
            *(_text(value, figure.unit) for value in (figure.median, min(figure.values), max(figure.values))),
            "-" if figure.spread_percent is None else _text(figure.spread_percent, Unit.PERCENT),
            f"{len(figure.values):,}",
        )
        for figure in figures
    ]
    lines = _aligned([head, *rows])
    if len(runs) > 1:
        lines.append("Spread: (max - min) / median over the runs.")
    programs = [figure for figure in figures if figure.name == tables.PROGRAM_TIME]
    if programs and len(programs[0].values) == len(runs) and programs[0].first_is_slow:
        first, *others = programs[0].values
        lines.append(
            f"{runs[0].name} took {_text(first)}, the others {_range(others)}: possibly cold caches."
        )
    return lines


def _cost_lines(cost: tables.Cost) -> list[str]:
    pairs = len(cost.bare.values)
    head = ("cost of profiling", "without nsys", "profiled", "difference")
    row = (tables.PROGRAM_TIME, _text(cost.bare.median), _text(cost.profiled.median), _difference(cost))
    lines = [*_aligned([head, row]), "Program time: without the start of nsys and its report."]
    if pairs == 1:
        return [*lines, "The run without nsys was first.", f"One run each: {_NOISE}."]
    lines.append(f"Medians of {pairs:,} pairs of runs. In each pair the run without nsys was first.")
    if pairs < _FEWEST_PAIRS:
        return [*lines, f"{pairs} pairs: too few to tell the difference from noise."]
    return [*lines, _overlap(cost)] if cost.overlaps else lines


def _overlap(cost: tables.Cost) -> str:
    return (
        f"{tables.PROGRAM_TIME}: {_range(cost.bare.values)} without nsys and "
        f"{_range(cost.profiled.values)} profiled overlap:\n  {_NOISE}."
    )


def _range(values: Sequence[float]) -> str:
    return f"{_text(min(values))} to {_text(max(values))}"


def _difference(cost: tables.Cost) -> str:
    sign = "+" if cost.difference_ns >= 0 else "-"
    return f"{sign}{_text(abs(cost.difference_ns))} ({cost.difference_percent:+.1f} %)"


def _text(value: float, unit: Unit = Unit.NS) -> str:
    return f"{human(float(value), unit)}{' %' if unit is Unit.PERCENT else ''}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    clean = [[shorten(printable(cell), _WIDEST) for cell in row] for row in rows]
    widths = [max(map(screen_width, column)) for column in zip(*clean, strict=True)]
    return [
        _GAP.join(
            cell + blanks if column == 0 else blanks + cell
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            for blanks in [" " * (width - screen_width(cell))]
        )
        for row in clean
    ]


def check(*, repeats_run: bool, in_launch: bool, shows_reports: bool, compares_cut_runs: bool) -> None:
    """Raise UsageError where a program cannot be run several times, or for options that are about one run."""
    if in_launch:
        raise UsageError(
            f"{'--repeat' if repeats_run else '--compare-bare'} cannot be used in a launch",
            "launch again, then compare: nsyswrap collect DIR DIR",
        )
    if compares_cut_runs:
        raise UsageError(
            "--compare-bare cannot be used with --duration or --capture-range, or with --then-stop: "
            "nsys may end the program",
            "omit one of them",
        )
    if repeats_run and shows_reports:
        raise UsageError(
            "--repeat cannot be used with --report or --csv: it shows the spread over all runs",
            "omit them; afterwards: nsyswrap report DIR/run-1 -r NAME",
        )


def confirm_bare_runs(runs: int) -> None:
    """Ask if the program may run without nsys as well. Raises UsageError without a terminal to ask on."""
    each = "once" if runs == 1 else f"{runs:,} times"
    words = f"--compare-bare runs the program {2 * runs:,} times: {each} without nsys, {each} under nsys"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(words, "use --yes to run it")
    if not confirm(f"{words}. Run it?"):
        raise UsageError("not confirmed: nothing was run")


def numbered(spec: RunSpec, number: int, count: int) -> RunSpec:
    """Return one of ``count`` equal runs below the folder of ``spec``. Numbers begin at 1."""
    return replace(spec, output=spec.output / f"run-{number}", repeat={"number": number, "count": count})


def record_repeats(spec: RunSpec, count: int, callbacks: Callbacks, *, compares: bool) -> Status:
    """Make ``count`` runs below the folder of ``spec``, show their spread, and return how the last one ended.

    The first run that is not done ends the series. Raises OutputError for a folder with other files.
    """
    make_series_folder(spec)
    with locked(spec.output, "another series", "use another --output, or wait"):
        status = _record_each(spec, count, callbacks, compares=compares)
    show(spec.output)
    return status


def _record_each(spec: RunSpec, count: int, callbacks: Callbacks, *, compares: bool) -> Status:
    rewind = stdin_rewinder()
    for number in range(1, count + 1):
        rewind()
        label = f"run {number:,} of {count:,}"
        note(f"nsyswrap: {label}")
        one, stopped = numbered(spec, number, count), None
        if compares:
            one, stopped = run_bare_first(one)
        status = stopped or api.run(one, callbacks).status
        if status.exit_code:
            note_problem(f"{label}: {status.message or outcome_words(status.outcome)}", status.hint)
            if number < count:
                note("nsyswrap: the other runs were not started")
            break
    return status


def run_bare_first(spec: RunSpec) -> tuple[RunSpec, Status | None]:
    """Run the program of ``spec`` without nsys. Return the run to make under nsys.

    If the program was stopped, return how, too: then there is nothing to compare with. Raises Unavailable or
    OutputError if the run under nsys could not start.
    """
    find.find_nsys(spec.options.nsys_path)
    RunFolder(spec.output).check_free(force=spec.force)
    rewind = stdin_rewinder()
    note("nsyswrap: running without nsys first")
    status, times = attached.run_bare(spec)
    if status.outcome in ("interrupted", "timed_out"):
        return spec, status
    if status.message:
        note(f"nsyswrap: {status.message}")
    rewind()
    return replace(spec, bare=times), None


def note_pipe() -> None:
    """Print a note if stdin is a pipe or a socket: it cannot be read twice."""
    with suppress(OSError):  # closed
        mode = os.fstat(0).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            note("nsyswrap: stdin is a pipe: only the first run reads it")


def stdin_rewinder() -> Callable[[], None]:
    """Return a function that moves stdin back to where it is now, if it is a file."""
    try:
        place = os.lseek(0, 0, os.SEEK_CUR)
    except OSError:  # a terminal, a pipe, or closed
        return lambda: None

    def rewind() -> None:
        with suppress(OSError):
            os.lseek(0, place, os.SEEK_SET)

    return rewind


def make_series_folder(spec: RunSpec) -> None:
    """Make the folder of equal runs. With ``force``, earlier ones in it are removed.

    Raises OutputError if the folder is taken, or cannot be written.
    """
    folder = spec.output
    if RUN in RunFolder(folder).check_free(force=spec.force):
        raise OutputError(f"{folder} is a run folder, not a folder of runs", "use another --output")
    if earlier := repeats_in(folder):
        stored_runs.StoredRun(folder, "repeats", tuple(earlier), 0.0).remove()
    with paths.writing(folder, "use another --output"):
        make_folder(folder, spec.options.share)
