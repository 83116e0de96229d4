"""One row a run: its parameters, how it ended, what the GPU did, how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit
from nsyswrap.reports import find
from nsyswrap.reports.runs.digest import SUMMARIES, TOTALS
from nsyswrap.reports.runs.parameters import BATCH, LABEL, REPEAT, RUN, Parameters
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.reports.runs.gather import Result
    from nsyswrap.reports.table import Table

_OUTCOMES = (
    Column(
        "outcome",
        "Outcome",
        Unit.TEXT,
        "of status.json; damaged: its capture cannot be read; before it has ended: planned, running or lost",
    ),
    Column("exit_code", "Exit Code", Unit.NUMBER, "what `nsyswrap profile` would have ended with"),
)
_WALL = Column("wall_s", "Wall", Unit.NUMBER, "seconds from the start of the run to its report")
_MESSAGE = Column("message", "Message", Unit.TEXT, "what was wrong")
FIGURES = (*TOTALS, _WALL)
REPORT = Column("report", "Report", Unit.TEXT, "report that the row is of")
RUNS = Column("runs", "Runs", Unit.COUNT, "runs whose captures were merged")


def parameters_of(results: Sequence[Result]) -> Parameters:
    """Return the parameters of all runs, named as no column of any of the tables is."""
    ours = (RUN, LABEL, BATCH, REPEAT, *_OUTCOMES, *FIGURES, _MESSAGE, REPORT, RUNS)
    of_reports = (column.name for name in SUMMARIES for column in find(name).columns)
    return Parameters([result.run for result in results], {*(column.name for column in ours), *of_reports})


def results_table(results: Sequence[Result], parameters: Parameters) -> Table:
    """Return a row for each run; figures that nobody knows are missing."""
    report = Report(
        name="results",
        title="Results, one row a run",
        layer="analysis",
        needs=(),
        columns=(RUN, LABEL, *parameters.columns, REPEAT, *_OUTCOMES, *FIGURES, _MESSAGE),
        compute=no_capture,
    )
    rows = [
        (
            *(result.run.label, result.run.name or None, *parameters.of(result.run), result.run.repeat),
            *(result.run.outcome, result.run.exit_code, *figures(result).values()),
            str(result.run.message).encode("utf-8", "backslashreplace").decode() or None,
        )
        for result in results
    ]
    return table_of(report, rows)


def figures(result: Result) -> dict[str, int | float | None]:
    """Return the figures of a run by the names of their columns."""
    totals = result.totals or {}
    return {**{column.name: totals.get(column.name) for column in TOTALS}, "wall_s": result.run.wall_s}
