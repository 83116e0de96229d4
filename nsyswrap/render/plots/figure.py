"""The figure that plots draw on: the same look and the same bytes every time, whatever the user's settings.

It does not use pyplot: nothing is kept, no window opens, and the user's own figures stay as they are. Text is
literal, in characters that the font has, and cut to the room there is. Points on logarithmic axes that fall
on one spot become one point, darker the more there are.
"""

from __future__ import annotations

import io
import re
import textwrap
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import bidirectional

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.base.text import clip, shorten_all
from nsyswrap.base.units import Unit, human
from nsyswrap.render.formats.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray


SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"  # both come with matplotlib
SMALL = 8.0  # points
_ADVANCE = 0.603  # width of a character of MONO in its size
_POINTS_PER_IN = 72
_SUBPIXELS = 64  # in which FreeType measures
_NOTE_COLUMNS = 150
_FROM_THE_RIGHT = ("R", "AL", "AN")
_TITLE_NAME = 44

Format = Literal["png", "svg", "pdf"]
WIDTH_IN = 8.0
GREY = "#555555"
NAMES: dict[str, Any] = {"family": MONO, "fontsize": SMALL}  # how names out of a capture are written
_SCREEN_DPI, _FILE_DPI = 100, 200
_EDGE_IN, _TITLE_IN, _NOTE_IN, _LEGEND_IN = 0.1, 0.22, 0.13, 0.22  # of a line
_TITLE_SIZE = 11.5
_LEFT, _LEGEND_COLUMNS, _LABEL = 0.012, 4, 24
_DECADE, _FEW_DECADES = 10.0, 100.0  # from the least to the most
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_LOOK: dict[str, Any] = {
    "font.family": [SANS],
    "font.size": 9,
    "text.parse_math": False,  # a name may hold dollars
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "svg.hashsalt": "nsyswrap",  # else ids in it are random
}
# What would tell one run's bytes from the next one's.
_UNDATED: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}

_SPOTS_PER_DECADE = 80  # about a pixel each on a screen
_MANY = 2000  # spots that a vector file holds as a picture
_AREA, _FAINTEST, _SINGLE = 9.0, 0.2, 0.6  # of a spot: square points, and how opaque it is


def columns_in(width_in: float, size: float = SMALL) -> int:
    """Return how many characters of MONO fit into so many inches."""
    return int(width_in * _POINTS_PER_IN / (size * _ADVANCE))


def fitted(names: Sequence[str | None], columns: int) -> list[str]:
    """Shorten names to so many characters; different ones stay different."""
    return shorten_all([drawable(name or "(no name)") for name in names], columns)


def for_title(name: str | None) -> str:
    """Return a name short enough for a sentence."""
    return fitted([name], _TITLE_NAME)[0]


def drawable(text: str) -> str:
    """Write what the fonts have no glyph for, and what moves the pen or turns its direction, as escapes."""
    return "".join(
        letter if ord(letter) in _glyphs() else letter.encode("unicode_escape").decode()
        for letter in printable(text)
    )


def title_lines(text: str, width_in: float, size: float) -> str:
    """Break a title where the sheet ends; a single word is never that long."""
    font = FT2Font(findfont(FontProperties(family=SANS, weight="bold")))
    font.set_size(size, _POINTS_PER_IN)
    lines = [""]
    for word in drawable(text).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        font.set_text(longer)
        if font.get_width_height()[0] / _SUBPIXELS <= width_in * _POINTS_PER_IN:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def note_lines(notes: Iterable[str]) -> str:
    """Return notes as small print, each on lines of its own."""
    return "\n".join(textwrap.fill(drawable(note), _NOTE_COLUMNS) for note in notes)


def tick(text: str) -> str:
    """Take the zeros off a round figure: ``1.00 µs`` is 1 µs."""
    return re.sub(r"\.0+(?= )", "", text)


@cache
def _glyphs() -> frozenset[int]:
    sans, mono = (frozenset(FT2Font(findfont(family)).get_charmap()) for family in (SANS, MONO))
    return frozenset(code for code in sans & mono if bidirectional(chr(code)) not in _FROM_THE_RIGHT)


class Sheet(Figure):
    """A figure that a notebook shows, be matplotlib set up for it or not."""

    def _repr_png_(self) -> bytes:
        return content(self, "png", _SCREEN_DPI)


