"""Write the files that hold all runs; each replaces the older file of its name once it is complete.

The folder can come from elsewhere: a link under one of these names is replaced, not followed.

Tables too long for memory are written as CSV in pieces: every summary of every run, and the merged kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from nsyswrap.analysis.compare.comparability import machine_of
from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import head, replacing, temporary_folder, write
from nsyswrap.render.formats import csv, parquet
from nsyswrap.reports import NSYS, SUMMARIES
from nsyswrap.reports.nsys.cuda_gpu_kern_sum import SCHEMA as KERNELS
from nsyswrap.reports.runs.combinations import MACHINE, combinations, key_of, runs_of, setup_of
from nsyswrap.reports.runs.digest import CellRows, Kernel, reread
from nsyswrap.reports.runs.merge import Pool, shares
from nsyswrap.reports.runs.tables import LABEL, RUN, RUNS, Parameters
from nsyswrap.reports.runs.workers import in_blocks
from nsyswrap.reports.table import Schema, Table, table_of

if TYPE_CHECKING:
    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult

RESULTS, PARQUET = "results.csv", "results.parquet"
SUMMARIES_CSV, _SUMMARIES_PARQUET, _KERNELS = "summaries.csv", "summaries.parquet", "kernels.csv"
# The columns of summaries.csv: each value of each row of a report, a number or a text. Rows count from 0.
_VALUES = {"run": str, "rank": int, "report": str, "row": int, "column": str, "value": float, "text": str}
_SPECIAL = re.compile('[,"\r\n]')
_TEXTS = 1_000  # in memory: runs have the same names
_AT_ONCE = 10_000  # rows of kernels.csv: writing a table has a cost for each of its columns
_FIRST_COLUMNS = f"{RUN.name},{LABEL.name},"  # how results.csv begins, the first file that is written


# The summaries of nsys, without those that hold the rows of others, and how busy each GPU was. Making the
# others of nsyswrap takes as long again.
_ROWS_OF_OTHERS = ("cuda_gpu_sum", "cuda_api_gpu_sum")
WRITTEN = tuple(name for name in SUMMARIES if name in {*NSYS, "gpu_time"} and name not in _ROWS_OF_OTHERS)


class FileContents(NamedTuple):
    """What is written: the reports of summaries.csv, and whether cells of CSV are guarded."""

    reports: Collection[str] = WRITTEN
    csv_safe: bool = False


def check_replaceable(output: Path) -> None:
    """Raise OutputError for files in the way, unless results.csv shows that they were written here before."""
    files = [output / name for name in (RESULTS, PARQUET, SUMMARIES_CSV, _SUMMARIES_PARQUET, _KERNELS)]
    present = list(filter(paths.is_taken, files))
    if present and not _is_ours(output / RESULTS):
        raise OutputError(
            f"{present[0]} already exists and was not written by nsyswrap",
            "use another --output, or move the file away",
        )


def _is_ours(results: Path) -> bool:
    try:
        return head(results, len(_FIRST_COLUMNS)) == _FIRST_COLUMNS.encode()
    except OSError:
        return False


def write_results(output: Path, results: Table, wanted: FileContents) -> list[Path]:
    """Write results.csv and, where pyarrow is installed, results.parquet. Return what was written.

    A results.parquet that cannot be replaced is removed: it would be that of other runs.
    """
    with _replacing(output / RESULTS) as file:
        file.write(csv.render([results], safe=wanted.csv_safe)[RESULTS])
    try:
        content = parquet.render([results])[PARQUET]
    except Unavailable:
        (output / PARQUET).unlink(missing_ok=True)
        return [output / RESULTS]
    write(output / PARQUET, content, follow=False)
    return [output / RESULTS, output / PARQUET]


def write_rows(
    output: Path, results: Sequence[RunResult], parameters: Parameters, wanted: FileContents, jobs: int
) -> list[Path]:
    """Write summaries and kernels.csv, a few digests in memory at a time. Return what was written.

    ``jobs`` processes read the digests.
    """
    groups = combinations(results)
    parts = {key: part for part, key in enumerate(groups)}
    summaries = output / SUMMARIES_CSV
    with temporary_folder() as scratch, closing(Pool(scratch / "kernels")) as pool:
        plain = scratch / SUMMARIES_CSV if wanted.csv_safe else summaries  # Parquet is made of it
        ways = {plain: False, summaries: wanted.csv_safe}
        work = partial(_read, list(ways.values()), wanted.reports, parts)
        with ExitStack() as opened:
            places = [opened.enter_context(replacing(path, follow=False)) for path in ways]
            files = [opened.enter_context(place.open("wb")) for place in places]
            for file in files:
                file.write(f"{','.join(_VALUES)}\n".encode())
            for block in opened.enter_context(closing(in_blocks(work, results, jobs))):
                for file, lines in zip(files, block.lines, strict=True):
                    file.write(lines)
                for number, kernels in block.kernels:
                    pool.add(number, kernels)
        written = [summaries, *_as_parquet(plain, output)]
        with _replacing(output / _KERNELS) as text:
            text.writelines(_merged_kernels(pool, list(groups.values()), parameters, safe=wanted.csv_safe))
    return [*written, output / _KERNELS]


class _Block(NamedTuple):
    """The lines of summaries.csv for some runs, for each way of writing them, and kernels by part."""

    lines: list[bytes]
    kernels: list[tuple[int, Sequence[Kernel]]]


def _read(
    ways: Sequence[bool],
    reports: Collection[str],
    parts: Mapping[tuple[str, ...], int],
    results: Sequence[RunResult],
) -> _Block:
    """Read the digests of these runs. ``ways``: whether cells are guarded."""
    lines: list[list[str]] = [[] for _ in ways]
    kernels: list[tuple[int, Sequence[Kernel]]] = []
    wanted = [name for name in SUMMARIES if name in reports]
    for result in results:
        if result.digest:
            of_run, summaries = reread(result.digest, wanted)
            for own, safe in zip(lines, ways, strict=True):
                for name, rows in summaries.items():
                    own.extend(_lines(result.run, name, rows, safe=safe))
            if result.compared:
                kernels.append((parts[key_of(result)], of_run))
    return _Block(["".join(own).encode("utf-8", "backslashreplace") for own in lines], kernels)


def _lines(run: RecordedRun, report: str, rows: CellRows, *, safe: bool) -> Iterator[str]:
    """Yield the lines of a report, one for each cell. Numbers and texts have columns apart."""
    front = f"{_cell(run.label, safe)},{'' if run.rank is None else run.rank},{report}"
    for number, row in enumerate(rows):
        start = f"{front},{number},"
        between = f",\n{start}"
        for part in row:
            if isinstance(part, str):
                yield f"{start}{part.replace(';', between)},\n"
            else:
                column, text = part
                yield f"{start}{column},,{_cell(text, safe)}\n"


@lru_cache(_TEXTS)
def _cell(text: str, safe: bool) -> str:  # noqa: FBT001 - the cache knows no keywords
    return csv.quoted(_SPECIAL, csv.guarded(text) if safe else text)


def _as_parquet(source: Path, output: Path) -> list[Path]:
    """Write summaries.parquet, where pyarrow is installed. An old one is removed otherwise."""
    try:
        with replacing(output / _SUMMARIES_PARQUET, follow=False) as part:
            parquet.from_csv(source, part, _VALUES)
    except Unavailable:
        (output / _SUMMARIES_PARQUET).unlink(missing_ok=True)
        return []
    return [output / _SUMMARIES_PARQUET]


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    with (
        replacing(path, follow=False) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file


def _merged_kernels(
    pool: Pool, groups: Sequence[Sequence[RunResult]], parameters: Parameters, *, safe: bool
) -> Iterator[str]:
    """Yield the header, then the kernels of each combination over all its runs that are done, as CSV.

    The pool's groups are the positions of the combinations.
    """
    columns = (LABEL, *parameters.columns, RUNS, *KERNELS.columns, MACHINE)
    schema = Schema("kernels", "Kernels over repeats", *columns)
    header = csv.delimited(table_of(schema, []), ",", "ns", safe=safe)
    yield header
    rows: list[tuple[object, ...]] = []
    for number, kernels in pool.groups():
        run = groups[number][0].run
        front = (
            run.name or None,
            *parameters.of(run),
            len(runs_of([one for one in groups[number] if one.compared])),
        )
        machine = ", ".join(filter(None, machine_of(setup_of(groups[number])))) or None
        for share, (name, count, total, *others) in zip(shares(kernels), kernels, strict=True):
            rows.append((*front, share, total, count, *others, name, machine))  # as in cuda_gpu_kern_sum
        if len(rows) >= _AT_ONCE:
            yield csv.delimited(table_of(schema, rows), ",", "ns", safe=safe).removeprefix(header)
            rows = []
    if rows:
        yield csv.delimited(table_of(schema, rows), ",", "ns", safe=safe).removeprefix(header)
