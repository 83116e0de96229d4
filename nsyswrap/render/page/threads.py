"""The lanes of threads: their CUDA calls, and their NVTX ranges, a lane for each level of nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, call_classes
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.gpu_operations import work
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.nvtx_ranges import ALL, nested_ranges, range_labels
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.render.page.lanes import CALLS, RANGES, Lane, nothing, said, split, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

    Spans = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # thread, start, end

_LEVELS = 6  # of NVTX ranges in each other


def threads(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each thread: ranges, then calls."""
    found: list[tuple[int, Lane]] = []
    with capture.noting():  # what the reports say of ranges is theirs to say
        found += _ranges(capture) if capture.has("nvtx") else ()
        found += _calls(capture) if capture.has("api") else ()
    yield from (lane for _, lane in sorted(found, key=lambda pair: pair[0]))


def ranges_left_out(capture: Capture) -> int:
    """Return how many NVTX ranges are in no lane: too deep, or ended on another thread than they began on."""
    if not capture.has("nvtx"):
        return 0
    every = int(np.isin(capture.columns("nvtx", "event_type")["event_type"], ALL).sum())
    with capture.noting():
        return every - sum(len(lane) for _, lane in _ranges(capture))


def _calls(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield the outermost calls of each thread, and all that launched something."""
    fields = capture.columns("api", "start_ns", "end_ns", "global_tid", "row")
    start, end, row = fields["start_ns"], fields["end_ns"], fields["row"] - 1
    codes, names = name_codes(capture, "api")
    series, launching = call_classes(capture), _launching(capture)
    for thread, every in _by_thread((fields["global_tid"], start, end)):
        mine = every[(_depth(start[every], end[every]) == 0) | launching[row[every]]]
        lane = Lane(
            group=_thread(capture, thread),
            title="CUDA API",
            start_ns=start[mine],
            end_ns=end[mine],
            series=series[mine],
            kinds=[(CALLS, kind) for kind in CLASSES],
            name=codes[mine],
            names=texts(names),
            row=row[mine],
            call=nothing(len(mine)),
        )
        yield thread, lane


def _launching(capture: Capture) -> NDArray[Any]:
    """Mark, of all API calls, those that launched what is selected."""
    marks = np.zeros(capture.whole.count("api"), dtype=bool)
    calls = work(capture).call
    marks[calls[calls >= 0]] = True
    return marks


def _ranges(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield a lane for each level of each thread's ranges; those in no other are at level 0."""
    ranges = nested_ranges(capture)
    known = np.flatnonzero(ranges.spans.end != MISSING)
    if not len(known):
        return
    thread, start, end = (part[known] for part in ranges.spans)
    name, names = range_labels(capture.whole, ranges.row[known] - 1)
    for owner, every in _by_thread((thread, start, end)):
        level = _depth(start[every], end[every])
        for depth in range(min(int(level.max()) + 1, _LEVELS)):
            mine = every[level == depth]
            lane = Lane(
                group=_thread(capture, owner),
                title=f"NVTX {depth}" if depth else "NVTX",
                start_ns=start[mine],
                end_ns=end[mine],
                series=np.zeros(len(mine), np.int64),
                kinds=[(RANGES, "range")],
                name=name[mine],
                names=texts(names),
                row=nothing(len(mine)),
                call=nothing(len(mine)),
            )
            yield owner, lane


def _by_thread(spans: Spans) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the rows of each thread by start, of equal ones the longest first."""
    owner, start, end = spans
    known, number = distinct(owner)
    yield from zip(known.tolist(), split(np.lexsort((-end, start, number)), number), strict=True)


def _depth(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return in how many others each span begins; they come by start, of equal ones the longest first."""
    ends = np.sort(np.maximum(end, start + 1))  # one that takes no time has not ended when it begins
    depth: NDArray[Any] = np.arange(len(start)) - np.searchsorted(ends, start, "right")
    return depth


def _thread(capture: Capture, thread: int) -> str:
    name = capture.threads.get(thread, (None, None))[1]
    number, owner = (int(ids(np.array(thread))) for ids in (thread_ids, process_ids))
    numbers = f"thread {said(number)} · process {said(owner)}"
    return f"{name} · {numbers}" if name else numbers
