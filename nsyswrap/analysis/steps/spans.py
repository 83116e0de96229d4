"""Say when each step is over: when its GPU work is complete, and the host begins the next one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.steps.occurrences import ApiCalls, Occurrences
from nsyswrap.capture.capture import Capture

_HALF = 0.5  # of the steps: a stream that works in fewer is background


class StepSpans(NamedTuple):
    """Start and end of each step, and how long its GPU work goes on after its host window, all in ns."""

    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    runs_ahead_ns: NDArray[Any]


def step_spans(whole: Capture, calls: ApiCalls, occurrences: Occurrences) -> StepSpans:
    """Return the spans of the steps. Each begins where the one before it ends.

    A step ends when the GPU work launched in its occurrence is complete and the next occurrence begins; the
    last one, and one after which the program does something else, when its work is complete and its own call
    or range ends. The first one, and one after something else, begins with its occurrence, or when all that
    was launched before it is complete. So the steps of a host that runs ahead
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
    stream, own = operations.stream[rows], operations.end_ns[rows]
    main = _main_streams(stream[inside], step[inside], operations.computes[rows[inside]], len(start_ns))
    counts = np.isin(stream, main)
    complete = end_ns.copy()
    np.maximum.at(complete, step[inside & counts], own[inside & counts])
    after_gap = np.append(True, start_ns[1:] > end_ns[:-1])
    before = _complete_before(start_ns[after_gap], at[counts], own[counts])
    edges = np.maximum.accumulate(np.append(max(int(start_ns[0]), int(before[0])), complete))
    start, end = edges[:-1].copy(), edges[1:]
    start[after_gap] = np.maximum(start[after_gap], np.maximum(start_ns[after_gap], before))
    return StepSpans(start, np.maximum(start, end), complete - end_ns)


def _complete_before(times: NDArray[Any], at: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return when all work launched before each of these times is complete; 0 where there is none."""
    order = np.argsort(at, kind="stable")
    reached = np.append(0, np.maximum.accumulate(end[order]))
    return reached[np.searchsorted(at[order], times)]


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
