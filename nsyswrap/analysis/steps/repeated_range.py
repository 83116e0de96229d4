"""Find the NVTX range that marks the steps of a process.

Ranges are weighed by the GPU time that is launched from one start to the next and by the time that they
span, not by the number of launches. A range around another one is the step, unless what it holds repeats on
its own: see ``_loops``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, order_by_code, rows_by, sums_before
from nsyswrap.analysis.arrays.spans import Spans, tree
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, closed_ranges, range_labels
from nsyswrap.analysis.range_texts import of_an_operation
from nsyswrap.analysis.steps.occurrences import MANY, ApiCalls, LoopLabel, Occurrences, optimizer_calls
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.stream import one_of

_LEAST = 3  # occurrences
_TWO_PART = 0.8  # of the GPU time: two occurrences with it are steps
_LEAST_PART = 0.25  # of the launches, the GPU time or the time, from its first to its last occurrence
_OWN_PART = 0.1  # of the process' launches: a thread with fewer does not mark steps
_INSIDE = 0.9  # of the occurrences lie in another range: it is around them
_HALF = 0.5  # of the occurrences: more are most
_OUTSIDE = 0.1  # of a range's GPU time: what it launches outside of inner ranges matters
_MOST = 200  # names, those with most GPU time: others lie deep inside
_OPTIMIZER = "Optimizer.step"
# Domains of libraries: what they do repeats inside of the steps of a program.
_LIBRARY = regex(
    r"@(nccl\w*|cub|cccl|thrust|libcu\w+|rmm|raft|cu(blas|sparse|solver|fft|dnn|tensor|file)\w*|nvshmem|nvcomp"
    r"|tensorrt|dali|ucx|ucp|mpi\w*|tsl|xla|tensorflow\w*|openmp|openacc|kokkos|nsyswrap"
    r"|gil trace|.*python.*)$",
    re.IGNORECASE,
)

_NUMBER = regex(r"\d+", re.ASCII)
_PLACE = "\0"  # of a number in a pattern; no name has it
_DIGITS = 18  # of a number: more are a hash or an address


class _Range(NamedTuple):
    """A range name on one thread: its spans by start, mean depth, and GPU time launched inside, in ns.

    ``turns`` are the ranges side by side in each step that hold an update of the optimizer each, ``beside``
    those that come at the same time on other threads.
    """

    label: str
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    depth: float
    own_ns: int
    thread: int = 0
    turns: tuple[str, ...] = ()
    beside: tuple[tuple[int, str], ...] = ()

    @property
    def mean_ns(self) -> float:
        """The mean duration of an occurrence."""
        return float((self.end_ns - self.start_ns).mean())


class _Work:
    """The launches of a process by start, and the GPU time launched before each; times in ns."""

    def __init__(self, calls: ApiCalls) -> None:
        self.start_ns = calls.start_ns[calls.works]
        self._before = sums_before(calls.gpu_ns[calls.works])

    def launched_ns(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the GPU time launched in each interval."""
        first, last = np.searchsorted(self.start_ns, start), np.searchsorted(self.start_ns, end)
        return self._before[np.maximum(first, last)] - self._before[first]  # type: ignore[no-any-return]

    def parts(self, one: _Range) -> tuple[float, float]:
        """Return the parts of the GPU time and of the time that lie between first start and last end."""
        first, last = int(one.start_ns[0]), int(one.end_ns[-1])
        gpu = int(self.launched_ns(np.array([first]), np.array([last]))[0])
        time = min(last, int(self.start_ns[-1])) - max(first, int(self.start_ns[0]))
        span_ns = max(int(self.start_ns[-1] - self.start_ns[0]), 1)
        return gpu / max(int(self._before[-1]), 1), max(time, 0) / span_ns

    def holds(self, one: _Range) -> bool:
        """Return True if the range lies among the launches."""
        return bool(one.end_ns[0] >= self.start_ns[0] and one.start_ns[-1] <= self.start_ns[-1])

    def repeats(self, one: _Range) -> bool:
        """Return True if the range repeats often enough, and spans a good part of the launches or the time.

        Of many occurrences the GPU time counts, too: that of a few can be one slow kernel.
        """
        if len(one.start_ns) < _LEAST:
            return len(one.start_ns) > 1 and one.own_ns >= _TWO_PART * int(self._before[-1])
        first, last = np.searchsorted(self.start_ns, (one.start_ns[0], one.end_ns[-1]))
        gpu, time = self.parts(one)
        much = gpu >= _LEAST_PART and len(one.start_ns) >= MANY
        return bool(last > first) and (much or max(time, (last - first) / len(self.start_ns)) >= _LEAST_PART)


