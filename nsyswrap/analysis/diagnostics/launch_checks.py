"""Launch calls whose work is not recorded: they failed, went into a CUDA graph, or something is missing."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, LAUNCH, call_classes
from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.diagnostics.check import (
    Diagnosis,
    info,
    marked,
    ok,
    owners,
    unclipped,
    unknown,
    warning,
)
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of
from nsyswrap.analysis.names import strip_version
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

    Calls = dict[str, NDArray[Any]]

SUBJECT = "launches without work"
_BEGIN_CAPTURE, _END_CAPTURE = r"cu(da)?StreamBeginCapture", r"cu(da)?StreamEndCapture"
_FIELDS = ("start_ns", "global_tid", "correlation_id", "return_value", "name")


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield launch calls without work, by why there is none."""
    if not capture.has("api"):
        yield unknown(SUBJECT, "no API calls to look at (--trace=cuda records them)")
        return
    calls = unclipped(capture, "api", *_FIELDS)
    launching = call_classes(capture) == CLASSES.index(LAUNCH)
    lacking = _outermost(calls, launching & ~_started(capture))
    failed = ~np.isin(calls["return_value"][lacking], (0, MISSING))
    captured = ~failed & _capturing(capture, calls, lacking)
    lost = lacking[~failed & ~captured]
    if count := marked(failed):
        said = f"{_launch_calls(count)} failed and started nothing"
        yield warning(SUBJECT, count, f"{said}: what the program meant to run is missing")
    if len(lost):
        yield warning(SUBJECT, len(lost), _lost(capture, calls, lost))
    if count := marked(captured):
        said = f"{_launch_calls(count)} while a CUDA graph was being captured"
        yield info(SUBJECT, count, f"{said}: they started nothing then, the launches of the graph do")
    if not failed.any() and not len(lost):
        rest = "other " if captured.any() else ""
        said = f"the work of every {rest}launch call is recorded" if launching.any() else "no launch calls"
        yield ok(SUBJECT, said)


def _launch_calls(count: int) -> str:
    return f"{count:,} launch {'call' if count == 1 else 'calls'}"


def _started(capture: Capture) -> NDArray[Any]:
    """Mark the selected calls that started something, be that selected or not."""
    whole = capture.whole
    started: NDArray[Any] = np.zeros(whole.count("api"), dtype=bool)
    for kind in KINDS:
        if whole.has(kind):
            started[launch_pairs_of(whole, kind).api] = True
    return started[capture.columns("api", "row")["row"] - 1] if capture.view.selection.narrows else started


def _named(capture: Capture, calls: Calls, pattern: str) -> NDArray[Any]:
    """Mark the calls whose name begins as the pattern says."""
    ids, positions = distinct(calls["name"])
    fits: NDArray[Any] = np.array(
        [bool(re.match(pattern, capture.text(i) or "")) for i in ids.tolist()], bool
    )
    marks: NDArray[Any] = fits[positions]
    return marks


def _outermost(calls: Calls, marks: NDArray[Any]) -> NDArray[Any]:
    """Return the rows of the marked calls by start, one of those that share process and correlation id."""
    rows = np.flatnonzero(marks)
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    codes, _ = group_keys(owners(calls["global_tid"][rows]), calls["correlation_id"][rows])
    return rows[np.sort(np.unique(codes, return_index=True)[1])]


def _capturing(capture: Capture, calls: Calls, rows: NDArray[Any]) -> NDArray[Any]:
    """Mark the calls that were made while their process captured a CUDA graph."""
    every = capture.whole.columns("api", *_FIELDS)
    begins, ends = (_named(capture, every, pattern) for pattern in (_BEGIN_CAPTURE, _END_CAPTURE))
    begins &= np.isin(every["return_value"], (0, MISSING))
    steps = np.flatnonzero(begins | ends)
    steps = steps[np.argsort(every["start_ns"][steps], kind="stable")]
    found = np.zeros(len(rows), dtype=bool)
    processes = owners(calls["global_tid"][rows])
    for process in np.unique(processes).tolist():
        own = steps[owners(every["global_tid"][steps]) == process]
        depth = np.append(0, np.cumsum(np.where(begins[own], 1, -1)))
        depth -= np.minimum.accumulate(depth)  # an end whose begin is not recorded ends nothing
        here = processes == process
        found[here] = depth[np.searchsorted(every["start_ns"][own], calls["start_ns"][rows[here]])] > 0
    return found


def _lost(capture: Capture, calls: Calls, rows: NDArray[Any]) -> str:
    """Say of which functions the calls are, and how many come after all that is recorded of their process."""
    names = Counter(strip_version(capture.text(i)) for i in calls["name"][rows].tolist())
    listed = ", ".join(f"{count:,} {name}" for name, count in names.most_common(3))
    lost = f"{_launch_calls(len(rows))} without recorded work ({listed})"
    late = marked(_after_all_work(capture, calls, rows))
    if not late:
        return f"{lost}: events were dropped, or somebody removed them"
    which = "all" if late == len(rows) else f"{late:,} of them"
    cause = "recording seems to have ended before it ran"
    return f"{lost}, {which} after the last recorded work of their process: {cause}"


def _after_all_work(capture: Capture, calls: Calls, rows: NDArray[Any]) -> NDArray[Any]:
    """Mark the calls that began when the last recorded operation of their process had begun."""
    every = gpu_operations_of(capture.whole)
    processes, found = owners(calls["global_tid"][rows]), np.zeros(len(rows), dtype=bool)
    for process in np.unique(every.global_pid).tolist():
        mine = (processes == process) | (process == MISSING)
        found |= mine & (calls["start_ns"][rows] >= every.start_ns[every.global_pid == process].max())
    return found
