"""Find the range around each allocation, and sum what was allocated in each node of the range tree.

The sums are what was held at most, kept beyond the ranges of the node, and freed in them.

An allocation belongs to the innermost range around its call. It is transient in a range if it is freed before
that ends, and retained if not. Transient bytes of a node are so in the nodes around it, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.range_tree.figures import Ints, with_children
from nsyswrap.analysis.range_tree.tree import NOWHERE, RangeTree, call_paths, range_tree_of, ranges_around
from nsyswrap.analysis.usage import (
    GPU_MEMORY,
    MEMORY_KINDS,
    MEMORY_USE,
    Allocations,
    allocations_of,
    held_over_time,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.selection import select

NO_RANGE = "(no range)"
FOR_RANGES = {"nvtx": "NVTX ranges", "api": "CUDA calls"}


def allocation_ranges(whole: Capture, held: Allocations) -> tuple[NDArray[Any], list[str]]:
    """Return the number of the range around each allocation, and the paths of the ranges."""
    if not all(map(whole.has, FOR_RANGES)):
        return np.zeros(len(held.row), np.int64), [NO_RANGE]
    number, paths = call_paths(whole, allocating_calls(whole, held))
    return np.where(number == MISSING, len(paths), number), [*paths, NO_RANGE]


def allocating_calls(whole: Capture, held: Allocations) -> NDArray[Any]:
    """Return the position of the call that made each allocation; -1 for none."""
    call, pairs = np.full(whole.count(MEMORY_USE), -1), launch_pairs_of(whole, MEMORY_USE)
    call[pairs.operation] = pairs.api
    return call[held.row]


@dataclass(frozen=True, eq=False)
class NodeMemory:
    """The GPU memory allocated in each node, children included; the last entry is of no node.

    ``held`` are the allocations, those of each node and its children next to each other: from ``first`` on,
    up to ``last``.
    """

    held: Allocations
    first: Ints
    last: Ints
    retained_bytes: Ints
    transient_bytes: Ints

    @property
    def allocated_bytes(self) -> Ints:
        """The sum of the allocations."""
        return self.retained_bytes + self.transient_bytes

    def peak_bytes(self, nodes: list[int]) -> int:
        """Return the most that the allocations in these nodes hold at a time, on all GPUs together."""
        rows = np.concatenate([np.arange(self.first[node], self.last[node]) for node in nodes])
        return int(held_over_time(self.held.of(rows))[1].max(initial=0))


@per_capture
def node_memory_of(capture: Capture) -> NodeMemory | None:
    """Return the memory of the nodes, of allocations in the selected time; None if none were recorded."""
    whole = capture.whole
    if not whole.has(MEMORY_USE):
        return None
    tree, held = range_tree_of(whole), _selected(capture)
    around = ranges_around(whole, allocating_calls(whole, held), tree.ranges)
    node_of_range, (place, count) = np.append(tree.node_of_range, NOWHERE), _places(tree)
    # The innermost range from each on outwards that ends after the memory is freed.
    parent, end = np.append(tree.ranges.parent, -1), np.append(tree.ranges.spans.end, 0)
    found = around.copy()
    while (later := (found >= 0) & (held.end_ns > end[found])).any():
        found[later] = parent[found[later]]
    node, freeing = (node_of_range[of] for of in (around, found))
    depth = place[node] - place[freeing]  # the forward's node can be in no range of its backward
    is_transient = held.has_ended & (depth >= 0) & (depth < count[freeing])
    sums = np.zeros((2, len(count)), np.int64)
    np.add.at(sums[0], node, held.bytes)  # NOWHERE is the last
    np.add.at(sums[1], freeing[is_transient], held.bytes[is_transient])
    allocated, transient = (with_children(tree, one) for one in sums)
    order = np.argsort(place[node], kind="stable")
    first, last = np.searchsorted(place[node][order], (place, place + count))
    return NodeMemory(held.of(order), first, last, allocated - transient, transient)


def _places(tree: RangeTree) -> tuple[Ints, Ints]:
    """Return places of the nodes in which children follow their parent, and the nodes from each place on."""
    count = with_children(tree, np.ones(len(tree.names) + 1, np.int64))
    place = np.zeros_like(count)
    following = np.zeros_like(count)  # the place of the next child; the last entry is for roots
    for node, (parent, below) in enumerate(
        zip([*tree.parent.tolist(), NOWHERE], count.tolist(), strict=True)
    ):
        place[node] = following[parent]
        following[parent] += below
        if node < len(tree.names):
            following[node] = place[node] + 1
    return place, count


def _selected(capture: Capture) -> Allocations:
    """Return the allocations of GPU memory that were made in the selected time or steps."""
    held = allocations_of(capture)
    kept = np.zeros(len(held.row), bool)
    fields = {"start_ns": held.start_ns, "end_ns": held.start_ns, "global_pid": held.global_pid}
    for view in chosen_views(capture):
        kept |= select(fields, view.view.selection, view.window)
    return held.of(np.flatnonzero(kept & (held.memory_kind == MEMORY_KINDS.index(GPU_MEMORY))))
