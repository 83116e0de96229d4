"""Make one tree of all NVTX ranges of a capture by their names, and place its GPU operations in it.

A GPU operation belongs to the innermost range around its launch on the launching thread. With module ranges
in the capture, the outermost module of a thread is a root of the tree, whatever ranges are around it, and
operations of PyTorch inside a module are no nodes: what they launch belongs to the module. An operation of
a backward pass belongs where its forward does, if autograd's sequence number tells: at that operation, or in
the module that recorded it. What a backward runs outside of known operations belongs to the ranges of its own
thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.nvtx_ranges import call_spans
from nsyswrap.analysis.range_texts import BACKWARD, ENGINE, FORMER, MODULE, OPERATION
from nsyswrap.analysis.range_tree.autograd import forward_of
from nsyswrap.analysis.range_tree.nested import NestedRanges, nested_ranges
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

NOWHERE = -1
_MOST_PASSES = 4  # a backward inside a backward: of activation checkpoints
_DOT = "."


@dataclass(frozen=True, eq=False)
class RangeTree:
    """The nodes of the tree, parents before their children, and the GPU operations of the whole capture.

    Of nodes: ``name``, position of the ``parent`` (-1: none), ``kind``, and ``module``: the qualified name
    of the innermost module, empty outside of modules. ``has_modules`` tells whether there is any.

    Of operations, by position in ``gpu_operations_of(whole)``: ``node`` (-1: in no range), ``phase``,
    and ``range``: the position of the innermost range in ``ranges`` (-1: none). ``node_of_range`` is the
    node of each range. ``forward`` is the position of the forward of the range of a backward operation and of
    all ranges in it; -1 for others, OUTSIDE if that was in no module.
    """

    names: list[str]
    parent: NDArray[Any]
    kind: NDArray[Any]
    module: list[str]
    ranges: NestedRanges
    node_of_range: NDArray[Any]
    forward: NDArray[Any]
    node: NDArray[Any]
    phase: NDArray[Any]
    range: NDArray[Any]

    @property
    def has_modules(self) -> bool:
        """Return True if a node is a module."""
        return bool((self.kind == MODULE).any())

    @property
    def has_operations(self) -> bool:
        """Return True if operations of PyTorch are recorded."""
        return any(text.kind == OPERATION for text in self.ranges.texts)

    @property
    def unmatched(self) -> int:
        """Return the number of operations in a backward pass whose forward is not known."""
        ranges = self.ranges
        backward = [text.phase == BACKWARD and text.sequence != MISSING for text in ranges.texts]
        return int((ranges.of_text(backward).astype(bool) & (self.forward == -1)).sum())

    def path(self, node: int) -> tuple[str, ...]:
        """Return the names from the root to a node."""
        names = []
        while node != NOWHERE:
            names.append(self.names[node])
            node = int(self.parent[node])
        return tuple(reversed(names))


@per_capture
def range_tree_of(whole: Capture) -> RangeTree:
    """Return the tree of a whole capture."""
    ranges = nested_ranges(whole)
    nodes = _Nodes(ranges)
    placed, inherited = nodes.assign(np.full(len(ranges), -1), None)
    known = placed
    forward = forward_of(whole, ranges, lambda one, other: bool(known[one] == known[other]))
    if (forward >= 0).any() or (ranges.kind == MODULE).any():  # what comes first may be inside of others
        for _ in range(_MOST_PASSES):
            before = placed
            placed, inherited = nodes.assign(forward, before)
            if np.array_equal(placed, before):
                break
    operations = gpu_operations_of(whole)
    around = ranges_around(whole, operations.call, ranges)
    return RangeTree(
        nodes.names,
        np.array(nodes.parent, np.int64),
        np.array(nodes.kind, np.int64),
        nodes.module,
        ranges,
        placed,
        inherited,
        np.append(placed, NOWHERE)[around],
        np.append(_phases(ranges), 0)[around],
        around,
    )


def ranges_around(whole: Capture, calls: NDArray[Any], ranges: NestedRanges) -> NDArray[Any]:
    """Return the position of the innermost range around each call; -1 for no call and no range."""
    known, codes = distinct(calls.astype(np.int64))
    found = np.full(len(known), -1)
    launched = np.flatnonzero(known >= 0)
    if len(launched) and len(ranges):
        found[launched] = ranges.innermost(call_spans(whole, known[launched]))
    around: NDArray[Any] = found[codes]
    return around


def _phases(ranges: NestedRanges) -> NDArray[Any]:
    """Return the phase of each range: the latest of its own and those around."""
    phase = ranges.of_text([text.phase for text in ranges.texts])
    for rows in ranges.levels():
        inside = rows[ranges.parent[rows] >= 0]
        phase[inside] = np.maximum(phase[inside], phase[ranges.parent[inside]])
    return phase


class _Nodes:
    """The nodes so far; a node is made when a range is placed under it for the first time."""

    def __init__(self, ranges: NestedRanges) -> None:
        self.names: list[str] = []
        self.parent: list[int] = []
        self.kind: list[int] = []
        self.module: list[str] = []
        self._ranges = ranges
        labels: dict[tuple[int, tuple[str, ...]], int] = {}
        codes = [labels.setdefault((text.kind, text.names), len(labels)) for text in ranges.texts]
        self._label = ranges.of_text(codes)
        self._labels = list(labels)
        self._with_modules = any(text.kind == MODULE for text in ranges.texts)
        self._children: dict[tuple[int, int, str], int] = {}
        self._submodules: dict[str, int] = {}

    def assign(self, forward: NDArray[Any], before: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the node of each range, and the forward of each, that of the ranges around included.

        ``before`` has the nodes of an earlier pass, for the ranges that are the forward of others.
        """
        ranges = self._ranges
        node, inherited = np.full(len(ranges), NOWHERE), forward.copy()
        for rows in ranges.levels():
            above = ranges.parent[rows]
            base = np.where(above >= 0, node[above], NOWHERE)
            inherits = (inherited[rows] < 0) & (above >= 0)
            inherited[rows] = np.where(inherits, inherited[above], inherited[rows])
            if before is not None:
                base = np.where(forward[rows] >= 0, before[forward[rows]], base)
            codes, (bases, labels, insides) = group_keys(base, self._label[rows], inherited[rows] >= 0)
            made = [
                self._node_of(*one)
                for one in zip(bases.tolist(), labels.tolist(), insides.tolist(), strict=True)
            ]
            node[rows] = np.array(made or [NOWHERE], np.int64)[codes]
        return node, inherited

    def _node_of(self, base: int, label: int, in_backward: int) -> int:
        """Return the node of a range with this label under a node; inside a matched backward or not."""
        kind, names = self._labels[label]
        if kind in (ENGINE, FORMER) or (kind == OPERATION and (in_backward or self._is_of_module(base))):
            return base
        if kind == MODULE:
            return self._place_module(base, names[0], in_backward)
        if kind == OPERATION and base != NOWHERE and (kind, names[0]) == (self.kind[base], self.names[base]):
            return base  # PyTorch calls it again below autocast
        return self._child(base, kind, names)

    def _is_of_module(self, base: int) -> bool:
        """Return True if what an operation under this node launches belongs to the node."""
        if not self._with_modules or base == NOWHERE:
            return False
        return bool(self.module[base]) or self.kind[base] == OPERATION

    def _place_module(self, base: int, name: str, in_backward: int) -> int:
        """Return the node of a module. A backward computes modules again that are inside others."""
        around = self.module[base] if base != NOWHERE else ""
        again = self._submodules.get(name, NOWHERE) if in_backward or not around else NOWHERE
        if again != NOWHERE:
            return again
        if not around:
            base = NOWHERE
        elif name == around:  # called again by its own forward
            return base
        node = self._child(base, MODULE, (name.removeprefix(around + _DOT),))
        self.module[node] = name
        if around:
            one = self._submodules.setdefault(name, node)
            self._submodules[name] = node if one == node else NOWHERE  # of several models
        return node

    def _child(self, base: int, kind: int, names: Sequence[str]) -> int:
        for name in names:
            node = self._children.setdefault((base, kind, name), len(self.names))
            if node == len(self.names):
                self.names.append(name)
                self.parent.append(base)
                self.kind.append(kind)
                self.module.append(self.module[base] if base != NOWHERE else "")
            base = node
        return base


