"""Find the steps that a program repeats, and tell its steady part from start-up and warm-up.

Steps are numbered from 0. A step begins where the one before it ends: when the GPU work launched in that
one is complete, and the host has begun the next. Occurrences are a repeated NVTX range, or the repeating
sequence of launches if no range repeats, or what the user names. Steps that the hook in the program marked
count before them, with their own numbers.

Warm-up steps are the leading ones that load something or launch it for the first time, that launch something
else than most, and up to ten that are unusually long. Outliers are later steps of more than 1.5 times the
median duration; of steps that grow or shrink all the time, the median of those around them. One or two very
long steps that launch something else than most part the program: then the steady part is the longest run of
steps between them. There is no steady part without three steady steps, or if the upper quartile of their
times is over five times the lower one without a trend, unless a few in a row always last as long together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, median, quantiles, sums_before
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.names import CLASSES, LOAD, call_classes, load_calls
from nsyswrap.analysis.steps.loops import (
    MARKED,
    Choice,
    choices,
    label_to_name,
    loops_of,
    marked_steps,
    shared_loop,
)
from nsyswrap.analysis.steps.occurrences import (
    ApiCalls,
    LoopLabel,
    Occurrences,
    calls_by_process,
    works_beside,
)
from nsyswrap.analysis.steps.repeated_range import named_range, range_names, too_little
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted, did_you_mean
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import LOADING_TYPES, PROCESS_MASK
from nsyswrap.capture.stream import one_of

_HALF = 0.5  # of the steps: a stream that works in fewer is background


@per_capture
def loading(whole: Capture, process: int) -> IntervalSet:
    """Return the time in which a process loaded or compiled, by its calls and by the overheads of CUDA."""
    fields = ("global_tid", "start_ns", "end_ns")
    parts = []
    if whole.has("api"):
        parts.append((whole.columns("api", *fields), call_classes(whole) == CLASSES.index(LOAD)))
    if whole.has("cuda_overhead"):
        events = whole.columns("cuda_overhead", *fields, "overhead_type")
        parts.append((events, one_of(events["overhead_type"], LOADING_TYPES)))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for events, loads in parts:
        rows = np.flatnonzero(loads)
        rows = rows[events["global_tid"][rows] & PROCESS_MASK == process]
        starts.append(events["start_ns"][rows])
        ends.append(events["end_ns"][rows])
    return union(np.concatenate(starts), np.concatenate(ends))


LEAST_STEPS = 3
_LONG = 1.5  # times the median duration
_LONGER = 1.1  # times the median duration: a first launch that costs
_MOST_LONG = 10  # leading steps that are warm-up because they are long alone
_MOST_OUTLIERS = 0.25  # of the steps: more of them are no exception
_WIDE = 5  # ratio of the upper to the lower quartile of steps that differ too much
_MOST_TURNS, _ALIKE = 8, 1.25  # steps in a row, and that ratio of their sums: they only differ in turn
_BREAK, _MOST_BREAKS = 20, 2  # times the median duration; more breaks than that are outliers
_BREAKS_PART = 0.01  # of the time of all steps: shorter breaks part nothing
_LOADING_PART = 0.1  # of the median step
_MANY_LOADS = 0.25  # of the steps after the leading ones: then loading is no warm-up
_LOOK_AHEAD = 2  # usual steps in a row that end the warm-up
_LEAST_TREND, _TREND, _STRONG = 12, 1.2, 0.9  # steps, ratio of its ends, and correlation of a trend
_AROUND = 10  # steps on each side of a running median
_CHOICE = regex(r"(?:(?P<name>.*)/)?(?P<first>\d+)(?:-(?P<last>\d+))?", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one process, in order and disjoint; times in ns.

    ``label`` says what repeats. ``steady`` marks the steps of the steady part, ``outlier`` the unusually long
    ones among them. ``warm_up`` counts the leading steps that are warm-up.
    ``why_none`` says why there is no steady part; it is None if there is one. ``remarks`` are what else
    readers must know about the steps. ``first`` is the number of the first step. ``others`` are the steps of
    the other loops of the process. ``loop`` tells what repeats from other loops, the same in each run.
    ``host_start_ns`` and ``host_ns`` are start and duration of each step's window on the host, in which its
    work is launched, ``runs_ahead_ns`` is the time from its end to the completion of that work.
    """

    global_pid: int
    label: LoopLabel
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    steady: NDArray[Any]
    outlier: NDArray[Any]
    why_none: Note | None = None
    warm_up: int = 0
    remarks: tuple[Note, ...] = ()
    first: int = 0
    others: tuple[Steps, ...] = ()
    loop: str = ""
    host_start_ns: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    host_ns: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    runs_ahead_ns: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def none(cls, global_pid: int, why: Note) -> Steps:
        """Return no steps."""
        times, marks = np.empty(0, np.int64), np.empty(0, bool)
        return cls(global_pid, LoopLabel(""), times, times, marks, marks, why)

    def __len__(self) -> int:
        """Return the number of all steps."""
        return len(self.start_ns)

    @property
    def has_steady(self) -> bool:
        """True if there is a steady part."""
        return self.why_none is None

    @property
    def duration_ns(self) -> NDArray[Any]:
        """The duration of each step in ns."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the steady part in ns. There must be one."""
        return int(self.start_ns[self.steady][0]), int(self.end_ns[self.steady][-1])

    @property
    def stretches(self) -> tuple[tuple[int, int], ...]:
        """Start and end in ns of each run of steady steps without a gap between them."""
        start, end = self.start_ns[self.steady], self.end_ns[self.steady]
        first = np.append(True, start[1:] > end[:-1])
        return tuple(zip(start[first].tolist(), end[np.append(first[1:], True)].tolist(), strict=True))

    def typical_for(self, number: int) -> tuple[float, NDArray[Any]]:
        """Return what a step like this one usually takes in ns, and mark the steady steps that tell.

        These are all steady steps, or those around it if steps grow or shrink all the time.
        """
        durations = self.duration_ns
        if not _trend(durations[self.steady]):
            return median(durations[self.steady]), self.steady
        near = self.steady & (np.abs(np.arange(len(self)) - number) <= _AROUND)
        return median(durations[near]), near


