"""Write the result files of ``nsyswrap collect``. A complete file replaces the older file of its name.

Tables too long for memory are written as CSV in pieces: the summaries of all runs, and the merged kernels.
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
_OUR_HEADER = f"{RUN.name},{LABEL.name},"  # the start of our results.csv, which is written first


class Summaries:
    """The rows of all reports as one CSV: the labels of a run, then the columns of all reports.

    A cell is empty if the row's report lacks the column.
    """

    def __init__(self, parameters: Parameters, reports: Collection[str]) -> None:
        """``reports`` are the names of the reports with rows."""
        self._parameters = parameters
        self._reports = [name for name in SUMMARIES if name in reports]
        self._front = (RUN, LABEL, *parameters.columns, REPEAT)
        self._schema = Schema(
            "summaries",
            "Summaries of all runs",
            (*self._front, REPORT, *_union(self._reports)),
        )
        self.header = delimited(table_of(self._schema, []), ",", "ns", safe=False)

    def rows(self, result: RunResult, digest: Digest) -> str:
        """Return the CSV rows of one run, without the header."""
        run = result.run
        data: dict[str, list[Any]] = {column.name: [] for column in self._schema.columns}
        for name in self._reports:
            if name in digest.summaries:
                summary = digest.summaries[name]
                rows = len(summary.values[0])
                values_of = {
                    REPORT.name: [name] * rows,
                    **dict(zip(summary.columns, summary.values, strict=True)),
                }
                empty = [None] * rows
                for column, values in data.items():
                    values.extend(values_of.get(column, empty))
        labels = (run.label, run.name or None, *self._parameters.of(run), run.repeat)
        for front, label in zip(self._front, labels, strict=True):
            data[front.name] = [label] * len(data[REPORT.name])
        text = delimited(Table(self._schema, data), ",", "ns", safe=False)
        return text.removeprefix(self.header)


def _union(reports: Sequence[str]) -> list[Column]:
    """Return the columns of all reports, each name once. A column that is text in one report is text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find_report(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    return list(columns.values())


def merged_kernels(
    pool: Pool, combinations: Sequence[Sequence[RunResult]], parameters: Parameters
) -> Iterator[str]:
    """Yield CSV: the header, then the kernels of each combination, merged over its complete runs.

    Parts of ``pool`` are positions in ``combinations``.
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
    """Yield for each kernel the cells of ``cuda_gpu_kern_sum``."""
    for share, row in zip(shares(kernels), kernels, strict=True):
        name, count, total, *rest = row
        yield (share, total, count, *rest, name)


def check_replaceable(output: Path) -> None:
    """Raise OutputError if result files exist, unless the header of results.csv shows that they are ours."""
    existing = [
        output / name for name in (RESULTS, PARQUET, SUMMARIES_FILE, KERNELS_FILE) if (output / name).exists()
    ]
    if existing and not _starts_with(output / RESULTS, _OUR_HEADER):
        raise OutputError(
            f"{existing[0]} exists, and nothing says that nsyswrap wrote it",
            "give another --output, or move it away",
        )


def _starts_with(file: Path, text: str) -> bool:
    try:
        with file.open("rb") as content:
            return content.read(len(text)) == text.encode()
    except OSError:
        return False


def write_results(output: Path, results: Table) -> list[Path]:
    """Write results.csv and, if pyarrow is installed, results.parquet. Return the files written.

    Without pyarrow an existing results.parquet is removed, because it holds other runs.
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
    """Write summaries.csv and kernels.csv with one digest in memory at a time. Return the files written."""
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
                    file.write(summaries.rows(result, digest))
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
