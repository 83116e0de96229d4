"""The conclusion of a comparison in sentences: slower or not, where the time went, and what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nsyswrap.analysis.compare.judgement import is_about_the_clock
from nsyswrap.analysis.compare.model import (
    FEWEST_RUNS,
    RECOMMENDED_RUNS,
    Comparison,
    Judgement,
    Key,
    Outcome,
    Pair,
)
from nsyswrap.analysis.steps.occurrences import is_range
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted, first_of, printable, shorten_all
from nsyswrap.base.units import duration
from nsyswrap.reports.compare.tables import (
    PERCENT,
    arrow,
    aside_texts,
    change_percent,
    detail,
    each_ns,
    interval,
    percent,
    step_cost_ns,
)
from nsyswrap.reports.figures import SentenceFigure
from nsyswrap.reports.wording.comparisons import obstacle_text
from nsyswrap.reports.wording.notes import joined, note_text

# Totals in the order in which they speak for a run without steps.
_TOTALS = ("first to last GPU operation", "GPU busy time", "kernel time", "program time")
_LITTLE = 0.01  # of the base: no cause of such a difference is named
_ALL, _NEARLY = 1.0, 0.05  # of the difference
_MOST = 0.5  # of the difference: "most of it"
_SOME = 0.1  # of the difference: no cause is named below
_WAITS = "Synchronize"  # calls that take as long as what they wait for
_LONGEST = 120  # characters of a value of an obstacle
_MORE_RUNS = (
    f"For a verdict make {FEWEST_RUNS} runs a side, better {RECOMMENDED_RUNS}: "
    f"nsyswrap compare --run {RECOMMENDED_RUNS} -- COMMAND... -- COMMAND..."
)
_WORDS: dict[Outcome, str] = {
    "slower": "Slower",
    "faster": "Faster",
    "cannot tell": "Cannot tell",
    "clock": "Slower by the clock alone",
}


@dataclass(frozen=True)
class Conclusion:
    """The verdict of a comparison in sentences.

    ``pair`` is the row that speaks for the run; None if there is none. ``heading`` and ``figures`` are the
    verdict, ``more`` its cause and what to do. The heading is empty if there is nothing to judge.
    ``counts``: what is counted, before any time. ``marks`` are the figures in ``figures`` that have a key.
    """

    outcome: Outcome
    pair: Pair | None
    heading: str
    figures: str
    more: tuple[str, ...]
    counts: tuple[str, ...]
    marks: tuple[SentenceFigure, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict in a sentence, its cause, and what to do."""
        return (f"{self.heading}: {self.figures}" if self.heading else self.figures, *self.more)


def conclude(comparison: Comparison, names: Mapping[Key, str]) -> Conclusion:
    """Return the conclusion. ``names`` has the name that people read for each row."""
    pair = headline(comparison)
    counts = (*_counts(comparison, names), *_other_steps(comparison))
    if pair is None:
        return Conclusion("not judged", None, *_nothing_common(comparison), (), counts)
    aside = "; ".join(aside_texts(pair))
    more = [
        _cause(comparison, pair, names),
        _tally(comparison, pair, names),
        _next(comparison, pair),
        f"{aside[0].upper()}{aside[1:]}" if aside else "",
    ]
    verdict = _verdict(comparison, pair)
    return Conclusion(pair.judgement.outcome, pair, *verdict, tuple(filter(None, more)), counts, _marks(pair))


def _nothing_common(comparison: Comparison) -> tuple[str, str]:
    """Return why the sides have no time in common, with a heading."""
    work = [pair for pair in comparison.pairs if pair.key.group in ("kernel", "copy")]
    for side, has_work in (
        (comparison.base, any(not pair.is_added for pair in work)),
        (comparison.new, any(not pair.is_removed for pair in work)),
    ):
        if not has_work:
            return f"No GPU work in {printable(side.name)}", "nsyswrap doctor says why"
    return "", "No row is in the runs of both sides."


