"""The figure, axes and text that all plots share.

A figure does not depend on the user's matplotlib settings. pyplot is not used, so no window opens and the
user's own figures stay as they are.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from unicodedata import bidirectional

import numpy as np
from matplotlib import style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.base.text import clip, printable, shorten_all
from nsyswrap.base.units import Unit, human
from nsyswrap.base.version import version
from nsyswrap.render.colors import CROSS, DOTS, GRID, HUES, LINES, SOLID, STRIPES, Style
from nsyswrap.render.names import abbreviated
from nsyswrap.render.timeline.names import NO_NAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    Coordinates = tuple[NDArray[Any], NDArray[Any]]


T = TypeVar("T")
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"  # both come with matplotlib
SMALL = 8.0  # points
_ADVANCE = 0.603  # width of a character of MONO, as a part of the font size
_POINTS_PER_IN = 72
_SUBPIXELS = 64  # FreeType measures in 1/64 of a pixel
_NOTE_COLUMNS = 150
_RIGHT_TO_LEFT = ("R", "AL", "AN")  # bidirectional classes of Unicode
_TITLE_NAME_COLUMNS = 44

Format = Literal["png", "svg", "pdf"]
WIDTH_IN = 8.0
GRAY = "#555555"
NAMES: dict[str, Any] = {"family": MONO, "fontsize": SMALL}  # the font of names from a capture
_SCREEN_DPI, _FILE_DPI = 100, 200
_EDGE_IN, _TITLE_IN, _PROGRAM_IN, _NOTE_IN, _LEGEND_IN = 0.1, 0.22, 0.2, 0.13, 0.22  # per line
_TITLE_SIZE = 11.5
_LEFT, _LEGEND_COLUMNS, _LABEL = 0.012, 4, 24
_DECADE, _INEXACT = 10.0, 1e-9  # the ratio of the ends of an axis
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SETTINGS: dict[str, Any] = {
    "font.family": [SANS],
    "font.size": 9,
    "text.parse_math": False,  # a name can contain dollar signs
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
    "hatch.linewidth": 0.7,
    "pdf.fonttype": 42,  # TrueType: journals and printers refuse Type 3
    "svg.hashsalt": "nsyswrap",  # without a salt the ids are random
}
# The key of the metadata for the program that made a picture, and the keys that would differ from run to run.
_MAKER = {"png": "Software", "svg": "Creator", "pdf": "Creator"}
_UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}

_HATCHES = {SOLID: "", STRIPES: "/" * 5, DOTS: "." * 5, LINES: "-" * 6, GRID: "+" * 4, CROSS: "x" * 4}

_SPOTS_PER_DECADE = 80  # each about a pixel on a screen
_RASTERIZED_SPOTS = 2000  # more spots than this are a bitmap in a vector file
_SPOT_AREA, _SPOT_LINE, _LEAST_ALPHA, _SINGLE_ALPHA = 12.0, 0.9, 0.35, 0.6  # in square points, points


def columns_in(width_in: float, size: float = SMALL) -> int:
    """Return the number of characters of MONO that fit into a width."""
    return int(width_in * _POINTS_PER_IN / (size * _ADVANCE))


def fitted(names: Sequence[str | None], columns: int, kernels: Collection[str | None] = ()) -> list[str]:
    """Shorten names to at most ``columns`` characters. Different names stay different.

    If they are names of ``kernels``, a readable name replaces one that is too long.
    """
    texts = abbreviated([drawable(name or NO_NAME) for name in names], columns, kernels)
    return shorten_all(texts, columns)


def for_title(name: str | None, kernels: Collection[str | None] = ()) -> str:
    """Shorten a name so that it fits into a title."""
    return fitted([name], _TITLE_NAME_COLUMNS, kernels)[0]


def drawable(text: str) -> str:
    """Escape characters without a glyph, control characters and right-to-left characters."""
    return "".join(
        letter if ord(letter) in _glyphs() else letter.encode("unicode_escape").decode()
        for letter in printable(text)
    )


def title_lines(text: str, width_in: float, size: float) -> str:
    """Break a title into lines of at most this width. No single word is that long."""
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
    """Wrap notes, each on lines of its own."""
    return "\n".join(textwrap.fill(drawable(note), _NOTE_COLUMNS) for note in notes)


def tick(text: str) -> str:
    """Remove zero decimals from a tick label: ``1.00 µs`` becomes ``1 µs``."""
    return re.sub(r"\.0+(?= )", "", text)


@cache
def _glyphs() -> frozenset[int]:
    sans, mono = (frozenset(FT2Font(findfont(family)).get_charmap()) for family in (SANS, MONO))
    return frozenset(code for code in sans & mono if bidirectional(chr(code)) not in _RIGHT_TO_LEFT)


class Sheet(Figure):
    """A figure that a notebook shows even if matplotlib's inline backend is not set up.

    ``figures`` are those of its headline by key, as in JSON. A file has them in its metadata.
    """

    figures: Mapping[str, float] = {}

    def _repr_png_(self) -> bytes:
        return content(self, "png", _SCREEN_DPI)


@contextmanager
def plot_settings() -> Iterator[None]:
    """Use the matplotlib settings of the plots, and restore the user's settings afterwards."""
    with style.context(_SETTINGS, after_reset=True):
        yield


