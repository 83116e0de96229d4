"""Make one tree of all NVTX ranges of a capture by their names, and place its GPU operations in it.

A GPU operation belongs to the innermost range around its launch on the launching thread. With module ranges
in the capture, the outermost module of a thread is a root of the tree, whatever ranges are around it, and
operations of PyTorch inside a module are no nodes: what they launch belongs to the module. An operation of
a backward pass belongs where its forward does, if autograd's sequence number tells: at that operation, or in
the module that recorded it. What a backward runs outside of known operations belongs to the ranges of its own
thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, group_keys, number_texts, order_by_code
from nsyswrap.analysis.arrays.spans import Spans, closest, tree
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.nvtx_ranges import (
    call_spans,
    domain_names,
    marks_named,
    texts_and_domains,
    thread_ranges,
)
from nsyswrap.analysis.nvtx_ranges import nested_ranges as ranges_of_threads
from nsyswrap.analysis.range_texts import (
    BACKWARD,
    ENGINE,
    FORMER,
    HIDDEN,
    MODULE,
    MODULES_DOMAIN,
    OPERATION,
    RANGE,
    SHAPES_END,
    RangeText,
    former,
    of_the_program,
    read_text,
    without_fields,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_MARK, NVTX_PUSH_POP, PROCESS_MASK
from nsyswrap.capture.stream import one_of

NOT_ENDED = " (not ended)"
_FEWEST = 3  # siblings whose names differ in a number alone
_NUMBERED = regex(r"(.*[ _:#=-])\d+ *")
_PARTS = regex(r"(?:layer|block|stage|head|expert|module)s?[ _:#=-]+$", re.IGNORECASE)


# Nest the NVTX ranges of each thread, and read their texts.
#
# Ranges are named by where they are: numbered siblings have one name, and what did not end says so.


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
    again = ascending(text[np.bincount(each) > 1])
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
    parent[first] = np.append(last, -1)[above]
    rows = rows[order]
    not_ended = whole.columns("nvtx", "end_ns")["end_ns"][rows] == MISSING
    codes, texts = named_in_place(codes, texts, parent, spans.thread, not_ended)
    spans = _until_the_next(spans, parent, codes, texts)
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length()):  # each step doubles the distance climbed
        if not depth[top].any():
            break
        depth, top = depth + depth[top], top[top]
    return NestedRanges(rows, spans, parent, depth, codes, texts, first[alike], last[alike])


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
    forwards = ascending(spans.thread[(kind == MODULE) & (parent < 0)])
    inside = np.where(parent >= 0, is_backward[parent], ~one_of(spans.thread, forwards))
    order = np.lexsort((spans.start, parent, spans.thread))
    this, following = order[:-1], order[1:]
    same = (spans.thread[this] == spans.thread[following]) & (parent[this] == parent[following])
    extended = same & is_backward[this] & inside[this]
    end = spans.end.copy()
    end[this[extended]] = np.maximum(end[this[extended]], spans.start[following[extended]])
    return spans._replace(end=end)


Ints = NDArray[Any]

NEXT = "next"  # the text of the mark before the end of a module
_MARKS = [(text, MODULES_DOMAIN) for text in (NEXT, SHAPES_END)]
OUTSIDE = -2  # an operation in no module
_MARK, _BEGIN, _END = 0, 1, 2


# Tell by autograd's numbers in which module a thread has recorded an operation.
#
# `profile --modules` notes the number of the next operation that autograd records: when a module begins, and
# before its end. So the numbers between two such moments are of operations in the innermost module then.


class OperationNumbers(NamedTuple):
    """Numbers of operations: the thread, ns at which it reached the number, the module's range or OUTSIDE."""

    number: Ints
    thread: Ints
    start: Ints
    module: Ints


class _Moments(NamedTuple):
    thread: Ints
    time: Ints
    kind: Ints
    number: Ints
    module: Ints  # the innermost from here on

    def at(self, rows: Ints) -> _Moments:
        return _Moments(*(field[rows] for field in self))


