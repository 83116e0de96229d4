"""``nsyswrap profile --repeat`` and ``--compare-bare``: equal runs of one program, one after the other."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.base.folder_lock import locked
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import repeats_in
from nsyswrap.base.run_folder import RUN, RunFolder, make_folder
from nsyswrap.cli.output import confirm, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsyswrap.base.run_folder import Status
    from nsyswrap.record.spec import Callbacks, RunSpec

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.base.nsys import find
    from nsyswrap.cli import repeats
    from nsyswrap.record import bare, stored_runs


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
    repeats.show(spec.output)
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
            hint = f"\n  {status.hint}" if status.hint else ""
            note(f"nsyswrap: {label}: {status.message or status.outcome}{hint}")
            if number < count:
                note("nsyswrap: the other runs were not started")
            break
    return status


def run_bare_first(spec: RunSpec) -> tuple[RunSpec, Status | None]:
    """Run the program of ``spec`` without nsys. Return the run to make under nsys.

    If the program was stopped, return how, too: then there is nothing to compare with. Raises Unavailable or
    OutputError if the run under nsys could not start.
    """
    find.find_nsys(spec.nsys_path)
    RunFolder(spec.output).check_free(force=spec.force)
    rewind = stdin_rewinder()
    note("nsyswrap: running without nsys first")
    status, times = bare.run_bare(spec)
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
        make_folder(folder, spec.share)