def left_out_texts(comparison: Comparison) -> list[str]:
    """Return the runs that are not compared, a text each, with the side and the reason."""
    return [
        printable(f"{which}: {run.named}")
        for which, side in (("base", comparison.base), ("new", comparison.new))
        for run in side.left_out
    ]


def obstacle_texts(comparison: Comparison) -> list[str]:
    """Return what the sides differ in, a text each. Long values are shortened where they are equal."""
    return [
        obstacle_text(one, lambda values: shorten_all([*map(printable, values)], _LONGEST))
        for one in comparison.obstacles
    ]


def headline(comparison: Comparison) -> Pair | None:
    """Return the row that speaks for the run: the steps with most time, else the time of the run."""
    steps = [pair for pair in comparison.of("step") if not pair.is_added and not pair.is_removed]
    if steps:
        return max(steps, key=lambda pair: pair.base_total_ns)
    totals = [pair for pair in comparison.of("total") if not pair.is_added and not pair.is_removed]
    ranks = {name: number for number, name in enumerate(_TOTALS)}
    return min(
        totals, key=lambda pair: (ranks.get(pair.key.name, len(ranks)), -pair.base_total_ns), default=None
    )


def title(pair: Pair) -> str:
    """Return what a headline row is the time of."""
    if pair.key.group == "step":
        label = pair.key.name
        return f"step {label}" if is_range(label) else f"step ({label})"
    return pair.key.name


def _verdict(comparison: Comparison, pair: Pair) -> tuple[str, str]:
    """Return the heading of the verdict and its figures."""
    judged, tolerance = pair.judgement, f"{comparison.limits.max_slower * PERCENT:g} %"
    change = change_percent(pair)
    figures = f"{title(pair)} {arrow(*map(duration, each_ns(pair)))}"
    figures += f", {percent(change / PERCENT)} %" if change is not None else ""
    figures += f" (between {interval(judged).replace(' to ', ' and ')})" if interval(judged) else ""
    figures += f"; {joined(judged.why)}" if judged.why else ""
    if judged.outcome == "same":
        return f"Same within {tolerance}", figures
    if judged.outcome == "cannot tell" and (sure := _direction(judged, comparison.limits.max_slower)):
        return f"{sure}, but cannot tell if by more than {tolerance}", figures
    if judged.outcome != "not judged":
        is_faster = judged.outcome == "clock" and (judged.ratio or 1.0) < 1
        return "Faster by the clock alone" if is_faster else _WORDS[judged.outcome], figures
    if len(comparison.base.runs) == len(comparison.new.runs) == 1:
        return "One run a side cannot tell noise from change", figures
    return "No verdict", figures + (
        f"; {note_text(comparison.no_verdicts)}" if comparison.no_verdicts else ""
    )


def _marks(pair: Pair) -> tuple[SentenceFigure, ...]:
    """Return the figures of a headline row: the time of a step or a run on both sides, and the change."""
    key = "steps.mean_ns" if pair.key.group == "step" else "run.total_ns"
    base, new = each_ns(pair)
    before, _, after = arrow(duration(base), duration(new)).partition(" → ")
    marks = [SentenceFigure(f"base.{key}", base, f"{before} →"), SentenceFigure(f"new.{key}", new, after)]
    change = change_percent(pair)
    if change is not None:
        marks.append(SentenceFigure("change_percent", change, f"{percent(change / PERCENT)} %"))
    return tuple(marks)


def _direction(judged: Judgement, tolerance: float) -> str:
    """Return in which direction the time changed for sure, if it is the tolerance that is undecided."""
    if judged.low is not None and 1 < judged.low <= 1 + tolerance:
        return "Slower"
    return "Faster" if judged.high is not None and 1 / (1 + tolerance) <= judged.high < 1 else ""


