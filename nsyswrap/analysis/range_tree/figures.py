"""Sum kernels, kernel time, idle time and the time of a device over the nodes of the range tree, for a view.

``tree_figures_of`` has an entry for each node, ``node_kernels_of`` one for each node, operation and name of a
kernel. There, GPU time is the sum of the durations of kernels and whole-graph executions. A gap between two
operations belongs to the innermost range around both launches. Between two operations of a backward pass it
belongs to the innermost node that both belong to. Every other gap belongs to no range.

``node_times`` splits the time of a device: each nanosecond has one node and one state. States have the
precedence of ``step_budget``: compute, then communication, then copies, then idle. If several operations of
one state run, the time is that of the first to start. Idle time is that of the operation that ended it; idle
time at the end of what is looked at has no node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys, number_texts
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import (
    KERNEL,
    KINDS,
    GpuOperations,
    communicating,
    gpu_operations_of,
    names,
    pieces_of,
    places_of,
    positions_of,
    selected_ns,
)
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.names import is_autograd
from nsyswrap.analysis.range_texts import BACKWARD, FORMER, FORWARD, MODULE, OPERATION
from nsyswrap.analysis.range_tree.tree import NOWHERE, NestedRanges, RangeTree, range_tree_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import NOTHING, joined, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import one_of

_LOOKS = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")  # what is read of kernels


# Find kernels that have the operation and the shapes of another one, with which they were recorded.
#
# `profile --modules` records operations with their shapes in the first steps. A part of a program lasts
# from the call of an outermost module to the next call of one. Parts with the same kernels in the same
# order, of the same grids and blocks, have the same shapes. Kernels that belong to modules are compared,
# and the others by themselves: an optimizer can skip a step.


@per_capture
def shape_sources(whole: Capture) -> Ints:
    """Return the position of the kernel that tells the shapes of each: mostly its own."""
    source = np.arange(whole.count(KERNEL))
    tree, place = range_tree_of(whole), places_of(whole)[KERNEL]
    recorded = tree.ranges.of_text([bool(text.sizes) for text in tree.ranges.texts])
    has_shapes = np.append(recorded, [False])[tree.range[place]].astype(bool)
    if not has_shapes.any() or has_shapes.all() or not tree.has_modules:
        return source
    columns = whole.columns(KERNEL, *_LOOKS)
    look, _ = group_keys(whole.viewed(names="full").name_ids(KERNEL), *columns.values())
    known: dict[bytes, Ints] = {}
    others = []
    for part in _parts(whole, tree, place):
        key = look[part].tobytes()
        if has_shapes[part].any():
            known.setdefault(key, part)
        else:
            others.append((part, key))
    for part, key in others:
        source[part] = known.get(key, part)
    return source


def _parts(whole: Capture, tree: RangeTree, rows: Ints) -> list[Ints]:
    """Return the kernels of each part in order of their launches, of modules and others apart."""
    operations = gpu_operations_of(whole)
    call = operations.call[rows]
    start = np.append(whole.columns("api", "start_ns")["start_ns"], [-1])[call]
    outermost = (tree.ranges.kind == MODULE) & (tree.ranges.parent < 0)
    segment = np.searchsorted(np.sort(tree.ranges.spans.start[outermost]), start, "right")
    of_module = np.array([*map(bool, tree.module), False])[tree.node[rows]]
    codes, _ = group_keys(operations.global_pid[rows], segment, of_module)
    order = np.lexsort((start, codes))
    order = order[(segment[order] > 0) & (call[order] >= 0)]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []


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
    idle_ns: Ints

    @property
    def whole_ns(self) -> int:
        """The time of all kernels."""
        return int(self.own_ns.sum())

    def children(self, node: int, among: NDArray[np.bool_]) -> list[int]:
        """Return the children of a node, or the roots, among some of all nodes: the most time first."""
        rows = np.flatnonzero((self.tree.parent == node) & among[:-1])
        return sorted(rows.tolist(), key=lambda row: (-int(self.total_ns[row]), self.tree.names[row]))


@per_capture
def tree_figures_of(capture: Capture) -> TreeFigures:
    """Return the figures of the selected operations, or of those in the steps that the user names."""
    tree, views = range_tree_of(capture.whole), chosen_views(capture)
    mine, ns = map(np.concatenate, zip(*map(computing, views), strict=True))
    node, phase = tree.node[mine], tree.phase[mine]
    own = _summed(tree, node, ns)
    of_phase = {one: _summed(tree, node, np.where(phase == one, ns, 0)) for one in (FORWARD, BACKWARD)}
    return TreeFigures(
        tree,
        own,
        total_ns=with_children(tree, own),
        forward_ns=with_children(tree, of_phase[FORWARD]),
        backward_ns=with_children(tree, of_phase[BACKWARD]),
        kernels=with_children(tree, _summed(tree, node, np.ones_like(ns))),
        idle_ns=with_children(tree, np.sum([_idle(view, tree) for view in views], axis=0)),
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


@per_capture
def autograd_outside(capture: Capture) -> dict[str | None, int]:
    """Return the time in ns, by name, of the kernels in no range that autograd's threads launched.

    They are of a backward pass, whose module is not known.
    """
    whole = capture.whole
    if not whole.has("api") or not any(is_autograd(whole, thread) for thread in whole.threads):
        return {}
    place, ns = map(np.concatenate, zip(*map(computing, chosen_views(capture)), strict=True))
    operations = gpu_operations_of(whole)
    outside = (range_tree_of(whole).node[place] == NOWHERE) & (operations.call[place] >= 0)
    place, ns = place[outside], ns[outside]
    threads, codes = distinct(whole.columns("api", "global_tid")["global_tid"][operations.call[place]])
    mine = np.array([is_autograd(whole, thread) for thread in threads.tolist()], bool)[codes]
    texts = names(capture, operations.of(place[mine]))
    times = np.bincount(texts.codes, ns[mine], len(texts.texts)).astype(np.int64).tolist()
    return {name: time for name, time in zip(texts.texts, times, strict=True) if time}


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
    is_operation = one_of(kind, _OPERATIONS)
    records = is_operation & (ranges.of_text([text.sequence for text in ranges.texts]) != MISSING)
    every = np.full(len(ranges), -1)
    recorded = every.copy()
    for rows in ranges.levels():
        above = ranges.parent[rows]
        for found, itself in ((every, is_operation), (recorded, records)):
            around = np.where((above >= 0) & (kind[rows] != MODULE), found[above], -1)
            found[rows] = np.where(itself[rows], rows, around)
    return np.where(recorded >= 0, recorded, every)


STATES = COMPUTE, COMMUNICATION, COPY, IDLE = ("compute", "communication", "copy", "idle")


@dataclass(frozen=True, eq=False)
class NodeTime:
    """The time of one process on one device by part: node (-1: none), number in STATES, backward, ns."""

    global_pid: int
    device_id: int
    node: NDArray[Any]
    state: NDArray[Any]
    backward: NDArray[Any]
    ns: NDArray[Any]


def node_times(view: Capture) -> list[NodeTime]:
    """Return the parts of each process and device in the window of a view; they add up to the window."""
    tree, pieces, gaps = range_tree_of(view.whole), pieces_of(view), gaps_of(view)
    place = _places(view, pieces)
    times = []
    for process, device, rows in pieces.by_device():
        mine = pieces.of(rows)
        part, state, ns = _busy(view, mine)
        first, last = gaps.rows_of(process, device)
        gap = np.arange(first, last)
        at = np.concatenate((place[rows][part], gaps.after[gap]))
        times.append(
            NodeTime(
                process,
                device,
                np.append(tree.node, NOWHERE)[at],
                np.append(state, np.full(len(gap), STATES.index(IDLE))),
                np.append(tree.phase, 0)[at] == BACKWARD,
                np.append(ns, gaps.duration_ns[gap]),
            )
        )
    return times


def _places(view: Capture, pieces: GpuOperations) -> NDArray[Any]:
    """Return the position of each piece's operation among those of the whole capture."""
    places = np.empty(len(pieces), np.int64)
    for kind, of_kind in places_of(view.whole).items():
        mine = np.flatnonzero(pieces.kind == KINDS.index(kind))
        places[mine] = of_kind[pieces.row[mine]]
    return places


def _busy(view: Capture, operations: GpuOperations) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return positions, states and times in ns of the operations: the time that is theirs alone."""
    communicates = communicating(view, operations)
    layers = (operations.computes & ~communicates, communicates, ~operations.computes)
    taken, parts = NOTHING, []
    for number, which in enumerate(layers):
        rows = np.flatnonzero(which)
        start, end = operations.start_ns[rows], operations.end_ns[rows]
        reached = np.maximum.accumulate(end)
        begin = np.maximum(start, np.append(start[:1], reached[:-1]))
        begin = np.minimum(begin, end)
        parts.append((rows, np.full(len(rows), number), end - begin - taken.within(begin, end)))
        taken = joined(taken, union(start, end))
    position, state, ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return position, state, ns
