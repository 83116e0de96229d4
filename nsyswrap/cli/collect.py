"""``nsyswrap collect``: many finished runs as one table, and a comparison of their configurations."""

from __future__ import annotations

import glob
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CaptureError, OutputError, UsageError
from nsyswrap.base.install import pip_install
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import BATCH
from nsyswrap.base.text import printable
from nsyswrap.cli.output import note, progress_line, step, terminal_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.reports.runs.gather import RunResult

with lazy_imports():
    from nsyswrap.cli import batch_status
    from nsyswrap.render import result_files
    from nsyswrap.render.formats import text
    from nsyswrap.reports.runs import combinations, digest, find, gather, tables

_TO_COME = ("planned", "running")
_LISTED = 10  # runs that went wrong, by name

_DEFAULT_OUTPUT = Path("nsyswrap-collected")
_TOP = 20


def progress(runs: int) -> Callable[[RunResult], None]:
    """Return a callback for each result that shows the progress on a terminal."""
    show, begun = progress_line(), time.monotonic()
    counts = {"read": 0, "damaged": 0}

    def on_result(result: RunResult) -> None:
        counts["read"] += 1
        counts["damaged"] += result.run.outcome == "damaged"
        left_s = (time.monotonic() - begun) / counts["read"] * (runs - counts["read"])
        rest = f", {left_s:.0f} s left" if counts["read"] < runs else ""
        show(f"{counts['read']:,} of {runs:,} captures, {counts['damaged']:,} damaged{rest}" if rest else "")

    return on_result


def list_lacking(results: Sequence[RunResult]) -> None:
    """Print the number of runs by outcome unless all are done, and the first few that went wrong."""
    outcomes = Counter(result.run.outcome for result in results)
    if set(outcomes) != {"done"}:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        note(f"nsyswrap: {len(results):,} runs: {counts}")
    lacking = [result for result in results if result.totals is None or result.run.outcome != "done"]
    wrong = [result for result in lacking if result.run.outcome not in _TO_COME]
    for result in wrong[:_LISTED]:
        why = result.run.message or ("" if result.totals else "no capture")
        ending = f"{result.run.label}: {result.run.outcome}" + (f": {why}" if why else "")
        note(f"nsyswrap: {printable(ending)}")
    if len(wrong) > _LISTED:
        note(f"nsyswrap: {len(wrong) - _LISTED:,} more runs with problems")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR|GLOB...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"Where the tables go. Default: the folder of the batch, if it is one alone, or {_DEFAULT_OUTPUT}/.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Captures to read at once, each in memory. Default: one a CPU.",
)
@click.option(
    "-r",
    "--report",
    "reports",
    multiple=True,
    metavar="NAME",
    help="Only this report in summaries.csv; repeatable. Default: every one that sums up.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    default="",
    help="Compare by this figure of results.csv. Default: the time in kernels.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=_TOP,
    show_default=True,
    metavar="N",
    help="Combinations to show.",
)
def command(
    paths: Sequence[str],
    *,
    output: Path | None,
    jobs: int | None,
    reports: Sequence[str],
    by: str,
    top: int,
) -> None:
    """Make one table of many finished runs.

    Takes folders of batches, run folders, captures, and folders with any of these below; and patterns in
    quotes, where `**` stands for any folders. Written are results.csv and results.parquet (a row a run:
    parameters, outcome, totals), summaries.csv (every report of every run) and kernels.csv (kernels over all
    runs of a combination that are done, exact). What is read is left as it is; damaged captures are listed.
    """
    places = [Path(path) for pattern in paths for path in expanded(pattern)]
    is_one_batch = len(places) == 1 and (places[0] / BATCH).is_file()
    folder = output or (places[0] if is_one_batch else _DEFAULT_OUTPUT)
    collect(places, folder, jobs=jobs, reports=reports, by=by, top=top)


def collect(
    paths: Sequence[Path],
    output: Path,
    *,
    jobs: int | None = None,
    reports: Sequence[str] = (),
    by: str = "",
    top: int = _TOP,
) -> None:
    """Write the tables of all runs at or below ``paths``, and print the comparison of configurations.

    Raises CaptureError if no capture can be read.
    """
    wanted = _summaries(reports)
    combinations.chosen_measure([], by)  # an unknown name is an error before anything is read
    runs = find.find_runs(paths, batch_status.state_reader())
    if not runs:
        places = ", ".join(map(str, paths))
        raise CaptureError(f"no runs or captures in {places}", "give run folders, .sqlite or .nsys-rep files")
    _make(output)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as scratch:
        results = gather.gather(runs, Path(scratch), jobs or gather.usable_cpus(), progress(len(runs)))
        readable = any(result.totals for result in results)
        if not readable and not any(run.repeat for run in runs):
            list_lacking(results)
            raise CaptureError(f"none of {len(runs):,} captures can be read")
        parameters = tables.parameters_of(results)
        with step("writing the tables …"):
            written = result_files.write_results(output, tables.results_table(results, parameters))
            if result_files.PARQUET not in [path.name for path in written]:
                note(f"nsyswrap: {result_files.PARQUET} not written: it needs pyarrow")
                note(f"  {pip_install('parquet')}")
            written += result_files.write_rows(output, results, parameters, wanted, Path(scratch))
    if readable:
        layout = terminal_layout()
        table = combinations.compare(results, parameters, by, top)
        lines = text.table_lines(table, layout.width, whole=f"{result_files.RESULTS} has every run")
        click.echo(text.styled(lines, color=layout.color), nl=False)
    list_lacking(results)
    note(f"wrote {', '.join(map(str, written))}")
    if not readable:  # the outcomes of the runs were listed all the same
        raise CaptureError(f"none of {len(runs):,} runs has a readable capture")


def expanded(pattern: str) -> list[Path]:
    """Return the paths that match a pattern, or the path itself. Raises CaptureError without a match."""
    path = Path(pattern)
    if path.exists() or not glob.has_magic(pattern):
        return [path]
    matches = [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 - pathlib cannot glob absolute patterns
    folders = {match for match in matches if match.is_dir()}
    captures = [match for match in matches if match in folders or match.suffix in find.CAPTURES]
    captures = [match for match in captures if folders.isdisjoint(match.parents)]  # collected with the folder
    if not captures:
        raise CaptureError(
            f"no files match {pattern}", "put the pattern in quotes, for example 'runs/**/*.sqlite'"
        )
    return captures


def _make(folder: Path) -> None:
    """Make the output folder before anything is read, because reading can take long.

    Raises OutputError if the folder cannot be made, or holds files that nsyswrap did not write.
    """
    result_files.check_replaceable(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "use another --output") from None


def _summaries(names: Sequence[str]) -> set[str]:
    """Return the reports for summaries.csv. Raises UsageError for a report that is not a summary."""
    wanted = {name for part in names for name in part.split(",")}
    for name in wanted - set(digest.SUMMARIES):
        raise UsageError(f"no summary named {name!r}", f"summaries: {' '.join(digest.SUMMARIES)}")
    return wanted or set(digest.SUMMARIES)