def recorded_numbers(whole: Capture, ranges: NestedRanges, sequence_numbers: Ints) -> OperationNumbers:
    """Return where these numbers were recorded, each once or several times, or not at all."""
    moments = _moments(whole, ranges)
    if not len(moments.time):
        return OperationNumbers(*(np.empty(0, np.int64),) * 4)
    following = np.append(moments.number[1:], 0)
    # The last moment of a thread: if it is in a module, what comes is in it.
    last = np.append((np.diff(moments.thread) != 0) | (np.diff(moments.number) < 0), [True])
    open_end = np.where(moments.module >= 0, np.iinfo(np.int64).max, moments.number)
    following = np.where(last, open_end, following)
    numbers = ascending(sequence_numbers)
    first, end = np.searchsorted(numbers, moments.number), np.searchsorted(numbers, following)
    times = np.maximum(end - first, 0)
    which = np.repeat(np.arange(len(times)), times)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    found = moments.at(which)
    return OperationNumbers(numbers[first[which] + offset], found.thread, found.time, found.module)


def marks_of_modules(whole: Capture, rows: Ints) -> NDArray[np.bool_]:
    """Return which of these NVTX events are marks of the hook's."""
    codes, named = texts_and_domains(whole, rows)
    ours = np.array([pair in _MARKS for pair in named] or [False])
    return ours[codes] if len(codes) else np.empty(0, bool)


