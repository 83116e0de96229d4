"""Bars of SVG: widths are percentages, so that they fit any screen, and their words are text below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render.page.colors import Look, filled, swatch
from nsyswrap.render.page.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT = "22"


class Part(NamedTuple):
    """One part of a bar: its size, how that is written, and what it looks like."""

    name: str
    size: float
    text: str
    look: Look


def stacked(title: str, parts: Sequence[Part], longest: float) -> Markup:
    """Return one bar, its parts as a legend below it; a bar as long as ``longest`` is as wide as the page."""
    left, drawn = 0.0, []
    for part in parts:
        width = 100 * part.size / longest if longest else 0.0
        place = {"x": f"{left:.3f}%", "width": f"{width:.3f}%", "height": _HEIGHT}
        drawn.append(element("g", element("title", f"{part.name}: {part.text}"), *filled(part.look, **place)))
        left += width
    said = f"{title}: {', '.join(f'{part.name} {part.text}' for part in parts)}"
    svg = element("svg", *drawn, class_="bar", role="img", aria_label=said)
    return element("div", element("h3", title), svg, legend(parts), class_="stacked")


def legend(parts: Sequence[Part]) -> Markup:
    """Return what the hues and textures stand for, with the figures."""
    return element(
        "ul",
        *(element("li", swatch(part.look), part.name, " ", element("b", part.text)) for part in parts),
        class_="legend",
    )


def single(share: float, look: Look) -> Markup:
    """Return a bar of one part, from 0 to 1 of its room."""
    place = {"width": f"{100 * share:.3f}%", "height": _HEIGHT}
    return element("svg", *filled(look, **place), class_="bar", aria_hidden="true")
