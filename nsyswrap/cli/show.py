"""What several commands print: summaries, reports, notes; and the options that say how."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
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
_LEAST_WIDTH = 40
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


def _width() -> int:
    """The terminal's width, or $COLUMNS; a pipe has none, and some terminals say 0."""
    return max(_LEAST_WIDTH, shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns or _PIPE_WIDTH)


def _color() -> bool:
    """Colour on a terminal only, and not where NO_COLOR asks for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True)
class Look:
    """How to print: row limit, time unit, rounding era, and what the terminal is like."""

    top: int | None = None
    time_unit: TimeUnit = "auto"
    rounding: Rounding = "2025"
    width: int = field(default_factory=_width)
    color: bool = field(default_factory=_color)


def reporting_options(function: Decorated) -> Decorated:
    """Add -r, --csv and --top, which `profile` and `report` share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def note(message: str) -> None:
    """Say something that is no result: stdout carries results only."""
    click.echo(message, err=True)


def summary_text(capture: Capture, look: Look, run: dict[str, Any]) -> str:
    """Return the summary screen; where nothing ran on a GPU, say so and why on stderr."""
    from nsyswrap.formats import screen  # noqa: PLC0415
    from nsyswrap.summary import summarise  # noqa: PLC0415

    note_silence(capture, run)
    summary = summarise(capture, look.rounding)
    return screen.render(summary, width=look.width, color=look.color, top=look.top, time_unit=look.time_unit)


def note_silence(capture: Capture, run: dict[str, Any]) -> None:
    """Where nothing ran on a GPU, say so on stderr, and why."""
    from nsyswrap.silence import no_gpu_work  # noqa: PLC0415
    from nsyswrap.summary import has_gpu_work  # noqa: PLC0415

    if not has_gpu_work(capture):
        note(f"\nNo GPU work was recorded in {capture.source}. Likely causes:")
        for cause in no_gpu_work(capture, run):
            note(f"  - {cause}")


def make(capture: Capture, names: Sequence[str], look: Look) -> list[Table]:
    """Make the reports; one that the capture cannot answer is one line on stderr."""
    tables: list[Table] = []
    for name in chosen(names):
        try:
            tables.append(capture.report(name, rounding=look.rounding))
        except NotInCapture as error:
            note(f"nsyswrap: no {error}; {error.hint}")
    return tables


def show_reports(tables: Sequence[Table], form: str, look: Look) -> str:
    """Return the tables in one format, as one text."""
    from nsyswrap.formats import csv, json, text  # noqa: PLC0415

    if form == "json":
        return json.as_one(tables)
    if form == "csv":
        files = csv.render(tables, time_unit=look.time_unit)
    else:
        files = text.render(
            tables, width=look.width, color=look.color, top=look.top, time_unit=look.time_unit
        )
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


def chosen(names: Sequence[str]) -> list[str]:
    """Return the reports asked for, each once; none and `all` mean every one. Raises UsageError."""
    from nsyswrap.reports import NAMES  # noqa: PLC0415

    if not names or "all" in names:
        return list(NAMES)
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no report {name!r}", f"reports: {' '.join(NAMES)}")
    return list(dict.fromkeys(names))
