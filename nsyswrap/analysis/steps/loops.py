"""Choose which loops of a process have steps, and which of them is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import median, numbered, order_by_code, sums_before
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.nvtx_ranges import marks_named, range_labels
from nsyswrap.analysis.range_texts import MODULES_DOMAIN, SHAPES_END
from nsyswrap.analysis.steps.occurrences import (
    KERNEL_CODE,
    MANY,
    ApiCalls,
    LoopLabel,
    Occurrences,
    optimizer_calls,
)
from nsyswrap.analysis.steps.repeated_range import every_range, repeated_ranges
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_START_END, PROCESS_MASK
from nsyswrap.capture.stream import looked_up, one_of

_LEAST_EQUAL = 0.6  # of the intervals between occurrences hold the same calls
_RUNS = (2, 8)  # calls in a row
_FEW_KINDS = 500  # of calls: of more, one is made once a step
_PAUSE = 20  # times the median time between calls
_LEAST = 3  # steps without shapes
_HALF = 0.5  # of the occurrences have a kernel
_LEAST_OF_CALLS = 0.25  # of all calls, or of the GPU time, lie in such intervals
_LISTED = 0.1  # of all GPU time, or of this and of the time, at least
UPDATE = LoopLabel("optimizer step", "update")
_LEAST_STEP = 20  # calls from one update of an optimizer to the next
_BETWEEN, _WITHIN = 0.25, 0.1  # of the most calls between two of its kernels: at least, at most
_UPDATED = 0.1  # of the GPU time lies in these steps; the first step, which often waits for long, is none
_ALIKE, _UNLIKE = 0.9, 0.02  # of the calls of a usual step, at least; of the steps, at most
_AS_MUCH = 0.8  # of what shorter periods hold
_LIGHT_SEQUENCE = 0.2  # of what the heaviest sequence holds


# Find the sequence of launches, copies and waits that a process repeats.


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
    not launch the same each time. If it does nearly, as the batches of an epoch do, a sequence of several
    updates is no step; otherwise it is, as where two networks are trained in turns.
    """
    numbers = _numbers(whole, calls)
    anchors, edges = _anchors(calls, numbers), _behind_updates(calls, optimizer_calls(whole, calls))
    best = _best(anchors)
    found = _occurrences(calls, numbers, _each_time(best, anchors)) if best else None
    if edges is None:
        return found
    if best is not None:
        count, many = len(best.positions), len(edges) - 1
        several = MANY <= count <= many // 2 + 1 and not _are_alike(calls, numbers, edges)
        if several or many <= count <= many + 2:
            return found
    return _up_to_updates(calls, edges)


def every_sequence(whole: Capture, calls: ApiCalls) -> Iterator[Occurrences]:
    """Yield the occurrences of each sequence that the calls of a process repeat, however it begins."""
    if (edges := _behind_updates(calls, optimizer_calls(whole, calls))) is not None:
        yield _up_to_updates(calls, edges)
    numbers = _numbers(whole, calls)
    yield from (_occurrences(calls, numbers, anchor) for anchor in _anchors(calls, numbers))


def _numbers(whole: Capture, calls: ApiCalls) -> NDArray[np.uint64]:
    """Return a number of what each call does, the same in each run; the sum of some tells what they do."""
    ids, codes = numbered(calls.code)
    launches = np.flatnonzero(ids >= KERNEL_CODE)
    known = ids.astype(np.int64) << 1
    known[launches] = (_name_checksums(whole)[ids[launches] - KERNEL_CODE] << 1) + 1
    return looked_up(_scrambled(known.astype(np.uint64)), codes)


@per_capture
def _name_checksums(whole: Capture) -> NDArray[np.int64]:
    """Return a number of each name of launches, the same in each run."""
    texts = ((name or "").encode(errors="replace") for name in launches_of(whole).names)
    return np.fromiter(map(crc32, texts), np.int64)


