"""Draw bars as SVG. Widths are percentages, so that a bar fits any screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render.page.colors import filled, swatch
from nsyswrap.render.page.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.render.colors import Style

_HEIGHT = "22"  # in pixels


class Part(NamedTuple):
    """One part of a bar: its size, the size as text, and its style."""

    name: str
    size: float
    text: str
    style: Style


def stacked_bar(title: str, parts: Sequence[Part], longest: float) -> Markup:
    """Return a bar with a legend below it. A bar of size ``longest`` is as wide as the page."""
    left, drawn = 0.0, []
    for part in parts:
        width = 100 * part.size / longest if longest else 0.0
        place = {"x": f"{left:.3f}%", "width": f"{width:.3f}%", "height": _HEIGHT}
        drawn.append(
            element("g", element("title", f"{part.name}: {part.text}"), *filled(part.style, **place))
        )
        left += width
    label = f"{title}: {', '.join(f'{part.name} {part.text}' for part in parts)}"
    svg = element("svg", *drawn, class_="bar", role="img", aria_label=label)
    return element("div", element("h3", title), svg, _legend(parts), class_="stacked")


def _legend(parts: Sequence[Part]) -> Markup:
    return element(
        "ul",
        *(element("li", swatch(part.style), part.name, " ", element("b", part.text)) for part in parts),
        class_="legend",
    )


def single_bar(share: float, style: Style) -> Markup:
    """Return a bar of one part. ``share`` is the filled part of its width, from 0 to 1."""
    place = {"width": f"{100 * share:.3f}%", "height": _HEIGHT}
    return element("svg", *filled(style, **place), class_="bar", aria_hidden="true")
