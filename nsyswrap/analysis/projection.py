"""NVTX ranges projected onto the GPU: when it worked on what was launched inside each range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.arrays.spans import Tree, enclosures, tree
from nsyswrap.analysis.correlation import launches
from nsyswrap.analysis.nvtx_ranges import Ranges, call_spans, nested_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

    Hulls = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

OPERATIONS = ("kernel", "memcpy", "memset")


@dataclass(frozen=True)
class Projections:
    """The ranges of ``ranges`` that launched something (``which``, in row order), and what came of it.

    A projection lasts from the start of the first operation to the end of the last, in ns, with all gaps.
    ``operations`` counts different correlation ids: a graph of many kernels is one. ``children`` counts the
    ranges right below that launched something too.
    """

    ranges: Ranges
    nesting: Tree
    which: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]
    operations: NDArray[Any]
    children: NDArray[Any]


def projections(capture: Capture) -> Projections:
    """Return the projections of all ranges that have a name, as nsys since 2024."""
    ranges = nested_ranges(capture)
    nesting = tree(ranges.spans)
    call, start, end = _launched(capture)
    inner, outer = enclosures(call_spans(capture, call), ranges.spans)
    which, start, end = _hulls(outer, start[inner], end[inner])
    correlation = capture.columns("api", "correlation_id")["correlation_id"][call[inner]]
    operations = np.bincount(group_keys(outer, correlation)[1][0], minlength=len(ranges.row))
    parent = nesting.parent[which]
    children = np.bincount(parent[parent >= 0], minlength=len(ranges.row))
    named = ranges.code[which] >= 0
    which = which[named]
    return Projections(ranges, nesting, which, start[named], end[named], operations[which], children[which])


def _launched(capture: Capture) -> Hulls:
    """Return the API calls that started operations, the first start of these and the last end."""
    calls, starts, ends = ([np.empty(0, np.int64)] for _ in range(3))
    for kind in filter(capture.has, OPERATIONS):
        pairs = launches(capture, kind)
        times = capture.columns(kind, "start_ns", "end_ns")
        calls.append(pairs.api)
        starts.append(times["start_ns"][pairs.operation])
        ends.append(times["end_ns"][pairs.operation])
    return _hulls(np.concatenate(calls), np.concatenate(starts), np.concatenate(ends))


def _hulls(keys: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> Hulls:
    """Return the distinct keys, the first start of each and its last end."""
    order = np.argsort(keys, kind="stable")
    distinct, first = np.unique(keys[order], return_index=True)
    if not len(distinct):
        return distinct, start, end
    return distinct, np.minimum.reduceat(start[order], first), np.maximum.reduceat(end[order], first)
