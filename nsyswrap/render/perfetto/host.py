"""What ran on the host: calls and ranges in the lanes of their threads."""

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

# Calls, those first that others are made in: of two that start together the first is around the other.
CALLS = (
    *("openmp", "openacc", "mpi_collective", "mpi_p2p", "mpi_start_wait", "mpi_other"),
    *("api", "osrt", "overhead", "cuda_overhead"),
)


class OnThread(NamedTuple):
    """Events of one kind on the host: positions in the selection, times in ns, global thread ids."""

    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    thread: NDArray[Any]


def calls(capture: Capture, kind: str) -> OnThread:
    """Return the calls of one kind that have a start and an end."""
    found = capture.columns(kind, "start_ns", "end_ns", "global_tid")
    row = timed(found["start_ns"], found["end_ns"])
    return OnThread(row, *(values[row] for values in found.values()))


def timed(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of what has a start and does not end before it."""
    return np.flatnonzero((start != MISSING) & (end != MISSING) & (end >= start))


def placed(parts: Sequence[OnThread], lanes: Lanes) -> list[NDArray[Any]]:
    """Add lanes for the threads of all parts and return the lane of each event, part by part.

    Of parts that start together the earlier part is outside.
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
