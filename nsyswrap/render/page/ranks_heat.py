"""Heat maps: a table whose cells are shaded by how much they hold, with the figures in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render.page.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SHADES = 7


class Cell(NamedTuple):
    """What a cell shows, its unrounded value, how dark it is (None: nothing is known), and what it means."""

    text: str
    value: float | None
    shade: int | None
    said: str


def shade(part: float, whole: float) -> int:
    """Return the shade of a part: 0, the palest, for nothing; the darkest for the whole."""
    return min(int(part / whole * SHADES), SHADES - 1) if whole else 0


def heat(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[Cell]]) -> Markup:
    """Return a heat map of a row per rank."""
    names = (element("th", name, scope="col") for name in ("Rank", *columns))
    body = (
        element("tr", element("th", label, scope="row"), *map(_cell, cells)) for label, cells in rows.items()
    )
    caption = element("caption", title, class_="unseen")
    head = element("thead", element("tr", *names))
    grid = element("table", caption, head, element("tbody", *body), class_="heat")
    return element("div", grid, class_="wide-picture", tabindex="0", role="region", aria_label=title)


def scale(name: str, texts: Iterable[str]) -> Markup:
    """Return what the shades stand for, the palest first."""
    patches = (element("li", _patch(number), text) for number, text in enumerate(texts))
    return element("ul", element("li", name), *patches, class_="legend")


def _cell(cell: Cell) -> Markup:
    value = "" if cell.value is None else repr(cell.value)
    shown = "" if cell.shade is None else f"shade-{cell.shade}"
    return element("td", cell.text, class_=shown, title=cell.said, data_value=value)


def _patch(number: int) -> Markup:
    rect = element("rect", class_=f"shade-{number}", width="14", height="14")
    return element("svg", rect, class_="swatch", aria_hidden="true")