def sheet(
    body_in: float,
    title: str,
    notes: Iterable[str] = (),
    styles: Mapping[str, Style] | None = None,
    program: str = "",
) -> Sheet:
    """Return a sheet with room for axes ``body_in`` inches high.

    The title and the program are above the axes. The legend, styles by label, and the notes are below them.
    """
    heading, small_print, styles = (
        title_lines(title, WIDTH_IN * (1 - 2 * _LEFT), _TITLE_SIZE),
        note_lines(notes),
        styles or {},
    )
    below_title = _EDGE_IN + _TITLE_IN * (heading.count("\n") + 1)
    top = below_title + (_PROGRAM_IN if program else 0)
    notes_in = _EDGE_IN + (_NOTE_IN * (small_print.count("\n") + 1) if small_print else 0)
    bottom = notes_in + _LEGEND_IN * -(-len(styles) // _LEGEND_COLUMNS)
    height = top + body_in + bottom
    body = (0, bottom / height, 1, body_in / height)
    figure = Sheet(figsize=(WIDTH_IN, height), dpi=_SCREEN_DPI, layout=ConstrainedLayoutEngine(rect=body))
    figure.text(_LEFT, 1 - _EDGE_IN / height, heading, va="top", fontsize=_TITLE_SIZE, fontweight="bold")
    if program:
        name = fitted([program], columns_in(WIDTH_IN * (1 - 2 * _LEFT)))[0]
        figure.text(_LEFT, 1 - below_title / height, name, va="top", color=GRAY, **NAMES)
    if small_print:
        figure.text(_LEFT, notes_in / height, small_print, va="top", fontsize=7, color=GRAY)
    if styles:
        _legend(figure, styles, bottom / height)
    return figure


def axes_of_each(figure: Sheet, data: Mapping[str, T], **shared: Any) -> Iterator[tuple[Axes, T]]:
    """Yield axes below one another, each with the data of one capture. Several get their labels as titles.

    ``shared`` are arguments of ``subplots``.
    """
    grid = figure.subplots(len(data), 1, squeeze=False, **shared)[:, 0]
    for axes, (label, part) in zip(grid, data.items(), strict=True):
        if len(data) > 1:
            axes.set_title(fitted([label], columns_in(WIDTH_IN) // 2)[0], **NAMES)
        yield axes, part


def _legend(figure: Sheet, styles: Mapping[str, Style], top: float) -> None:
    handles = [
        Patch(**paint(style), label=f" {clip(drawable(label), _LABEL)}") for label, style in styles.items()
    ]
    legend = figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, top), ncols=_LEGEND_COLUMNS, borderaxespad=0
    )
    legend.set_in_layout(False)


def content(figure: Figure, form: Format, dpi: int = _FILE_DPI) -> bytes:
    """Return the figure as the bytes of a file; its metadata have the version of nsyswrap, and figures."""
    out, metadata = io.BytesIO(), {**_UNDATED[form], _MAKER[form]: f"nsyswrap {version()}"}
    if isinstance(figure, Sheet) and figure.figures:
        metadata["Keywords"] = ", ".join(f"{key}={value!r}" for key, value in figure.figures.items())
    with plot_settings():
        figure.savefig(out, format=form, dpi=dpi, metadata=metadata)
    return out.getvalue()


def paint(style: Style) -> dict[str, Any]:
    """Return the arguments that give a patch this style. Its texture is white."""
    return {"facecolor": hue(style), "hatch": _HATCHES[style.texture], "edgecolor": "white", "linewidth": 0}


def hue(style: Style) -> str:
    """Return the color of points and lines in this style; a picture is light."""
    return HUES[style.hue].light


def named_rows(axes: Axes, positions: Sequence[float], names: Sequence[str]) -> None:
    """Name the rows of an axes with horizontal bars, which need no grid between them."""
    axes.set_yticks(positions, names, **NAMES)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def count_axis(axis: Axis, label: str, ticks: int) -> None:
    """Label an axis of whole numbers with at most this many ticks above 0."""
    axis.set_major_locator(MaxNLocator(ticks, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_label_text(label)


def time_axis(axis: Axis, longest_ns: float, label: str, offset_ns: float = 0, ticks: int = 6) -> None:
    """Label a linear axis of ns in the unit that suits its longest time. Ticks are round times.

    The axis shows each place plus ``offset_ns``.
    """
    scale, unit = next((pair for pair in _SCALES if longest_ns >= pair[0]), _SCALES[-1])
    axis.set_major_locator(_RoundLocator(offset_ns, ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{(value + offset_ns) / scale:.10g}"))
    axis.set_label_text(f"{label} ({unit})", x=0, ha="left")


class _RoundLocator(MaxNLocator):
    """Ticks that are round once an offset is added to them."""

    def __init__(self, offset: float, ticks: int) -> None:
        super().__init__(ticks, steps=[1, 2, 5, 10])
        self._shift = offset

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        places = super().tick_values(vmin + self._shift, vmax + self._shift)
        return [place - self._shift for place in places]


def log_axis(axes: Axes, name: Literal["x", "y"], unit: Unit, label: str, most: int = 7) -> None:
    """Make an axis logarithmic and label its ticks with units. Call it after the data is drawn.

    The axis begins and ends at 1, 2 or 5 times a power of 10. If it has at most ``most`` such numbers, each
    has a tick, else the powers have.
    """
    axes.set(**{f"{name}scale": "log"})
    axis: Axis = getattr(axes, f"{name}axis")
    low, high = axis.get_view_interval()
    if high < low * _DECADE:  # a shorter axis would have no ticks, or ticks that overlap
        middle = (low * high) ** 0.5
        low, high = middle / _DECADE**0.5, middle * _DECADE**0.5
    low, high = 1 / _round_above(1 / low), _round_above(high)
    axes.set(**{f"{name}lim": (low, high)})
    few = round(3 * np.log10(high / low)) < most
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(human(value, unit))))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(label)


def _round_above(value: float) -> float:
    """Return the smallest number that is not below a value and is 1, 2 or 5 times a power of 10."""
    decade = _DECADE ** np.floor(np.log10(value))
    return next(float(step * decade) for step in (1, 2, 5, 10) if step * decade > value * (1 - _INEXACT))


def spots(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Merge points that share a spot on logarithmic axes. Return x, y and point count of each spot.

    Values below 1 count as 1.
    """
    cells = [np.round(np.log10(np.maximum(part, 1)) * _SPOTS_PER_DECADE).astype(np.int64) for part in (x, y)]
    codes, places = group_keys(*cells)
    at_x, at_y = (10.0 ** (place / _SPOTS_PER_DECADE) for place in places)
    return at_x, at_y, np.bincount(codes, minlength=len(at_x))


def points(axes: Axes, coordinates: Coordinates, color: str, label: str, marker: str = "o") -> None:
    """Draw hollow points on logarithmic axes; ``coordinates`` are x and y.

    A spot is more opaque the more points share it.
    """
    at_x, at_y, count = spots(*coordinates)
    most = count.max(initial=1)
    part = np.log(count) / np.log(most) if most > 1 else _SINGLE_ALPHA
    alpha = np.minimum(_LEAST_ALPHA + (1 - _LEAST_ALPHA) * part, 1)
    rasterized = len(count) > _RASTERIZED_SPOTS
    axes.scatter(
        at_x,
        at_y,
        _SPOT_AREA,
        facecolors="none",
        edgecolors=[(*to_rgb(color), float(a)) for a in np.broadcast_to(alpha, len(count))],
        label=label,
        marker=marker,
        linewidths=_SPOT_LINE,
        rasterized=rasterized,
    )
