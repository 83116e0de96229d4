"""The parts of a step or of a run that both sides spend time on: kernels, copies, and idle time by cause.

They do not overlap much, so that together they explain how a step or a run changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.comparison_names import short_names
from nsyswrap.render.row_names import row_names
from nsyswrap.reports.compare.tables import change_percent, detail, interval, percent, step_cost_ns, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.analysis.compare.model import Comparison, Key, Pair
    from nsyswrap.render.colors import Style

_SIGNS = {"slower": "▲", "faster": "▼", "lower clock": "◆"}
_PERCENT = 100.0
_SEEN = 0.01  # of the largest difference
_MOST_CAUSES = 9  # the rest is one more
_SMALL = 0.005  # of the longer step or run: such causes are put together


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


class Cause(NamedTuple):
    """What the GPU did, or why it was idle, and its times in ns on both sides, in a step or in a run."""

    name: str
    is_idle: bool
    style: Style
    base_ns: float
    new_ns: float

    @property
    def most_ns(self) -> float:
        """The longer one of both times."""
        return max(self.base_ns, self.new_ns)


def causes_of(comparison: Comparison) -> list[Cause]:
    """Return the time of both sides by cause: work before idle time, the longest first, then the rest."""
    pairs = comparison.of("budget")
    names, by_step = row_names(pair.key for pair in pairs), has_steps(comparison)
    found = [_cause(pair, names[pair.key], by_step=by_step) for pair in pairs]
    every = sorted((cause for cause in found if cause.most_ns > 0), key=lambda cause: -cause.most_ns)
    longest = max(sum(cause.base_ns for cause in every), sum(cause.new_ns for cause in every))
    shown = [cause for cause in every[:_MOST_CAUSES] if cause.most_ns >= _SMALL * longest]
    rest = every[len(shown) :]
    shown.sort(key=lambda cause: cause.is_idle)
    if rest:
        both = (sum(cause.base_ns for cause in rest), sum(cause.new_ns for cause in rest))
        shown.append(Cause("the rest", False, REST, *both))  # noqa: FBT003 - a field
    return shown


def _cause(pair: Pair, name: str, *, by_step: bool) -> Cause:
    is_idle = pair.key.name.startswith("idle_")
    times = (pair.base_total_ns, pair.new_total_ns)
    if by_step:
        times = (pair.base_per_step_ns or 0.0, pair.new_per_step_ns or 0.0)
    return Cause(f"idle: {name}" if is_idle else name, is_idle, state_color(pair.key.name), *times)


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
