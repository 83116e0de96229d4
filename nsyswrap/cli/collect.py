"""``nsyswrap collect``: many finished runs as one table, with progress, comparison and what is lacking."""

from __future__ import annotations

import glob
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CaptureError, OutputError, UsageError
from nsyswrap.cli.output import Look, note, progress_line, step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.reports.runs.gather import RunResult
    from nsyswrap.reports.runs.tables import Parameters


_TO_COME = ("planned", "running")
_LISTED = 10  # runs that lack something, by name

_DEFAULT_OUTPUT = Path("nsyswrap-collected")
_TOP = 20


def progress(runs: int) -> Callable[[RunResult], None]:
    """Return a callback that says on a terminal how far it is."""
    show, begun = progress_line(), time.monotonic()
    seen = {"read": 0, "damaged": 0}

    def on_result(result: RunResult) -> None:
        seen["read"] += 1
        seen["damaged"] += result.run.outcome == "damaged"
        left_s = (time.monotonic() - begun) / seen["read"] * (runs - seen["read"])
        rest = f", {left_s:.0f} s left" if seen["read"] < runs else ""
        show(f"{seen['read']:,} of {runs:,} captures, {seen['damaged']:,} damaged{rest}" if rest else "")

    return on_result


def comparison(results: Sequence[RunResult], parameters: Parameters, by: str, top: int) -> str:
    """Return the screen: the combinations, and what comparing them comes to."""
    from nsyswrap.render.formats.text import styled, table_lines  # noqa: PLC0415
    from nsyswrap.render.result_files import RESULTS  # noqa: PLC0415
    from nsyswrap.reports.runs.combinations import (  # noqa: PLC0415
        by_combination,
        chosen_measure,
        combinations,
        comparison_verdict,
        ranked,
    )

    groups, measure = list(combinations(results).values()), chosen_measure(results, by)
    table = by_combination(groups, parameters, measure, top)
    said = comparison_verdict(ranked(groups, measure), parameters, measure)
    look, whole = Look(), f"{RESULTS} has every run"
    return styled(table_lines(replace(table, verdict=said), look.width, whole=whole), color=look.color)


