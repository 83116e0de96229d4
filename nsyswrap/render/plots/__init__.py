"""List the plots. To add one, write a module with a ``PLOT`` and add its name to ``NAMES``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import program_word
from nsyswrap.base.text import unknown
from nsyswrap.reports import find_report

with lazy_imports():
    from nsyswrap.render.plots import figure

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots.figure import Sheet
    from nsyswrap.reports.table import Table


NAMES = ("top-kernels", "histogram", "timeline", "launch", "copies", "roofline")
MOST_CAPTURES = 12  # in one figure


def find_plot(name: str) -> Plot:
    """Return the plot with this name. Raises UsageError that suggests similar names, or lists all."""
    if name not in NAMES:
        raise UsageError(*unknown("plot", name, NAMES))
    plot: Plot = importlib.import_module(f"nsyswrap.render.plots.{name.replace('-', '_')}").PLOT
    return plot


@dataclass(frozen=True)
class Plot:
    """A kind of picture that ``nsyswrap plot`` draws.

    ``compute`` returns the data of one capture. It raises NotInCapture if the capture lacks the events.
    ``figure`` draws the data of one or several captures by label, below the name of their program.
    ``if_possible``: few captures have what it needs, so that its absence is worth a line only if the user
    asks for this kind.
    """

    name: str
    compute: Callable[[Capture], Any]
    figure: Callable[[Mapping[str, Any], str], Sheet]
    if_possible: bool = False

    def draw(self, captures: Mapping[str, Capture]) -> Sheet:
        """Return the figure of captures by label; raises NotInCapture."""
        data = {label: self.compute(capture.decided()) for label, capture in captures.items()}
        return self.draw_data(data, captures)

    def draw_data(self, data: Mapping[str, Any], captures: Mapping[str, Capture]) -> Sheet:
        """Return the figure of data from ``compute`` by label; ``captures`` are those of these labels."""
        programs = {label: _program(captures[label]) for label in data}
        if len(set(programs.values())) == 1:
            [program] = set(programs.values())
        else:
            program, data = "", {_title(label, programs[label]): part for label, part in data.items()}
        with figure.plot_settings():
            return self.figure(data, program)


def _program(capture: Capture) -> str:
    """Return the name of the program: its script or module, where Python runs it. Empty if not known."""
    command = capture.info.command
    return program_word(command).rpartition("/")[2] if command else ""


def _title(label: str, program: str) -> str:
    return f"{program} ({label})" if program else label


def table_for(capture: Capture, report: str) -> Table:
    """Return the report that a plot draws. Raises NotInCapture if the report is missing or has no rows."""
    table = find_report(report).make(capture)
    if not len(table):
        raise nothing_selected(capture, f"no rows of {report}")
    return table


def nothing_selected(capture: Capture, fault: str) -> NotInCapture:
    """Return the error for a selection without the events to draw."""
    return NotInCapture(
        f"{fault} in the selection",
        "select more with --time, --nvtx, --device or --process",
        source=capture.source,
        holds=True,
    )


def notes_of(table: Table) -> list[str]:
    """Return the notes of a table and its selection."""
    return [*table.notes, *([f"selected: {table.selection}"] if table.selection else [])]
