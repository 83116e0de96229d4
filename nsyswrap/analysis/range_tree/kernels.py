"""Group kernels by node of the range tree, phase, operation with its input shapes, and name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys, number_texts
from nsyswrap.analysis.gpu_operations import KERNEL, gpu_operations_of, names, places_of
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.range_texts import FORMER, MODULE, OPERATION
from nsyswrap.analysis.range_tree.figures import computing
from nsyswrap.analysis.range_tree.nested import NestedRanges
from nsyswrap.analysis.range_tree.shape_sources import shape_sources
from nsyswrap.analysis.range_tree.tree import RangeTree, range_tree_of
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

Labels = list[tuple[str, str]]
_OPERATIONS = (OPERATION, FORMER)


@dataclass(frozen=True, eq=False)
class NodeKernels:
    """One entry per group of kernels; ``total_ns`` is the sum of their durations.

    ``node`` is -1 for kernels in no range. ``operation`` is the position in ``operations``, which have the
    name and the input shapes of an operation of PyTorch, for a backward those of its forward, if
    operations are recorded; -1 without one.
    ``name`` is the position in ``names``.
    """

    tree: RangeTree
    node: NDArray[Any]
    phase: NDArray[Any]
    operation: NDArray[Any]
    name: NDArray[Any]
    kernels: NDArray[Any]
    total_ns: NDArray[Any]
    group: NDArray[Any]  # of each GPU operation in the capture, -1: not selected
    operations: Labels
    names: list[str | None]


@per_capture
def node_kernels_of(capture: Capture) -> NodeKernels:
    """Return the groups of the selected kernels and whole-graph executions, sorted by key.

    If the user names steps, they are those in these steps.
    """
    tree = range_tree_of(capture.whole)
    place, ns = map(np.concatenate, zip(*map(computing, chosen_views(capture)), strict=True))
    texts = names(capture, gpu_operations_of(capture.whole).of(place))
    name, known = number_texts(texts.codes, [texts.texts[i] for i in distinct(texts.codes)[0].tolist()])
    of_range, labels = _operations(tree)
    operation = np.append(of_range, -1)[tree.range[_telling(capture.whole)[place]]]
    codes, (node, phase, operation, name) = group_keys(tree.node[place], tree.phase[place], operation, name)
    total = np.zeros(len(node), np.int64)
    np.add.at(total, codes, ns)
    count = np.bincount(codes, minlength=len(total))
    group = np.full(len(tree.node), -1)
    group[place] = codes
    return NodeKernels(tree, node, phase, operation, name, count, total, group, labels, known)


def _telling(whole: Capture) -> NDArray[Any]:
    """Return the position of the GPU operation that tells the shapes of each one, mostly its own."""
    telling = np.arange(len(gpu_operations_of(whole)))
    if whole.has(KERNEL):
        place = places_of(whole)[KERNEL]
        telling[place] = place[shape_sources(whole)]
    return telling


def _operations(tree: RangeTree) -> tuple[NDArray[Any], Labels]:
    """Return the operation that each range is part of, -1 for none, and the operations."""
    ranges = tree.ranges
    known = (tree.forward >= 0) & (np.append(ranges.kind, -1)[tree.forward] == OPERATION)
    chosen = np.where(known, tree.forward, _innermost(ranges))
    labels: dict[tuple[str, str], int] = {}
    codes = [
        labels.setdefault((text.names[-1], text.sizes), len(labels)) if text.kind in _OPERATIONS else -1
        for text in ranges.texts
    ]
    of_range = np.append(ranges.of_text(codes), -1)
    found: NDArray[Any] = of_range[chosen]
    return found, list(labels)


def _innermost(ranges: NestedRanges) -> NDArray[Any]:
    """Return the innermost operation around or at each range, one that autograd records if there is any.

    What is around a module is not looked at.
    """
    kind = ranges.kind
    is_operation = np.isin(kind, _OPERATIONS)
    records = is_operation & (ranges.of_text([text.sequence for text in ranges.texts]) != MISSING)
    every = np.full(len(ranges), -1)
    recorded = every.copy()
    for rows in ranges.levels():
        above = ranges.parent[rows]
        for found, itself in ((every, is_operation), (recorded, records)):
            around = np.where((above >= 0) & (kind[rows] != MODULE), found[above], -1)
            found[rows] = np.where(itself[rows], rows, around)
    return np.where(recorded >= 0, recorded, every)
