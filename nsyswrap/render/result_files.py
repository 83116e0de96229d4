"""The files that hold all runs. Each replaces the one of its name once it is complete."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import replacing, write
from nsyswrap.render.formats import csv, parquet
from nsyswrap.render.result_rows import Summaries, merged_kernels
from nsyswrap.reports.runs.combinations import combinations
from nsyswrap.reports.runs.digest import read
from nsyswrap.reports.runs.merge import Pool
from nsyswrap.reports.runs.tables import LABEL, RUN, combination

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from nsyswrap.reports.runs.gather import Result
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Table

RESULTS, PARQUET, SUMMARIES, KERNELS = "results.csv", "results.parquet", "summaries.csv", "kernels.csv"
_OURS = f"{RUN.name},{LABEL.name},"  # how results.csv begins, the first that is written


def check_replaceable(output: Path) -> None:
    """Raise OutputError for files in the way, unless results.csv shows that they were written here before."""
    there = [output / name for name in (RESULTS, PARQUET, SUMMARIES, KERNELS) if (output / name).exists()]
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
    output: Path, results: Sequence[Result], parameters: Parameters, wanted: Collection[str], scratch: Path
) -> list[Path]:
    """Write summaries.csv and kernels.csv, one digest in memory at a time; return what was written."""
    groups = combinations(results)
    parts = {key: part for part, key in enumerate(groups)}
    reports = {name for result in results for name in result.reports if name in wanted}
    summaries = Summaries(parameters, reports)
    with closing(Pool(scratch / "kernels.sqlite")) as pool:
        with _replacing(output / SUMMARIES) as file:
            file.write(summaries.header)
            for result in results:
                if result.digest:
                    digest = read(result.digest)
                    file.write(summaries.of(result, digest))
                    if result.compared:
                        pool.add(parts[combination(result.run)], digest.kernels)
        with _replacing(output / KERNELS) as file:
            file.writelines(merged_kernels(pool, list(groups.values()), parameters))
    return [output / SUMMARIES, output / KERNELS]


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    with (
        replacing(path) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file
