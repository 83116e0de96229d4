"""``nsyswrap baseline``: save the figures of runs as a file to commit; list, show and follow such files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import (
    UNREADABLE,
    CaptureError,
    OutputError,
    UnreadCapture,
    UsageError,
    exit_code_of,
    not_read,
    nothing_read,
)
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import counted, natural_key, quoted
from nsyswrap.base.units import Unit, human
from nsyswrap.base.version import version
from nsyswrap.cli.help import CommandGroup, option
from nsyswrap.cli.options import (
    COUNT,
    OUTPUT,
    PAGES,
    PATH,
    check_csv_safe,
    check_ending,
    csv_safe_option,
    output_option,
)
from nsyswrap.cli.output import note, note_not_read, print_data, say, step, tables_text, terminal_layout

with lazy_imports():
    from nsyswrap.analysis.compare import comparability, model
    from nsyswrap.cli import compare as comparing
    from nsyswrap.render import comparison as comparisons
    from nsyswrap.render.formats import csv
    from nsyswrap.render.page import history as history_pages
    from nsyswrap.reports.compare import baseline
    from nsyswrap.reports.wording import comparisons as wording

_SUFFIX = ".json"
_TOP = 20
_force = option(OUTPUT, "--force", "Replace the file if it exists.")
_paths = click.argument("given", nargs=-1, required=True, metavar="PATH...")


@click.group(
    cls=CommandGroup,
    examples=(
        "nsyswrap baseline save main runs/before",
        "nsyswrap baseline history nsyswrap-baselines -o history.html",
    ),
)
def command() -> None:
    """Save the figures of runs as a small file to commit, and compare with it later.

    A baseline holds counts, times and conditions, and neither environment, host name, path nor argument.
    NAME is short for the file nsyswrap-baselines/NAME.json.
    """


@command.command(
    "save", examples=("nsyswrap baseline save main runs/before", "nsyswrap baseline save b.json 'runs/*'")
)
@click.argument("name", metavar="NAME|FILE")
@_paths
@_force
def save(name: str, given: Sequence[str], *, force: bool) -> None:
    """Save captures, run folders, folders of equal runs, or a batch.

    Runs that failed are left out. A verdict needs 3 runs, better 5. FILE ends with .json.
    """
    path = _file_of(name)
    _check_free(path, force=force)
    side = comparing.load_side(given)
    side = replace(side, name=path.stem)
    write(path, baseline.baseline_text(side))
    # What a comparison with this baseline will not be able to tell, or will refuse.
    obstacles = [*map(wording.worded_obstacle, comparability.obstacles_of(side, side))]
    for obstacle in obstacles:
        note(f"nsyswrap: {obstacle.about}: {obstacle.base}")
    if obstacles:
        note("  comparisons with this baseline will be refused without --anyway")
    best = model.RECOMMENDED_RUNS
    if len(side.runs) < best:
        fewest = (
            f"a verdict needs {model.FEWEST_RUNS} runs a side, better {best}"
            if len(side.runs) < model.FEWEST_RUNS
            else f"{best} runs tell smaller changes"
        )
        note(f"nsyswrap: {counted(len(side.runs), 'runs')}: {fewest}: nsyswrap profile --repeat {best}")
    kernels = len({key for run in side.runs for key in run.rows if key.group == "kernel"})
    size = human(paths.size(path), Unit.BYTES)
    note(f"nsyswrap: saved {path}: {counted(len(side.runs), 'runs')}, {counted(kernels, 'kernels')}, {size}")
    note(f"compare     nsyswrap compare {quoted(str(path))} PATH...")
    sys.exit(exit_code_of(side.left_out))


@command.command("list", examples=("nsyswrap baseline list", "nsyswrap baseline list perf/"))
@click.argument("folder", required=False, type=PATH, metavar="[FOLDER]")
def list_baselines(folder: Path | None) -> None:
    """List the baselines in a folder.

    The default is nsyswrap-baselines. The columns are file, runs, commit, start, GPU, size and the
    nsyswrap that saved it.
    """
    folder = folder or baseline.FOLDER
    files = _files_in(folder)
    if not files:
        note(f"nsyswrap: no baselines in {folder}/: save one: nsyswrap baseline save NAME PATH...")
        return
    is_damaged = False
    rows: list[tuple[str, ...]] = [("File", "Runs", "Commit", "Started", "GPU", "Size", "nsyswrap")]
    for path in files:
        try:
            rows.append(_listed(path, baseline.read_baseline(path)))
        except CaptureError as error:
            note(f"nsyswrap: {error.message}")
            is_damaged = True
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if len(rows) > 1:
        say("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))
    sys.exit(CaptureError.exit_code if is_damaged else 0)


@command.command(
    "show", examples=("nsyswrap baseline show main", "nsyswrap baseline show main --format json")
)
@click.argument("name", metavar="NAME|FILE")
@option(OUTPUT, "--top N", "Show at most N rows of each group.", type=COUNT)
@option(
    OUTPUT,
    "--format FORMAT",
    "Write text, csv or json.",
    name="form",
    choices=("text", "csv", "json"),
    default="text",
)
@csv_safe_option
def show(name: str, *, top: int | None, form: str, csv_safe: bool) -> None:
    """Show the setup, steps and kernels of a baseline.

    The spread is (max - min) / median of the time of one over the runs.
    """
    check_csv_safe(form, csv_safe=csv_safe)
    side = baseline.read_baseline(_file_of(name))
    if form == "text":
        _show_text(side, top or _TOP)
        return
    table = baseline.rows_table(side, top=top)
    if form == "csv":
        print_data(csv.delimited(table, ",", "ns", safe=csv_safe))
        return
    content = {
        "format": "nsyswrap-baseline-rows",
        "version": 1,
        "tool": {"name": "nsyswrap", "version": version()},
        "saved_by": side.nsyswrap or None,
        "name": side.name,
        "runs": [{"label": run.label, "steps": run.steps, "setup": asdict(run.setup)} for run in side.runs],
        "rows": table.records(),
    }
    print_data(json.dumps(content, indent=1) + "\n")


def _show_text(side: model.Side, top: int) -> None:
    keys = {key for run in side.runs for key in run.rows}
    table = baseline.rows_table(side, comparisons.row_names(keys), top)
    head = [f"{side.name}: {counted(len(side.runs), 'runs')}", *baseline.setup_lines(side)]
    say("\n".join([*head, "", tables_text([table], terminal_layout())]), styled=True)
    if more := len(keys) - len(table):
        note(f"nsyswrap: {counted(more, 'more rows')} (--top, or --format csv)")


@command.command("history", examples=("nsyswrap baseline history nsyswrap-baselines -o history.html",))
@_paths
@output_option(
    "Write this file; - is stdout.", metavar="FILE", default="history.html", show_default="history.html"
)
@_force
def history(given: Sequence[str], *, output: Path, force: bool) -> None:
    """Write a page with each step and kernel over commits.

    Each PATH is a point: a baseline, a folder of equal runs or a batch folder. A folder of baselines is a
    point for each file. The points are in the order of their runs.
    """
    check_ending(output, PAGES, "name a file that ends in .html")
    if str(output) != "-" and paths.is_taken(output) and not force:
        raise OutputError(
            f"{output} already exists", "use --force to replace it, or name another file with -o"
        )
    points = [part for path in map(Path, given) for part in (_files_in(path) or (path,))]
    named = [Path(comparing.baseline_path(str(point))) for point in points]
    unlike = {os.path.realpath(point): point for point in named}
    loaded, left_out = _points(list(unlike.values()))
    if len(loaded) < 2:  # noqa: PLR2004 - one point has no history
        if left_out:
            raise nothing_read(left_out, "a history needs 2 points or more")
        raise UsageError("a history needs 2 points or more", "name several baselines or folders of runs")
    with step("making the page …"):
        html = history_pages.history_page(loaded)
    if str(output) == "-":
        print_data(html)
    else:
        write(output, html)
        note(f"wrote {output}")
    sys.exit(exit_code_of(left_out))


def _points(paths: Sequence[Path]) -> tuple[list[model.Side], list[UnreadCapture]]:
    """Return the points of a history that can be read, and what cannot: points and runs of points.

    Raises the error of a point if it is one of less than three.
    """
    points: list[model.Side] = []
    left_out: list[UnreadCapture] = []
    for path in paths:
        try:
            points.append(comparing.load_side([str(path)]))
        except UNREADABLE as error:
            if len(paths) <= 2:  # noqa: PLR2004 - the other has no history
                raise
            left_out.append(not_read(path.name, path, error))
    note_not_read(left_out)
    return points, [*left_out, *(run for point in points for run in point.left_out)]


def _file_of(name: str) -> Path:
    """Return the file of a baseline: the name if it is a path or ends with .json, else one in FOLDER."""
    if name.endswith(_SUFFIX):
        return Path(name)
    if os.sep in name or name in ("", ".", ".."):
        raise UsageError(f"invalid name {name!r}", f"a file ends with {_SUFFIX}, a name has no {os.sep}")
    return baseline.FOLDER / f"{name}{_SUFFIX}"


def _files_in(folder: Path) -> list[Path]:
    files = [path for path in paths.matching(folder, f"*{_SUFFIX}") if _may_be_baseline(path)]
    return sorted(files, key=natural_key)


def _may_be_baseline(path: Path) -> bool:
    try:
        return baseline.is_baseline(path)
    except CaptureError:  # reading it says why
        return True


def _check_free(path: Path, *, force: bool) -> None:
    with paths.writing(path):
        if not paths.exists(path, follow=False):
            return
        is_baseline = baseline.is_baseline(path)
    if not is_baseline:
        raise OutputError(f"{path} is not a baseline; it is not replaced", "use another name")
    if not force:
        raise OutputError(f"{path} already exists", "use --force to replace it, or another name")


def _listed(path: Path, side: model.Side) -> tuple[str, ...]:
    first = min((run.setup for run in side.runs), key=lambda setup: setup.started)
    return (
        path.name,
        str(len(side.runs)),
        first.commit or "-",
        first.started[:10] or "-",
        ", ".join(dict.fromkeys(first.gpus)) or "-",
        human(paths.size(path), Unit.BYTES),
        side.nsyswrap or "-",
    )
