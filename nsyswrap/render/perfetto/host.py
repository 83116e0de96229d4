"""The host slices of a trace: API calls and NVTX ranges in the lanes of their threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.perfetto.slices import Slices, laid_out, look_fields
from nsyswrap.render.timeline.lanes import OTHER_CALLS
from nsyswrap.render.timeline.packing import nested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.lanes import CaptureLanes
    from nsyswrap.render.perfetto.slices import Looks

FAULT = "um_cpu_fault"

_IN_CUDA = ("osrt", "overhead", "cuda_overhead")  # calls that CUDA's make
# Of two calls that start together, the one whose kind is first here is outside.
CALLS = (*(kind for kind in OTHER_CALLS if kind not in _IN_CUDA), "api", *_IN_CUDA)


class ThreadEvents(NamedTuple):
    """Events on the host: times in ns, global thread ids, looks, and positions among all API calls or -1."""

    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    thread: NDArray[Any]
    look: NDArray[Any]
    call: NDArray[Any]


def calls(capture: Capture, kind: str, looks: Looks) -> tuple[ThreadEvents, int]:
    """Return the calls of one kind that have a start and an end, and the number of all."""
    own = Capture(capture.path, source=capture.source, view=capture.view)  # so that its columns are freed
    places = (*SPANS, "global_tid")
    own.columns(kind, *places, *look_fields(kind))  # in one pass
    columns = own.columns(kind, *places)
    row = timed(columns["start_ns"], columns["end_ns"])
    call = own.columns(kind, "row")["row"][row] - 1 if kind == "api" else np.full(len(row), -1)
    look = looks.of_events(own, kind, row)
    start, end, thread = (values[row] for values in columns.values())
    return ThreadEvents(start, end, thread, look, call.astype(np.int32)), own.count(kind)


def timed(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of events that have a start and do not end before it."""
    return np.flatnonzero((start != MISSING) & (end != MISSING) & (end >= start))


def thread_slices(
    parts: Sequence[ThreadEvents], tracks: CaptureLanes, name: str = "", *, points: bool = False
) -> tuple[Slices, NDArray[Any]]:
    """Return the slices of all parts in the lanes of their threads, and the call of each.

    Of events that start together, the one of the earlier part is outside. ``name`` is that of a lane below
    the thread.
    """
    rank = np.repeat(np.arange(len(parts), dtype=np.int8), [len(part.start_ns) for part in parts])
    start, end, thread, look, call = (
        np.concatenate([getattr(part, field) for part in parts]) for field in ThreadEvents._fields
    )
    threads, code = distinct(thread)

    def add(of: int, sublane: int) -> int:
        return tracks.thread_lane(int(threads[of]), name, sublane)

    order, lane = laid_out(code, rank, (start, end), None if points else nested, add)
    nothing = np.zeros(len(lane), np.int32)
    columns = (start[order], end[order], look[order], nothing, nothing)
    return Slices(lane, *columns, calling=True, points=points), call[order]


def cpu_page_faults(capture: Capture, tracks: CaptureLanes, looks: Looks) -> Slices:
    """Return the CPU page faults in the selected time, named after the faulting instruction."""
    columns = capture.columns(FAULT, "start_ns", "global_pid")
    start = columns["start_ns"]
    row = np.flatnonzero((start != MISSING) & capture.window.holding(columns, clip=True))
    look = looks.of_events(capture, FAULT, row)
    known, process = distinct(columns["global_pid"][row])
    lane = np.array([tracks.process(global_pid) for global_pid in known.tolist()], np.int32)[process]
    order = np.lexsort((start[row], lane))
    times, nothing = start[row][order], np.zeros(len(row), np.int32)
    return Slices(lane[order], times, times, look[order], nothing, nothing, points=True)
