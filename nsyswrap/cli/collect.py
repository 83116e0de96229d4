"""``nsyswrap collect``: many finished runs as one table, and a comparison of their configurations."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, UsageError, exit_code_of, nothing_read
from nsyswrap.base.files import temporary_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import BATCH, outcome_words
from nsyswrap.base.text import ascii_layout, counted, printable, quoted, unknown
from nsyswrap.base.threads import usable_cpus
from nsyswrap.base.version import pip_install
from nsyswrap.cli.folders import check_no_run_numbers, expanded
from nsyswrap.cli.help import HelpCommand, completes, option
from nsyswrap.cli.options import (
    COUNT,
    OUTPUT,
    PATH,
    SHOW,
    check_ending,
    csv_safe_option,
    output_option,
    with_options,
)
from nsyswrap.cli.output import note, print_data, progress_line, say, step, terminal_layout
from nsyswrap.record.batch import executors

with lazy_imports():
    from nsyswrap import reports as all_reports
    from nsyswrap.cli import batch_status, collect_blocks
    from nsyswrap.record.batch import plan as plans
    from nsyswrap.render import result_files
    from nsyswrap.render.formats import text
    from nsyswrap.reports import brief as briefs
    from nsyswrap.reports.runs import combinations, find, gather, tables

_TO_COME = ("planned", "running")
_MB = 1_000_000
_LARGE_BYTES = 10 * _MB  # of a file whose size is told
_LISTED = 10  # runs that went wrong, by name

_DEFAULT_OUTPUT = Path("nsyswrap-collected")
_TOP = 20
_FORMATS = ("text", "brief")
_HERE = executors.NAMES[0]  # the executor that reads captures in this process
_ELSEWHERE = executors.with_blocks()


def progress(runs: int) -> Callable[[gather.RunResult], None]:
    """Return a callback for each result that shows the progress on a terminal."""
    show, begun = progress_line(), time.monotonic()
    counts = {"read": 0, "damaged": 0}

    def on_result(result: gather.RunResult) -> None:
        counts["read"] += 1
        counts["damaged"] += result.run.outcome == "damaged"
        left_s = (time.monotonic() - begun) / counts["read"] * (runs - counts["read"])
        rest = f", {left_s:.0f} s left" if counts["read"] < runs else ""
        show(f"{counts['read']:,} of {runs:,} captures, {counts['damaged']:,} damaged{rest}" if rest else "")

    return on_result


def list_lacking(results: Sequence[gather.RunResult]) -> None:
    """Print the number of runs by outcome unless all are done, and the first few that went wrong."""
    outcomes = Counter(result.run.outcome for result in results)
    if set(outcomes) != {"done"}:
        counts = ", ".join(f"{count:,} {outcome_words(outcome)}" for outcome, count in outcomes.most_common())
        note(f"nsyswrap: {counted(len(results), tables.nouns_of(results))}: {counts}")
    lacking = [result for result in results if result.totals is None or result.run.outcome != "done"]
    wrong = [result for result in lacking if result.run.outcome not in _TO_COME]
    for result in wrong[:_LISTED]:
        why = result.run.message or ("" if result.totals else "no capture")
        rank = "" if result.run.rank is None else f" rank {result.run.rank}"
        ending = f"{result.run.label}{rank}: {outcome_words(result.run.outcome)}" + (
            f": {why}" if why else ""
        )
        note(f"nsyswrap: {printable(ending)}")
    if len(wrong) > _LISTED:
        note(f"nsyswrap: {counted(len(wrong) - _LISTED, 'more runs')} with problems")


def show_rank_verdicts(results: Sequence[gather.RunResult]) -> None:
    """Print the verdict on the ranks of each run, of the first few runs."""
    verdicts = {
        (result.run.batch, result.run.label): printable(f"{result.run.label}: {result.ranks.verdict}")
        for result in results
        if result.ranks and result.ranks.verdict
    }
    for text in list(verdicts.values())[:_LISTED]:
        say(f"{text}\n")
    if len(verdicts) > _LISTED:
        note(
            f"nsyswrap: rank_verdict in results.csv has the verdicts of {len(verdicts) - _LISTED:,} more runs"
        )


@click.command(
    cls=HelpCommand,
    examples=(
        "nsyswrap collect nsyswrap-runs/sweep --by busy_ns",
        "nsyswrap collect 'runs/**/*.sqlite' -o tables",
    ),
    other_options={"--sort": "--by"},
)
@click.argument("patterns", nargs=-1, required=True, metavar="DIR|GLOB...")
@option(SHOW, "--by COLUMN", "Compare by this column of results.csv.", default="", show_default="kernel_ns")
@option(SHOW, "--top N", "Show at most N combinations.", type=COUNT, default=_TOP, show_default=True)
@option(
    SHOW,
    "--format FORMAT",
    "Print text, or brief: one JSON packet of 4 kB.",
    name="form",
    choices=_FORMATS,
    default=_FORMATS[0],
)
@output_option("Write the tables into this folder.", is_folder=False)
@option(
    OUTPUT,
    "-r, --report NAME",
    "Write this report, or all, to summaries.csv; repeatable.",
    name="reports",
    multiple=True,
    shell_complete=completes(lambda: all_reports.SUMMARIES),
)
@csv_safe_option
@option(OUTPUT, "--jobs N", "Read N captures at a time.", type=COUNT, show_default="one per CPU")
@option(
    OUTPUT,
    "--executor WHERE",
    f"Read captures here or elsewhere: {', '.join((_HERE, *_ELSEWHERE))}.",
    choices=(_HERE, *_ELSEWHERE),
    default=_HERE,
)
@with_options(
    *(
        option(OUTPUT, f"--{name} KEY=VALUE", one.settings_help, multiple=True)
        for name, one in _ELSEWHERE.items()
        if one.settings_help
    )
)
@option(OUTPUT, "--block DIR", "A task of an executor.", type=PATH, hidden=True)
def command(
    patterns: Sequence[str],
    *,
    output: Path | None,
    jobs: int | None,
    reports: Sequence[str],
    by: str,
    top: int,
    form: str,
    csv_safe: bool,
    executor: str,
    block: Path | None,
    **settings: Sequence[str],
) -> None:
    """Put many runs into one table and compare them.

    DIR is a batch, a run folder, a capture or any folder that holds some. GLOB is a quoted pattern; `**`
    stands for any folders. Damaged captures are listed and left out. Runs of a plan are compared by
    configuration. Others are listed: program, how busy the GPU was, why it was idle, and what to do first.
    A wide terminal has GPU and date, too; results.csv always has.

    \b
    The tables go into the folder of a single batch, or nsyswrap-collected/:
      results.csv, results.parquet   outcome, totals and answer of each run
      summaries.csv                  each value of nsys' summaries and gpu_time
      kernels.csv                    kernels over all runs of a combination
    """  # noqa: D301 - click knows a list by the control character itself
    if block:
        collect_blocks.run_block(block, int(patterns[0]), jobs or 1)
        return
    if output:
        named = quoted(str(output.parent / output.stem))
        table = f"{named}/{result_files.RESULTS}"
        check_ending(output, (), f"-o {named} writes a folder; {table} has a row for each run")
    is_brief = form == "brief"
    if is_brief and by:
        raise UsageError("--by has no effect with --format brief", "omit one of them")
    check_no_run_numbers(patterns)
    places = [Path(path) for pattern in patterns for path in expanded(pattern)]
    is_one_batch = len(places) == 1 and paths.is_file(places[0] / BATCH)
    folder = output or (places[0] if is_one_batch else _DEFAULT_OUTPUT)
    given = {name: words for name, words in settings.items() if words}
    own = plans.checked_settings(given, "collect") if given else {}
    if unused := next((name for name in own if name != executor), ""):
        raise UsageError(f"--{unused} has no effect without --executor {unused}", f"add --executor {unused}")
    elsewhere = None
    if executor != _HERE:
        elsewhere = collect_blocks.ExecutorDigests(executor, folder, own.get(executor, {}), jobs)
    wanted = result_files.FileContents(_summaries(reports), csv_safe=csv_safe)
    sys.exit(
        collect(places, folder, wanted, jobs=jobs, by=by, top=top, elsewhere=elsewhere, is_brief=is_brief)
    )


def collect(
    given: Sequence[Path],
    output: Path,
    wanted: result_files.FileContents | None = None,
    *,
    jobs: int | None = None,
    by: str = "",
    top: int = _TOP,
    elsewhere: collect_blocks.ExecutorDigests | None = None,
    is_brief: bool = False,
) -> int:
    """Write the tables of all runs at or below ``given``, and print the comparison of configurations.

    With ``is_brief``, a packet for programs is printed instead.
    Captures without a digest are read by ``elsewhere``, if it is given. Return the exit code of captures that
    cannot be read: they are listed. Raises CaptureError if no capture can be read.
    """
    wanted = wanted or result_files.FileContents()
    combinations.chosen_measure([], by)  # an unknown name is an error before anything is read
    jobs = jobs or usable_cpus()
    runs = find.find_runs(
        given, batch_status.state_reader(), jobs, note=lambda text: note(f"nsyswrap: {text}")
    )
    if not runs:
        places = ", ".join(map(str, given))
        raise CaptureError(f"no runs or captures in {places}", "give run folders, .sqlite or .nsys-rep files")
    is_new = _make(output)
    with temporary_folder() as scratch:
        make = elsewhere.make if elsewhere else gather.digest_all
        results = gather.gather(runs, scratch, jobs, progress(len(runs)), make, reports=wanted.reports)
        readable = any(result.totals for result in results)
        left_out = [run for result in results if (run := result.not_read)]
        unreadable = nothing_read(left_out, f"no capture can be read of {counted(len(runs), 'runs')}")
        if not readable and not any(run.repeat for run in runs):
            list_lacking(results)
            if is_new:
                with suppress(OSError):
                    output.rmdir()
            raise unreadable
        parameters = tables.parameters_of(results)
        with step("writing the tables …"):
            written = result_files.write_results(output, tables.results_table(results, parameters), wanted)
            has_parquet = len(written) > 1
            written += result_files.write_rows(output, results, parameters, wanted, jobs)
            if elsewhere:
                elsewhere.clear()
    if readable and is_brief:
        packet = briefs.brief_of_runs(results, output / result_files.RESULTS)
        print_data(f"{briefs.as_text(packet)}\n")
    elif readable:
        _show(results, parameters, by, top)
    list_lacking(results)
    if together := tables.shared_note([result.run for result in results]):
        note(f"nsyswrap: {together}")
    _note_written(written, has_parquet=has_parquet, narrowed=set(wanted.reports) != set(result_files.WRITTEN))
    if not readable:  # the outcomes of the runs were listed all the same
        raise unreadable
    return exit_code_of(left_out)


def _note_written(written: Sequence[Path], *, has_parquet: bool, narrowed: bool) -> None:
    """Name the files that were written, with the size of large ones, and how to get others."""
    sizes = {path: size for path in written if (size := paths.size(path)) >= _LARGE_BYTES}
    named = (f"{path} ({sizes[path] / _MB:,.0f} MB)" if path in sizes else str(path) for path in written)
    note(f"wrote {', '.join(named)}")
    if not narrowed and any(path.name == result_files.SUMMARIES_CSV for path in sizes):
        usual = len(result_files.WRITTEN)
        note(f"  -r NAME writes one report to {result_files.SUMMARIES_CSV} instead of {usual}")
    if not has_parquet:
        note(f"  with pyarrow the tables are also written as Parquet: {pip_install('parquet')}")


def _show(results: Sequence[gather.RunResult], parameters: tables.Parameters, by: str, top: int) -> None:
    layout = terminal_layout()
    if by or any(result.run.planned for result in results):
        table = combinations.compare(results, parameters, by, top)
    else:
        table = tables.answers_table(results, layout.width)
    with ascii_layout(active=layout.ascii):
        whole = f"{result_files.RESULTS} has every run"
        lines = text.table_lines(table, layout.width, top=top, whole=whole)
    say(text.styled(lines, color=layout.color), styled=True)
    show_rank_verdicts(results)


def _make(folder: Path) -> bool:
    """Make the output folder before anything is read, which can take long; return True if it is new.

    Raises OutputError if the folder cannot be made, or holds files that nsyswrap did not write.
    """
    result_files.check_replaceable(folder)
    with paths.writing(folder, "use another --output"):
        is_new = not paths.exists(folder)
        paths.make_folders(paths.target_of(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write into {folder}: Permission denied", "use another --output")
    return is_new


def _summaries(names: Sequence[str]) -> set[str]:
    """Return the reports for summaries.csv. Raises UsageError for a report that is not a summary."""
    asked = [name for part in names for name in part.split(",")]
    wanted = {name for one in asked for name in all_reports.matching(one, all_reports.SUMMARIES)}
    summaries = f"summaries: {' '.join(all_reports.SUMMARIES)}"
    if "all" in wanted:
        return set(all_reports.SUMMARIES)
    for name in wanted - set(all_reports.SUMMARIES):
        if name in all_reports.NAMES:
            raise UsageError(f"{name} has a row for each event: summaries.csv cannot hold it", summaries)
        raise UsageError(*unknown("summary", name, all_reports.SUMMARIES, summaries))
    return wanted or set(result_files.WRITTEN)
