"""Say when each step is over: when its GPU work is complete, and the host begins the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.gpu_operations import gpu_operations_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.steps.occurrences import Calls, Occurrences
    from nsyswrap.capture.capture import Capture

_HALF = 0.5  # of the steps: a stream that works in fewer is background


def step_spans(whole: Capture, calls: Calls, occurrences: Occurrences) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end of each step in ns. Each begins where the one before it ends.

    A step ends when the GPU work launched in its occurrence is complete and the next occurrence begins; the
    last one when its work is complete and its own call or range ends. The first one begins with its
    occurrence, or when all that was launched before it is complete. So the steps of a host that runs ahead
    last as long as their GPU work, and those of a host that waits as long as its occurrences. Work of
    streams that work in fewer than half of the steps, as that of an asynchronous checkpoint, does not count;
    nor do copies on a stream of their own, if kernels are in half of the steps.
    """
    operations = gpu_operations_of(whole)
    launched = np.zeros(whole.count("api"), bool)
    launched[calls.row[calls.works]] = True
    rows = np.flatnonzero(operations.call >= 0)
    rows = rows[launched[operations.call[rows]]]
    start_ns, end_ns = occurrences.start_ns, occurrences.end_ns
    at = whole.columns("api", "start_ns")["start_ns"][operations.call[rows]]
    step = np.searchsorted(start_ns, at, "right") - 1
    inside = step >= 0
    inside[inside] = at[inside] < end_ns[step[inside]]
    before = rows[step < 0]
    rows, step = rows[inside], step[inside]
    main = _main_streams(operations.stream[rows], step, operations.computes[rows], len(start_ns))
    counts = np.isin(operations.stream[rows], main)
    complete = np.append(start_ns[1:], end_ns[-1])
    np.maximum.at(complete, step[counts], operations.end_ns[rows[counts]])
    before = before[np.isin(operations.stream[before], main)]
    first = max(int(start_ns[0]), int(operations.end_ns[before].max(initial=0)))
    edges = np.maximum.accumulate(np.append(first, complete))
    return edges[:-1], edges[1:]


def _main_streams(
    stream: NDArray[Any], step: NDArray[Any], computes: NDArray[Any], steps: int
) -> NDArray[Any]:
    """Return the streams that work in at least half of the steps: those with kernels, if there are any."""
    for which in (computes, np.ones(len(stream), bool)):
        pairs, _ = distinct(stream[which].astype(np.int64) * steps + step[which])
        streams, codes = distinct(pairs // steps)
        if (often := np.bincount(codes, minlength=len(streams)) >= _HALF * steps).any():
            return streams[often]
    return ascending(stream)