@per_capture
def steps_of(capture: Capture) -> tuple[Steps, ...]:
    """Return the steps of each process with GPU work, as the view chooses them.

    Raises NotInCapture if the view names steps that the capture lacks.
    """
    whole, (name, numbers) = capture.whole, parse_choice(capture.view.steps)
    found = []
    for process, calls, every in _loops_by_process(capture):
        loops = _named(whole, process, calls, every, name) if name else every
        if not loops:
            why = Note("no_such_range", {"name": name}) if name else _why_nothing(whole, process, calls)
            found.append(Steps.none(process, why))
            continue
        judged = _steps(whole, process, calls, loops[0], (name, numbers))
        others = () if name else tuple(_steps(whole, process, calls, loop, ("", None)) for loop in loops[1:])
        found.append(replace(judged, others=others, loop=loops[0].loop))
    if name and not any(len(steps) for steps in found):
        raise NotInCapture(
            f"no NVTX range named {name!r} holds GPU work",
            did_you_mean(name, range_names(whole))
            or "-r nvtx_sum lists the ranges; --steps NAME, --steps 10-13 or --steps NAME/10-13",
            source=capture.source,
        )
    if numbers and not any(steps.has_steady for steps in found):
        count, first = max(((len(steps), steps.first) for steps in found), default=(0, 0))
        raise NotInCapture(
            f"no steps {capture.view.steps}",
            f"the capture has {counted(count, 'steps')}, numbered from {first}",
            source=capture.source,
        )
    return tuple(found)


def _loops_by_process(capture: Capture) -> Iterator[tuple[int, ApiCalls, list[Occurrences]]]:
    """Yield each process with its calls and loops. All are judged by the loop that they share, if any."""
    whole, judged = capture.whole, capture.view.loop
    operations = gpu_operations_of(whole)
    launched = operations.call >= 0
    processes = list(
        dict.fromkeys(process for (process, _), rows in operations.rows_of.items() if launched[rows].any())
    )
    made = (
        (process, calls, loops_of(whole, process, calls, judged))
        for process, calls in calls_by_process(whole, processes)
    )
    if len(processes) < 2:  # noqa: PLR2004 - the loops of one process are its own
        yield from made
        return
    every = list(made)
    if len({loops[0].loop for _, _, loops in every if loops}) > 1:
        judged = shared_loop([choices(whole, *one) for one in every if one[-1]])
    for process, calls, loops in every:
        is_other = loops and judged not in ("", loops[0].loop)
        yield process, calls, loops_of(whole, process, calls, judged) if is_other else loops


@per_capture
def choices_of(capture: Capture) -> Mapping[str, Choice]:
    """Return the loops by which all processes of a capture could be judged, by what tells them apart."""
    of_process = [choices(capture.whole, *one) for one in _loops_by_process(capture) if one[-1]]
    return {
        loop: Choice(
            choice.label,
            sum(one[loop].weight for one in of_process) / len(of_process),
            any(one[loop].judged for one in of_process),
        )
        for loop, choice in (of_process[0] if of_process else {}).items()
        if all(loop in one for one in of_process)
    }


