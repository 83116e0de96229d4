"""Draw times side by side as SVG columns; a logarithmic axis where they span more than a decade."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.units import duration
from nsyswrap.render.page.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEIGHT = 90  # in pixels
_DECADE = 10
_LEAST = 1.5  # pixels of a column
_LETTERS = 13  # pixels that a text takes above its line


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
