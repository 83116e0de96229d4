"""The host bars of a trace: API calls and NVTX ranges in the lanes of their threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.base.missing import MISSING
from nsyswrap.render.perfetto.sublanes import nested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.lanes import Lanes

# Of two calls that start together, the one whose kind is first here is outside.
CALLS = (
    *("openmp", "openacc", "mpi_collective", "mpi_p2p", "mpi_start_wait", "mpi_other"),
    *("api", "osrt", "overhead", "cuda_overhead"),
)


class ThreadEvents(NamedTuple):
    """Events of one kind on the host: positions in the selection, times in ns, global thread ids."""

    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    thread: NDArray[Any]


def calls(capture: Capture, kind: str) -> ThreadEvents:
    """Return the calls of one kind that have a start and an end."""
    columns = capture.columns(kind, "start_ns", "end_ns", "global_tid")
    row = timed(columns["start_ns"], columns["end_ns"])
    return ThreadEvents(row, *(values[row] for values in columns.values()))


def timed(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of events that have a start and do not end before it."""
    return np.flatnonzero((start != MISSING) & (end != MISSING) & (end >= start))


def thread_lanes(parts: Sequence[ThreadEvents], lanes: Lanes) -> list[NDArray[Any]]:
    """Add lanes for the threads of all parts. Return the lane of each event, part by part.

    Of events that start together, the one of the earlier part is outside.
    """
    sizes = [len(part.row) for part in parts]
    start, end, thread = (
        np.concatenate([np.empty(0, np.int64), *(getattr(part, field) for part in parts)])
        for field in ("start_ns", "end_ns", "thread")
    )
    threads, codes = distinct(thread)
    rank = np.repeat(np.arange(len(parts)), sizes)
    lane, (of, sublane) = group_keys(codes, nested(codes, rank, start, end))
    added = [
        lanes.thread(int(threads[code]), number)
        for code, number in zip(of.tolist(), sublane.tolist(), strict=True)
    ]
    return np.split(np.array(added, np.int64)[lane], np.cumsum(sizes))[:-1]