def list_lacking(results: Sequence[RunResult]) -> None:
    """Say how many runs ended how, where not all are done, and name those that went wrong, the first few."""
    from nsyswrap.render.formats.text import printable  # noqa: PLC0415

    outcomes = Counter(result.run.outcome for result in results)
    if set(outcomes) != {"done"}:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        note(f"nsyswrap: {len(results):,} runs: {counts}")
    lacking = [result for result in results if result.totals is None or result.run.outcome != "done"]
    wrong = [result for result in lacking if result.run.outcome not in _TO_COME]
    for result in wrong[:_LISTED]:
        why = result.run.message or ("" if result.totals else "no capture")
        said = f"{result.run.label}: {result.run.outcome}" + (f": {why}" if why else "")
        note(f"nsyswrap: {printable(said)}")
    if len(wrong) > _LISTED:
        note(f"nsyswrap: {len(wrong) - _LISTED:,} more like these")


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
def command(  # noqa: PLR0913 - the options of the command
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
    found = [Path(path) for given in paths for path in expanded(given)]
    collect(found, output or _default_output(found), jobs=jobs, reports=reports, by=by, top=top)


def collect(  # noqa: PLR0913 - the same
    paths: Sequence[Path],
    output: Path,
    *,
    jobs: int | None = None,
    reports: Sequence[str] = (),
    by: str = "",
    top: int = _TOP,
) -> None:
    """Write the tables of all runs at or below ``paths``, and show the comparison of their combinations.

    Raises CaptureError where there is no capture that can be read.
    """
    from nsyswrap.cli.run_states import how_far  # noqa: PLC0415
    from nsyswrap.reports.runs.combinations import chosen_measure  # noqa: PLC0415
    from nsyswrap.reports.runs.find import find_runs  # noqa: PLC0415
    from nsyswrap.reports.runs.gather import (  # noqa: PLC0415
        gather,
        usable_cpus,
    )
    from nsyswrap.reports.runs.tables import parameters_of  # noqa: PLC0415

    wanted = _summaries(reports)
    chosen_measure([], by)  # a wrong name is said before anything is read
    runs = find_runs(paths, how_far())
    if not runs:
        places = ", ".join(map(str, paths))
        raise CaptureError(
            f"no run and no capture in {places}", "give run folders, .sqlite or .nsys-rep files"
        )
    _make(output)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as scratch:
        results = gather(runs, Path(scratch), jobs or usable_cpus(), progress(len(runs)))
        readable = any(result.totals for result in results)
        if not readable and not any(run.repeat for run in runs):
            list_lacking(results)
            raise CaptureError(f"none of {len(runs):,} captures can be read")
        parameters = parameters_of(results)
        written = _written(output, results, parameters, wanted, Path(scratch))
    if readable:
        click.echo(comparison(results, parameters, by, top), nl=False)
    list_lacking(results)
    note(f"wrote {', '.join(map(str, written))}")
    if not readable:  # how the runs of a batch ended is told all the same
        raise CaptureError(f"none of {len(runs):,} runs has a capture that can be read")


def expanded(given: str) -> list[Path]:
    """Return the path itself, or what a pattern stands for; raises CaptureError where that is nothing."""
    from nsyswrap.reports.runs.find import CAPTURES  # noqa: PLC0415

    path = Path(given)
    if path.exists() or not glob.has_magic(given):
        return [path]
    found = [Path(match) for match in sorted(glob.glob(given, recursive=True))]  # noqa: PTH207 - absolute ones
    folders = {match for match in found if match.is_dir()}
    captures = [match for match in found if match in folders or match.suffix in CAPTURES]
    captures = [match for match in captures if folders.isdisjoint(match.parents)]  # else found through those
    if not captures:
        raise CaptureError(f"nothing matches {given}", "a pattern as in 'runs/**/*.sqlite', in quotes")
    return captures


def _default_output(paths: Sequence[Path]) -> Path:
    from nsyswrap.reports.runs.find import is_batch  # noqa: PLC0415

    return paths[0] if len(paths) == 1 and is_batch(paths[0]) else _DEFAULT_OUTPUT


def _make(folder: Path) -> None:
    """Make the folder of the tables before anything is read: that can take a while.

    Raises OutputError where that cannot be, or where files of somebody else's are in the way.
    """
    from nsyswrap.render.result_files import check_replaceable  # noqa: PLC0415

    check_replaceable(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "give another --output") from None


def _summaries(names: Sequence[str]) -> set[str]:
    """Return the reports that go into summaries.csv; raises UsageError for one that does not sum up."""
    from nsyswrap.reports.runs.digest import SUMMARIES  # noqa: PLC0415

    wanted = {name for part in names for name in part.split(",")}
    for name in wanted - set(SUMMARIES):
        raise UsageError(f"no summary is called {name!r}", f"summaries: {' '.join(SUMMARIES)}")
    return wanted or set(SUMMARIES)


def _written(
    output: Path, results: Sequence[RunResult], parameters: Parameters, wanted: set[str], scratch: Path
) -> list[Path]:
    """Write all the files, and return their paths."""
    from nsyswrap.render.result_files import PARQUET, write_results, write_rows  # noqa: PLC0415
    from nsyswrap.reports.runs.tables import results_table  # noqa: PLC0415

    with step("writing the tables …"):
        written = write_results(output, results_table(results, parameters))
        if not any(path.name == PARQUET for path in written):
            note(f"nsyswrap: no {PARQUET}: that needs pyarrow (pip install 'nsyswrap[parquet]')")
        return [*written, *write_rows(output, results, parameters, wanted, scratch)]
