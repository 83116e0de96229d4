"""Choose which loops of a process have steps, and which of them is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.nvtx_ranges import marks_named, range_labels
from nsyswrap.analysis.range_texts import MODULES_DOMAIN, SHAPES_END
from nsyswrap.analysis.steps.launch_sequence import every_sequence, repeated_sequence
from nsyswrap.analysis.steps.occurrences import KERNEL_CODE, MANY, ApiCalls, LoopLabel, Occurrences
from nsyswrap.analysis.steps.repeated_range import every_range, repeated_ranges
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_START_END, PROCESS_MASK
from nsyswrap.capture.stream import one_of

_STEP = re.compile(r"step (\d+)@nsyswrap")
_LEAST = 3  # steps without shapes
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
    return Occurrences(
        LoopLabel.of_range(MARKED),
        start,
        ends,
        differs=_with_shapes(whole, process, ends),
        first_uses=np.searchsorted(firsts, ends) > np.searchsorted(firsts, start),
        first=int(number[0]),
        is_marked=True,
    )


def _with_shapes(whole: Capture, process: int, ends: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the first steps, with shapes of operations, which cost time; none if few others are left."""
    events = whole.columns("nvtx", "start_ns", "global_tid")
    marks = marks_named(whole, SHAPES_END, MODULES_DOMAIN)
    times = events["start_ns"][marks[events["global_tid"][marks] & PROCESS_MASK == process]]
    differs: NDArray[np.bool_] = ends <= (times.min() if len(times) else 0)
    return differs & (np.count_nonzero(~differs) >= _LEAST)


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
_HALF = 0.5  # of the occurrences have a kernel
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
    return _parted([first, *(one for one in loops if one.loop != judged and not _overlap(first, one))])


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


def _overlap(one: Occurrences, other: Occurrences) -> bool:
    """Return True if occurrences of the other loop begin among the own calls of some of the one."""
    return bool(_inside(one, other.start_ns).any())


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
        self._gpu_ns = np.append(0, np.cumsum(calls.gpu_ns))
        self._span_ns = max(int(calls.end_ns.max() - calls.start_ns[0]), 1)

    def parts(self, one: Occurrences) -> tuple[float, float]:
        """Return the part of the GPU time that is launched in the usual occurrences, and that of the time."""
        first, last = self._rows(one)
        gpu = (self._gpu_ns[last] - self._gpu_ns[first])[~one.differs].sum() / max(int(self._gpu_ns[-1]), 1)
        return float(gpu), float((one.end_ns - one.start_ns)[~one.differs].sum() / self._span_ns)

    def counts(self, one: Occurrences) -> bool:
        """Return True if a loop has kernels, and holds enough of the GPU time or of the time."""
        kernels = np.append(0, np.cumsum(self._calls.code >= KERNEL_CODE))
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