NO_RANGE, NO_MODULE = "(no range)", "(no module or range)"


def node_labels(tree: RangeTree, nodes: NDArray[Any], depth: int = 0) -> list[str]:
    """Return the label of each node: its module's qualified name, the path of ranges outside of modules.

    ``depth`` limits the nodes: a deeper one is labeled as the one around it with so many around; 0: no limit.
    """
    known: dict[int, str] = {}
    return [
        known[node] if node in known else known.setdefault(node, _label(tree, node, depth))
        for node in nodes.tolist()
    ]


def outside_label(tree: RangeTree) -> str:
    """Return the label of what is in no range."""
    return NO_MODULE if tree.has_modules else NO_RANGE


def _label(tree: RangeTree, node: int, depth: int) -> str:
    around = _around(tree, node)
    if depth:
        around = around[:depth]
    if not around:
        return outside_label(tree)
    return tree.module[around[-1]] or "/".join(tree.names[one] for one in around)


def _around(tree: RangeTree, node: int) -> list[int]:
    """Return the nodes from the root to this one."""
    nodes = []
    while node != NOWHERE:
        nodes.append(node)
        node = int(tree.parent[node])
    return nodes[::-1]


def numbered(labels: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Return a code for each label, and the labels in order of their first appearance."""
    codes: dict[str, int] = {}
    numbers = [codes.setdefault(label, len(codes)) for label in labels]
    return np.array(numbers, np.int64), list(codes)