def _best(anchors: Sequence[_Anchor]) -> _Anchor | None:
    """Return the call that begins each step; None without any.

    The call that begins the sequence occurs once in it, or once after a pause. Two stretches between its
    occurrences are equal if they hold the same calls, in any order. The longest period that repeats often is
    the step, if it holds as much as shorter ones do. If several calls will do, the longest idle time before a
    call decides.
    """
    if not anchors:
        return None
    many = [anchor for anchor in anchors if len(anchor.positions) >= MANY] or anchors
    most = max(anchor.cover for anchor in many)
    many = [anchor for anchor in many if anchor.cover >= _LIGHT_SEQUENCE * most]
    many = [anchor for anchor in many if anchor.holds_as_much_as(many)]
    fewest = min(len(anchor.positions) for anchor in many)
    period = [anchor for anchor in many if len(anchor.positions) <= fewest + 1]
    return max(period, key=lambda anchor: (np.count_nonzero(anchor.equal), anchor.gap_ns))


def _each_time(best: _Anchor, anchors: Sequence[_Anchor]) -> _Anchor:
    """Return a call that begins each step, if one after a pause is missing in some steps between others."""
    equal = np.flatnonzero(best.equal)
    between = np.diff(best.positions)[equal[0] : equal[-1]]
    if not best.after_pause or between.max() < 2 * best.length:
        return best
    same = [one for one in anchors if one.length == best.length and not one.after_pause]
    return max((best, *same), key=lambda one: (np.count_nonzero(one.equal), one is best, one.gap_ns))


