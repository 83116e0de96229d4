"""The steps of both sides, one above the other, as bars split by what the GPU did and why it was idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import duration
from nsyswrap.render.comparison import causes_of, has_steps
from nsyswrap.render.page.bars import Part, stacked_bar
from nsyswrap.render.page.html import Section, element, section
from nsyswrap.reports.compare.conclusion import signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.render.comparison import Cause
    from nsyswrap.render.page.html import Markup


def make(comparison: Comparison) -> Markup | None:
    """Return a bar for each side; None without causes."""
    causes = causes_of(comparison)
    if not causes:
        return None
    return section(
        "step",
        "Time by cause",
        element(
            "p",
            f"{'The mean steady step' if has_steps(comparison) else 'One run'} of both sides, on one scale: "
            "first what the GPU did, then why it was idle.",
            class_="note",
        ),
        _bar("Base", causes, 0),
        _bar("New", causes, 1),
    )


def _bar(title: str, causes: Sequence[Cause], side: int) -> Markup:
    """Return the bar of a side, 0 or 1."""
    both = [(cause.base_ns, cause.new_ns) for cause in causes]
    parts = [
        Part(cause.name, times[side], _text(side, *times), cause.style)
        for cause, times in zip(causes, both, strict=True)
    ]
    longest = max(map(sum, zip(*both, strict=True)))
    return stacked_bar(f"{title}: {duration(sum(part.size for part in parts))}", parts, longest)


def _text(side: int, base: float, new: float) -> str:
    """Return the time; on the new side with the difference if it can be read."""
    before, after = duration(base), duration(new)
    return f"{after} ({signed(new - base)})" if side and before != after else (before, after)[side]


SECTION = Section("step", "Time by cause", make)