def judged_alike(captures: Sequence[Capture]) -> tuple[Sequence[Capture], str]:
    """Return views of equal runs, or of the ranks of a job, in which all are judged by the loop they share.

    The text is the label of that loop; it is empty if each has that label anyway, or if they share none.
    """
    if any(capture.view.selection.windowed for capture in captures):  # which is judged whole
        return captures, ""
    own = [{steps.loop for steps in steps_of(capture) if steps.loop} for capture in captures]
    if len(set().union(*own)) < 2:  # noqa: PLR2004 - all have the same
        return captures, ""
    chosen = [choices_of(capture) for capture, loops in zip(captures, own, strict=True) if loops]
    loop = shared_loop(chosen)
    if not loop:
        return captures, ""
    return [capture.viewed(loop=loop) for capture in captures], label_to_name(chosen, loop)


def _why_nothing(whole: Capture, process: int, calls: ApiCalls) -> Note:
    if (most := too_little(whole, process, calls)) is None:
        return Note("nothing_repeats", {})
    name, count, gpu, time = most
    return Note("holds_too_little", {"name": name, "is_twice": count < LEAST_STEPS, "gpu": gpu, "time": time})


def _named(
    whole: Capture, process: int, calls: ApiCalls, loops: Sequence[Occurrences], name: str
) -> list[Occurrences]:
    """Return what the user names: marked steps, ranges, or a loop by its label, as ``5 GPU operations``.

    A range that is a loop ends where the other loops begin, as on the screen that lists it.
    """
    marked = marked_steps(whole, process, calls) if name == MARKED else None
    if chosen := marked or named_range(whole, process, calls, name):
        same = (loop for loop in loops if np.array_equal(loop.start_ns, chosen.start_ns))
        return [next(same, chosen)]
    return [loop for loop in loops if name in (loop.label, loop.label.short)][:1]


def parse_choice(text: str) -> tuple[str, tuple[int, int] | None]:
    """Return the range name and the first and last step number of ``NAME``, ``10-13`` or ``NAME/10-13``.

    Raises UsageError if the last step is before the first.
    """
    match = _CHOICE.fullmatch(text)
    if not match:
        return text, None
    first = int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise UsageError(f"invalid --steps {text!r}: step {last} is before step {first}")
    return match["name"] or "", (first, last)


