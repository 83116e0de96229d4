"""The parts of a step or of a run that both sides spend time on: kernels, copies, and idle time by cause.

They do not overlap much, so that together they explain how a step or a run changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render.comparison_names import short_names
from nsyswrap.reports.compare.tables import change_percent, detail, interval, percent, step_cost_ns, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.analysis.compare.model import Comparison, Key, Pair

_SIGNS = {"slower": "▲", "faster": "▼", "lower clock": "◆"}
_PERCENT = 100.0
_SEEN = 0.01  # of the largest difference


class Interval(NamedTuple):
    """The ends of the interval of a difference in ns."""

    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class ChangedPart:
    """A part and its times in ns, in a step or in a run. ``interval`` is that of the difference.

    ``verdict`` is a key of a picture's styles; ``text`` says the relative change and the verdict.
    """

    name: str
    detail: str
    base_ns: float
    new_ns: float
    interval: Interval | None
    verdict: str
    text: str

    @property
    def cost_ns(self) -> float:
        """New minus base."""
        return self.new_ns - self.base_ns


@dataclass(frozen=True)
class Parts:
    """The parts that differ, those that cost most first; ``unit`` is what they are times of: step or run."""

    unit: str
    parts: tuple[ChangedPart, ...]

    def largest(self, most: int) -> tuple[ChangedPart, ...]:
        """Return at most so many parts, without those too small to be seen beside the largest."""
        least = _SEEN * max((abs(part.cost_ns) for part in self.parts), default=0.0)
        return tuple(part for part in self.parts[:most] if abs(part.cost_ns) >= least)


def parts_of(comparison: Comparison) -> Parts:
    """Return the parts of a step, or of a run if a side has no steps."""
    by_step = has_steps(comparison)
    names = short_names(comparison)
    pairs = {pair.key: pair for pair in (*comparison.of("kernel"), *_others(comparison, by_step=by_step))}
    renamed = {pair.renamed_from for pair in pairs.values() if pair.renamed_from}
    parts = [
        _part(pair, pairs.get(pair.renamed_from, pair) if pair.renamed_from else pair, names, by_step=by_step)
        for pair in pairs.values()
        if pair.key not in renamed
    ]
    known = [part for part in parts if part is not None and part.cost_ns]
    known.sort(key=lambda part: -abs(part.cost_ns))
    return Parts("step" if by_step else "run", tuple(known))


def _others(comparison: Comparison, *, by_step: bool) -> list[Pair]:
    causes = [pair for pair in comparison.of("budget") if not pair.key.name.endswith("_kernel")]
    return causes if causes or by_step else list(comparison.of("copy"))


def times_by_cause(pair: Pair, *, by_step: bool) -> tuple[float, float]:
    """Return the time of a cause on both sides in ns, in a step or in a run."""
    if by_step:
        return pair.base_per_step_ns or 0.0, pair.new_per_step_ns or 0.0
    return pair.base_total_ns, pair.new_total_ns


def has_steps(comparison: Comparison) -> bool:
    """Return True if the time by cause is that of a step, not that of a run."""
    return any(pair.new_per_step_ns is not None for pair in comparison.of("budget"))


def _part(pair: Pair, old: Pair, names: Mapping[Key, str], *, by_step: bool) -> ChangedPart | None:
    """Return the part; ``old`` has the times of the base, those of another name if it was renamed."""
    if by_step and step_cost_ns(pair) is None:
        return None
    base = (old.base_per_step_ns or 0.0) if by_step else old.base_total_ns
    new = (pair.new_per_step_ns or 0.0) if by_step else pair.new_total_ns
    word = verdict(pair)
    name = f"GPU idle: {names[pair.key]}" if pair.key.name.startswith("idle_") else names[pair.key]
    text = _text(pair, word) if old is pair else f"probably renamed from {names[old.key]}"
    return ChangedPart(name, detail(pair), base, new, _interval(pair, base), _style_key(word), text)


def _interval(pair: Pair, base_ns: float) -> Interval | None:
    """Return the interval of the difference; None if the number of launches differs too."""
    judged = pair.judgement
    if judged.low is None or judged.high is None or pair.base_count != pair.new_count:
        return None
    return Interval(base_ns * (judged.low - 1), base_ns * (judged.high - 1))


def _style_key(word: str) -> str:
    if word in ("added", "removed", "renamed?"):
        return "added or removed"
    return word if word in ("slower", "faster", "same", "cannot tell", "lower clock") else "no verdict"


def _text(pair: Pair, word: str) -> str:
    """Return the verdict, and the change with its interval."""
    change = change_percent(pair)
    counts = (
        f"{pair.base_count:,.0f} → {pair.new_count:,.0f} launches"
        if pair.key.group == "kernel"
        and pair.base_count != pair.new_count
        and word not in ("added", "removed")
        else ""
    )
    within = f" ({interval(pair.judgement)})" if interval(pair.judgement) else ""
    amount = f"{percent(change / _PERCENT)} % each{within}" if change is not None and counts else ""
    if change is not None and not counts:
        amount = f"{percent(change / _PERCENT)} %{within}"
    head = f"{_SIGNS[word]} {word}" if word in _SIGNS else word
    return ", ".join(filter(None, (head, amount, counts)))
