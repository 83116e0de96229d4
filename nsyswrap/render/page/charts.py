"""Draw charts as SVG: the styles of ``render.colors``, bars, and columns side by side.

Widths are percentages, so that a chart fits any screen. Axes are linear and begin at 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base.units import duration
from nsyswrap.render.colors import CROSS, DOTS, GRID, HUES, LINES, STRIPES, Style
from nsyswrap.render.page.html import Markup, element

_BAR_HEIGHT = "22"  # in pixels
_HEIGHT = 90  # in pixels
_WIDTH = 1000  # of a strip, in its own units
_GAP = 0.1  # of a column
_LABEL_HEIGHT = 13  # in pixels, of the lengths over the columns that are cut
_LABEL = 7  # percent of the width that such a length takes at most
_MOST_TICKS = 6
_MS = 1_000_000


def hue_rules() -> str:
    """Return the CSS of the hues on a light and on a dark ground. Paper is light."""
    light, dark = (
        "".join(f"--hue-{number}:{hue[ground]};" for number, hue in enumerate(HUES)) for ground in (0, 1)
    )
    fills = "".join(f".hue-{number}{{fill:var(--hue-{number})}}" for number in range(len(HUES)))
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not(.printed){{{dark}}}}}\n{fills}\n"


def swatch(style: Style | None) -> Markup:
    """Return a small patch in this style, for a legend; None is pale."""
    return element("svg", *filled(style, x="0", width="14", height="14"), class_="swatch", aria_hidden="true")


def filled(style: Style | None, **attributes: str) -> list[Markup]:
    """Return SVG rectangles in this style: the hue, and the texture over it. None is pale.

    ``attributes`` has the attributes of the rectangle: x, y, width and height.
    """
    if style is None:
        return [element("rect", class_="pale", **attributes)]
    parts = [element("rect", class_=f"hue-{style.hue}", **attributes)]
    if style.texture:
        parts.append(element("rect", fill=f"url(#texture-{style.texture})", **attributes))
    return parts


def textures() -> Markup:
    """Return the SVG patterns that filled rectangles refer to. A page needs them once."""
    stripes = element("path", d="M-1,5 L5,-1 M-1,1 L1,-1 M3,5 L5,3", class_="ink")
    dots = element("circle", cx="2", cy="2", r="1.1", class_="inked")
    lines = element("path", d="M0,1 H4", class_="ink")
    grid = element("path", d="M0,1 H4 M1,0 V4", class_="ink")
    cross = element("path", d="M-1,5 L5,-1 M-1,-1 L5,5", class_="ink")
    sizes = {"width": "4", "height": "4", "patternUnits": "userSpaceOnUse"}
    patterns = (
        element("pattern", shape, id=f"texture-{number}", **sizes)
        for number, shape in ((STRIPES, stripes), (DOTS, dots), (LINES, lines), (GRID, grid), (CROSS, cross))
    )
    return element("svg", element("defs", *patterns), class_="unseen", aria_hidden="true")


class BarPart(NamedTuple):
    """One part of a bar: its size, the size as text, and its style; None is pale."""

    name: str
    size: float
    text: str
    style: Style | None


def stacked_bar(title: str, parts: Sequence[BarPart], longest: float) -> Markup:
    """Return a bar with a legend below it. A bar of size ``longest`` is as wide as the page."""
    left, drawn = 0.0, []
    for part in parts:
        width = 100 * part.size / longest if longest else 0.0
        place = {"x": f"{left:.3f}%", "width": f"{width:.3f}%", "height": _BAR_HEIGHT}
        drawn.append(
            element("g", element("title", f"{part.name}: {part.text}"), *filled(part.style, **place))
        )
        left += width
    listed = ", ".join(f"{part.name} {part.text}" for part in parts)
    svg = element("svg", *drawn, class_="bar", role="img", aria_label=f"{title}: {listed}".lstrip(": "))
    heading = element("h3", title) if title else None
    return element("div", heading, svg, _legend(parts), class_="stacked")


def _legend(parts: Sequence[BarPart]) -> Markup:
    return element(
        "ul",
        *(element("li", swatch(part.style), part.name, " ", element("b", part.text)) for part in parts),
        class_="legend",
    )


def single_bar(share: float, style: Style) -> Markup:
    """Return a bar of one part. ``share`` is the filled part of its width, from 0 to 1."""
    place = {"width": f"{100 * share:.3f}%", "height": _BAR_HEIGHT}
    return element("svg", *filled(style, **place), class_="bar", aria_hidden="true")


class ChartColumn(NamedTuple):
    """A column of a strip: what it says, its length and that of its layers in ns, and its mark if it is odd.

    ``data`` are attributes for scripts. ``before`` names what begins before it; empty for nothing.
    """

    text: str
    length_ns: float
    layers_ns: Sequence[float]
    mark: str
    data: Mapping[str, str]
    before: str = ""


class Layer(NamedTuple):
    """A layer of all columns of a strip: its name, and its style; None is pale."""

    name: str
    style: Style | None


def ticks(most: float) -> list[float]:
    """Return the round values of a linear axis from 0 to ``most``, at most five, without 0."""
    step = 10.0 ** math.floor(math.log10(max(most, 1.0)))
    step *= next((part for part in (0.2, 0.5, 1.0) if most / (part * step) < _MOST_TICKS), 2.0)
    return [number * step for number in range(1, int(most / step * (1 + 1e-9)) + 1)]


def strip(
    title: str, columns: Sequence[ChartColumn], layers: Sequence[Layer], most_ns: float, height: int = _HEIGHT
) -> Markup:
    """Return columns side by side on a linear axis from 0 to ``most_ns``, this many pixels high.

    A longer column is cut, and its length stands over it. Odd ones are outlined. What begins before a column
    is a dashed line.
    """
    lengths = _cut(columns, most_ns)
    top = _LABEL_HEIGHT if lengths else 0
    height -= top
    width, scale = _WIDTH / max(len(columns), 1), height / max(most_ns, 1)
    gap = min(width * _GAP, 3.0)
    outlines: dict[str, list[str]] = {}
    for number, column in enumerate(columns):
        left, ground = number * width, float(height)
        for layer, part in enumerate(column.layers_ns):
            high = min(part * scale, ground)
            box = f"M{left:.1f} {ground - high:.1f}h{width - gap:.1f}V{ground:.1f}H{left:.1f}z"
            ground -= high
            if high > 0:
                outlines.setdefault(f"{layer}", []).append(box)
        if column.mark:
            ground = height - min(column.length_ns * scale, height)
            box = f"M{left:.1f} {ground:.1f}h{width - gap:.1f}V{height}H{left:.1f}z"
            outlines.setdefault(mark_class(column.mark), []).append(box)
    drawn = [part for number, layer in enumerate(layers) for part in _layer(layer, outlines.get(f"{number}"))]
    marks = dict.fromkeys(mark_class(column.mark) for column in columns if column.mark)
    drawn += [element("path", d="".join(outlines[mark]), class_=mark) for mark in marks]
    lines = "".join(f"M{n * width:.1f} 0V{height}" for n, one in enumerate(columns) if one.before)
    drawn += [element("path", d=lines, class_="before")] if lines else []
    places = (
        {"x": f"{n * width:.1f}", "width": f"{width:.1f}", "height": str(height)} for n in range(len(columns))
    )
    drawn += [
        element("g", element("title", one.text), element("rect", **place), **one.data)
        for one, place in zip(columns, places, strict=True)
    ]
    frame = {"viewBox": f"0 0 {_WIDTH} {height}", "preserveAspectRatio": "none"}
    inner = element("svg", *drawn, width="100%", height=str(height), y=str(top), **frame)
    size = {"height": str(top + height), "role": "img"}
    svg = element("svg", inner, *lengths, class_="columns", aria_label=title, **size)
    return element("div", _axis(most_ns, height, top), svg, class_="plot")


def mark_class(mark: str) -> str:
    """Return the CSS classes of an outline with this mark."""
    return f"odd {mark}"


def _layer(layer: Layer, outlines: Sequence[str] | None) -> list[Markup]:
    if not outlines:
        return []
    path = "".join(outlines)
    if layer.style is None:
        return [element("path", d=path, class_="pale")]
    parts = [element("path", d=path, class_=f"hue-{layer.style.hue}")]
    if layer.style.texture:
        parts.append(element("path", d=path, fill=f"url(#texture-{layer.style.texture})"))
    return parts


def _axis(most_ns: float, height: int, top: int) -> Markup:
    """Return the times of a linear axis, beside the picture."""
    places = ((time, max(height * (1 - time / most_ns) + top + 4, 9)) for time in ticks(most_ns))
    texts = (element("text", f"{time / _MS:g} ms", x="100%", y=f"{y:.1f}") for time, y in places)
    return element("svg", *texts, class_="y-axis", height=str(top + height), aria_hidden="true")


def _cut(columns: Sequence[ChartColumn], most_ns: float) -> list[Markup]:
    """Return an arrow over each column that is cut, and its length beside the arrow, where it has room."""
    places = {
        100 * (number + 0.5) / len(columns): column.length_ns
        for number, column in enumerate(columns)
        if column.length_ns > most_ns
    }
    texts, free = [], 0.0
    for (x, length), following in zip(places.items(), [*places, 200.0][1:], strict=True):
        before = x > 100 - _LABEL  # at the right end the length stands before the arrow
        room = x - free if before else following - x
        text = f"{duration(length)} ↑" if before else f"↑ {duration(length)}"
        shown = {"x": f"{x:.2f}%", "y": "10", "text_anchor": "end" if before else "start"}
        texts.append(element("text", text if room >= _LABEL else "↑", class_="cut", **shown))
        free = x if before or room < _LABEL else x + _LABEL
    return texts


def strip_legend(layers: Sequence[Layer], marks: Mapping[str, str], notes: Sequence[str]) -> Markup:
    """Return the legend of a strip: its layers, what is said of each mark, and notes."""
    items = [element("li", swatch(layer.style), layer.name) for layer in layers]
    for mark, text in marks.items():
        outline = element("rect", x="1", y="1", width="12", height="12", class_=mark_class(mark))
        items.append(element("li", element("svg", outline, class_="swatch", aria_hidden="true"), text))
    more = (element("li", note, class_="note") for note in notes)
    return element("ul", *items, *more, class_="legend")
