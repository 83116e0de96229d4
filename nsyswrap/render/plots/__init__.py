"""The figures, one module each: a module here that is named in NAMES is all that a new figure takes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError

if TYPE_CHECKING:
    from nsyswrap.render.plots.plot import Plot

NAMES = ("top-kernels", "timeline", "launch", "copies")
MOST_CAPTURES = 12  # side by side in one figure


def find(name: str) -> Plot:
    """Return the plot with this name; raises UsageError with the names there are."""
    if name not in NAMES:
        raise UsageError(f"there is no plot {name!r}", f"plots: {' '.join(NAMES)}")
    plot: Plot = importlib.import_module(f"nsyswrap.render.plots.{name.replace('-', '_')}").PLOT
    return plot
