"""Nest the NVTX ranges of each thread, and read their texts.

Ranges are named by where they are: numbered siblings have one name, and what did not end says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, order_by_code
from nsyswrap.analysis.arrays.spans import Spans, closest
from nsyswrap.analysis.nvtx_ranges import marks_named, texts_and_domains, thread_ranges
from nsyswrap.analysis.range_texts import (
    BACKWARD,
    HIDDEN,
    MODULE,
    MODULES_DOMAIN,
    OPERATION,
    RANGE,
    SHAPES_END,
    RangeText,
    former,
    read_text,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture

Ints = NDArray[Any]

NOT_ENDED = " (not ended)"
_FEWEST = 3  # siblings whose names differ in a number alone
_NUMBERED = re.compile(r"(.*[ _:#=-])\d+ *")
_PARTS = re.compile(r"(?:layer|block|stage|head|expert|module)s?[ _:#=-]+$", re.IGNORECASE)


def named_in_place(
    codes: Ints, texts: list[RangeText], parent: Ints, thread: Ints, not_ended: NDArray[np.bool_]
) -> tuple[Ints, list[RangeText]]:
    """Return the code of each range's text, and the texts.

    Ranges of the program inside one range share a name if their names differ in a number at the end alone,
    and if each name is there once on its thread. Parts of a model, such as ``layer 3``, keep their names.
    """
    if not len(codes):
        return codes, texts
    stem, stems = _stems(texts)
    shared = _shared(codes, stem, parent, thread)
    is_range = np.array([text.kind == RANGE for text in texts])[codes]
    changed, (code, merges, opened) = group_keys(codes, shared, not_ended & is_range)
    named = []
    for of, merged, is_open in zip(code.tolist(), merges.tolist(), opened.tolist(), strict=True):
        *around, name = texts[of].names or ("",)
        name = f"{stems[int(stem[of])]}*" if merged else name
        names = (*around, f"{name}{NOT_ENDED}" if is_open else name)
        named.append(texts[of]._replace(names=names) if merged or is_open else texts[of])
    return changed, named


def _stems(texts: list[RangeText]) -> tuple[Ints, list[str]]:
    """Return for each text the position of its name without the number, -1 for one without, and these."""
    stems: dict[str, int] = {}
    numbers = []
    for text in texts:
        found = _NUMBERED.fullmatch(text.names[-1]) if text.kind == RANGE and text.names else None
        is_numbered = found is not None and not _PARTS.search(found[1])
        numbers.append(stems.setdefault(found[1], len(stems)) if found and is_numbered else -1)
    return np.array(numbers, np.int64), list(stems)


def _shared(codes: Ints, stem: Ints, parent: Ints, thread: Ints) -> NDArray[np.bool_]:
    """Mark the ranges that share a name with their siblings."""
    shared = np.zeros(len(codes), bool)
    rows = np.flatnonzero(stem[codes] >= 0)
    if not len(rows):
        return shared
    each, (text, _) = group_keys(codes[rows], thread[rows])
    again = np.unique(text[np.bincount(each) > 1])
    rows = rows[~np.isin(codes[rows], again)]
    if not len(rows):
        return shared
    group, _ = group_keys(parent[rows], stem[codes[rows]])
    _, (of_group, _) = group_keys(group, codes[rows])
    shared[rows] = (np.bincount(of_group) >= _FEWEST)[group]
    return shared


@dataclass(frozen=True, eq=False)
class NestedRanges:
    """The ranges of a capture, by thread, then from the outside in; times in ns.

    ``parent`` is the position of the innermost other range around, -1 without one. It comes before its
    children. ``text`` is the position in ``texts``. ``depth`` counts the ranges around. ``row`` is the
    position among the NVTX events.
    """

    row: NDArray[Any]
    spans: Spans
    parent: NDArray[Any]
    depth: NDArray[Any]
    text: NDArray[Any]
    texts: list[RangeText]
    _alike: NDArray[Any]  # the first range with the same times, for each
    _last: NDArray[Any]  # the last one with the same times, for each

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def kind(self) -> NDArray[Any]:
        """The kind of each range."""
        return self.of_text([text.kind for text in self.texts])

    def of_text(self, values: list[Any]) -> NDArray[Any]:
        """Return the value of each range, given one per text."""
        return np.array(values or [0])[self.text] if len(self) else np.empty(0, np.int64)

    def levels(self) -> Iterator[NDArray[Any]]:
        """Yield the positions of the ranges of each depth, the outermost first."""
        most = int(self.depth.max(initial=-1)) + 1
        yield from np.split(
            order_by_code(self.depth, most), np.cumsum(np.bincount(self.depth, minlength=most))[:-1]
        )

    def innermost(self, calls: Spans) -> NDArray[Any]:
        """Return the position of the innermost range around each call; -1 without one."""
        first = np.flatnonzero(self._alike == np.arange(len(self)))
        outer = Spans(*(field[first] for field in self.spans))
        found = closest(calls, outer, outer.end - outer.start)
        return np.where(found >= 0, np.append(self._last[first], -1)[found], -1)


def nested_ranges(whole: Capture) -> NestedRanges:
    """Return the ranges of all threads that are not hidden."""
    rows, spans = thread_ranges(whole)
    codes, named = texts_and_domains(whole, rows)
    texts = [read_text(*pair) for pair in named]
    if len(marks_named(whole, SHAPES_END, MODULES_DOMAIN)):
        texts = list(map(former, texts))
    shown = np.array([text.kind != HIDDEN for text in texts] or [False])
    if not shown.all():
        kept = shown[codes] if len(codes) else np.empty(0, bool)
        rows, codes, spans = rows[kept], codes[kept], Spans(*(field[kept] for field in spans))
    kinds = np.array([text.kind for text in texts])
    spans = _ended_with_modules(spans, kinds[codes] == MODULE if len(codes) else np.empty(0, bool))
    # Of ranges with the same times, the first in the export is the outermost.
    order = np.lexsort((rows, -spans.end, spans.start, spans.thread))
    spans, codes = Spans(*(field[order] for field in spans)), codes[order]
    count = len(order)
    fresh = np.ones(count, bool)
    fresh[1:] = np.any([np.diff(field) != 0 for field in spans], axis=0)
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], count)[: len(first)] - 1
    alike = np.cumsum(fresh) - 1
    outer = Spans(*(field[first] for field in spans))
    above = closest(outer, outer, outer.end - outer.start, same=True)
    parent = np.arange(count) - 1
    parent[first] = np.where(above >= 0, np.append(last, -1)[above], -1)
    rows = rows[order]
    not_ended = whole.columns("nvtx", "end_ns")["end_ns"][rows] == MISSING
    codes, texts = named_in_place(codes, texts, parent, spans.thread, not_ended)
    spans = _until_the_next(spans, parent, codes, texts)
    return NestedRanges(rows, spans, parent, _depths(parent), codes, texts, first[alike], last[alike])


def _ended_with_modules(spans: Spans, of_module: NDArray[Any]) -> Spans:
    """Return the ranges; one that began in a module ends with it, at the latest.

    The hooks of a program begin a range after that of the module, and end it after that, too.
    """
    modules, others = np.flatnonzero(of_module), np.flatnonzero(~of_module)
    if not len(modules) or not len(others):
        return spans
    around = Spans(*(field[modules] for field in spans))
    begun = Spans(spans.thread[others], spans.start[others], spans.start[others])
    found = closest(begun, around, around.end - around.start)
    inside = np.flatnonzero(found >= 0)
    end = spans.end.copy()
    end[others[inside]] = np.minimum(end[others[inside]], around.end[found[inside]])
    return spans._replace(end=end)


def _until_the_next(spans: Spans, parent: NDArray[Any], codes: NDArray[Any], texts: list[RangeText]) -> Spans:
    """Return the ranges; one of a backward function lasts until the next range on its thread.

    Autograd adds up gradients after the function. Its own ranges around that are not always recorded.
    """
    if not len(codes):
        return spans
    kind, phase = (
        np.array(values)[codes] for values in zip(*((text.kind, text.phase) for text in texts), strict=True)
    )
    is_backward = (kind == OPERATION) & (phase == BACKWARD)
    forwards = np.unique(spans.thread[(kind == MODULE) & (parent < 0)])
    inside = np.where(parent >= 0, is_backward[parent], ~np.isin(spans.thread, forwards))
    order = np.lexsort((spans.start, parent, spans.thread))
    this, following = order[:-1], order[1:]
    same = (spans.thread[this] == spans.thread[following]) & (parent[this] == parent[following])
    extended = same & is_backward[this] & inside[this]
    end = spans.end.copy()
    end[this[extended]] = np.maximum(end[this[extended]], spans.start[following[extended]])
    return spans._replace(end=end)


def _depths(parent: NDArray[Any]) -> NDArray[Any]:
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length()):  # each step doubles the distance climbed
        if not depth[top].any():
            break
        depth, top = depth + depth[top], top[top]
    return depth
