"""The steps of both sides, one above the other, as bars split by what the GPU did and why it was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.base.units import duration
from nsyswrap.render.colors import REST, state_color
from nsyswrap.render.comparison_parts import has_steps, times_by_cause
from nsyswrap.render.page.bars import Part, stacked_bar
from nsyswrap.render.page.html import Section, element, section
from nsyswrap.render.row_names import row_names
from nsyswrap.reports.compare.conclusion import signed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.analysis.compare.model import Comparison, Key
    from nsyswrap.render.page.html import Markup

_MOST = 9  # parts; the rest is one more
_SMALL = 0.005  # of the longer step: such parts are put together
_REST = "the rest"
_IDLE = "idle_"


def make(comparison: Comparison) -> Markup | None:
    """Return a bar for each side; None without causes."""
    by_step = has_steps(comparison)
    every = {pair.key: times_by_cause(pair, by_step=by_step) for pair in comparison.of("budget")}
    times = {key: both for key, both in every.items() if max(both) > 0}
    if not times:
        return None
    longest = max(map(sum, zip(*times.values(), strict=True)))
    large = sorted(times, key=lambda key: -max(times[key]))[:_MOST]
    seen = [key for key in large if max(times[key]) >= _SMALL * longest]
    seen.sort(key=lambda key: (key.name.startswith(_IDLE), -max(times[key])))
    bars = _Bars(times, seen, row_names(times), longest)
    return section(
        "step",
        "Time by cause",
        element(
            "p",
            f"{'The mean steady step' if by_step else 'One run'} of both sides, on one scale: "
            "first what the GPU did, then why it was idle.",
            class_="note",
        ),
        bars.draw("Base", 0),
        bars.draw("New", 1),
    )


@dataclass(frozen=True)
class _Bars:
    """Both bars: the times of all rows, those that are parts of their own, and names."""

    times: Mapping[Key, tuple[float, float]]
    shown: Sequence[Key]
    names: Mapping[Key, str]
    longest: float

    def draw(self, title: str, side: int) -> Markup:
        """Return the bar of a side, 0 or 1."""
        parts = [
            Part(
                _name(key, self.names),
                self.times[key][side],
                _text(side, *self.times[key]),
                state_color(key.name),
            )
            for key in self.shown
        ]
        rest = [both for key, both in self.times.items() if key not in self.shown]
        if rest:
            base, new = (sum(both[number] for both in rest) for number in (0, 1))
            parts.append(Part(_REST, (base, new)[side], _text(side, base, new), REST))
        return stacked_bar(f"{title}: {duration(sum(part.size for part in parts))}", parts, self.longest)


def _name(key: Key, names: Mapping[Key, str]) -> str:
    return f"idle: {names[key]}" if key.name.startswith(_IDLE) else names[key]


def _text(side: int, base: float, new: float) -> str:
    """Return the time; on the new side with the difference if it can be read."""
    before, after = duration(base), duration(new)
    return f"{after} ({signed(new - base)})" if side and before != after else (before, after)[side]


SECTION = Section("step", "Time by cause", make)
