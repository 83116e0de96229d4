"""Write the summaries of many runs as CSV, run by run.

The table has a hundred columns, of which each report has about ten. Only these are written for its rows, and
between them the delimiters of the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.units import Unit
from nsyswrap.render.delimited import guarded, quoted
from nsyswrap.render.formats import csv
from nsyswrap.reports import find_report
from nsyswrap.reports.runs.tables import LABEL, RANK, REPEAT, REPORT, RUN, Parameters
from nsyswrap.reports.table import Column, Schema, Table, table_of

if TYPE_CHECKING:
    from nsyswrap.reports.runs.digest import Summary
    from nsyswrap.reports.runs.find import RecordedRun

_SPECIAL = re.compile('[,"\r\n]')


class _Layout(NamedTuple):
    """Where the columns of a report are in its summary, in the order of the file, and its lines as a format.

    ``numbers`` has the names of those columns that are no texts.
    """

    sources: list[int]
    numbers: dict[int, str]
    line: str


class SummaryRows:
    """Makes lines of CSV with the rows of all ``reports``.

    ``floats`` has the columns of which a value was not a whole number. ``safe``: cells are guarded.
    """

    def __init__(self, parameters: Parameters, reports: Sequence[str], *, safe: bool = False) -> None:
        """Lay out the columns."""
        self._safe = safe
        self._parameters, self._reports = parameters, reports
        self._schema = _schema(parameters, reports)
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self.floats: set[str] = set()

    @property
    def header(self) -> str:
        """The first line of the file."""
        return header_line(self._schema, safe=self._safe)

    def lines(self, run: RecordedRun, summaries: Mapping[str, Summary]) -> str:
        """Return the rows of one run. A column that a report lacks is empty."""
        labels = (run.label, run.name or None, *self._parameters.of(run), run.repeat, run.rank)
        columns = zip(self._schema.columns, labels, strict=False)
        self.floats |= {column.name for column, value in columns if isinstance(value, float)}
        front = ",".join(map(self._cell, labels)).replace("%", "%%")
        return "".join(
            self._lines(f"{front},{name}", summaries[name]) for name in self._reports if name in summaries
        )

    def _lines(self, front: str, summary: Summary) -> str:
        layout = self._layout(tuple(summary.columns))
        cells = []
        for source in layout.sources:
            values = summary.values[source]
            if name := layout.numbers.get(source):
                cells.append(["" if value is None else str(value) for value in values])
                if name not in self.floats and float in map(type, values):
                    self.floats.add(name)
            else:
                cells.append(list(map(self._cell, values)))
        line = front + layout.line
        return "".join([line % row for row in zip(*cells, strict=True)])

    def _layout(self, names: tuple[str, ...]) -> _Layout:
        """Return the layout of a report with these columns."""
        if names not in self._layouts:
            columns = self._schema.columns
            report = columns.index(REPORT)
            places = {column.name: place for place, column in enumerate(columns) if place > report}
            sources = sorted(
                (i for i, name in enumerate(names) if name in places), key=lambda i: places[names[i]]
            )
            at = [report, *(places[names[i]] for i in sources), len(columns) - 1]
            gaps = ["," * (place - before) for before, place in pairwise(at)]
            numbers = {i: names[i] for i in sources if columns[places[names[i]]].unit is not Unit.TEXT}
            self._layouts[names] = _Layout(sources, numbers, "%s".join(gaps) + "\n")
        return self._layouts[names]

    def _cell(self, value: object) -> str:
        """Return the text of a cell, in quotes where it needs them."""
        if not isinstance(value, str):
            return "" if value is None else str(value)
        return quoted(_SPECIAL, guarded(value) if self._safe else value)

    def kinds(self, floats: Collection[str]) -> dict[str, type]:
        """Return the type of each column: str, int, or float for those in ``floats``."""
        return {
            column.name: str if column.unit is Unit.TEXT else float if column.name in floats else int
            for column in self._schema.columns
        }


def header_line(schema: Schema, *, safe: bool) -> str:
    """Return the first line of a CSV file."""
    return csv.delimited(table_of(schema, []), ",", "ns", safe=safe)


def body_lines(table: Table, *, safe: bool) -> str:
    """Return the lines of a table behind the first."""
    return csv.delimited(table, ",", "ns", safe=safe).removeprefix(header_line(table.schema, safe=safe))


def _schema(parameters: Parameters, reports: Sequence[str]) -> Schema:
    """Return the labels of a run, then the columns of all reports. A text in one of them is a text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find_report(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    front = (RUN, LABEL, *parameters.columns, REPEAT, RANK)
    return Schema("summaries", "Summaries of all runs", (*front, REPORT, *columns.values()))