def repeated_ranges(
    whole: Capture,
    process: int,
    calls: ApiCalls,
    counts: Callable[[Occurrences], bool],
    *,
    partial: bool = False,
) -> list[Occurrences]:
    """Return the occurrences of each range that marks steps, that with most time first; empty without any.

    They repeat on a thread that launches GPU work, in no domain of a library. ``partial``: ``calls`` are not
    all of the process, and ranges outside of them do not count. Loops are weighed by their parts of the GPU
    time and of the time, variants of a family together; those after the first have to count. Of ranges side
    by side the first begins the step.
    """
    if not whole.has("nvtx"):
        return []
    work = _Work(calls)
    ranges = list(_ranges(whole, process, calls, work))
    if partial:
        ranges = [one for one in ranges if work.holds(one)]
    ranges = list(_repeating(ranges, work))
    if not ranges:
        return []
    ranges = sorted(ranges, key=lambda one: -one.own_ns)[:_MOST]
    updates = _updates(whole, process, calls)
    children = _children(ranges)
    loops = [loop for root in children[-1] for loop in _loops(root, ranges, children, work, updates)]
    chosen = list(_side_by_side([ranges[loop] for loop in loops], updates))
    families = [sorted(one, key=lambda variant: -sum(work.parts(variant))) for one in _families(chosen)]
    families.sort(key=lambda variants: -sum(work.parts(_together(variants))))
    made = [_occurrences(_together(variants), chosen, calls) for variants in families[1:]]
    listed = [families[0], *(one for one, uses in zip(families[1:], made, strict=True) if counts(uses))]
    variants = [variant for one in listed for variant in one]
    return [_occurrences(one, variants, calls) for one in variants]


def _families(ranges: Sequence[_Range]) -> list[list[_Range]]:
    """Return the ranges by family: those whose names differ in numbers alone, as ``A01`` and ``A02``."""
    families: dict[str, list[_Range]] = {}
    for one in ranges:
        families.setdefault(family(one.label), []).append(one)
    return list(families.values())


def _together(variants: Sequence[_Range]) -> _Range:
    if len(variants) == 1:
        return variants[0]
    start, end = (np.concatenate([one[field] for one in variants]) for field in (1, 2))
    order = np.argsort(start, kind="stable")
    own_ns = sum(one.own_ns for one in variants)
    return _Range(variants[0].label, start[order], end[order], variants[0].depth, own_ns)


def _repeating(ranges: Sequence[_Range], work: _Work) -> Iterator[_Range]:
    """Yield the ranges that repeat often enough, each alone or as one of a family."""
    for variants in _families(ranges):
        alone = [one for one in variants if work.repeats(one)]
        if len(alone) < len(variants) > 1 and work.repeats(_together(variants)):
            alone = [one for one in variants if len(one.start_ns) >= MANY or work.repeats(one)]
        yield from alone


def every_range(whole: Capture, process: int, calls: ApiCalls) -> Iterator[Occurrences]:
    """Yield the occurrences of each range that repeats and launches GPU work, a step or not."""
    work = _Work(calls)
    for one in _ranges(whole, process, calls, work) if whole.has("nvtx") else ():
        if one.own_ns and work.repeats(one):
            yield _occurrences(one, [], calls)


