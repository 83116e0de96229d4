"""What several commands print: summaries, reports, notes; and the options that say how."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.files import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nsyswrap.base.units import TimeUnit
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports import Request
    from nsyswrap.reports.table import Table

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_PIPE_WIDTH = 100  # where there is no terminal to ask
_LEAST_WIDTH = 40
_PATIENCE_S = 1.0
_OPTIONS = (
    click.option(
        "-r",
        "--report",
        "reports",
        multiple=True,
        metavar="NAME[:OPTION]...",
        help="Show this report; repeatable, or `all`. Options as nsys writes them: gpu_gaps:gap=1.",
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
    """How to print: row limit, time unit, whether CSV guards formulas and kernels have readable names.

    And what the terminal is like.
    """

    top: int | None = None
    time_unit: TimeUnit = "auto"
    csv_safe: bool = False
    readable: bool = False
    width: int = field(default_factory=_width)
    color: bool = field(default_factory=_color)


@dataclass(frozen=True)
class Made:
    """The tables of what was asked for, and what no capture could answer, with the reason."""

    tables: list[Table]
    missing: list[tuple[Request, str]]


def reporting_options(function: Decorated) -> Decorated:
    """Add -r, --csv and --top, which `profile` and `report` share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def note(message: str) -> None:
    """Say something that is no result: stdout carries results only."""
    click.echo(message, err=True)


def progress_line() -> Any:  # noqa: ANN401 - a callback
    """Return a callback that keeps one line on a terminal up to date; elsewhere it says nothing."""
    if not sys.stderr.isatty():
        return lambda _: None
    width = shutil.get_terminal_size().columns

    def show(message: str) -> None:
        sys.stderr.write(f"\r\x1b[K{message[: width - 1]}")
        sys.stderr.flush()

    return show


@contextmanager
def step(message: str) -> Iterator[None]:
    """Say on a terminal what is being done, where that takes more than a second."""
    if not sys.stderr.isatty():
        yield
        return
    import threading  # noqa: PLC0415 - most output goes elsewhere, or is there at once

    show = progress_line()
    timer = threading.Timer(_PATIENCE_S, show, [message])
    timer.daemon = True
    begun = time.monotonic()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if time.monotonic() - begun >= _PATIENCE_S:
            show("")


def summary_text(capture: Capture, look: Look) -> str:
    """Return the summary screen."""
    from nsyswrap.render.formats import screen  # noqa: PLC0415
    from nsyswrap.reports.summary import summarise  # noqa: PLC0415

    with step(f"reading {capture.source} …"):
        summary = summarise(capture)
    _note_of([table for table, _ in summary.tables])
    if look.readable:
        summary = screen.with_readable_names(summary)
    return screen.render(summary, width=look.width, color=look.color, top=look.top, time_unit=look.time_unit)


def note_silence(capture: Capture, run: dict[str, Any]) -> None:
    """Where nothing ran on a GPU, say so on stderr, and why."""
    from nsyswrap.analysis.no_gpu_work import no_gpu_work  # noqa: PLC0415
    from nsyswrap.reports.summary import has_gpu_work  # noqa: PLC0415

    if not has_gpu_work(capture.whole):
        note(f"\nNo GPU work was recorded in {capture.source}. Likely causes:")
        for cause in no_gpu_work(capture.whole, run):
            note(f"  - {cause}")


def asked(names: Sequence[str]) -> list[Request]:
    """Return the reports asked for, each once; none and `all` mean every one. Raises UsageError."""
    from nsyswrap.reports import NAMES, parse  # noqa: PLC0415

    wanted = [name for part in names for name in part.split(",")]
    if not wanted or "all" in wanted:
        wanted = [*NAMES, *(name for name in wanted if name != "all")]
    return [parse(name) for name in dict.fromkeys(wanted)]


def make(captures: Mapping[str, Capture], requests: Sequence[Request]) -> Made:
    """Make the reports, each one table over all captures; what cannot be answered is a line on stderr."""
    from nsyswrap.reports.combine import combine  # noqa: PLC0415
    from nsyswrap.reports.table import read_ahead  # noqa: PLC0415

    made = Made([], [])
    for capture in captures.values():
        with step(f"reading {capture.source} …"):
            read_ahead(capture, [request.report for request in requests])
    lacking: dict[tuple[str, str], list[str]] = {}
    for request in requests:
        parts: list[tuple[str, Table]] = []
        for label, capture in captures.items():
            try:
                with step(f"making {request.report.name} …"):
                    parts.append((label, request.make(capture)))
            except NotInCapture as error:
                made.missing.append((request, f"{error}; {error.hint}"))
                name, why = request.report.name, made.missing[-1][1]
                why = why.removeprefix(f"{name}: ").removeprefix(f"{capture.source} ")
                lacking.setdefault((name, why), []).append(
                    str(capture.source) if len(captures) == 1 else label
                )
        if parts:
            made.tables.append(parts[0][1] if len(captures) == 1 else combine(parts))
    _note_lacking(lacking)
    _note_of(made.tables)
    return made


def _note_lacking(lacking: Mapping[tuple[str, str], Sequence[str]]) -> None:
    """Say which reports there are not, by what their captures lack: ``lacking[report, why]`` are these."""
    joined: dict[tuple[str, str], list[str]] = {}
    for (name, why), captures in lacking.items():
        said = why if len(captures) == 1 else why.replace("holds no", "hold no", 1)
        joined.setdefault((", ".join(captures), said), []).append(name)
    for (captures, why), names in joined.items():
        note(f"nsyswrap: no {', '.join(names)}: {captures} {why}")


def _note_of(tables: Sequence[Table]) -> None:
    """Say what a reader of the tables has to know, each thing once."""
    about: dict[str, list[str]] = {}
    for table in tables:
        for text in table.notes:
            about.setdefault(text, []).append(table.label)
    for text, labels in about.items():
        note(f"nsyswrap: {', '.join(labels)}: {text}")


def show_tables(tables: Sequence[Table], form: str, look: Look) -> str:
    """Return the tables as text, csv, tsv or markdown, in one text."""
    options: dict[str, Any] = {"time_unit": look.time_unit}
    if form in ("csv", "tsv"):
        options["safe"] = look.csv_safe
    else:
        options["top"] = look.top
    if form == "text":
        options |= {"width": look.width, "color": look.color}
    shown: list[str] = []
    for table in tables:
        name = "prose" if form == "text" and table.report.name == "advice" else form
        form_of = importlib.import_module(f"nsyswrap.render.formats.{name}")  # it may cost more than a report
        shown += form_of.render([table], **options).values()
    return "\n".join(shown)


def write_csv(folder: Path, tables: Sequence[Table], look: Look) -> None:
    """Write one CSV a table into ``folder``, in nsys' form."""
    from nsyswrap.render.formats import csv  # noqa: PLC0415

    for name, content in csv.render(tables, time_unit=look.time_unit, safe=look.csv_safe).items():
        write(folder / name, content)
    note(f"wrote {len(tables)} CSV file{'' if len(tables) == 1 else 's'} to {folder}/")