def _behind_updates(calls: ApiCalls, updates: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return where steps begin that each end with an update of the optimizer, a burst of its kernels.

    The last position is the end of the last step. Returns None without such steps.
    """
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
    return edges if gpu >= _UPDATED else None


def _are_alike(calls: ApiCalls, numbers: NDArray[np.uint64], edges: NDArray[np.int64]) -> bool:
    """Return True if nearly all of these steps make nearly the calls of the usual one, in any order."""
    sums = np.diff(sums_before(numbers)[edges])
    equal = sums == np.partition(sums, len(sums) // 2)[len(sums) // 2]
    kinds, codes = numbered(calls.code)
    steps = [codes[first:behind] for first, behind in pairwise(edges.tolist())]
    usual = np.bincount(steps[equal.argmax()], minlength=len(kinds))
    unlike = 0
    for step in compress(steps, ~equal):
        shared = np.minimum(np.bincount(step, minlength=len(kinds)), usual).sum()
        unlike += shared < _ALIKE * max(len(step), usual.sum())
        if unlike > max(1, _UNLIKE * len(steps)):
            return False
    return True


def _up_to_updates(calls: ApiCalls, edges: NDArray[np.int64]) -> Occurrences:
    """Return the steps between these positions, each of which ends with an update of the optimizer."""
    start = calls.start_ns[edges[:-1]]
    nothing = np.zeros(len(start), bool)
    first_uses = np.add.reduceat(calls.first[: edges[-1]], edges[:-1]) > 0
    return Occurrences(UPDATE, start, np.append(start[1:], calls.end_ns[edges[-1] - 1]), nothing, first_uses)


def _anchors(calls: ApiCalls, numbers: NDArray[np.uint64]) -> list[_Anchor]:
    """Return the calls whose occurrences part the sequence into mostly equal intervals."""
    if len(calls.code) < _LEAST:
        return []
    sums = sums_before(numbers)  # those of random numbers tell the same calls in any order
    before = calls.start_ns - np.concatenate((calls.start_ns[:1], np.maximum.accumulate(calls.end_ns)[:-1]))
    paused = before > _PAUSE * median(before)
    paused[0] = True  # nothing came before the first call
    gpu_ns = sums_before(calls.gpu_ns)
    span_ns = max(int(calls.start_ns[-1] - calls.start_ns[0]), 1)
    anchors: list[_Anchor] = []
    candidates = _every_candidate(calls, numbers, sums, np.flatnonzero(paused), anchors)
    for run, after_pause, positions in candidates:
        intervals = np.diff(sums[positions])
        middle = len(intervals) // 2
        # What most are is in the middle. For a single place numpy 2.4 takes long where many are equal.
        equal = intervals == np.partition(intervals, (middle - 1, middle))[middle]
        many = int(np.count_nonzero(equal))
        if many < _LEAST_EQUAL * len(equal):
            continue
        length = int(np.diff(positions)[equal][0])
        first = positions[equal.argmax()]
        launches = (calls.code[first : first + length] >= KERNEL_CODE).any()
        if many < _LEAST - 1 or not launches:  # waits and copies alone are no steps
            continue
        gpu = np.diff(gpu_ns[positions])[equal]
        since = gpu_ns[-1] - gpu_ns[positions[0]]  # what comes before may be start-up
        least = max(_LEAST_OF_CALLS * since, _LISTED * gpu_ns[-1])
        much = len(positions) >= MANY and gpu.sum() >= max(least, 1)
        time = np.diff(calls.start_ns[positions])[equal]
        held = _held(gpu) / max(gpu_ns[-1], 1) + _held(time) / span_ns
        often = many * length / len(numbers) >= _LEAST_OF_CALLS
        if much or (often and (run == 1 or held >= _LISTED)):  # short runs recur by chance
            gap = median(before[positions[1:]])
            anchors.append(_Anchor(positions, length, equal, gap, held, after_pause))
    return anchors


def _held(times_ns: NDArray[np.int64]) -> float:
    """Return the sum of times of which none counts for more than the median."""
    return float(np.minimum(times_ns, median(times_ns)).sum())


def _every_candidate(
    calls: ApiCalls,
    numbers: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    paused: NDArray[Any],
    anchors: Sequence[_Anchor],
) -> Iterator[tuple[int, bool, NDArray[Any]]]:
    """Yield a number of calls in a row, whether they come after a pause, and where equal ones are.

    Of a step that makes each of its calls several times, some calls in a row occur once. They are looked for
    if no single call will do. ``sums`` are those of the numbers before each.
    """
    kinds, codes = numbered(calls.code)
    for length in (1, *_RUNS):
        if length > 1:
            if anchors or length > len(numbers) or len(kinds) > _FEW_KINDS:
                return
            codes = _runs(numbers, length)
        for after_pause, chosen in {False: None, True: paused[paused < len(codes)]}.items():
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


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, by the finalizer of SplitMix64; numpy.random takes long to import."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _candidates(
    codes: NDArray[Any], sums: NDArray[Any], rows: NDArray[Any] | None, least: int = _LEAST
) -> Iterator[NDArray[Any]]:
    """Yield the positions of each code frequent among ``rows`` whose intervals can be mostly equal.

    None stands for all rows. Of n intervals with k equal ones, at least 2 k - n - 1 are equal to the next.
    """
    chosen = codes if rows is None else codes[rows]
    count = np.bincount(chosen)
    order = order_by_code(chosen, len(count))
    rows = order if rows is None else rows[order]
    intervals = np.diff(sums[rows])
    again = np.flatnonzero(intervals[1:] == intervals[:-1])
    behind = np.cumsum(count)
    first = behind - count
    enough = np.flatnonzero(count >= least)
    pairs = np.searchsorted(again, behind[enough] - 2) - np.searchsorted(again, first[enough])
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
    # Where the usual calls end that an occurrence begins with, else where it ends.
    sums = sums_before(numbers)
    first, behind = edges[:-1], edges[:-1] + len(usual)
    more = np.flatnonzero(behind < edges[1:])
    more = more[sums[behind[more]] - sums[first[more]] == numbers[usual].sum(dtype=np.uint64)]
    own = ends.copy()
    own[more] = calls.start_ns[behind[more]]
    return Occurrences(
        label,
        start,
        ends,
        differs=np.append(~equal, False)[: len(start)],
        first_uses=np.add.reduceat(calls.first[: edges[-1]], edges[:-1]) > 0,
        single=single,
        launches=int(numbers[usual[calls.works[usual]]].sum()),
        begins=f"{'pause ' if anchor.after_pause else ''}{int(numbers[positions[0]]):x}",
        own_end_ns=own,
    )


def _label(calls: ApiCalls, rows: NDArray[Any]) -> tuple[LoopLabel, bool]:
    """Return what the sequence is, and whether it is a single operation: a graph holds a whole step."""
    works = rows[calls.works[rows]]
    if len(works) > 1:
        return LoopLabel.of_sequence(len(works)), False
    is_graph = bool(calls.graph[works].all())
    return LoopLabel("one CUDA graph" if is_graph else "one GPU operation"), not is_graph


_STEP = regex(r"step (\d+)@nsyswrap")
MARKED = "step"  # what these steps are called on the screen and in --steps


# Read the steps that nsyswrap's hook in the program marked, with the numbers that they have there.


def marked_numbers(whole: Capture) -> tuple[int, int] | tuple[None, None]:
    """Return the numbers of the first and the last marked step in any process; None if there are none."""
    if not whole.has("nvtx"):
        return None, None
    rows = np.flatnonzero(one_of(whole.columns("nvtx", "event_type")["event_type"], NVTX_START_END))
    matches = [_STEP.fullmatch(text or "") for text in range_labels(whole, rows)[1]]
    numbers = [int(match[1]) for match in matches if match]
    return (min(numbers), max(numbers)) if numbers else (None, None)


def marked_steps(whole: Capture, process: int, calls: ApiCalls) -> Occurrences | None:
    """Return the marked steps of a process, or None if there are none or if some in between are missing.

    A step in which the recording or the program ended is none.
    """
    if not whole.has("nvtx"):
        return None
    events = whole.columns("nvtx", "event_type", "start_ns", "end_ns", "global_tid")
    mine = one_of(events["event_type"], NVTX_START_END) & (events["end_ns"] >= events["start_ns"])
    # nsys ends what is open when it stops, so that a step that ends exactly then was cut.
    mine &= events["end_ns"] != whole.info.duration_ns
    rows = np.flatnonzero(mine & (events["global_tid"] & PROCESS_MASK == process))
    if not len(rows):
        return None
    codes, texts = range_labels(whole, rows)
    numbers = np.array([int(match[1]) if (match := _STEP.fullmatch(text or "")) else -1 for text in texts])
    number = numbers[codes]
    order = np.argsort(number, kind="stable")[np.count_nonzero(number < 0) :]
    start, end, number = events["start_ns"][rows[order]], events["end_ns"][rows[order]], number[order]
    if not len(number) or (np.diff(number) != 1).any() or (np.diff(start) < 0).any():
        return None
    # What was launched before the first recorded step is not known, so nothing is a first use then.
    firsts = np.sort(calls.start_ns[calls.first]) if number[0] == 0 else np.empty(0, np.int64)
    ends = np.append(start[1:], end[-1])
    # The first steps, with shapes of operations, cost time; none of them counts if few others are left.
    events = whole.columns("nvtx", "start_ns", "global_tid")
    marks = marks_named(whole, SHAPES_END, MODULES_DOMAIN)
    times = events["start_ns"][marks[events["global_tid"][marks] & PROCESS_MASK == process]]
    differs: NDArray[np.bool_] = ends <= (times.min() if len(times) else 0)
    return Occurrences(
        LoopLabel.of_range(MARKED),
        start,
        ends,
        differs=differs & (np.count_nonzero(~differs) >= _LEAST),
        first_uses=np.searchsorted(firsts, ends) > np.searchsorted(firsts, start),
        first=int(number[0]),
        is_marked=True,
    )


_LEAST_SHARED_PART = 0.5  # of what the loop holds that a run alone would be judged by


class Choice(NamedTuple):
    """A loop by which a run can be judged.

    ``weight`` is the sum of its parts of the GPU time and of the time. ``judged``: this run alone would be
    judged by it.
    """

    label: str
    weight: float
    judged: bool = False


def shared_loop(runs: Sequence[Mapping[str, Choice]]) -> str:
    """Return the loop that all runs have and that holds most of their time; empty if they share none.

    ``runs`` have what tells a loop from others. One run at least would be judged by it alone. In each run the
    loop holds half of what that run's own loop holds: totals say more than a small loop.
    """
    own = [max((one.weight for one in run.values() if one.judged), default=0.0) for run in runs]
    weights = {
        loop: sum(run[loop].weight for run in runs)
        for loop in sorted(set.intersection(*map(set, runs)) if runs else ())
        if any(run[loop].judged for run in runs)
        and all(run[loop].weight >= _LEAST_SHARED_PART * least for run, least in zip(runs, own, strict=True))
    }
    return max(weights, key=weights.__getitem__, default="")


def label_to_name(runs: Sequence[Mapping[str, Choice]], loop: str) -> str:
    """Return the label of a shared loop; empty if no run alone would be judged by one of another label."""
    label = next((label for run in runs if (label := run[loop].label)), "")
    judged = {one.label for run in runs for one in run.values() if one.judged and one.label}
    return label if judged - {label} else ""


_LEAST_PART = 0.1  # of the GPU time or of the time: a loop with less has no line
_OFTEN, _LEAST_PART_OFTEN = 20, 0.02  # a loop that comes so often needs less
_MOST_PARTS, _NUMBERS = 1000, 2**64  # of a step that are looked for; of what sequences launch
_LIGHT, _MOST = 0.2, 1.0  # weights, of 2: marked steps with little give way to a loop with half


def loops_of(whole: Capture, process: int, calls: ApiCalls, judged: str = "") -> list[Occurrences]:
    """Return the loops of a process, the one that is judged first; empty if nothing repeats.

    ``judged`` is a loop of ``choices`` that is judged before all others.
    """
    loops = _loops(whole, process, calls)
    if not judged or not loops or loops[0].loop == judged:
        return loops
    wanted = (one for one in (*loops, *_unlisted(whole, process, calls)) if one.loop == judged)
    if (first := next(wanted, None)) is None:
        return loops
    others = (one for one in loops if one.loop != judged and not _inside(first, one.start_ns).any())
    return _parted([first, *others])


def choices(
    whole: Capture, process: int, calls: ApiCalls, loops: Sequence[Occurrences]
) -> Mapping[str, Choice]:
    """Return each loop by which a process could be judged, by what tells it from others in each run."""
    weights = _Weights(calls)
    found = {one.loop: one for one in reversed((*loops, *_unlisted(whole, process, calls)))}
    return {loop: Choice(one.label, sum(weights.parts(one)), one is loops[0]) for loop, one in found.items()}


def _unlisted(whole: Capture, process: int, calls: ApiCalls) -> Iterator[Occurrences]:
    """Yield whatever repeats in a process, parts of steps and several steps together too."""
    yield from every_range(whole, process, calls)
    yield from every_sequence(whole, calls)


def _inside(one: Occurrences, times: NDArray[Any]) -> NDArray[Any]:
    """Mark the times among the own calls of an occurrence."""
    at = np.searchsorted(one.start_ns, times, "right") - 1
    ends = one.end_ns if one.own_end_ns is None else one.own_end_ns
    return (at >= 0) & (times < ends[at])


def _loops(whole: Capture, process: int, calls: ApiCalls) -> list[Occurrences]:
    """Return the loops of a process, the one that is judged first without a look at others.

    Steps that nsyswrap's hook marked are judged, then ranges of the program, then what repeats among the
    launches. What repeats before, between and after these are loops, too, if they hold a good part of the
    GPU time or of the time. The loop with most of both is judged, but ranges before what is unmarked.
    """
    marked, weights = marked_steps(whole, process, calls), _Weights(calls)
    found = [marked] if marked else repeated_ranges(whole, process, calls, weights.counts)
    found = found or [one for one in [repeated_sequence(whole, calls)] if one]
    if not found:
        return []
    every = _rejoined([*found, *_beside(whole, process, calls, found, weights)])
    beside = (one for one in every[len(found) :] if weights.counts(one) and not _is_part(one, every[0]))
    listed = [*every[: len(found)], *beside]
    first, *others = _parted(listed)
    others.sort(key=lambda one: -sum(weights.parts(one)))
    heavy = [one for one in others if len(one.start_ns) >= MANY and sum(weights.parts(one)) >= _MOST]
    if heavy and not marked and sum(weights.parts(first)) < _LIGHT:
        return [heavy[0], first, *(one for one in others if one is not heavy[0])]
    return [first, *others]


class _Weights:
    """The parts of a process' GPU time, and of its time from first to last call, that loops hold."""

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls
        self._gpu_ns = sums_before(calls.gpu_ns)
        self._span_ns = max(int(calls.end_ns.max() - calls.start_ns[0]), 1)

    def parts(self, one: Occurrences) -> tuple[float, float]:
        """Return the part of the GPU time that is launched in the usual occurrences, and that of the time."""
        first, last = self._rows(one)
        gpu = (self._gpu_ns[last] - self._gpu_ns[first])[~one.differs].sum() / max(int(self._gpu_ns[-1]), 1)
        return float(gpu), float((one.end_ns - one.start_ns)[~one.differs].sum() / self._span_ns)

    def counts(self, one: Occurrences) -> bool:
        """Return True if a loop has kernels, and holds enough of the GPU time or of the time."""
        kernels = sums_before(self._calls.code >= KERNEL_CODE)
        first, last = self._rows(one)
        least = _LEAST_PART_OFTEN if len(one.start_ns) >= _OFTEN else _LEAST_PART
        return bool((kernels[last] > kernels[first]).mean() >= _HALF and max(self.parts(one)) >= least)

    def worth(self, calls: ApiCalls, first: int, last: int) -> bool:
        """Return True if these calls next to each other hold enough of the GPU time or time for a loop."""
        time = int(calls.end_ns[first:last].max() - calls.start_ns[first]) / self._span_ns
        gpu = int(calls.gpu_ns[first:last].sum()) / max(int(self._gpu_ns[-1]), 1)
        return max(time, gpu) >= _LEAST_PART_OFTEN

    def _rows(self, one: Occurrences) -> tuple[NDArray[Any], NDArray[Any]]:
        start = self._calls.start_ns
        return np.searchsorted(start, one.start_ns), np.searchsorted(start, one.end_ns)


def _is_part(one: Occurrences, step: Occurrences) -> bool:
    """Return True if a step launches what this sequence does several times, and nothing else."""
    times = range(2, _MOST_PARTS)
    return bool(one.launches) and any(count * one.launches % _NUMBERS == step.launches for count in times)


def _rejoined(loops: Sequence[Occurrences]) -> list[Occurrences]:
    """Join sequences that start the same work: the host waits elsewhere, or other loops lie between."""
    alike: dict[object, list[Occurrences]] = {}
    for number, one in enumerate(loops):
        alike.setdefault(one.launches or -number, []).append(one)
    return [_joined(parts) if len(parts) > 1 else parts[0] for parts in alike.values()]


def _joined(loops: Sequence[Occurrences]) -> Occurrences:
    """Return the occurrences of several sequences as those of the first."""
    parts = sorted(loops, key=lambda one: int(one.start_ns[0]))
    own_ends = [one.end_ns if one.own_end_ns is None else one.own_end_ns for one in parts]
    return loops[0]._replace(
        start_ns=np.concatenate([one.start_ns for one in parts]),
        end_ns=np.concatenate([one.end_ns for one in parts]),
        differs=np.concatenate([one.differs for one in parts]),
        first_uses=np.concatenate([one.first_uses for one in parts]),
        own_end_ns=np.concatenate(own_ends),
    )


def _parted(loops: Sequence[Occurrences]) -> list[Occurrences]:
    """Return the loops; an occurrence ends with its own calls where those of another loop follow."""
    parted = []
    for one in loops:
        others = [other.start_ns for other in loops if other is not one]
        if one.own_end_ns is None or not others:
            parted.append(one)
            continue
        starts = np.sort(np.concatenate(others))
        follows = np.searchsorted(starts, one.own_end_ns) < np.searchsorted(starts, one.end_ns)
        ends = np.where(follows, one.own_end_ns, one.end_ns)
        parted.append(one._replace(end_ns=ends, differs=one.differs & ~follows))
    return parted


def _beside(
    whole: Capture, process: int, calls: ApiCalls, loops: list[Occurrences], weights: _Weights
) -> Iterator[Occurrences]:
    """Yield what repeats among the launches before, between and after the occurrences of other loops."""
    free = np.ones(len(calls.start_ns), bool)
    for one in loops:
        free &= ~_inside(one, calls.start_ns)
    edges = np.flatnonzero(np.diff(free, prepend=False, append=False))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if not weights.worth(calls, first, last):
            continue
        stretch = calls.of(np.arange(first, last))
        listed = repeated_ranges(whole, process, stretch, weights.counts, partial=True)
        if not listed and (sequence := repeated_sequence(whole, stretch)):
            listed = [sequence]
        yield from listed
        if listed:
            yield from _beside(whole, process, stretch, listed, weights)