@contextmanager
def look() -> Iterator[None]:
    """Draw with these settings, and leave the user's as they were."""
    with style.context(_LOOK, after_reset=True):
        yield


def sheet(
    body_in: float, title: str, notes: Iterable[str] = (), colors: Mapping[str, str] | None = None
) -> Sheet:
    """Return a sheet with room for axes of so many inches of height.

    Above them stands what is seen, below what the colours mean, by label, and what to know of it all.
    """
    heading, small_print, colors = (
        title_lines(title, WIDTH_IN * (1 - 2 * _LEFT), _TITLE_SIZE),
        note_lines(notes),
        colors or {},
    )
    top = _EDGE_IN + _TITLE_IN * (heading.count("\n") + 1)
    said = _EDGE_IN + (_NOTE_IN * (small_print.count("\n") + 1) if small_print else 0)
    bottom = said + _LEGEND_IN * -(-len(colors) // _LEGEND_COLUMNS)
    height = top + body_in + bottom
    body = (0, bottom / height, 1, body_in / height)
    figure = Sheet(figsize=(WIDTH_IN, height), dpi=_SCREEN_DPI, layout=ConstrainedLayoutEngine(rect=body))
    figure.text(_LEFT, 1 - _EDGE_IN / height, heading, va="top", fontsize=_TITLE_SIZE, fontweight="bold")
    if small_print:
        figure.text(_LEFT, said / height, small_print, va="top", fontsize=7, color=GREY)
    if colors:
        _legend(figure, colors, bottom / height)
    return figure


def _legend(figure: Sheet, colors: Mapping[str, str], top: float) -> None:
    handles = [
        Patch(color=color, label=f" {clip(drawable(label), _LABEL)}") for label, color in colors.items()
    ]
    made = figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, top), ncols=_LEGEND_COLUMNS, borderaxespad=0
    )
    made.set_in_layout(False)


def content(figure: Figure, form: Format, dpi: int = _FILE_DPI) -> bytes:
    """Return the figure as the content of a file."""
    out = io.BytesIO()
    with look():
        figure.savefig(out, format=form, dpi=dpi, metadata=_UNDATED[form])
    return out.getvalue()


def time_axis(axis: Axis, longest_ns: float, what: str) -> None:
    """Label a linear axis of ns in the unit that suits the longest time on it."""
    scale, label = next((pair for pair in _SCALES if longest_ns >= pair[0]), _SCALES[-1])
    axis.set_major_locator(MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    axis.set_label_text(f"{what} ({label})", x=0, ha="left")


def log_axis(axes: Axes, name: Literal["x", "y"], unit: Unit, what: str) -> None:
    """Make an axis logarithmic, its ticks with their units; what it is to show has to be there already."""
    axes.set(**{f"{name}scale": "log"})
    axis: Axis = getattr(axes, f"{name}axis")
    low, high = axis.get_view_interval()
    if high < low * _DECADE:  # so that there are ticks, and none too close
        middle = (low * high) ** 0.5
        low, high = middle / _DECADE**0.5, middle * _DECADE**0.5
        axes.set(**{f"{name}lim": (low, high)})
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < low * _FEW_DECADES else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(human(value, unit))))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(what)


def spots(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the x and y of each spot, and how many of the points it stands for; below 1 is drawn at 1."""
    cells = [np.round(np.log10(np.maximum(part, 1)) * _SPOTS_PER_DECADE).astype(np.int64) for part in (x, y)]
    codes, places = group_keys(*cells)
    at_x, at_y = (10.0 ** (place / _SPOTS_PER_DECADE) for place in places)
    return at_x, at_y, np.bincount(codes, minlength=len(at_x))


def points(axes: Axes, x: NDArray[Any], y: NDArray[Any], color: str, label: str) -> None:
    """Draw a spot for all points that look alike."""
    at_x, at_y, count = spots(x, y)
    most = count.max(initial=1)
    part = np.log(count) / np.log(most) if most > 1 else _SINGLE
    opaque = np.minimum(_FAINTEST + (1 - _FAINTEST) * part, 1)
    rasterized = len(count) > _MANY
    axes.scatter(
        at_x, at_y, _AREA, color=color, label=label, alpha=opaque, linewidths=0, rasterized=rasterized
    )