def _moments(whole: Capture, ranges: NestedRanges) -> _Moments:
    """Return the beginnings and ends of modules, and the marks before their ends, by thread and time."""
    modules = np.flatnonzero(ranges.kind == MODULE)
    events = whole.columns("nvtx", "payload", "event_type", "start_ns", "global_tid")
    numbers = events["payload"][ranges.row[modules]]
    modules, numbers = modules[numbers != MISSING], numbers[numbers != MISSING]
    marks = np.flatnonzero((events["event_type"] == NVTX_MARK) & (events["payload"] != MISSING))
    marks = marks[marks_of_modules(whole, marks)]
    thread, start, end = (field[modules] for field in ranges.spans)
    around = _modules_around(ranges)[modules]
    unknown, none = np.full(len(modules), MISSING), np.full(len(marks), OUTSIDE)
    parts = (
        _Moments(
            *(events["global_tid"][marks], events["start_ns"][marks]),
            *(np.full(len(marks), _MARK), events["payload"][marks], none),
        ),
        _Moments(thread, start, np.full(len(modules), _BEGIN), numbers, modules),
        _Moments(thread, end, np.full(len(modules), _END), unknown, around),
    )
    moments = _Moments(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
    return _filled(moments.at(np.lexsort((moments.kind, moments.time, moments.thread))))


def _filled(moments: _Moments) -> _Moments:
    """Return the moments with what is unknown as it was before: numbers of ends, modules of marks."""
    every = np.arange(len(moments.time))
    first = np.append([True], np.diff(moments.thread) != 0)[: len(every)]
    number, module = (
        values[np.maximum.accumulate(np.where(known | first, every, 0))]
        for values, known in ((moments.number, moments.kind != _END), (moments.module, moments.kind != _MARK))
    )
    return moments._replace(number=number, module=module)


def _modules_around(ranges: NestedRanges) -> Ints:
    """Return the innermost module around each range; OUTSIDE without one."""
    is_module = ranges.kind == MODULE
    around = np.full(len(ranges), OUTSIDE)
    for rows in ranges.levels():
        above = ranges.parent[rows]
        inside = rows[above >= 0]
        above = above[above >= 0]
        around[inside] = np.where(is_module[above], above, around[above])
    return around


# Match the backward of each operation of PyTorch with its forward, by autograd's sequence number.
#
# A thread numbers the operations that autograd records, and the backward of one has its number. An operation
# that records nothing has the number of the next one: of several with a number, the last recorded it. The
# backward runs on another thread, so the numbers of several forward threads can be the same. Where operations
# are not recorded, a forward is the module that they were recorded in.


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


NOWHERE = -1
_MOST_PASSES = 4  # a backward inside a backward: of activation checkpoints
_DOT = "."
_REPEATED = regex(r"(?<![^.])\d+(?![^.])")


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
        return tuple(self.names[one] for one in _around(self, node))


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
    # The latest of its own phase and of those around.
    phase = ranges.of_text([text.phase for text in ranges.texts])
    for rows in ranges.levels():
        inside = rows[ranges.parent[rows] >= 0]
        phase[inside] = np.maximum(phase[inside], phase[ranges.parent[inside]])
    return RangeTree(
        nodes.names,
        np.array(nodes.parent, np.int64),
        np.array(nodes.kind, np.int64),
        nodes.module,
        ranges,
        placed,
        inherited,
        np.append(placed, NOWHERE)[around],
        np.append(phase, 0)[around],
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


def node_labels(tree: RangeTree, nodes: NDArray[Any], depth: int = 0, *, fold: bool = False) -> list[str]:
    """Return the label of each node: its module's qualified name, the path of ranges outside of modules.

    ``depth`` limits the nodes: a deeper one is labeled as the one around it with so many around; 0: no limit.
    With ``fold`` a star stands in place of the first number in a label: layers.*.mlp.0.
    """
    known = {node: _label(tree, node, depth) for node in set(nodes.tolist())}
    if fold:
        known = {node: _REPEATED.sub("*", label, count=1) for node, label in known.items()}
    return [known[node] for node in nodes.tolist()]


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


# Name the NVTX ranges around API calls, from the outermost to the innermost.


def call_paths(whole: Capture, call: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Return the number of the path of each API call, and the paths, such as ``step/forward/linear``.

    Calls are positions among the capture's API calls; -1 is none. The number is MISSING for a call outside of
    all push/pop ranges. A range in a domain is named ``domain:name``. Operations of PyTorch are named without
    their numbers and sizes. Ranges of Python's lock are no part.
    Where modules are recorded, it is the path in the range tree: ``GPT/layers.0/attention``.
    """
    if MODULES_DOMAIN in domain_names(whole):
        return _module_paths(whole, call)
    ranges = ranges_of_threads(whole, NVTX_PUSH_POP)
    kept = np.flatnonzero(of_the_program(whole, ranges.row - 1))
    spans = Spans(*(field[kept] for field in ranges.spans))
    nesting = tree(spans)
    calls, codes = distinct(call.astype(np.int64))
    launched = np.flatnonzero(calls >= 0)
    innermost = np.full(len(calls), -1)
    innermost[launched] = closest(call_spans(whole, calls[launched]), spans, spans.end - spans.start)
    used, number = distinct(innermost)
    labels = ranges.labels(ranges.code[kept])
    names = [without_fields(name).removeprefix(":") if name else "(no name)" for name in labels]
    texts = [_path(names, nesting.parent, i) if i >= 0 else None for i in used.tolist()]
    text_codes, paths = number_texts(number, texts)
    missing = len(paths) - len(known := [path for path in paths if path is not None])
    of_call = np.where(innermost < 0, MISSING, text_codes - missing)
    return of_call[codes], known


def _module_paths(whole: Capture, call: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    tree = range_tree_of(whole)
    nodes = np.append(tree.node_of_range, NOWHERE)[ranges_around(whole, call, tree.ranges)]
    used, number = distinct(nodes)
    known = used[used != NOWHERE]
    return np.where(nodes == NOWHERE, MISSING, number - (len(used) - len(known))), [
        "/".join(tree.path(node)) for node in known.tolist()
    ]


def _path(names: list[str], parent: NDArray[Any], innermost: int) -> str:
    parts = []
    seen = set()  # two ranges with the same times are each other's parents
    while innermost >= 0 and innermost not in seen:
        seen.add(innermost)
        parts.append(names[innermost])
        innermost = int(parent[innermost])
    return "/".join(reversed(parts))
