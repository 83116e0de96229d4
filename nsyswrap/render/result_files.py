"""Write the files that hold all runs; each replaces the older file of its name once it is complete.

Tables too long for memory are written as CSV in pieces: every summary of every run, and the merged kernels.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import replacing, write
from nsyswrap.base.units import Unit
from nsyswrap.render.formats import csv, parquet
from nsyswrap.reports import SUMMARIES, find_report
from nsyswrap.reports.nsys.cuda_gpu_kern_sum import SCHEMA as KERNELS
from nsyswrap.reports.runs.combinations import combinations, runs_of
from nsyswrap.reports.runs.digest import read_digest
from nsyswrap.reports.runs.merge import Pool, shares
from nsyswrap.reports.runs.tables import LABEL, RANK, REPEAT, REPORT, RUN, RUNS, combination
from nsyswrap.reports.table import Schema, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TextIO

    from nsyswrap.reports.runs.digest import Summary
    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult
    from nsyswrap.reports.runs.merge import PooledStatistics
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Column

RESULTS, PARQUET = "results.csv", "results.parquet"
_SUMMARIES, _KERNELS = "summaries.csv", "kernels.csv"
_FIRST_COLUMNS = f"{RUN.name},{LABEL.name},"  # how results.csv begins, the first file that is written


def check_replaceable(output: Path) -> None:
    """Raise OutputError for files in the way, unless results.csv shows that they were written here before."""
    files = [output / name for name in (RESULTS, PARQUET, _SUMMARIES, _KERNELS)]
    present = [file for file in files if file.exists()]
    if present and not _is_ours(output / RESULTS):
        raise OutputError(
            f"{present[0]} already exists and was not written by nsyswrap",
            "use another --output, or move the file away",
        )


def _is_ours(results: Path) -> bool:
    try:
        with results.open("rb") as content:
            return content.read(len(_FIRST_COLUMNS)) == _FIRST_COLUMNS.encode()
    except OSError:
        return False


def write_results(output: Path, results: Table) -> list[Path]:
    """Write results.csv and, where pyarrow is installed, results.parquet. Return what was written.

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
    """Write summaries.csv and kernels.csv, one digest in memory at a time. Return what was written."""
    groups = combinations(results)
    parts = {key: part for part, key in enumerate(groups)}
    reports = [name for name in SUMMARIES if name in wanted and any(name in one.reports for one in results)]
    schema = _summaries_schema(parameters, reports)
    with closing(Pool(scratch / "kernels.sqlite")) as pool:
        with _replacing(output / _SUMMARIES) as file:
            file.write(_header(schema))
            for result in results:
                if result.digest:
                    digest = read_digest(result.digest)
                    summaries = {name: digest.summaries[name] for name in reports if name in digest.summaries}
                    file.write(_without_header(_summary_rows(schema, parameters, result.run, summaries)))
                    if result.compared:
                        pool.add(parts[combination(result.run)], digest.kernels)
        with _replacing(output / _KERNELS) as file:
            file.writelines(_merged_kernels(pool, list(groups.values()), parameters))
    return [output / _SUMMARIES, output / _KERNELS]


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    with (
        replacing(path) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file


def _header(schema: Schema) -> str:
    return csv.delimited(table_of(schema, []), ",", "ns", safe=False)


def _without_header(table: Table) -> str:
    return csv.delimited(table, ",", "ns", safe=False).removeprefix(_header(table.schema))


def _summaries_schema(parameters: Parameters, reports: Sequence[str]) -> Schema:
    """Return the labels of a run, then the columns of all reports. A text in one of them is a text."""
    columns: dict[str, Column] = {}
    for column in (column for name in reports for column in find_report(name).columns):
        if column.name not in columns or column.unit is Unit.TEXT:
            columns[column.name] = column
    front = (RUN, LABEL, *parameters.columns, REPEAT, RANK)
    return Schema("summaries", "Summaries of all runs", (*front, REPORT, *columns.values()))


def _summary_rows(
    schema: Schema, parameters: Parameters, run: RecordedRun, summaries: Mapping[str, Summary]
) -> Table:
    """Return the rows of one run. A column that a report lacks is empty."""
    data: dict[str, list[Any]] = {column.name: [] for column in schema.columns}
    labels = (run.label, run.name or None, *parameters.of(run), run.repeat, run.rank)
    for name, summary in summaries.items():
        rows = len(summary.values[0])
        own: dict[str, list[Any]] = dict(zip(summary.columns, summary.values, strict=True))
        own |= {column: [label] * rows for column, label in zip(data, (*labels, name), strict=False)}
        for column, values in data.items():
            values.extend(own.get(column, [None] * rows))
    return Table(schema, data)


def _merged_kernels(
    pool: Pool, groups: Sequence[Sequence[RunResult]], parameters: Parameters
) -> Iterator[str]:
    """Yield the header, then the kernels of each combination over all its runs that are done, as CSV.

    The pool's parts are the positions of the combinations.
    """
    schema = Schema("kernels", "Kernels over repeats", (LABEL, *parameters.columns, RUNS, *KERNELS.columns))
    yield _header(schema)
    for part, kernels in pool.parts():
        run = groups[part][0].run
        front = (run.name or None, *parameters.of(run), _compared_runs(groups[part]))
        yield _without_header(table_of(schema, [(*front, *row) for row in _kernel_rows(kernels)]))


def _compared_runs(group: Sequence[RunResult]) -> int:
    return len(runs_of([result for result in group if result.compared]))


def _kernel_rows(kernels: Sequence[PooledStatistics]) -> Iterator[tuple[object, ...]]:
    """Yield the cells of ``cuda_gpu_kern_sum`` for each kernel."""
    for share, row in zip(shares(kernels), kernels, strict=True):
        name, count, total, *rest = row
        yield (share, total, count, *rest, name)
