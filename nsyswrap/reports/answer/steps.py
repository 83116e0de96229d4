"""Start-up, warm-up and outlier steps in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from nsyswrap.analysis.answer import Answer, OtherLoop, Outlier
from nsyswrap.analysis.steps.label import LoopLabel
from nsyswrap.analysis.steps.numbered import family
from nsyswrap.base.text import counted, printable, shorten
from nsyswrap.base.units import duration
from nsyswrap.reports.answer.line import AnswerLine, Kind, first_fitting, room, whole_percent
from nsyswrap.reports.wording.states import state_name

_LOADING_PART = 0.01  # of the start-up: less loading is not said
_MOST_PERCENT = 90  # of the GPU time: what is left is not said
_MOST_LOOPS = 3  # beside the one that is judged
_FEW = 5  # outliers that are listed by number
_FIRST = 3  # numbers of many outliers
_LEAST_PART = 0.05  # of the extra time: a state with less is not named
_ALL = 1.05  # of the extra time: states that have more do not explain it


def start_up_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield how long the start-up took, and which warm-up steps and how much GPU time are left out."""
    if answer.steps is None or answer.start_up is None:
        return
    start_up, warm_up = answer.start_up, answer.steps.warm_up
    parts = [counted(warm_up, "warm-up steps")] if warm_up else []
    if answer.steps.gpu_percent < _MOST_PERCENT:
        parts.append(f"{whole_percent(100 - answer.steps.gpu_percent)} of GPU time")
    left_out = f"{', '.join(parts)} left out" if parts else ""
    if not start_up.duration_ns:
        if left_out:
            yield AnswerLine(left_out, "fact")
        return
    first = f"step {answer.steps.first:,}" if answer.steps.first else "the first step"
    first = "the first loop" if any(loop.before for loop in answer.other_loops) else first
    text = f"Start-up: {duration(start_up.duration_ns)} before {first}"
    loading = ""
    if start_up.loading_ns > _LOADING_PART * start_up.duration_ns:
        loading = f", {duration(start_up.loading_ns)} of it loading modules"
    end = f"; {left_out}" if left_out else ""
    texts = [f"{text}{loading}{end}", f"{text}{loading.removesuffix(' modules')}{end}", f"{text}{end}"]
    yield AnswerLine(first_fitting(texts, room("fact")), "fact")


def repeated(count: int, label: LoopLabel, steps: str = "repeated steps") -> str:
    """Return how often something repeats: a range or an optimizer step, or a sequence of GPU operations."""
    return f"{counted(count, steps)} of" if label.kind == "work" else f"{count:,} x"


def loop_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield a line for each other loop of the program, those with most time first; variants have one line."""
    families: dict[object, list[OtherLoop]] = {}
    for loop in sorted(answer.other_loops, key=lambda loop: -loop.count * loop.mean_ns):
        is_name = loop.label.kind == "range"  # numbers in other labels are of operations
        families.setdefault(family(loop.label) if is_name else id(loop), []).append(loop)
    shown = list(families.values())[:_MOST_LOOPS]
    for loops in shown:
        yield _variants_line(loops) if len(loops) > 1 else _loop_line(loops[0])
    if more := len(answer.other_loops) - sum(map(len, shown)):
        yield AnswerLine(f"{more} more loops", "fact")


def _loop_line(loop: OtherLoop) -> AnswerLine:
    label = printable(loop.label.short)
    each = f", {duration(loop.mean_ns)} each"
    busy = f": GPU busy {whole_percent(loop.busy_percent)}"
    total = f" ({duration(loop.count * loop.mean_ns)})"
    before = f"Another loop: {repeated(loop.count, loop.label)} "
    columns = room("fact") - len(before) - len(each) - len(busy)
    texts = [f"{before}{label}{each}{total}{busy}", f"{before}{shorten(label, columns)}{each}{busy}"]
    return AnswerLine(first_fitting(texts, room("fact")), "fact")


def _variants_line(loops: Sequence[OtherLoop]) -> AnswerLine:
    """Return the line of loops whose names differ in numbers alone."""
    means = [loop.mean_ns for loop in loops]
    each = f", {duration(min(means))} to {duration(max(means))} each"
    total = f" ({duration(sum(loop.count * loop.mean_ns for loop in loops))})"
    before, label = f"Other loops: {len(loops)} variants ", printable(family(loops[0].label))
    columns = room("fact") - len(before) - len(each)
    texts = [f"{before}{label}{each}{total}", f"{before}{shorten(label, columns)}{each}"]
    return AnswerLine(first_fitting(texts, room("fact")), "fact")


def outlier_lines(answer: Answer, kind: Kind = "fact") -> Iterator[AnswerLine]:
    """Yield which steps are unusually long, by how much, and what fills them."""
    if answer.steps is None or not answer.steps.outliers:
        return
    outliers = answer.steps.outliers
    longer_ns = sum(one.duration_ns - one.usual_ns for one in outliers) / len(outliers)
    which = _which(outliers, answer.steps.count)
    text = f"{which} take{'s' if len(outliers) == 1 else ''} {duration(longer_ns)} longer"
    filled: dict[str, int] = {}
    for outlier in outliers:
        for state, ns in outlier.filled_ns.items():
            filled[state] = filled.get(state, 0) + ns
    most = sorted(filled, key=lambda state: -filled[state])[:2]
    mean = "" if len(outliers) == 1 else " on average"
    named = [state for state in most if filled[state] >= _LEAST_PART * longer_ns * len(outliers)]
    parts = [f"{state_name(state)} {duration(filled[state] / len(outliers))}" for state in named]
    if sum(filled[state] for state in named) > _ALL * longer_ns * len(outliers):
        parts = []
    texts = [f"{text}{mean}: {', '.join(parts[:count])}" for count in range(len(parts), 0, -1)]
    if kind == "detail":  # the finding above has the numbers
        they = f"Outliers take {duration(longer_ns)} longer{mean}"
        texts += [f"{they}: {', '.join(parts[:count])}" for count in range(len(parts), 0, -1)]
    texts += [f"{text}: mostly {state_name(state)}" for state in most[:1]]
    yield AnswerLine(first_fitting([*texts, text], room(kind)), kind, "warning")


def _which(outliers: Sequence[Outlier], total: int) -> str:
    numbers = [outlier.number for outlier in outliers]
    if len(numbers) == 1:
        return f"Outlier: step {numbers[0]:,}"
    apart = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and len(apart) == 1 and 1 not in apart:  # noqa: PLR2004 - two numbers are no rhythm
        return f"Outliers: every {apart.pop():,} steps from step {numbers[0]:,} on ({len(numbers):,})"
    if len(numbers) <= _FEW:
        return f"Outliers: steps {', '.join(f'{number:,}' for number in numbers)}"
    return f"Outliers: {len(numbers):,} of {total:,} steps ({', '.join(map(str, numbers[:_FIRST]))}, …)"
