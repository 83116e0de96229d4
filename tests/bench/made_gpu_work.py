"""What API calls start on a GPU: kernels, copies and memsets in ten streams."""

import numpy as np
from made_calls import CALLS, COPY, GRAPH, LAUNCHES, NODES, SET, Columns, Ints
from made_kernels import Kernels
from numpy.typing import NDArray

STREAMS = np.array([7, 13, 14, 15, 16, 17, 18, 19, 20, 21])
_STREAM_SHARES = [0.46, *[0.06] * 9]
_LATENCY_NS, _MORE_LATENCY_NS, _GAP_NS = 2_000, 1_500, 320
_TICK_NS = 32  # of the GPU's clock
_LARGEST_BYTES = 10**9


class GpuWork:
    """The operations of one process. By kernel run, ``runs``: which kernel; ``launched_by``: which call."""

    def __init__(self, kinds: Ints, which: Kernels, dice: np.random.Generator) -> None:
        self._kinds, self._which, self._dice = kinds, which, dice
        of_graph = kinds == CALLS.index(GRAPH)
        started = np.where(of_graph, NODES, kinds < len(LAUNCHES))
        self.launched_by = np.repeat(np.arange(len(kinds)), started)
        self._in_graph = of_graph[self.launched_by]
        first = np.repeat(np.cumsum(started) - started, started)
        self._node = np.arange(len(self.launched_by)) - first
        alone = dice.choice(len(which.shares), len(self.launched_by), p=which.shares)
        self.runs = np.where(self._in_graph, self._node, alone)  # a graph's nodes are always the same kernels

    def first_launches(self) -> Ints:
        """Return the call that launches each kernel for the first time."""
        return self.launched_by[np.unique(self.runs, return_index=True)[1]]

    def kernels(self, calls: Columns) -> Columns:
        """Return each run of a kernel: where and when, what all its runs share, and its node in a graph."""
        took_ns = self._which.median_ns[self.runs] * self._dice.lognormal(0, 0.2, len(self.runs))
        return {
            **self._placed(calls, self.launched_by, took_ns),
            **{column: numbers[self.runs] for column, numbers in self._which.columns.items()},
            "gridId": np.arange(1, len(self.runs) + 1),
            "graphNodeId": np.where(self._in_graph, (2 << 32) + self._node, 0),
        }

    def copies(self, calls: Columns) -> Columns:
        """Return copies to, from and within the GPU: half of them small, a few very large."""
        by = np.flatnonzero(self._kinds == CALLS.index(COPY))
        size = np.minimum(self._dice.lognormal(np.log(64_000), 2.5, len(by)), _LARGEST_BYTES).astype(int) + 1
        direction = self._dice.choice(3, len(by), p=[0.5, 0.3, 0.2])
        bytes_per_ns = np.array([25, 22, 1_500])[direction]
        return {
            **self._placed(calls, by, 1_100 + size / bytes_per_ns),
            "bytes": size,
            "copyKind": np.array([1, 2, 8])[direction],
            "srcKind": np.array([1, 2, 2])[direction],
            "dstKind": np.array([2, 0, 2])[direction],
        }

    def memsets(self, calls: Columns) -> Columns:
        """Return memsets of 4 bytes to 8 MiB."""
        by = np.flatnonzero(self._kinds == CALLS.index(SET))
        size = 4 << self._dice.integers(0, 22, len(by))
        return {**self._placed(calls, by, 900 + size / 1_500), "bytes": size}

    def _placed(self, calls: Columns, by: Ints, took_ns: NDArray[np.float64]) -> Columns:
        """Say where and when the operations run that the calls ``by`` start: in each stream one by one."""
        took = np.maximum(1, np.rint(took_ns / _TICK_NS)).astype(np.int64) * _TICK_NS
        stream = self._dice.choice(STREAMS, len(self._kinds), p=_STREAM_SHARES)[by]
        latency = _LATENCY_NS + self._dice.exponential(_MORE_LATENCY_NS, len(by)).astype(np.int64)
        ready = calls["start"][by] + latency
        start = np.empty_like(took)
        for one in STREAMS:
            start[stream == one] = _queued(ready[stream == one], took[stream == one])
        ids = {"streamId": stream, "correlationId": calls["correlationId"][by]}
        return {"start": start, "end": start + took, **ids}


def _queued(ready: Ints, took: Ints) -> Ints:
    """Return the starts when each runs as soon as it is ready and the one before it is done."""
    before = np.cumsum(took + _GAP_NS) - took - _GAP_NS
    return before + np.maximum.accumulate(ready - before)
