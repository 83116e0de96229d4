"""Write the summaries of many runs as CSV, with the rows of a few runs in memory at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit
from nsyswrap.render.formats import csv
from nsyswrap.reports import find_report
from nsyswrap.reports.runs.tables import LABEL, RANK, REPEAT, REPORT, RUN
from nsyswrap.reports.table import Schema, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from nsyswrap.reports.runs.digest import Summary
    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Column

AT_ONCE = 10_000  # rows: writing a table has a cost for each of its many columns


class SummaryRows:
    """Writes the rows of all ``reports`` into a CSV file, beginning with the header."""

    def __init__(self, file: TextIO, parameters: Parameters, reports: Sequence[str]) -> None:
        """Write the header."""
        self._file, self._parameters, self._reports = file, parameters, reports
        self._schema = _schema(parameters, reports)
        self._floats: set[str] = set()
        self._rows = 0
        self._data: dict[str, list[Any]] = {column.name: [] for column in self._schema.columns}
        file.write(header_line(self._schema))

    def add(self, run: RecordedRun, summaries: Mapping[str, Summary]) -> None:
        """Add the rows of one run. A column that a report lacks is empty."""
        labels = (run.label, run.name or None, *self._parameters.of(run), run.repeat, run.rank)
        for name in self._reports:
            if name not in summaries:
                continue
            summary = summaries[name]
            rows = len(summary.values[0])
            own: dict[str, list[Any]] = dict(zip(summary.columns, summary.values, strict=True))
            own |= {
                column: [label] * rows for column, label in zip(self._data, (*labels, name), strict=False)
            }
            for column in own.keys() & self._data.keys():
                self._filled(column).extend(own[column])
            self._rows += rows
        if self._rows >= AT_ONCE:
            self.flush()

    def _filled(self, column: str) -> list[Any]:
        """Return the values of a column, with None for the rows so far that lack it."""
        values = self._data[column]
        values.extend([None] * (self._rows - len(values)))
        return values

    def flush(self) -> None:
        """Write the rows that were added."""
        for column in self._data:
            self._filled(column)
        self._floats |= {
            name
            for name, values in self._data.items()
            if name not in self._floats and float in map(type, values)
        }
        self._file.write(body_lines(Table(self._schema, self._data)))
        self._data, self._rows = {name: [] for name in self._data}, 0

    def kinds(self) -> dict[str, type]:
        """Return the type of each column: str, int, or float if one of the values written was a float."""
        return {
            column.name: str if column.unit is Unit.TEXT else float if column.name in self._floats else int
            for column in self._schema.columns
        }


def header_line(schema: Schema) -> str:
    """Return the first line of a CSV file."""
    return csv.delimited(table_of(schema, []), ",", "ns", safe=False)


def body_lines(table: Table) -> str:
    """Return the lines of a table behind the first."""
    return csv.delimited(table, ",", "ns", safe=False).removeprefix(header_line(table.schema))


def _schema(parameters: Parameters, reports: Sequence[str]) -> Schema:
    """Return the labels of a run, then the columns of all reports. A text in one of them is a text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find_report(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    front = (RUN, LABEL, *parameters.columns, REPEAT, RANK)
    return Schema("summaries", "Summaries of all runs", (*front, REPORT, *columns.values()))