def _cause(comparison: Comparison, head: Pair, names: Mapping[Key, str]) -> str:
    """Return the row that made most of the difference; empty if there is no difference to explain."""
    if head.judgement.outcome in ("same", "clock"):
        return ""
    by_step, whole = _difference(head)
    if not whole:
        return ""
    unit = " a step" if by_step else " a run"
    part, cost = largest_part(comparison, head)
    if part is not None:
        what = _named(part, names)
        if cost / whole > _ALL - _NEARLY:
            begin = "Largest part" if cost / whole > _ALL + _NEARLY else "Nearly all of it"
            return f"{begin}: {what}: {signed(cost)}{unit}"
        begin = "Most of it" if cost / whole >= _MOST else "Largest part"
        return f"{begin}: {what}: {signed(cost)} of {signed(whole)}{unit}"
    calls = [pair for pair in comparison.of("api") if _WAITS not in pair.key.name]
    part, cost = _largest(calls, whole, by_step=by_step)
    if part is None or cost / whole < _SOME:
        return ""
    return f"Largest difference of CUDA calls: {names[part.key]}: {signed(cost)}{unit}"


def largest_part(comparison: Comparison, head: Pair) -> tuple[Pair | None, float]:
    """Return the kernel, copies or idle time with most of the headline's difference, and its part in ns.

    None if there is no difference to explain, or no part of it is large enough.
    """
    by_step, whole = _difference(head)
    part, cost = _largest(_parts(comparison), whole, by_step=by_step) if whole else (None, 0.0)
    return (part, cost) if part is not None and cost / whole >= _SOME else (None, 0.0)


def _difference(head: Pair) -> tuple[bool, float]:
    """Return whether a headline row is of steps, and its difference in ns; 0 if that is too little."""
    base, new = each_ns(head)
    by_step = head.key.group == "step"
    whole = new - base if by_step else head.cost_ns
    little = abs(whole) <= _LITTLE * (base if by_step else head.base_total_ns)
    return by_step, 0.0 if little else whole


def _largest(pairs: Sequence[Pair], whole: float, *, by_step: bool) -> tuple[Pair | None, float]:
    """Return the row with the largest cost in the direction of ``whole``, and this cost in ns."""
    costs = {pair.key: (step_cost_ns(pair) or 0.0) if by_step else pair.cost_ns for pair in pairs}
    largest = max(pairs, key=lambda pair: costs[pair.key] / whole, default=None)
    return largest, costs[largest.key] if largest else 0.0


def _parts(comparison: Comparison) -> list[Pair]:
    """Return the rows that can be the cause: kernels, copies in time of their own, and idle time."""
    causes = [pair for pair in comparison.of("budget") if not pair.key.name.endswith("_kernel")]
    return [*comparison.of("kernel"), *causes]


def _named(pair: Pair, names: Mapping[Key, str]) -> str:
    name = names[pair.key]
    if pair.key.group == "kernel":
        state = "added" if pair.is_added else "removed" if pair.is_removed else ""
        more = [detail(pair), "renamed" if pair.is_renamed else state]
        return ", ".join(filter(None, (f"kernel {name}", *more)))
    return f"GPU idle, {name}" if pair.key.name.startswith("idle_") else name


def _tally(comparison: Comparison, head: Pair, names: Mapping[Key, str]) -> str:
    """Return how many other rows have which outcome, and the slower and faster one that counts most.

    Empty if none was judged.
    """
    same_steps = head.key.group != "step" or head.base_count == head.new_count
    others = [
        pair for pair in comparison.pairs if pair is not head and (same_steps or pair.key.group != "total")
    ]
    words: dict[Outcome, str] = {"slower": "slower", "faster": "faster"}
    words |= {"clock": "changed by the clock alone", "same": "the same", "cannot tell": "cannot tell"}
    counted = []
    for outcome, word in words.items():
        of_it = [pair for pair in others if pair.judgement.outcome == outcome]
        first = max(of_it, key=lambda pair: abs(pair.cost_ns), default=None)
        most = ""
        if first is not None and outcome in ("slower", "faster", "clock"):
            change = change_percent(first)
            most = f"{_of_group(first, names)}{'' if change is None else f', {percent(change / PERCENT)} %'}"
            most = f" ({'above all ' if len(of_it) > 1 else ''}{most})"
        counted += [f"{len(of_it):,} {word}{most}"] if of_it else []
    return f"Other rows: {', '.join(counted)}" if counted else ""


