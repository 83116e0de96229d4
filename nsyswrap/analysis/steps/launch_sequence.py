"""Find the sequence of launches, copies and waits that a process repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, order_by_code
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.steps.occurrences import (
    KERNEL_CODE,
    MANY,
    ApiCalls,
    LoopLabel,
    Occurrences,
    optimizer_calls,
)
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

_LEAST = 3  # occurrences
_LEAST_EQUAL = 0.6  # of the intervals between occurrences hold the same calls
_RUNS = (2, 8)  # calls in a row
_FEW_KINDS = 500  # of calls: of more, one is made once a step
_PAUSE = 20  # times the median time between calls
_LEAST_PART = 0.25  # of all calls, or of the GPU time, lie in such intervals
_LISTED = 0.1  # of all GPU time, or of this and of the time, at least
_UPDATE = LoopLabel("optimizer step", "update")
_LEAST_STEP = 20  # calls from one update of an optimizer to the next
_BETWEEN, _WITHIN = 0.25, 0.1  # of the most calls between two of its kernels: at least, at most
_UPDATED = 0.1  # of the GPU time lies in these steps; the first step, which often waits for long, is none
_AS_MUCH = 0.8  # of what shorter periods hold
_LIGHT = 0.2  # of what the heaviest sequence holds
_HALF = 0.5  # of the usual calls


class _Anchor(NamedTuple):
    """A call that may begin each step: its positions, its typical interval, and which intervals equal it.

    ``held`` is the part of the GPU time, and of the time, that these hold together: from 0 to 2. None counts
    for more than the usual one, as a pause may lie in it. ``after_pause``: those after a pause alone begin a
    step.
    """

    positions: NDArray[Any]
    length: int
    equal: NDArray[Any]
    gap_ns: float
    held: float
    after_pause: bool

    @property
    def cover(self) -> float:
        """What these would hold if the last occurrence, which has no end, were one of them."""
        return self.held * (1 + 1 / np.count_nonzero(self.equal))

    def holds_as_much_as(self, others: Sequence[_Anchor]) -> bool:
        """Return True if none of the others with a shorter period holds clearly more."""
        often = len(self.positions) + 1
        return self.cover >= _AS_MUCH * max(
            (one.cover for one in others if len(one.positions) > often), default=0
        )


def repeated_sequence(whole: Capture, calls: ApiCalls) -> Occurrences | None:
    """Return the occurrences of the sequence that the calls of a process repeat; None without any.

    Where updates of an optimizer come more often than the sequence, each step ends with an update: it need
    not launch the same each time.
    """
    numbers = _numbers(whole, calls)
    best, updates = _best(calls, numbers), _up_to_updates(calls, optimizer_calls(whole, calls))
    found = _occurrences(calls, numbers, best) if best else None
    if updates is None or best is None:
        return updates or found
    count, many = len(best.positions), len(updates.start_ns)
    several = MANY <= count <= many // 2 + 1  # updates in each step
    return found if several or many <= count <= many + 2 else updates


def every_sequence(whole: Capture, calls: ApiCalls) -> Iterator[Occurrences]:
    """Yield the occurrences of each sequence that the calls of a process repeat, however it begins."""
    if (updates := _up_to_updates(calls, optimizer_calls(whole, calls))) is not None:
        yield updates
    numbers = _numbers(whole, calls)
    yield from (_occurrences(calls, numbers, anchor) for anchor in _anchors(calls, numbers))


def _numbers(whole: Capture, calls: ApiCalls) -> NDArray[np.uint64]:
    """Return a number of what each call does, the same in each run; the sum of some tells what they do."""
    ids, codes = distinct(calls.code)
    launches = np.flatnonzero(ids >= KERNEL_CODE)
    known = ids.astype(np.int64) << 1
    known[launches] = (_name_checksums(whole)[ids[launches] - KERNEL_CODE] << 1) + 1
    return _scrambled(known.astype(np.uint64))[codes]  # type: ignore[no-any-return]


@per_capture
def _name_checksums(whole: Capture) -> NDArray[np.int64]:
    """Return a number of each name of launches, the same in each run."""
    texts = ((name or "").encode(errors="replace") for name in launches_of(whole).names)
    return np.fromiter(map(crc32, texts), np.int64)


def _best(calls: ApiCalls, numbers: NDArray[np.uint64]) -> _Anchor | None:
    """Return the call that begins each step; None without any.

    The call that begins the sequence occurs once in it, or once after a pause. Two stretches between its
    occurrences are equal if they hold the same calls, in any order. The longest period that repeats often is
    the step, if it holds as much as shorter ones do. If several calls will do, the longest idle time before a
    call decides.
    """
    anchors = _anchors(calls, numbers)
    if not anchors:
        return None
    many = [anchor for anchor in anchors if len(anchor.positions) >= MANY] or anchors
    most = max(anchor.cover for anchor in many)
    many = [anchor for anchor in many if anchor.cover >= _LIGHT * most]
    many = [anchor for anchor in many if anchor.holds_as_much_as(many)]
    fewest = min(len(anchor.positions) for anchor in many)
    period = [anchor for anchor in many if len(anchor.positions) <= fewest + 1]
    return max(period, key=lambda anchor: (np.count_nonzero(anchor.equal), anchor.gap_ns))


def _up_to_updates(calls: ApiCalls, updates: NDArray[Any]) -> Occurrences | None:
    """Return the steps that each end with an update of the optimizer: a burst of its kernels."""
    apart = np.diff(updates)
    if not len(apart) or apart.max() < _LEAST_STEP:
        return None
    between = apart > _BETWEEN * apart.max()
    if apart[~between].max(initial=0) > _WITHIN * apart.max():  # kernels anywhere, and no bursts
        return None
    last = updates[np.append(between, True)]
    works = np.flatnonzero(calls.works)
    begins = works[np.minimum(np.searchsorted(works, last, "right"), len(works) - 1)]
    edges = np.append(begins[:-1], last[-1] + 1)
    if len(edges) <= _LEAST:
        return None
    gpu = calls.gpu_ns[edges[0] : edges[-1]].sum() / max(int(calls.gpu_ns.sum()), 1)
    if gpu < _UPDATED:
        return None
    start = calls.start_ns[edges[:-1]]
    nothing = np.zeros(len(start), bool)
    first_uses = np.add.reduceat(calls.first[: edges[-1]], edges[:-1]) > 0
    return Occurrences(_UPDATE, start, np.append(start[1:], calls.end_ns[edges[-1] - 1]), nothing, first_uses)


def _anchors(calls: ApiCalls, numbers: NDArray[np.uint64]) -> list[_Anchor]:
    """Return the calls whose occurrences part the sequence into mostly equal intervals."""
    if len(calls.code) < _LEAST:
        return []
    sums = _sums(numbers)
    before = calls.start_ns - np.concatenate((calls.start_ns[:1], np.maximum.accumulate(calls.end_ns)[:-1]))
    paused = before > _PAUSE * np.median(before)
    paused[0] = True  # nothing came before the first call
    gpu_ns = np.append(0, np.cumsum(calls.gpu_ns))
    span_ns = max(int(calls.start_ns[-1] - calls.start_ns[0]), 1)
    anchors: list[_Anchor] = []
    for run, after_pause, positions in _every_candidate(calls, numbers, np.flatnonzero(paused), anchors):
        intervals = np.diff(sums[positions])
        middle = len(intervals) // 2
        # What most are is in the middle. For a single place numpy 2.4 takes long where many are equal.
        equal = intervals == np.partition(intervals, (middle - 1, middle))[middle]
        if equal.mean() < _LEAST_EQUAL:
            continue
        length = int(np.diff(positions)[equal][0])
        first = positions[equal.argmax()]
        launches = (calls.code[first : first + length] >= KERNEL_CODE).any()
        if equal.sum() < _LEAST - 1 or not launches:  # waits and copies alone are no steps
            continue
        gpu = np.diff(gpu_ns[positions])[equal]
        since = gpu_ns[-1] - gpu_ns[positions[0]]  # what comes before may be start-up
        least = max(_LEAST_PART * since, _LISTED * gpu_ns[-1])
        much = len(positions) >= MANY and gpu.sum() >= max(least, 1)
        time = np.diff(calls.start_ns[positions])[equal]
        held = _held(gpu) / max(gpu_ns[-1], 1) + _held(time) / span_ns
        often = np.count_nonzero(equal) * length / len(numbers) >= _LEAST_PART
        if much or (often and (run == 1 or held >= _LISTED)):  # short runs recur by chance
            gap = float(np.median(before[positions[1:]]))
            anchors.append(_Anchor(positions, length, equal, gap, held, after_pause))
    return anchors


def _held(times_ns: NDArray[np.int64]) -> float:
    """Return the sum of times of which none counts for more than the median."""
    return float(np.minimum(times_ns, np.median(times_ns)).sum())  # of integers, which need no numpy.ma


def _every_candidate(
    calls: ApiCalls, numbers: NDArray[np.uint64], paused: NDArray[Any], anchors: Sequence[_Anchor]
) -> Iterator[tuple[int, bool, NDArray[Any]]]:
    """Yield a number of calls in a row, whether they come after a pause, and where equal ones are.

    Of a step that makes each of its calls several times, some calls in a row occur once. They are looked for
    if no single call will do.
    """
    sums = _sums(numbers)
    kinds, codes = distinct(calls.code)
    for length in (1, *_RUNS):
        if length > 1:
            if anchors or length > len(numbers) or len(kinds) > _FEW_KINDS:
                return
            codes = _runs(numbers, length)
        rows = {False: np.arange(len(codes)), True: paused[paused < len(codes)]}
        for after_pause, chosen in rows.items():
            for positions in _candidates(codes, sums, chosen, _LEAST if length == 1 else MANY):
                yield length, after_pause, positions


def _runs(numbers: NDArray[np.uint64], length: int) -> NDArray[np.int64]:
    """Return a code of each run of so many calls, the same for the same calls in the same order."""
    count = len(numbers) - length + 1
    runs = numbers[:count]
    for place in range(1, length):
        runs = _scrambled(runs) + numbers[place : place + count]
    order = np.argsort(runs)
    ordered, codes = runs[order], np.zeros(count, np.int64)
    codes[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])  # np.unique imports much
    return codes


def _sums(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sums of all numbers before each; those of random ones tell the same calls in any order."""
    return np.append(np.zeros(1, np.uint64), np.cumsum(numbers, dtype=np.uint64))


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, by the finalizer of SplitMix64; numpy.random takes long to import."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _candidates(
    codes: NDArray[Any], sums: NDArray[Any], rows: NDArray[Any], least: int = _LEAST
) -> Iterator[NDArray[Any]]:
    """Yield the positions of each code frequent among ``rows`` whose intervals can be mostly equal.

    Of n intervals with k equal ones, at least 2 k - n - 1 are equal to the next one.
    """
    count = np.bincount(codes[rows])
    rows = rows[order_by_code(codes[rows], len(count))]
    intervals = np.diff(sums[rows])
    again = np.concatenate(([0, 0], np.cumsum(intervals[1:] == intervals[:-1])))
    behind = np.cumsum(count)
    first = behind - count
    enough = np.flatnonzero(count >= least)
    pairs = again[behind[enough] - 1] - again[first[enough] + 1]
    most_equal = pairs + 2 > (2 * _LEAST_EQUAL - 1) * (count[enough] - 1)
    for code in enough[most_equal].tolist():
        yield rows[first[code] : behind[code]]


