"""Write the files that hold all runs; each replaces the older file of its name once it is complete.

Tables too long for memory are written as CSV in pieces: every summary of every run, and the merged kernels.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import replacing, write
from nsyswrap.base.units import Unit
from nsyswrap.render.formats import csv, parquet
from nsyswrap.render.formats.csv import delimited
from nsyswrap.reports import find_report
from nsyswrap.reports.nsys.cuda_gpu_kern_sum import SCHEMA as KERNELS
from nsyswrap.reports.runs.combinations import combinations
from nsyswrap.reports.runs.digest import SUMMARIES, read
from nsyswrap.reports.runs.merge import Pool, shares
from nsyswrap.reports.runs.tables import LABEL, REPEAT, REPORT, RUN, RUNS, combination
from nsyswrap.reports.table import Schema, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from nsyswrap.reports.runs.digest import Digest
    from nsyswrap.reports.runs.gather import RunResult
    from nsyswrap.reports.runs.merge import PooledStatistics
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Column


RESULTS, PARQUET, SUMMARIES_FILE, KERNELS_FILE = (
    "results.csv",
    "results.parquet",
    "summaries.csv",
    "kernels.csv",
)
_OURS = f"{RUN.name},{LABEL.name},"  # how results.csv begins, the first that is written


class Summaries:
    """The rows of every report: labels in front, then the reports' columns, empty where one has it not."""

    def __init__(self, parameters: Parameters, reports: Collection[str]) -> None:
        """Take the names of the reports whose rows there will be."""
        self._parameters = parameters
        self._reports = [name for name in SUMMARIES if name in reports]
        self._front = (RUN, LABEL, *parameters.columns, REPEAT)
        self._schema = Schema(
            "summaries",
            "Summaries of all runs",
            (*self._front, REPORT, *_union(self._reports)),
        )
        self.header = delimited(table_of(self._schema, []), ",", "ns", safe=False)

    def of(self, result: RunResult, digest: Digest) -> str:
        """Return the rows of one run."""
        run = result.run
        data: dict[str, list[Any]] = {column.name: [] for column in self._schema.columns}
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
        text = delimited(Table(self._schema, data), ",", "ns", safe=False)
        return text.removeprefix(self.header)


def _union(reports: Sequence[str]) -> list[Column]:
    """Return the columns of all the reports, each name once; a text in one of them is a text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find_report(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    return list(columns.values())


def merged_kernels(
    pool: Pool, combinations: Sequence[Sequence[RunResult]], parameters: Parameters
) -> Iterator[str]:
    """Yield the header, then the kernels of each combination over all its runs that are done, as CSV.

    The pool's parts are the positions of the combinations.
    """
    schema = Schema("kernels", "Kernels over repeats", (LABEL, *parameters.columns, RUNS, *KERNELS.columns))
    header = delimited(table_of(schema, []), ",", "ns", safe=False)
    yield header
    for part, kernels in pool.parts():
        run = combinations[part][0].run
        merged = sum(result.compared for result in combinations[part])
        front = (run.name or None, *parameters.of(run), merged)
        rows = [(*front, *row) for row in _kernel_rows(kernels)]
        yield delimited(table_of(schema, rows), ",", "ns", safe=False).removeprefix(header)


def _kernel_rows(kernels: Sequence[PooledStatistics]) -> Iterator[tuple[object, ...]]:
    """Yield the cells of ``cuda_gpu_kern_sum`` for each kernel."""
    for share, row in zip(shares(kernels), kernels, strict=True):
        name, count, total, *rest = row
        yield (share, total, count, *rest, name)


def check_replaceable(output: Path) -> None:
    """Raise OutputError for files in the way, unless results.csv shows that they were written here before."""
    there = [
        output / name for name in (RESULTS, PARQUET, SUMMARIES_FILE, KERNELS_FILE) if (output / name).exists()
    ]
    if there and not _begins(output / RESULTS, _OURS):
        raise OutputError(
            f"{there[0]} exists, and nothing says that nsyswrap wrote it",
            "give another --output, or move it away",
        )


def _begins(file: Path, text: str) -> bool:
    try:
        with file.open("rb") as content:
            return content.read(len(text)) == text.encode()
    except OSError:
        return False


def write_results(output: Path, results: Table) -> list[Path]:
    """Write results.csv and, where pyarrow is installed, results.parquet; return what was written.

    A results.parquet that cannot be replaced is removed: it would be that of other runs.
    """
    with _replacing(output / RESULTS) as file:
        file.write(csv.render([results])[RESULTS])
    try:
        content = parquet.render([results])[PARQUET]
    except Unavailable:
        (output / PARQUET).unlink(missing_ok=True)
        return [output / RESULTS]
    write(output / PARQUET, content)
    return [output / RESULTS, output / PARQUET]


def write_rows(
    output: Path, results: Sequence[RunResult], parameters: Parameters, wanted: Collection[str], scratch: Path
) -> list[Path]:
    """Write summaries.csv and kernels.csv, one digest in memory at a time; return what was written."""
    groups = combinations(results)
    parts = {key: part for part, key in enumerate(groups)}
    reports = {name for result in results for name in result.reports if name in wanted}
    summaries = Summaries(parameters, reports)
    with closing(Pool(scratch / "kernels.sqlite")) as pool:
        with _replacing(output / SUMMARIES_FILE) as file:
            file.write(summaries.header)
            for result in results:
                if result.digest:
                    digest = read(result.digest)
                    file.write(summaries.of(result, digest))
                    if result.compared:
                        pool.add(parts[combination(result.run)], digest.kernels)
        with _replacing(output / KERNELS_FILE) as file:
            file.writelines(merged_kernels(pool, list(groups.values()), parameters))
    return [output / SUMMARIES_FILE, output / KERNELS_FILE]


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    with (
        replacing(path) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file
