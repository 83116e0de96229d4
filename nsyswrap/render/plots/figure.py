"""The sheet that figures are drawn on: one look whatever the user's settings, and the same bytes each time.

Without pyplot: nothing is kept, no window opens, and the user's own figures stay as they are.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from nsyswrap.base.text import clip
from nsyswrap.base.units import Unit, human
from nsyswrap.render.plots.lettering import MONO, SANS, SMALL, drawable, note_lines, tick, title_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

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
