"""Match the backward of each operation of PyTorch with its forward, by autograd's sequence number.

A thread numbers the operations that autograd records, and the backward of one has its number. An operation
that records nothing has the number of the next one: of several with a number, the last recorded it. The
backward runs on another thread, so the numbers of several forward threads can be the same. Where operations
are not recorded, a forward is the module that they were recorded in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.range_texts import BACKWARD, ENGINE, OPERATION
from nsyswrap.analysis.range_tree.module_numbers import OUTSIDE, recorded_numbers
from nsyswrap.analysis.range_tree.nested import NestedRanges
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PROCESS_MASK


class _Numbered(NamedTuple):
    """What has a number: its range, or OUTSIDE; its thread, start in ns, and whether it is a backward.

    ``again``: it ran inside of a backward.
    """

    range: NDArray[Any]
    number: NDArray[Any]
    thread: NDArray[Any]
    start: NDArray[Any]
    backward: NDArray[Any]
    again: NDArray[Any]

    def at(self, rows: NDArray[Any]) -> _Numbered:
        return _Numbered(*(field[rows] for field in self))


def forward_of(whole: Capture, ranges: NestedRanges, same_place: Callable[[int, int], bool]) -> NDArray[Any]:
    """Return the position of the forward of each backward operation; -1 for all other ranges.

    It is OUTSIDE if the operation was in no module. If forwards on several threads are possible, it is known
    if their names tell, or if ``same_place`` says of two ranges that it does not matter.
    """
    forward = np.full(len(ranges), -1)
    numbered = _numbered(whole, ranges)
    if not numbered.backward.any():
        return forward
    codes, _ = group_keys(numbered.thread & PROCESS_MASK, numbered.number)
    order = np.lexsort((numbered.start, codes))
    numbered, codes = numbered.at(order), codes[order]
    latest = np.maximum.accumulate(np.where(numbered.backward, -1, np.arange(len(codes))))
    found = np.flatnonzero(numbered.backward & (latest >= 0) & (codes[latest] == codes))
    forward[numbered.range[found]] = numbered.range[latest[found]]
    for at in found[np.isin(codes[found], _of_several_threads(numbered, codes))].tolist():
        first = int(np.searchsorted(codes, codes[at]))
        forward[numbered.range[at]] = _chosen(ranges, numbered.at(np.arange(first, at + 1)), same_place)
    inner = np.flatnonzero(forward != -1)
    outer = ranges.parent[inner]
    engine = (outer >= 0) & (ranges.kind == ENGINE)[outer]
    forward[outer[engine]] = forward[inner[engine]]  # it also adds up gradients after the operation
    return forward


def _numbered(whole: Capture, ranges: NestedRanges) -> _Numbered:
    """Return the operations with a number, and where modules recorded the numbers of the backward ones."""
    sequence = ranges.of_text([text.sequence for text in ranges.texts])
    backward = ranges.of_text([text.phase == BACKWARD for text in ranges.texts]).astype(bool)
    inside = np.zeros(len(ranges), bool)
    for rows in ranges.levels():
        above = ranges.parent[rows]
        inside[rows] = (above >= 0) & (inside[above] | backward[above])
    rows = np.flatnonzero((sequence != MISSING) & (ranges.kind == OPERATION))
    thread, start, _ = (field[rows] for field in ranges.spans)
    operations = _Numbered(rows, sequence[rows], thread, start, backward[rows], inside[rows])
    of_modules = recorded_numbers(whole, ranges, operations.number[operations.backward])
    module = of_modules.module
    recorded = _Numbered(
        module,
        of_modules.number,
        of_modules.thread,
        of_modules.start,
        np.zeros(len(module), bool),
        (module >= 0) & inside[module] if len(ranges) else np.zeros(0, bool),
    )
    return _Numbered(*(np.concatenate(fields) for fields in zip(operations, recorded, strict=True)))


def _of_several_threads(numbered: _Numbered, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the codes of forward operations that are on more than one thread."""
    forward = ~numbered.backward
    _, (code, _) = group_keys(codes[forward], numbered.thread[forward])
    several: NDArray[Any] = code[1:][np.diff(code) == 0]
    return several


def _chosen(ranges: NestedRanges, alike: _Numbered, same_place: Callable[[int, int], bool]) -> int:
    """Return the forward of a backward; -1 if it cannot be told.

    ``alike`` has what has its number, in order of start, and the backward itself as the last. A forward that
    had a backward already is not likely to have another one. A backward inside of another one is that of an
    operation there, as in an activation checkpoint; others are not.
    """
    *before, own = range(len(alike.range))
    used = max((i for i in before if alike.backward[i]), default=-1)
    forwards = [i for i in before if not alike.backward[i]]
    forwards = [i for i in forwards if i > used] or forwards
    there = [i for i in forwards if alike.again[i] and alike.thread[i] == alike.thread[own]]
    elsewhere = [i for i in forwards if not alike.again[i]]
    forwards = (there if alike.again[own] else elsewhere) or forwards
    candidates = list({int(alike.thread[i]): i for i in forwards}.values())  # the latest of each thread
    if len(candidates) > 1:
        name = _plain(_name(ranges, int(alike.range[own])).partition("Backward")[0])
        named = [i for i in candidates if alike.range[i] >= 0]
        candidates = [i for i in named if name in _plain(_name(ranges, int(alike.range[i])))] or candidates
    places = [int(alike.range[i]) for i in candidates]
    if not places or not all(_same(places[0], place, same_place) for place in places[1:]):
        return -1
    return int(alike.range[max(candidates, key=lambda i: int(alike.start[i]))])


def _same(one: int, other: int, same_place: Callable[[int, int], bool]) -> bool:
    return one == other or (OUTSIDE not in (one, other) and same_place(one, other))


def _name(ranges: NestedRanges, at: int) -> str:
    return ranges.texts[int(ranges.text[at])].names[-1]


def _plain(name: str) -> str:
    """Return the name as aten::native_layer_norm and NativeLayerNormBackward0 have it in common."""
    return name.rpartition("::")[2].replace("_", "").lower()