def _of_group(pair: Pair, names: Mapping[Key, str]) -> str:
    """Return a row by its group and name."""
    what = {"module": "module ", "api": "call ", "copy": "copy ", "range": "range ", "step": "step "}.get(
        pair.key.group, ""
    )
    return f"{what}{_named(pair, names)}"


def _next(comparison: Comparison, pair: Pair) -> str:
    """Return what would decide a comparison that is undecided."""
    more = pair.judgement.more_runs
    if more:
        return f"{counted(more, 'more runs')} a side would probably tell"
    if pair.judgement.outcome == "cannot tell":
        if is_about_the_clock(pair.judgement):
            return "More runs will not tell: make the runs of both sides at the same clock."
        return "More runs would probably not tell: the change is too close to the tolerance for this noise."
    few = min(len(comparison.base.runs), len(comparison.new.runs)) < FEWEST_RUNS
    return _MORE_RUNS if pair.judgement.outcome == "not judged" and few else ""


def _counts(comparison: Comparison, names: Mapping[Key, str]) -> Iterable[str]:
    kernels = comparison.of("kernel")
    base, new = sum(pair.base_count for pair in kernels), sum(pair.new_count for pair in kernels)
    if not kernels:
        yield "No kernels on either side"
        return
    if base == new:
        yield f"Launches: {base:,.0f} on both sides"
    else:
        share = f" ({percent(new / base - 1)} %)" if base else ""
        yield f"Launches: {base:,.0f} → {new:,.0f}{share}"
    renamed = [pair for pair in kernels if pair.is_renamed]
    yield from _of_kind("added", [pair for pair in kernels if pair.is_added], names)
    yield from _of_kind("removed", [pair for pair in kernels if pair.is_removed], names)
    if renamed:
        pairs = [
            f"{names.get(p.renamed_from, p.renamed_from.name)} → {names[p.key]}"
            for p in renamed
            if p.renamed_from
        ]
        yield f"{counted(len(renamed), 'kernels')} probably renamed: {_some(pairs)}"
    if relaunched := [pair for pair in kernels if pair.is_relaunched]:
        shapes = [f"{names[pair.key]} {detail(pair)}" for pair in relaunched]
        yield f"{counted(len(relaunched), 'kernels')} with another grid or block: {_some(shapes)}"
    other = [p for p in kernels if not p.is_added and not p.is_removed and p.base_count != p.new_count]
    if other:
        counts = [f"{names[p.key]} {p.base_count:,.0f} → {p.new_count:,.0f}" for p in other]
        yield f"{counted(len(other), 'kernels')} with another number of launches: {_some(counts)}"


def _other_steps(comparison: Comparison) -> Iterable[str]:
    """Yield that the sides have steps, but none of the same label."""
    steps = comparison.of("step")
    base, new = ([p for p in steps if p.is_removed], [p for p in steps if p.is_added])
    for pair in steps:
        if pair.renamed_from:
            yield f"Steps, taken as the same: {pair.renamed_from.name} → {pair.key.name}"
    if base and new and len(base) + len(new) == len(steps):
        labels = " → ".join(_some([pair.key.name for pair in part]) for part in (base, new))
        yield f"Steps with other labels: {labels}; so the whole run is compared"


def _of_kind(kind: str, pairs: Sequence[Pair], names: Mapping[Key, str]) -> Iterable[str]:
    if pairs:
        yield f"{counted(len(pairs), 'kernels')} {kind}: {_some([names[pair.key] for pair in pairs])}"


def _some(texts: Sequence[str]) -> str:
    return first_of(list(dict.fromkeys(texts)))


def signed(ns: float) -> str:
    """Return a difference of times with its sign."""
    return f"{'+' if ns > 0 else '-' if ns < 0 else ''}{duration(abs(ns))}"
