"""Tables too long for memory, as CSV in pieces: every summary of every run, and the merged kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.units import Unit
from nsyswrap.render.formats.csv import delimited
from nsyswrap.reports import find
from nsyswrap.reports.nsys.cuda_gpu_kern_sum import REPORT as KERNELS
from nsyswrap.reports.runs.digest import SUMMARIES
from nsyswrap.reports.runs.merge import shares
from nsyswrap.reports.runs.tables import LABEL, REPEAT, REPORT, RUN, RUNS
from nsyswrap.reports.table import Report, Table, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nsyswrap.reports.runs.digest import Digest
    from nsyswrap.reports.runs.gather import Result
    from nsyswrap.reports.runs.merge import Pool, Statistics
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Column


class Summaries:
    """The rows of every report: labels in front, then the reports' columns, empty where one has it not."""

    def __init__(self, parameters: Parameters, reports: Collection[str]) -> None:
        """Take the names of the reports whose rows there will be."""
        self._parameters = parameters
        self._reports = [name for name in SUMMARIES if name in reports]
        self._front = (RUN, LABEL, *parameters.columns, REPEAT)
        self._table = Report(
            "summaries",
            "Summaries of all runs",
            "analysis",
            (),
            (*self._front, REPORT, *_union(self._reports)),
            no_capture,
        )
        self.header = delimited(table_of(self._table, []), ",", "ns", safe=False)

    def of(self, result: Result, digest: Digest) -> str:
        """Return the rows of one run."""
        run = result.run
        data: dict[str, list[Any]] = {column.name: [] for column in self._table.columns}
        for name in self._reports:
            if name in digest.summaries:
                summary = digest.summaries[name]
                rows = len(summary.values[0])
                given = {
                    REPORT.name: [name] * rows,
                    **dict(zip(summary.columns, summary.values, strict=True)),
                }
                nothing = [None] * rows
                for column, values in data.items():
                    values.extend(given.get(column, nothing))
        labels = (run.label, run.name or None, *self._parameters.of(run), run.repeat)
        for front, label in zip(self._front, labels, strict=True):
            data[front.name] = [label] * len(data[REPORT.name])
        text = delimited(Table(self._table, data), ",", "ns", safe=False)
        return text.removeprefix(self.header)


def _union(reports: Sequence[str]) -> list[Column]:
    """Return the columns of all the reports, each name once; a text in one of them is a text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    return list(columns.values())


def merged_kernels(
    pool: Pool, combinations: Sequence[Sequence[Result]], parameters: Parameters
) -> Iterator[str]:
    """Yield the header, then the kernels of each combination over all its runs that are done, as CSV.

    The pool's parts are the positions of the combinations.
    """
    report = Report(
        "kernels",
        "Kernels over repeats",
        "analysis",
        (),
        (LABEL, *parameters.columns, RUNS, *KERNELS.columns),
        no_capture,
    )
    header = delimited(table_of(report, []), ",", "ns", safe=False)
    yield header
    for part, kernels in pool.parts():
        run = combinations[part][0].run
        merged = sum(result.compared for result in combinations[part])
        front = (run.name or None, *parameters.of(run), merged)
        rows = [(*front, *row) for row in _kernel_rows(kernels)]
        yield delimited(table_of(report, rows), ",", "ns", safe=False).removeprefix(header)


def _kernel_rows(kernels: Sequence[Statistics]) -> Iterator[tuple[object, ...]]:
    """Yield the cells of ``cuda_gpu_kern_sum`` for each kernel."""
    for share, row in zip(shares(kernels), kernels, strict=True):
        name, count, total, *rest = row
        yield (share, total, count, *rest, name)
