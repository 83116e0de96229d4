"""What grew and what shrank: a bar for each part of the step, or of the run, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import duration
from nsyswrap.render.colors import VERDICTS
from nsyswrap.render.comparison import parts_of
from nsyswrap.render.page.colors import filled, swatch
from nsyswrap.render.page.html import Markup, Section, element, section
from nsyswrap.reports.compare.conclusion import signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.render.comparison import ChangedPart

_MOST = 16  # bars
_MIDDLE, _HALF = 50.0, 47.0  # percent of the width; the longest bar or interval is as wide as the half
_TIMES = {"step": "Mean times of a steady step."}


def make(comparison: Comparison) -> Markup | None:
    """Return the bars, those that cost most first; None if nothing differs."""
    found = parts_of(comparison)
    shown = found.largest(_MOST)
    if not shown:
        return None
    longest = max(abs(end) for part in shown for end in _ends(part))
    verdicts = [name for name in VERDICTS if name in {part.verdict for part in shown}]
    more = len(found.parts) - len(shown)
    return section(
        "growth",
        "What grew and shrank",
        element("p", _TIMES.get(found.unit, f"Times of a {found.unit}."), class_="note"),
        element(
            "ul",
            *(element("li", swatch(VERDICTS[name]), name) for name in verdicts),
            element("li", "line: interval of the difference")
            if any(part.interval for part in shown)
            else None,
            class_="legend",
        ),
        element("p", "← less time", element("span", "more time →"), class_="directions", aria_hidden="true"),
        element("div", *(_bar(part, longest) for part in shown), class_="bars grown"),
        element("p", f"Smaller differences: {more:,}, in the tables below.", class_="note")
        if more > 0
        else None,
    )


def _ends(part: ChangedPart) -> tuple[float, ...]:
    return (part.cost_ns, *(part.interval or ()))


def _bar(part: ChangedPart, longest: float) -> Markup:
    before, after = duration(part.base_ns), duration(part.new_ns)
    return element(
        "div",
        element(
            "span",
            part.name,
            element("span", part.detail, class_="note block") if part.detail else None,
            class_="label",
        ),
        element("svg", *_drawn(part, longest), class_="bar", aria_hidden="true"),
        element(
            "span",
            element("b", signed(part.cost_ns)),
            f" · {before} → {after}",
            element("span", part.text, class_=f"block {part.verdict}") if part.text else None,
            class_="value",
        ),
    )


def _drawn(part: ChangedPart, longest: float) -> Iterator[Markup]:
    scale = _HALF / longest
    left, width = _MIDDLE + min(part.cost_ns, 0) * scale, abs(part.cost_ns) * scale
    yield from filled(VERDICTS[part.verdict], x=f"{left:.3f}%", y="3", width=f"{width:.3f}%", height="16")
    if part.interval:
        low, high = (f"{_MIDDLE + end * scale:.3f}%" for end in part.interval)
        yield element("line", x1=low, x2=high, y1="11", y2="11", class_="whisker")
        for end in (low, high):
            yield element("line", x1=end, x2=end, y1="7", y2="15", class_="whisker")
    yield element("line", x1=f"{_MIDDLE}%", x2=f"{_MIDDLE}%", y1="0", y2="22", class_="zero")


SECTION = Section("growth", "What grew and shrank", make)