def too_little(whole: Capture, process: int, calls: ApiCalls) -> tuple[str, int, float, float] | None:
    """Return label, number, and parts of GPU time and time of the range with most; None if none repeats."""
    work = _Work(calls)
    ranges = [one for one in _ranges(whole, process, calls, work) if len(one.start_ns) > 1 and one.own_ns]
    if not ranges:
        return None
    most = max(ranges, key=lambda one: sum(work.parts(one)))
    return most.label, len(most.start_ns), *work.parts(most)


def named_range(whole: Capture, process: int, calls: ApiCalls, name: str) -> Occurrences | None:
    """Return the occurrences of a range of this name, as any table, tree or screen prints it.

    That is ``NAME@DOMAIN`` or ``DOMAIN:NAME`` outside of the default domain, and ``NAME *`` or ``NAME`` for
    names with a number; ``*``, ``?`` and ``[..]`` stand for parts of a name.
    """
    work = _Work(calls)
    ranges = list(_ranges(whole, process, calls, work, name))
    if not ranges:
        return None
    return _occurrences(max(ranges, key=lambda one: (one.own_ns, len(one.start_ns))), [], calls)


def range_names(whole: Capture) -> list[str]:
    """Return the names of the NVTX ranges, with ``@DOMAIN`` if it is not the default domain."""
    if not whole.has("nvtx"):
        return []
    rows, _ = closed_ranges(whole)
    return [text for text in range_labels(whole, rows)[1] if text is not None]


def _ranges(whole: Capture, process: int, calls: ApiCalls, work: _Work, name: str = "") -> Iterator[_Range]:
    """Yield each name on each launching thread, or those that a given name means.

    Occurrences inside one of the same name are left out. A range that is alone repeats nothing.
    """
    if not whole.has("nvtx"):
        return
    rows, spans = closed_ranges(whole)
    mine = spans.thread & PROCESS_MASK == process
    if not name:
        threads, launches = np.unique(calls.thread[calls.works], return_counts=True)
        mine &= one_of(spans.thread, threads[launches >= _OWN_PART * launches.sum()])
        if np.count_nonzero(mine) <= 1:
            return
    rows, spans = rows[mine], Spans(*(field[mine] for field in spans))
    names, texts = range_labels(whole, rows)
    kept = np.isin(names, _meant(name, texts)) if name else of_the_program(whole, rows, names, texts)
    names, spans = names[kept], Spans(*(field[kept] for field in spans))
    if not len(names):
        return
    depth = np.maximum(tree(spans).depth, 0)  # MISSING if two ranges have the same times
    for thread in ascending(spans.thread).tolist():
        here = np.flatnonzero(spans.thread == thread)
        groups = [(name, np.arange(len(here)))] if name else _groups(names[here], texts)
        for label, which in groups:
            start, end = spans.start[here[which]], spans.end[here[which]]
            outer = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
            start, end = start[outer], end[outer]
            own = int(work.launched_ns(start, end).sum())
            yield _Range(label, start, end, float(depth[here[which]].mean()), own, thread)


