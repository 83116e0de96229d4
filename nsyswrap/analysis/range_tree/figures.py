"""Sum kernel time, kernels and idle time over the nodes of the range tree, for a view of a capture.

GPU time is the sum of the durations of kernels and whole-graph executions. A gap between two operations
belongs to the innermost range around both launches. Between two operations of a backward pass it belongs to
the innermost node that both belong to. Every other gap belongs to no range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, positions_of, selected_ns
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.range_texts import BACKWARD, FORWARD
from nsyswrap.analysis.range_tree.tree import NOWHERE, RangeTree, range_tree_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

Ints = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TreeFigures:
    """One entry per node of the tree, and a last one for what belongs to no range; times in ns.

    ``own`` arrays are without children, ``total`` ones with them: they are the own one of the node plus the
    total ones of its children. ``forward_ns`` and ``backward_ns`` are parts of ``total_ns``, with children.
    """

    tree: RangeTree
    own_ns: Ints
    total_ns: Ints
    forward_ns: Ints
    backward_ns: Ints
    kernels: Ints
    own_idle_ns: Ints
    idle_ns: Ints

    @property
    def whole_ns(self) -> int:
        """The time of all kernels."""
        return int(self.own_ns.sum())

    def children(self, node: int) -> list[int]:
        """Return the children of a node, or the roots, with GPU time: the most time first."""
        rows = np.flatnonzero((self.tree.parent == node) & (self.total_ns[:-1] > 0))
        return sorted(rows.tolist(), key=lambda row: (-int(self.total_ns[row]), self.tree.names[row]))


@per_capture
def tree_figures_of(capture: Capture) -> TreeFigures:
    """Return the figures of the selected operations, or of those in the steps that the user names."""
    tree, views = range_tree_of(capture.whole), chosen_views(capture)
    mine, ns = map(np.concatenate, zip(*map(computing, views), strict=True))
    node, phase = tree.node[mine], tree.phase[mine]
    own = _summed(tree, node, ns)
    own_idle = np.sum([_idle(view, tree) for view in views], axis=0)
    of_phase = {one: _summed(tree, node, np.where(phase == one, ns, 0)) for one in (FORWARD, BACKWARD)}
    return TreeFigures(
        tree,
        own,
        total_ns=with_children(tree, own),
        forward_ns=with_children(tree, of_phase[FORWARD]),
        backward_ns=with_children(tree, of_phase[BACKWARD]),
        kernels=with_children(tree, _summed(tree, node, np.ones_like(ns))),
        own_idle_ns=own_idle,
        idle_ns=with_children(tree, own_idle),
    )


def computing(view: Capture) -> tuple[Ints, Ints]:
    """Return the kernels and whole-graph executions of a view: positions in the capture, and times in ns."""
    operations = gpu_operations_of(view)
    computes = np.flatnonzero(operations.computes)
    return positions_of(view)[computes], selected_ns(view, operations)[computes]


def _summed(tree: RangeTree, node: Ints, values: Ints) -> Ints:
    """Return the sum of the values of each node; the last is that of no node."""
    sums = np.zeros(len(tree.names) + 1, np.int64)
    np.add.at(sums, node, values)  # NOWHERE is the last
    return sums


def with_children(tree: RangeTree, exclusive: Ints) -> Ints:
    """Return the values of each node with those of its children; the last is of no node."""
    inclusive = exclusive.copy()
    for node in range(len(tree.names) - 1, -1, -1):  # children come after their parents
        if tree.parent[node] != NOWHERE:
            inclusive[tree.parent[node]] += inclusive[node]
    return inclusive


def _idle(capture: Capture, tree: RangeTree) -> Ints:
    gaps = gaps_of(capture)
    between = np.flatnonzero((gaps.before >= 0) & (gaps.after >= 0))
    before, after = gaps.before[between], gaps.after[between]
    was, is_now = (tree.phase[side] == BACKWARD for side in (before, after))
    node = np.full(len(gaps), NOWHERE)
    for mine, place, parent, depth, node_of in (
        (~was & ~is_now, tree.range, tree.ranges.parent, tree.ranges.depth, tree.node_of_range),
        (was & is_now, tree.node, tree.parent, _levels(tree.parent), np.arange(len(tree.names))),
    ):
        common = _common(parent, depth, place[before[mine]], place[after[mine]])
        node[between[mine]] = np.append(node_of, NOWHERE)[common]
    return _summed(tree, node, gaps.duration_ns)


def _levels(parent: Ints) -> Ints:
    levels = np.zeros(len(parent), np.int64)
    for node, above in enumerate(parent.tolist()):
        levels[node] = levels[above] + 1 if above != NOWHERE else 0
    return levels


def _common(parent: Ints, depth: Ints, one: Ints, other: Ints) -> Ints:
    """Return the innermost position that both lie in or are; -1 without one."""
    above, level = np.append(parent, -1), np.append(depth, -1)
    one, other = one.copy(), other.copy()
    while (apart := np.flatnonzero(one != other)).size:
        deeper = level[one[apart]] >= level[other[apart]]
        shallower = level[other[apart]] >= level[one[apart]]
        up, down = apart[deeper], apart[shallower]
        one[up], other[down] = above[one[up]], above[other[down]]
    return one