def _occurrences(calls: ApiCalls, numbers: NDArray[np.uint64], anchor: _Anchor) -> Occurrences:
    """Return the occurrences; the last one counts only if its calls are complete.

    First and last ones with less than half of the usual calls are parts of steps.
    """
    length = anchor.length
    usual = anchor.positions[anchor.equal.argmax()] + np.arange(length)
    whole = np.flatnonzero(np.diff(anchor.positions) >= _HALF * length)
    equal = anchor.equal[whole[0] : whole[-1] + 1]
    positions = anchor.positions[whole[0] : whole[-1] + 2]
    rest = calls.code[positions[-1] :][:length]
    complete = np.array_equal(np.sort(rest), np.sort(calls.code[usual]))
    edges = np.append(positions, positions[-1] + length) if complete else positions
    start = calls.start_ns[edges[:-1]]
    ends = np.append(start[1:], calls.end_ns[edges[-2] : edges[-1]].max())
    label, single = _label(calls, usual)
    return Occurrences(
        label,
        start,
        ends,
        differs=np.append(~equal, False)[: len(start)],
        first_uses=np.add.reduceat(calls.first[: edges[-1]], edges[:-1]) > 0,
        single=single,
        launches=int(numbers[usual[calls.works[usual]]].sum()),
        begins=f"{'pause ' if anchor.after_pause else ''}{int(numbers[positions[0]]):x}",
        own_end_ns=_own_ends(calls, numbers, edges, usual, ends),
    )


def _own_ends(
    calls: ApiCalls, numbers: NDArray[np.uint64], edges: NDArray[Any], usual: NDArray[Any], ends: NDArray[Any]
) -> NDArray[Any]:
    """Return where the usual calls end that an occurrence begins with, else where it ends."""
    sums = _sums(numbers)
    first, behind = edges[:-1], edges[:-1] + len(usual)
    more = np.flatnonzero(behind < edges[1:])
    more = more[sums[behind[more]] - sums[first[more]] == numbers[usual].sum(dtype=np.uint64)]
    own = ends.copy()
    own[more] = calls.start_ns[behind[more]]
    return own


def _label(calls: ApiCalls, rows: NDArray[Any]) -> tuple[LoopLabel, bool]:
    """Return what the sequence is, and whether it is a single operation: a graph holds a whole step."""
    works = rows[calls.works[rows]]
    if len(works) > 1:
        return LoopLabel.of_sequence(len(works)), False
    is_graph = bool(calls.graph[works].all())
    return LoopLabel("one CUDA graph" if is_graph else "one GPU operation"), not is_graph