def _groups(names: NDArray[Any], texts: Sequence[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each name of a thread with the positions of its ranges; names whose number counts are one."""
    alone = np.ones(len(names), bool)
    for label, rows in numbered_ranges(names, texts):
        alone[rows] = False
        yield label, rows
    rest = np.flatnonzero(alone)
    codes = distinct(names[rest])[1]
    again = rest[np.bincount(codes)[codes] > 1]  # each operation of PyTorch has its own text
    for (name,), rows in rows_by(names[again]).items():
        if (text := texts[name]) is not None:
            yield text, again[rows]


def _meant(name: str, texts: Sequence[str | None]) -> list[int]:
    """Return the positions of the texts that a name means: the text itself, else what it stands for."""
    domain, _, text = name.partition(":")
    for wanted in (name, f"{text}@{domain}") if text and domain else (name,):
        base, at, where = wanted.partition("@")
        own = {
            code: one.removesuffix(at + where)
            for code, one in enumerate(texts)
            if one and one.endswith(at + where)
        }
        for means in (str.__eq__, is_numbered, fnmatchcase):
            if found := [code for code, one in own.items() if means(one, base)]:
                return found
    return []


def of_the_program(
    whole: Capture, rows: NDArray[Any], names: NDArray[Any], texts: Sequence[str | None]
) -> NDArray[Any]:
    """Mark ranges in a domain of the program: one without a name, beside that of all, is that of a library.

    ``rows`` are their positions among the NVTX events, ``names`` the codes of their ``texts``.
    """
    main = one_of(whole.columns("nvtx", "domain_id")["domain_id"][rows], MAIN_DOMAIN)
    own = np.array([bool(text and "@" in text and not _LIBRARY.search(text)) for text in texts], bool)
    return main | own[names]  # type: ignore[no-any-return]


def _children(ranges: Sequence[_Range]) -> dict[int, list[int]]:
    """Return the positions of the ranges right inside each one; -1 has those inside none."""
    by_size = sorted(range(len(ranges)), key=lambda one: (ranges[one].mean_ns, -ranges[one].depth))
    children: dict[int, list[int]] = {one: [] for one in (-1, *by_size)}
    for place, one in enumerate(by_size):
        around = (other for other in by_size[place + 1 :] if _is_inside(ranges[one], ranges[other]))
        children[next(around, -1)].append(one)
    return children


def _is_inside(inner: _Range, outer: _Range) -> bool:
    if inner.thread != outer.thread:
        return False
    at = np.searchsorted(outer.start_ns, inner.start_ns, "right") - 1
    held = (at >= 0) & (inner.end_ns <= outer.end_ns[at])
    return bool(held.mean() >= _INSIDE)


def _loops(
    one: int, ranges: Sequence[_Range], children: dict[int, list[int]], work: _Work, updates: NDArray[Any]
) -> list[int]:
    """Return the ranges that are loops: this one, or those that repeat in it.

    The inner ranges count only if they come three times in one of this, one after another and not in turns.
    Where each inner range holds an update of the optimizer, it is the step; where only the outer one does,
    that is. Otherwise the outer one is the step if it comes ten times, or launches much outside of them.
    """
    outer = ranges[one]
    inner = _without_turns(outer, list(_often(outer, one, ranges, children)), ranges)
    next_ns = np.append(outer.start_ns[1:], outer.end_ns[-1])
    if updating := [
        child for child in inner if _holds(ranges[child].start_ns, ranges[child].end_ns, updates)
    ]:
        inner = updating
    elif _holds(outer.start_ns, next_ns, updates) or len(outer.start_ns) >= MANY:
        return [one]
    else:
        everything = int(work.launched_ns(outer.start_ns, next_ns).sum())
        inside = sum(_phase_ns(outer, ranges[child], work) for child in inner)
        if everything - inside >= _OUTSIDE * everything:
            return [one]
    return [loop for child in inner for loop in _loops(child, ranges, children, work, updates)]


def _often(
    outer: _Range, one: int, ranges: Sequence[_Range], children: dict[int, list[int]]
) -> Iterator[int]:
    """Yield the outermost ranges in this one that come three times in it."""
    for child in children[one]:
        first, last = _first_and_last(outer, ranges[child])
        if np.median(last - first) >= _LEAST - 1:
            yield child
        else:
            yield from _often(outer, child, ranges, children)


def _without_turns(outer: _Range, inner: list[int], ranges: Sequence[_Range]) -> list[int]:
    """Return the inner ranges that do not come in turns with each other."""
    phases = {one: _phases(outer, ranges[one]) for one in inner}
    return [
        one
        for one, phase in phases.items()
        if not any(_in_turns(phase, other) for place, other in phases.items() if place != one)
    ]


def _in_turns(one: tuple[NDArray[Any], NDArray[Any]], other: tuple[NDArray[Any], NDArray[Any]]) -> bool:
    """Return True if two phases overlap in most of the outer ranges."""
    (first, last), (begin, end) = one, other
    overlap = (first < end) & (begin < last) & (first <= last) & (begin <= end)
    return bool(overlap.mean() > _HALF)


def _first_and_last(outer: _Range, inner: _Range) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the positions of the first and the last inner range that begin in each outer one.

    The last one is before the first one where there are none.
    """
    first = np.searchsorted(inner.start_ns, outer.start_ns)
    return first, np.searchsorted(inner.start_ns, outer.end_ns) - 1


def _phases(outer: _Range, inner: _Range) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first and the last start of the inner range in each outer one; first > last without any."""
    first, last = _first_and_last(outer, inner)
    starts = np.append(inner.start_ns, np.iinfo(np.int64).max)
    return starts[first], np.where(last >= first, starts[last], -1)


def _phase_ns(outer: _Range, inner: _Range, work: _Work) -> int:
    """Return the GPU time launched from the first to the last inner range of each outer one."""
    first, last = _first_and_last(outer, inner)
    held = last >= first
    return int(work.launched_ns(inner.start_ns[first[held]], inner.end_ns[last[held]]).sum())


def _holds(start: NDArray[Any], end: NDArray[Any], updates: NDArray[Any]) -> bool:
    """Return True if the intervals hold an update of the optimizer each."""
    held = np.searchsorted(updates, end) > np.searchsorted(updates, start)
    return bool(held.mean() >= _INSIDE)


def _updates(whole: Capture, process: int, calls: ApiCalls) -> NDArray[Any]:
    """Return the times of the optimizer's updates, ascending: of its ranges, else of its kernels."""
    if not whole.has("nvtx"):
        return np.empty(0, np.int64)
    rows, spans = closed_ranges(whole)
    mine = spans.thread & PROCESS_MASK == process
    names, texts = range_labels(whole, rows[mine])
    steps = np.array([bool(text and text.startswith(_OPTIMIZER)) for text in texts], bool)
    times = spans.start[mine][steps[names]] if len(texts) else np.empty(0, np.int64)
    if len(times):
        return times
    return calls.start_ns[optimizer_calls(whole, calls)]  # type: ignore[no-any-return]


def _side_by_side(ranges: Sequence[_Range], updates: NDArray[Any]) -> Iterator[_Range]:
    """Yield of each group of ranges that come in turns the first one in a step.

    The range with most GPU time says how often the step comes; a rarer one, as a checkpoint, is in it. The
    step begins on its thread: those of other threads are beside it.
    """
    left = sorted(ranges, key=lambda one: -one.own_ns)
    while left:
        main = left[0]
        group = [one for one in left if one is main or (_overlap(one, main) and not _in_phases(one, main))]
        left = [one for one in left if not any(one is other for other in group)]
        mine = [one for one in group if one.thread == main.thread]
        alike = [one for one in mine if abs(len(one.start_ns) - len(main.start_ns)) <= 1]
        alike.sort(key=lambda one: (one.start_ns[0], one.depth))
        turns = [one.label for one in alike if _holds(one.start_ns, one.end_ns, updates)]
        others = [one for one in group if one.thread != main.thread]
        beside = [(len(one.start_ns), one.label) for one in others]
        yield alike[0]._replace(turns=tuple(turns), beside=tuple(beside))


def _overlap(one: _Range, other: _Range) -> bool:
    """Return True if one of two ranges begins while the other is in turn, for most of its occurrences."""
    few, many = sorted((one, other), key=lambda of: len(of.start_ns))
    at = np.searchsorted(few.start_ns, many.start_ns)
    return bool(((at > 0) & (at < len(few.start_ns))).mean() > _HALF)


def _in_phases(one: _Range, other: _Range) -> bool:
    """Return True if two ranges come in phases, as training and evaluation: several of each in a row.

    So do those of which one comes at irregular times: a server reads a prompt when it has one.
    """
    which = np.repeat((True, False), (len(one.start_ns), len(other.start_ns)))
    which = which[np.argsort(np.concatenate((one.start_ns, other.start_ns)), kind="stable")]
    edges = np.flatnonzero(np.diff(which)) + 1
    runs, first = np.diff(np.concatenate(([0], edges, [len(which)]))), int(not which[0])
    both = (runs[first::2], runs[1 - first :: 2])
    in_a_row = [len(mine) > 0 and np.median(mine) >= _LEAST for mine in both]
    irregular = [len(mine) >= MANY and (mine == np.median(mine)).mean() < _HALF for mine in both]
    return all(in_a_row) or any(in_a_row and many for in_a_row, many in zip(in_a_row, irregular, strict=True))


def _occurrences(one: _Range, others: Sequence[_Range], calls: ApiCalls) -> Occurrences:
    """Return the occurrences of a range: each ends where the next one, or one of the others, begins."""
    start = one.start_ns
    ends = np.append(start[1:], one.end_ns[-1])
    for other in others:
        if other is one:
            continue
        begins = np.append(other.start_ns, np.iinfo(np.int64).max)
        begins = begins[np.searchsorted(other.start_ns, one.end_ns)]
        ends = np.where(begins < ends, one.end_ns, ends)
    firsts = np.sort(calls.start_ns[calls.first])
    first_uses = np.searchsorted(firsts, ends) > np.searchsorted(firsts, start)
    return Occurrences(
        LoopLabel.of_range(one.label),
        start,
        ends,
        differs=np.zeros(len(start), bool),
        first_uses=first_uses,
        is_range=True,
        turns=one.turns,
        beside=one.beside,
    )


def numbered_ranges(names: NDArray[Any], texts: Sequence[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield names whose number counts, with ``*`` in its place, and the positions of their ranges.

    ``names`` has the ranges of one thread by start, as codes of ``texts``.
    """
    by_pattern: dict[str, int] = {}
    pattern = np.full(len(texts), -1)
    for code in ascending(names).tolist():
        text = texts[code]
        if text and _NUMBER.search(text) and _PLACE not in text and not of_an_operation(text):
            pattern[code] = by_pattern.setdefault(_NUMBER.sub(_PLACE, text), len(by_pattern))
    rows = np.flatnonzero(pattern[names] >= 0)
    found = pattern[names[rows]]
    edges = np.cumsum(np.bincount(found, minlength=len(by_pattern)))
    for mine in np.split(rows[order_by_code(found, len(by_pattern))], edges[:-1]) if by_pattern else ():
        used, codes = distinct(names[mine])
        numbers = [_NUMBER.findall(texts[code] or "") for code in used.tolist()]
        if len(used) < 2 or any(len(number) > _DIGITS for of_text in numbers for number in of_text):  # noqa: PLR2004
            continue
        values = np.array(numbers, np.int64)
        varies = (values != values[0]).any(axis=0)
        if any(_counts(values[codes, place]) for place in np.flatnonzero(varies).tolist()):
            yield _label(texts[used[0]] or "", varies.tolist()), mine


def _counts(values: NDArray[Any]) -> bool:
    """Return True if the values rise by a constant step, from the first one again in each run.

    Where runs outnumber the values of one, each value is a part of what repeats: a layer of a model.
    """
    rises, again = np.diff(values), values[1:] == values[0]
    steps, runs = rises[~again], 1 + np.count_nonzero(again)
    return bool(len(steps) and steps[0] > 0 and (steps == steps[0]).all() and runs**2 <= len(values))


def family(name: str) -> str:
    """Return a name with ``*`` in place of its numbers: ``A01`` and ``A02`` are variants of one family."""
    return name if of_an_operation(name) else _NUMBER.sub("*", name)


def is_numbered(text: str, name: str) -> bool:
    """Return True if a text is the name with a number in place of each ``*``, or with one behind it."""
    parts = r"\d+".join(map(re.escape, re.split(r"\*+", name)))
    return bool(re.fullmatch(parts if "*" in name else rf"{parts}[ _:#-]*\d+ *", text, re.ASCII))


def _label(text: str, varies: list[bool]) -> str:
    """Return the text with ``*`` in place of each number that varies."""
    numbers = iter(varies)
    return _NUMBER.sub(lambda number: "*" if next(numbers) else number[0], text)
