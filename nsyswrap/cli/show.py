"""What several commands print: summaries, reports, notes; and the options that say how."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.errors import NotInCapture, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.capture import Capture
    from nsyswrap.report import Table
    from nsyswrap.units import Rounding, TimeUnit

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_PIPE_WIDTH = 100  # where there is no terminal to ask
_OPTIONS = (
    click.option(
        "-r",
        "--report",
        "reports",
        multiple=True,
        metavar="NAME",
        help="Show this report; repeatable, or `all`.",
    ),
    click.option(
        "--csv", "csv_folder", type=click.Path(path_type=Path), metavar="DIR", help="Write DIR/<report>.csv."
    ),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show at most N rows of each table."),
)


@dataclass(frozen=True)
class Look:
    """How to print: row limit, time unit, rounding era."""

    top: int | None = None
    time_unit: TimeUnit = "auto"
    rounding: Rounding = "2025"


def reporting_options(function: Decorated) -> Decorated:
    """Add -r, --csv and --top, which `profile` and `report` share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def note(message: str) -> None:
    """Say something that is no result: stdout carries results only."""
    click.echo(message, err=True)


def terminal() -> tuple[int, bool]:
    """Return the width to print at, and whether to use colour (a terminal, and no NO_COLOR)."""
    is_terminal = sys.stdout.isatty()
    width = (
        shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
        if is_terminal or "COLUMNS" in os.environ
        else _PIPE_WIDTH
    )
    return max(width, 40), is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show_summary(capture: Capture, look: Look, run: dict[str, Any]) -> None:
    """Print the summary screen; where nothing ran on a GPU, say so and why."""
    from nsyswrap.formats import screen  # noqa: PLC0415
    from nsyswrap.silence import no_gpu_work  # noqa: PLC0415
    from nsyswrap.summary import has_gpu_work, summarise  # noqa: PLC0415

    width, color = terminal()
    summary = summarise(capture, look.rounding)
    click.echo(
        screen.render(summary, width=width, color=color, top=look.top, time_unit=look.time_unit), nl=False
    )
    if not has_gpu_work(capture):
        note(f"\nNo GPU work was recorded in {capture.path}. Likely causes:")
        for cause in no_gpu_work(capture, run):
            note(f"  - {cause}")


def make(capture: Capture, names: Sequence[str], look: Look) -> list[Table]:
    """Make the reports; one that the capture cannot answer is one line on stderr."""
    tables: list[Table] = []
    for name in _chosen(names):
        try:
            tables.append(capture.report(name, rounding=look.rounding))
        except NotInCapture as error:
            note(f"nsyswrap: no {error}; {error.hint}")
    return tables


def show_reports(tables: Sequence[Table], form: str, look: Look) -> str:
    """Return the tables in one format, as one text."""
    from nsyswrap.formats import csv, json, text  # noqa: PLC0415

    if form == "csv":
        files = csv.render(tables, time_unit=look.time_unit)
    elif form == "json":
        files = json.render(tables)
    else:
        width, color = terminal()
        files = text.render(tables, width=width, color=color, top=look.top, time_unit=look.time_unit)
    return "\n".join(files.values())


def write_csv(folder: Path, tables: Sequence[Table], look: Look) -> None:
    """Write one CSV a table into ``folder``, in nsys' form."""
    from nsyswrap.formats import csv  # noqa: PLC0415

    for name, content in csv.render(tables, time_unit=look.time_unit).items():
        write(folder / name, content)
    note(f"wrote {len(tables)} CSV file{'' if len(tables) == 1 else 's'} to {folder}/")


def write(path: Path, content: str) -> None:
    """Write a file, its folder too; raises OutputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", errors="surrogateescape", newline="")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def _chosen(names: Sequence[str]) -> list[str]:
    from nsyswrap.reports import NAMES  # noqa: PLC0415

    if not names or "all" in names:
        return list(NAMES)
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no report {name!r}", f"reports: {' '.join(NAMES)}")
    return list(dict.fromkeys(names))
