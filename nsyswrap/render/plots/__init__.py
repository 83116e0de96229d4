"""The plots, one module each: a new plot is a module and its name in NAMES.

A plot reads what it needs of each capture and draws it as one figure.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.render.plots.figure import look
from nsyswrap.reports import find_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots.figure import Sheet
    from nsyswrap.reports.table import Table


NAMES = ("top-kernels", "timeline", "launch", "copies")
MOST_CAPTURES = 12  # side by side in one figure


def find_plot(name: str) -> Plot:
    """Return the plot with this name; raises UsageError with the names there are."""
    if name not in NAMES:
        raise UsageError(f"there is no plot {name!r}", f"plots: {' '.join(NAMES)}")
    plot: Plot = importlib.import_module(f"nsyswrap.render.plots.{name.replace('-', '_')}").PLOT
    return plot


@dataclass(frozen=True)
class Plot:
    """One figure. ``read`` takes what it needs of one capture, or raises NotInCapture.

    ``figure`` draws what was read of one or several captures, by label.
    """

    name: str
    read: Callable[[Capture], Any]
    figure: Callable[[Mapping[str, Any]], Sheet]

    def draw(self, captures: Mapping[str, Capture]) -> Sheet:
        """Return the figure of captures, by label; raises NotInCapture with what would collect the rest."""
        return self.draw_read({label: self.read(capture) for label, capture in captures.items()})

    def draw_read(self, found: Mapping[str, Any]) -> Sheet:
        """Return the figure of what was read before."""
        with look():
            return self.figure(found)


def table_for(capture: Capture, report: str) -> Table:
    """Return the report that a plot draws; raises NotInCapture also where nothing of it is selected."""
    table = find_report(report).make(capture)
    if not len(table):
        raise nothing_selected(capture, f"nothing of {report}")
    return table


def nothing_selected(capture: Capture, what: str) -> NotInCapture:
    """Return the error that says so."""
    return NotInCapture(
        f"{capture.source} holds {what} in what is selected",
        "select more with --time, --nvtx, --device or --process",
    )


def notes_of(table: Table) -> list[str]:
    """Return what to know of a table, and what part of the capture it is about."""
    return [*table.notes, *([f"selected: {table.selection}"] if table.selection else [])]
