"""Draw charts as SVG: the styles of ``render.colors``, bars, and columns side by side.

Widths are percentages, so that a chart fits any screen. Columns have a logarithmic axis where they span more
than a decade.
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
_DECADE = 10
_LEAST = 1.5  # pixels of a column
_LETTERS = 13  # pixels that a text takes above its line


def hue_rules() -> str:
    """Return the CSS of the hues on a light and on a dark ground. Paper is light."""
    light, dark = (
        "".join(f"--hue-{number}:{hue[ground]};" for number, hue in enumerate(HUES)) for ground in (0, 1)
    )
    fills = "".join(f".hue-{number}{{fill:var(--hue-{number})}}" for number in range(len(HUES)))
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not(.printed){{{dark}}}}}\n{fills}\n"


def swatch(style: Style) -> Markup:
    """Return a small patch in this style, for a legend."""
    return element("svg", *filled(style, x="0", width="14", height="14"), class_="swatch", aria_hidden="true")


def filled(style: Style, **place: str) -> list[Markup]:
    """Return SVG rectangles in this style: the hue, and the texture over it.

    ``place`` has the attributes of the rectangle: x, y, width and height.
    """
    parts = [element("rect", class_=f"hue-{style.hue}", **place)]
    if style.texture:
        parts.append(element("rect", fill=f"url(#texture-{style.texture})", **place))
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
        place = {"x": f"{left:.3f}%", "width": f"{width:.3f}%", "height": _BAR_HEIGHT}
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
    place = {"width": f"{100 * share:.3f}%", "height": _BAR_HEIGHT}
    return element("svg", *filled(style, **place), class_="bar", aria_hidden="true")


class ColumnBar(NamedTuple):
    """A column: what it says, its time in ns, its shade, and attributes for scripts."""

    text: str
    time_ns: float
    shade: str
    data: Mapping[str, str]


class Scale(NamedTuple):
    """An axis from ``low`` to ``high``, the ends of the picture; logarithmic unless ``low`` is 0."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        """Return an axis from 0; from a power of ten if the values span more than a decade."""
        most, least = max(values, default=1.0) or 1.0, min((v for v in values if v > 0), default=1.0)
        if most < _DECADE * least:
            return cls(0.0, most)
        return cls(10.0 ** math.floor(math.log10(least) - 1e-9), most)

    def share(self, value: float) -> float:
        """Return the place of a value on the axis, from 0 to 1."""
        if not self.low:
            return value / self.high
        if value <= self.low:
            return 0.0
        return math.log(value / self.low) / math.log(self.high / self.low)

    @property
    def powers(self) -> list[float]:
        """The powers of ten on a logarithmic axis."""
        if not self.low:
            return []
        first = round(math.log10(self.low))
        return [10.0**power for power in range(first, math.floor(math.log10(self.high) + 1e-9) + 1)]


def columns_picture(title: str, columns: Sequence[ColumnBar], ends: tuple[str, str]) -> Markup:
    """Return the columns with the highest time above them; ``ends`` name the first and the last column."""
    scale = Scale.of([column.time_ns for column in columns])
    width = 100 / max(len(columns), 1)
    drawn = [_rule(scale, power) for power in scale.powers]
    for number, column in enumerate(columns):
        height = max(_HEIGHT * scale.share(column.time_ns), _LEAST)
        place = {"x": f"{number * width:.3f}%", "width": f"{width * 0.9:.3f}%"}
        place |= {"y": f"{_HEIGHT - height:.1f}", "height": f"{height:.1f}"}
        drawn.append(
            element(
                "g",
                element("title", column.text),
                element("rect", class_=column.shade, **place),
                **column.data,
            )
        )
    kind = f"logarithmic from {duration(scale.low)}" if scale.low else "from 0"
    caption = f"Highest: {duration(scale.high)}; axis {kind}."
    if any(column.shade != columns[0].shade for column in columns):
        caption += " Pale: warm-up, outlier or left out."
    drawn += filter(None, (_power(scale, power) for power in scale.powers))
    svg = element("svg", *drawn, class_="columns", height=str(_HEIGHT), role="img", aria_label=title)
    names = element("div", *(element("span", end) for end in ends), class_="ends-of", aria_hidden="true")
    figure = element("figure", element("figcaption", caption), svg, names)
    return element("div", element("h3", title), figure, class_="histogram stacked")


def _rule(scale: Scale, power: float) -> Markup:
    y = f"{_HEIGHT * (1 - scale.share(power)):.1f}"
    return element("line", x1="0", x2="100%", y1=y, y2=y, class_="rule")


def _power(scale: Scale, power: float) -> Markup | None:
    """Return the time of a line, over the columns; None where there is no room."""
    y = _HEIGHT * (1 - scale.share(power))
    if not _LETTERS < y < _HEIGHT - _LETTERS:
        return None
    return element("text", duration(power), x="100%", y=f"{y - 3:.1f}", class_="power")