def _steps(
    whole: Capture,
    process: int,
    calls: ApiCalls,
    occurrences: Occurrences,
    choice: tuple[str, tuple[int, int] | None],
) -> Steps:
    (start, end, runs_ahead), (name, numbers) = step_spans(whole, calls, occurrences), choice
    steps = Steps(
        process,
        occurrences.label,
        start,
        end,
        steady=np.ones(len(start), bool),
        outlier=np.zeros(len(start), bool),
        first=occurrences.first,
        host_start_ns=occurrences.start_ns,
        host_ns=occurrences.end_ns - occurrences.start_ns,
        runs_ahead_ns=runs_ahead,
    )
    if numbers:
        number = np.arange(len(steps)) + steps.first
        steady = (number >= numbers[0]) & (number <= numbers[1])
        why = None if steady.any() else Note("fewer_steps", {"count": len(steps)})
        return replace(steps, steady=steady, why_none=why)
    if len(steps) < LEAST_STEPS and (occurrences.is_range or occurrences.is_marked):
        return steps
    durations = steps.duration_ns
    usual_ns = _usual_ns(durations, durations[len(durations) // 2 :], is_trend=bool(_trend(durations)))
    warm_up = _warm_up(whole, process, occurrences, durations / np.maximum(usual_ns, 1))
    steady = _between_breaks(occurrences, durations, warm_up)
    trend = _trend(durations[steady])
    chosen = bool(name or occurrences.is_marked or trend)
    usual = durations[steady & ~occurrences.differs]
    why = _why_unsteady(occurrences.label, durations[steady], usual, chosen=chosen)
    beside = occurrences.is_range and works_beside(whole, calls, occurrences)
    remarks = (
        [Note("work_beside", {"label": occurrences.label, "ranges": occurrences.beside})] if beside else []
    )
    if len(occurrences.turns) > 1:
        remarks.append(Note("several_updates", {"names": occurrences.turns}))
    if trend:
        remarks.append(Note("steps_grow", {"first_ns": trend[0], "last_ns": trend[1]}))
    outlier = _outliers(occurrences, durations, steady, is_trend=bool(trend))
    return replace(
        steps, steady=steady, outlier=outlier, why_none=why, warm_up=warm_up, remarks=tuple(remarks)
    )


def _why_unsteady(
    label: LoopLabel, durations: NDArray[Any], usual: NDArray[Any], *, chosen: bool
) -> Note | None:
    """Return why these steps are no steady part; None if they are one. What the user names may vary.

    ``usual`` are the durations of those that launch what most do: only these can differ in turn.
    """
    if len(durations) < LEAST_STEPS:
        return Note("too_few_steps", {"label": label})
    short, long = quantiles(durations, (0.25, 0.75))
    if chosen or long <= _WIDE * short or _differ_in_turn(durations, usual):
        return None
    return Note("steps_vary", {"label": label, "short_ns": short, "long_ns": long})


def _differ_in_turn(durations: NDArray[Any], usual: NDArray[Any]) -> bool:
    """Return True if some steps in a row always take as long together, wherever they begin.

    Two processes that load input deliver two batches at about the same time: the first one is waited for.
    """
    short, long = quantiles(usual, (0.25, 0.75)) if len(usual) else (0, 0)
    if long <= _WIDE * short:  # those that launch something else are long
        return False
    until = sums_before(durations)
    for count in range(2, min(_MOST_TURNS, len(durations) // LEAST_STEPS) + 1):
        short, long = quantiles(until[count:] - until[:-count], (0.25, 0.75))
        if long <= _ALIKE * short:
            return True
    return False


def _warm_up(whole: Capture, process: int, occurrences: Occurrences, ratio: NDArray[Any]) -> int:
    """Return the number of warm-up steps: the leading unusual ones, at most half of all.

    Those are unusual that load something, or launch it for the first time and last longer for it, and the
    first ones that are long: ``ratio`` has the times of the usual one. If many later steps load, too, the
    first one alone can be warm-up. None of up to three ranges is. The hook's steps with shapes are.
    """
    count = len(ratio)
    if occurrences.is_range and count <= LEAST_STEPS:
        return 0
    most, warm_up = count // 2, 0
    much, some = _loads(whole, process, occurrences)
    some &= some[most:].mean() <= _MANY_LOADS
    loads = (occurrences.first_uses | some) & (ratio > _LONGER) | much
    loads[0] |= occurrences.first_uses[0]
    long = (ratio > _LONG) & (np.arange(count) < _MOST_LONG)
    if (ratio[most:] > _LONG).mean() > _MOST_OUTLIERS:  # the later ones are long as often
        long[:] = False
    unusual = occurrences.differs | loads | long
    for number in np.flatnonzero(unusual).tolist():
        if number > warm_up + _LOOK_AHEAD - 1 or number >= most:
            break
        warm_up = number + 1
    many = warm_up < count and loads[warm_up:].mean() > _MANY_LOADS
    with_shapes = int(occurrences.differs.argmin()) if occurrences.is_marked else 0
    return max(with_shapes, min(int(loads[0]), warm_up) if warm_up >= most or many else warm_up)


def _loads(
    whole: Capture, process: int, occurrences: Occurrences
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the occurrences with much loading of modules or compiling of kernels, and those with any.

    Those with any load a module or a library: a compiler in the program comes before, which is host code.
    """
    start, end = occurrences.start_ns, occurrences.end_ns
    much = loading(whole, process).within(start, end) > _LOADING_PART * median(end - start)
    times = np.empty(0, np.int64)
    if whole.has("api"):
        api, rows = whole.columns("api", "start_ns", "global_tid"), load_calls(whole)
        times = np.sort(api["start_ns"][rows[api["global_tid"][rows] & PROCESS_MASK == process]])
    return much, np.searchsorted(times, end) > np.searchsorted(times, start)


def _usual_ns(durations: NDArray[Any], most: NDArray[Any], *, is_trend: bool) -> NDArray[Any]:
    """Return what each step usually takes in ns: the median of most, or of those around it with a trend."""
    if not is_trend:
        return np.full(len(durations), median(most))
    around = np.pad(durations, _AROUND, mode="edge")
    return np.median(sliding_window_view(around, 2 * _AROUND + 1), axis=1)  # type: ignore[no-any-return]


def _trend(durations: NDArray[Any]) -> tuple[float, float] | None:
    """Return what the first and the last steps take in ns if steps grow or shrink all the time."""
    if len(durations) < _LEAST_TREND:
        return None
    rank = durations.argsort(kind="stable").argsort(kind="stable")
    quarter = len(durations) // 4
    first, last = (median(part) for part in (durations[:quarter], durations[-quarter:]))
    if max(first, last) < _TREND * min(first, last):
        return None
    is_strong = abs(np.corrcoef(rank, np.arange(len(rank)))[0, 1]) >= _STRONG
    return (first, last) if is_strong else None


def _between_breaks(occurrences: Occurrences, durations: NDArray[Any], warm_up: int) -> NDArray[Any]:
    """Mark the steps after warm-up; if one or two long breaks part them, the last of the longest runs."""
    number = np.arange(len(durations))
    after = number >= warm_up
    breaks = np.flatnonzero(after & occurrences.differs & (durations > _BREAK * median(durations[after])))
    is_long = durations[breaks].sum() > _BREAKS_PART * durations[after].sum()
    if not (is_long and len(breaks) <= _MOST_BREAKS):
        return after
    edges = np.concatenate(([warm_up - 1], breaks, [len(number)]))
    longest = len(breaks) - int(np.diff(edges)[::-1].argmax())
    return (number > edges[longest]) & (number < edges[longest + 1])  # type: ignore[no-any-return]


def _outliers(
    occurrences: Occurrences, durations: NDArray[Any], steady: NDArray[Any], *, is_trend: bool
) -> NDArray[Any]:
    """Mark the steady steps that are unusually long, unless there are many or steps mean nothing."""
    outlier = steady & (not occurrences.single)
    if steady.any():
        outlier &= durations > _LONG * _usual_ns(durations, durations[steady], is_trend=is_trend)
    few = np.count_nonzero(outlier) <= _MOST_OUTLIERS * np.count_nonzero(steady)
    return outlier if few else np.zeros_like(outlier)


class StepSpans(NamedTuple):
    """Start and end of each step, and how long its GPU work goes on after its host window, all in ns."""

    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    runs_ahead_ns: NDArray[Any]


def step_spans(whole: Capture, calls: ApiCalls, occurrences: Occurrences) -> StepSpans:
    """Return the spans of the steps. Each begins where the one before it ends.

    A step ends when the GPU work launched in its occurrence is complete and the next occurrence begins; the
    last one, and one after which the program does something else, when its work is complete and its own call
    or range ends. The first one, and one after something else, begins with its occurrence, or when all that
    was launched before it is complete. So the steps of a host that runs ahead
    last as long as their GPU work, and those of a host that waits as long as its occurrences. Work of
    streams that work in fewer than half of the steps, as that of an asynchronous checkpoint, does not count;
    nor do copies on a stream of their own, if kernels are in half of the steps.
    """
    operations = gpu_operations_of(whole)
    launched = np.zeros(whole.count("api"), bool)
    launched[calls.row[calls.works]] = True
    rows = np.flatnonzero(operations.call >= 0)
    rows = rows[launched[operations.call[rows]]]
    start_ns, end_ns = occurrences.start_ns, occurrences.end_ns
    at = whole.columns("api", "start_ns")["start_ns"][operations.call[rows]]
    step = np.searchsorted(start_ns, at, "right") - 1
    inside = step >= 0
    inside[inside] = at[inside] < end_ns[step[inside]]
    stream, own = operations.stream[rows], operations.end_ns[rows]
    main = _main_streams(stream[inside], step[inside], operations.computes[rows[inside]], len(start_ns))
    counts = one_of(stream, main)
    complete = end_ns.copy()
    np.maximum.at(complete, step[inside & counts], own[inside & counts])
    after_gap = np.append(True, start_ns[1:] > end_ns[:-1])
    before = _complete_before(start_ns[after_gap], at[counts], own[counts])
    edges = np.maximum.accumulate(np.append(max(int(start_ns[0]), int(before[0])), complete))
    start, end = edges[:-1].copy(), edges[1:]
    start[after_gap] = np.maximum(start[after_gap], np.maximum(start_ns[after_gap], before))
    return StepSpans(start, np.maximum(start, end), complete - end_ns)


def _complete_before(times: NDArray[Any], at: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return when all work launched before each of these times is complete; 0 where there is none."""
    order = np.argsort(at, kind="stable")
    reached = np.append(0, np.maximum.accumulate(end[order]))
    return reached[np.searchsorted(at[order], times)]


def _main_streams(
    stream: NDArray[Any], step: NDArray[Any], computes: NDArray[Any], steps: int
) -> NDArray[Any]:
    """Return the streams that work in at least half of the steps: those with kernels, if there are any."""
    for which in (computes, np.ones(len(stream), bool)):
        pairs, _ = distinct(stream[which].astype(np.int64) * steps + step[which])
        streams, codes = distinct(pairs // steps)
        if (often := np.bincount(codes, minlength=len(streams)) >= _HALF * steps).any():
            return streams[often]
    return ascending(stream)
