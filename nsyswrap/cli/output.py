"""All that commands print: results on stdout, notes and progress on stderr. No other file prints.

What people read goes through one filter: no control character of a capture, a file name, a plan or an error
reaches a terminal. Only the styles of our screens and the progress line move or color anything there. In
GitHub Actions the filter also defuses what the runner would take for a command.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import NotInCapture, OutputError, Unreadable, UnreadCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import (
    as_ascii,
    ascii_layout,
    clip,
    counted,
    first_of,
    is_utf8,
    printable,
    quoted,
    without_commands,
)
from nsyswrap.cli.help import COMMANDS, HIDDEN

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports import ReportRequest
    from nsyswrap.reports.table import Table

with lazy_imports():  # none of these for --help and completion
    import dataclasses
    import pathlib
    import re
    import shlex
    import textwrap

    from nsyswrap.analysis import gpu_operations, nearby, no_gpu_work
    from nsyswrap.base import files, units
    from nsyswrap.render import formats, summary_screen
    from nsyswrap.render.formats import csv
    from nsyswrap.render.formats import text as text_format
    from nsyswrap.reports import answer, make, summary
    from nsyswrap.reports import table as report_table
    from nsyswrap.reports.wording import checks


_PIPE_WIDTH = 100  # columns, where there is no terminal to ask
_LEAST_WIDTH = 40
_PATIENCE_S = 1.0
_CHOICES = {"auto": None, "always": True, "never": False}


def say(text: str, *, styled: bool = False) -> None:
    """Print text for people on stdout. ``styled`` keeps the colors of a screen."""
    _print(text, sys.stdout, colors=styled and uses_color(sys.stdout))


def note(message: str, *, is_command: bool = False) -> None:
    """Print a message on stderr: stdout carries results only. ``is_command``: it is for GitHub's runner."""
    _print(message, sys.stderr, is_command=is_command)


def note_problem(message: str, hint: str = "") -> None:
    """Print what is wrong, and what to do about it on a line of its own."""
    note(f"nsyswrap: {message}" + (f"\n  {hint}" if hint else ""))


def note_remarks(name: object, remarks: Iterable[str]) -> None:
    """Print what readers must know about a capture, each text on one line: its name can have line breaks."""
    for remark in remarks:
        note(printable(f"nsyswrap: {name}: {remark}"))


def on_github() -> bool:
    """Return True in a job of GitHub Actions, whose runner takes lines of both streams for commands."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def print_data(content: str | Iterator[bytes], *, for_people: bool = False) -> None:
    """Print what programs read, as UTF-8. A terminal gets it without control characters, as from `ls`.

    An iterator yields the content in blocks that end with a character. ``for_people``: it is no data, such as
    Markdown, and holds no command for GitHub's runner.
    """
    blocks = [content.encode("utf-8", "surrogateescape")] if isinstance(content, str) else content
    for block in blocks:
        if sys.stdout.isatty():
            text = block.decode("utf-8", "surrogateescape")
            click.echo(_for_stream(text, sys.stdout, keep="\n\t"), nl=False)
        elif for_people and on_github():
            text = without_commands(block.decode("utf-8", "surrogateescape"))
            click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        else:
            click.echo(block, nl=False)


def data_stream() -> BinaryIO:
    """Return stdout for bytes without control characters."""
    return sys.stdout.buffer


def confirm(question: str) -> bool:
    """Return the answer to a question on the terminal. Raises click.Abort if it is interrupted."""
    return click.confirm(_for_people(question, sys.stderr), err=True)


def clear_screen() -> None:
    """Clear the terminal. Elsewhere nothing happens."""
    click.clear()


class HelpContext(click.Context):
    """A context whose help goes through the filter too: defaults can come from a file."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter as wide as the terminal, for which click would import shutil."""
        most = self.max_content_width or 80
        return click.HelpFormatter(width=max(min(_columns(80), most) - 2, 50), max_width=most)

    def get_help(self) -> str:
        """Return the help of the command."""
        return _for_people(super().get_help(), sys.stdout)


def add_color_option(command: click.Command) -> None:
    """Add --color to a command. click keeps the value in the context, for the commands below too."""
    if all(parameter.name != "color" for parameter in command.params):
        command.params.append(
            click.Option(
                ["--color"],
                type=click.Choice(list(_CHOICES)),
                default="auto",
                metavar="WHEN",
                expose_value=False,
                callback=_keep,
                help="Use colors: auto (on a terminal), always or never.",
            )
        )


def _keep(context: click.Context, _: click.Parameter, value: str) -> None:
    if value != "auto":  # a group's choice counts for its commands
        context.color = _CHOICES[value]


def uses_color(stream: TextIO) -> bool:
    """Return True if text on this stream is to have colors."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def _print(text: str, stream: TextIO, *, colors: bool = False, is_command: bool = False) -> None:
    text = _for_people(text, stream, colors=colors)
    if on_github() and not is_command:
        text = without_commands(text)
    if text:
        click.echo(text, stream, nl=not text.endswith("\n"), color=True)  # the filter decides on colors


def _for_people(text: str, stream: TextIO, *, colors: bool = False) -> str:
    shown = _for_stream(text, stream, keep="\n", colors=colors)
    try:
        return with_command_name(shown, (*COMMANDS, *HIDDEN))
    except OSError:  # it is imported here, which takes a file where no more can be opened
        return shown


def _for_stream(text: str, stream: TextIO, *, keep: str, colors: bool = False) -> str:
    """Filter a text: without control characters, and in ASCII where the stream is not UTF-8."""
    text = printable(text, keep, colors=colors)
    return text if is_utf8(stream) else as_ascii(text)


def _columns(default: int) -> int:
    """Return the width of the terminal as $COLUMNS or stdout have it; some terminals say 0."""
    with suppress(KeyError, ValueError):
        if (width := int(os.environ["COLUMNS"])) > 0:
            return width
    with suppress(AttributeError, ValueError, OSError):  # no stdout, a closed one, no terminal
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or default  # type: ignore[union-attr]
    return default


def terminal_layout(top: int | None = None) -> formats.Layout:
    """Return a layout as wide as the terminal or $COLUMNS, with the colors and characters of stdout."""
    width = _columns(_PIPE_WIDTH)
    return formats.Layout(
        top, width=max(_LEAST_WIDTH, width), color=uses_color(sys.stdout), ascii=not is_utf8(sys.stdout)
    )


def wrapped(text: str, indent: int = 0, *, whole_words: bool = False) -> list[str]:
    """Wrap a text to the terminal, at most 100 columns. ``indent`` is for all lines but the first.

    ``whole_words``: a path that is longer than a line is not broken.
    """
    width = min(_PIPE_WIDTH, terminal_layout().width)
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=not whole_words
    )


def note_broken(nsys: Nsys) -> None:
    """Warn of an nsys that does not work and is ignored, and say how to repair it."""
    note_problem(f"{nsys.path} is not usable and was ignored: {nsys.fault}", nsys.cure)


def note_renamed(count: int) -> None:
    """Say that ranges are shown without the values of environment variables that their names held."""
    note(f"nsyswrap: shown without values of environment variables: {counted(count, 'names')} of ranges")
    note("  --keep-environment leaves the names and the environment as they are")


def note_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of a library in one line, in place of `warnings.showwarning`."""
    note(f"nsyswrap: warning: {message}")


def note_not_read(captures: Sequence[UnreadCapture], *, are_ranks: bool = False) -> None:
    """Name the captures that cannot be read, with the reasons. Say once what to do about equal ones."""
    for number, capture in enumerate(captures, 1):
        is_told = not capture.hint or any(later.hint == capture.hint for later in captures[number:])
        text = printable(capture.named if are_ranks else capture.text)
        note_problem(text, "" if is_told else capture.hint)


def progress_line() -> Callable[[str], None]:
    """Return a callback that replaces one line on a terminal. It prints nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None
    width = max(_columns(80) - 1, 1)

    def show(message: str) -> None:
        line = clip(_for_stream(message, sys.stderr, keep=""), width)
        click.echo(f"\r{' ' * width}\r{line}", sys.stderr, nl=False)

    return show


@contextmanager
def step(message: str) -> Iterator[None]:
    """Show on a terminal what is being done if it takes more than a second."""
    if not sys.stderr.isatty():
        yield
        return
    show = progress_line()
    is_shown = threading.Event()

    def late() -> None:
        is_shown.set()
        show(message)

    timer = threading.Timer(_PATIENCE_S, late)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if is_shown.is_set():
            show("")


def writing_step(message: str, *, to_stdout: bool) -> AbstractContextManager[None]:
    """Return a ``step`` around writing. Rows on a terminal are the progress: no line gets among them."""
    return nullcontext() if to_stdout and sys.stdout.isatty() else step(message)


def summary_text(
    capture: Capture,
    layout: formats.Layout,
    *,
    options: Sequence[str] = (),
    readable: bool = False,
    in_file: bool = False,
    with_ending: bool = True,
) -> str:
    """Return the summary screen, and print the notes of its tables.

    ``options`` select what the screen is about: the commands on it repeat them. ``readable`` shortens kernel
    names. ``in_file`` names no commands: the file may be read elsewhere. Without ``with_ending`` the screen
    does not say how the run ended.
    """
    with ascii_layout(active=layout.ascii):
        with step(f"reading {capture.source} …"):
            near = nearby.near_window(capture)
            sections = [(name, layout.top or rows) for name, rows in summary.SECTIONS]
            made = summary.summarize(near, alone=True, sections=sections)
        note_tables([table for table, _ in made.tables], [capture])
        if not with_ending:
            made = dataclasses.replace(made, ending="")
        if not in_file:
            command = report_command(capture.source, options=options)
            lines, more = (answer.with_command(part, command) for part in (made.lines, made.more))
            made = dataclasses.replace(made, lines=lines, more=more)
        if readable:
            made = summary_screen.with_readable_names(made)
        return summary_screen.render(made, width=layout.width, color=layout.color, time_unit=layout.time_unit)


def report_command(*captures: Path, options: Sequence[str] = ()) -> str:
    """Return the command that shows captures with these options, as it can be typed here."""
    return f"nsyswrap report {shlex.join([*map(str, captures), *options])}"


def note_silence(capture: Capture, *, on_screen: bool = False) -> None:
    """Print the likely causes on stderr if nothing ran on a GPU.

    ``on_screen``: the summary screen has the first cause, unless a part of the capture is selected.
    """
    if no_gpu_work.has_gpu_work(capture):
        return
    causes = checks.why_no_gpu_work(capture)
    if not on_screen or capture.view.selection.narrows:
        note(f"\nNo GPU work was recorded in {capture.source}. Likely causes:")
    elif causes := causes[1:]:
        note("\nOther likely causes:")
    for cause in causes:
        note(f"  - {cause}")


def make_tables(
    captures: Mapping[str, Capture],
    requests: Sequence[ReportRequest],
    *,
    of_several: bool = False,
    needs_one: bool = False,
) -> tuple[list[Table], list[make.MissingReport]]:
    """Make the reports with progress. Return one table for each report, and the reports that are missing.

    The notes of the tables are printed, and which captures cannot answer which report. ``of_several``:
    several captures were asked for, even if fewer can be read. Raises NotInCapture without a table if
    ``needs_one``.
    """
    made = make.make_reports(captures, requests, step)
    made.of_several = of_several
    tables = made.combined()
    _note_missing(made.missing, captures, are_all=needs_one and not tables)
    note_tables(tables, captures.values())
    return tables, made.missing


def tables_in_turn(
    captures: Mapping[str, Capture], requests: Sequence[ReportRequest], *, of_several: bool = False
) -> Iterator[Table]:
    """Yield each table of ``make_tables`` when it is made. Together they can be larger than memory.

    After the last, the same is printed, and what is selected. Raises NotInCapture if there is no table.
    """
    without_rows: list[Table] = []
    missing: list[make.MissingReport] = []
    reports = make.make_in_turn(captures, requests, step)
    while made := next(reports, None):
        missing += made.missing
        made.of_several = of_several
        tables = made.combined()
        without_rows += [dataclasses.replace(table, data={}) for table in tables]
        del made  # or it would be there while the next is made
        while tables:
            yield tables.pop(0)
    _note_missing(missing, captures, are_all=not without_rows)
    note_tables(without_rows, captures.values())
    note_selection(without_rows)


def check_made(tables: Sequence[Table], captures: Mapping[str, Capture]) -> None:
    """Raise NotInCapture if there are no tables."""
    if not tables:
        names = ", ".join(str(capture.source) for capture in captures.values())
        raise NotInCapture(f"{names}: nothing to show, for the reasons above")


def note_selection(tables: Sequence[Table]) -> None:
    """Print what is selected, with the tables it holds for if they differ."""
    labels: dict[str, list[str]] = {}
    for table in tables:
        labels.setdefault(table.selection, []).append(table.label)
    for selection, names in labels.items():
        where = f" in {', '.join(names)}" if len(labels) > 1 else ""
        if selection:
            note(f"nsyswrap: selected{where}: {selection}")


def _note_missing(
    missing: Sequence[make.MissingReport], captures: Mapping[str, Capture], *, are_all: bool = False
) -> None:
    """Print one line for each reason: the reports and captures that have it in common.

    If they ``are_all`` that was asked for, a single reason is raised as NotInCapture, or that there are some.
    """
    places_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for report in missing:
        source = captures[report.capture].source
        place = str(source) if len(captures) == 1 else report.capture
        key = report.schema.name, report.text(source), report.text(source, several=True)
        places_by_reason.setdefault(key, []).append(place)
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for (name, of_one, of_several), places in places_by_reason.items():
        text = of_one if len(places) == 1 else of_several
        names_by_reason.setdefault((", ".join(places), text), []).append(name)
    texts = [f"no {', '.join(names)}: {listed} {text}" for (listed, text), names in names_by_reason.items()]
    if are_all and len(texts) == 1:
        raise NotInCapture(texts[0])
    for text in texts:
        note(f"nsyswrap: {text}")
    if are_all:
        check_made((), captures)


def note_tables(tables: Sequence[Table], captures: Iterable[Capture] = ()) -> None:
    """Print the notes of tables, each text once with the tables it belongs to.

    If no GPU work lies in a selected time, say where that of the captures is.
    """
    labels_by_text: dict[str, list[str]] = {}
    for table in tables:
        for remark in table.notes:
            labels_by_text.setdefault(remark, []).append(table.label)
    for remark, labels in labels_by_text.items():
        note(f"nsyswrap: {', '.join(labels)}: {remark}")
    for capture in captures if report_table.NOTHING_SELECTED in labels_by_text else ():
        selection = capture.view.selection
        if not selection.time or selection.nvtx or any(map(capture.has, gpu_operations.KINDS)):
            continue
        operations = gpu_operations.gpu_operations_of(capture.whole)
        if len(operations):
            ends = int(operations.start_ns.min()), int(operations.end_ns.max())
            first, last = map(units.duration, ends)
            note(f"nsyswrap: {capture.source} has GPU work from {first} to {last}; 1/2 is in ns, 1s/2s in s")


def tables_text(tables: Sequence[Table], layout: formats.Layout) -> str:
    """Return tables as text for the terminal."""
    with ascii_layout(active=layout.ascii):
        return "\n".join(map(str, text_format.FORMAT.render(formats.Document(tables), layout).values()))


@contextmanager
def unreadable_noted() -> Iterator[paths.Skip]:
    """Yield a function that is called for a folder that may not be entered. They are named at the end."""
    skipped: dict[str, Unreadable] = {}

    def skip(error: Unreadable) -> None:
        skipped.setdefault(error.path, error)

    try:
        yield skip
    finally:
        if skipped:
            places = [path.removeprefix(f"{os.getcwd()}/") for path in skipped]  # noqa: PTH109 - loads nothing
            reasons = ", ".join(dict.fromkeys(error.reason for error in skipped.values()))
            note(f"nsyswrap: left out: {first_of(places)} ({reasons})")


def check_csv_folder(folder: Path | None, *, of_report: bool = True) -> None:
    """Raise OutputError if a folder to write into is a file, or a link that is not followed.

    Raises UsageError for ``-``, and for a new folder whose name is that of a CSV file: people who type it
    expect one file.
    ``of_report``: `nsyswrap report` could write it.
    """
    if folder is None:
        return
    if str(folder) == "-":
        prints = "nsyswrap report -r NAME --format csv prints one table" if of_report else "name a folder"
        raise UsageError("--csv takes a folder, and - stands for stdout", prints)
    paths.check_target(folder)
    if paths.is_taken(folder):
        if not paths.is_folder(folder):
            raise OutputError(f"{folder} is not a folder", "name a folder with --csv")
    elif folder.suffix.lower() == ".csv":
        name, stem = quoted(str(folder)), quoted(str(folder.with_suffix("")))
        one_file = f"nsyswrap report -r NAME -o {name} for one file, or " if of_report else ""
        raise UsageError(
            f"--csv takes a folder, and {folder} is the name of a file",
            f"use {one_file}--csv {stem} for a file of each {'report' if of_report else 'table'}",
        )


def write_csv(folder: Path, tables: Iterable[Table], layout: formats.Layout) -> None:
    """Write one CSV file for each table into ``folder``, as nsys writes them. No table is kept."""
    number = 0
    rest = iter(tables)
    while (table := next(rest, None)) is not None:
        for name, content in csv.FORMAT.render(formats.Document([table]), layout).items():
            files.write(folder / name, content, follow=False)
        number += 1
        del table, content  # or they would be there while the next is made
    note(f"wrote {counted(number, 'CSV files')} to {folder}/")


_NAME = "nsyswrap"


@cache
def command_name() -> str:
    """Return how this process was started: ``nsyswrap``, ``.venv/bin/nsyswrap`` or ``python3 -m nsyswrap``.

    It is ``nsyswrap`` too if another program uses the package, as Python and pytest do.
    """
    folder, name = os.path.split(sys.argv[0])
    if name == "__main__.py" and os.path.split(folder)[1] == _NAME:
        return f"{shlex.quote(_from_here(sys.orig_argv[0]))} -m {_NAME}"
    if name != _NAME or _is_on_path(sys.argv[0]):
        return _NAME
    return shlex.quote(_from_here(str(pathlib.Path(sys.argv[0]))))


def with_command_name(text: str, commands: Collection[str]) -> str:
    """Return a text in which ``nsyswrap <command>`` can be typed as it stands. Usage lines stay."""
    if command_name() == _NAME:
        return text
    words = "|".join(map(re.escape, [*commands, "--help", "--version"]))
    hint = rf"(?<!Usage: )(?<![\w./~-]){_NAME}(?= (?:{words})(?![\w/-]))"
    return re.sub(hint, lambda _: command_name(), text)


def _from_here(program: str) -> str:
    """Return the path relative to the working folder if it is below. A name to be looked up stays."""
    with suppress(OSError):  # pathlib takes 3 ms to import, a twentieth of --help
        here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
        return program[len(here) :].lstrip(os.sep) if program.startswith(here) else program
    return program


def _is_on_path(started: str) -> bool:
    """Return True if a shell starts this program for the name alone; shutil takes long to import, too."""
    programs = (os.path.join(folder, _NAME) for folder in os.get_exec_path())  # noqa: PTH118 - as above
    executable = next((one for one in programs if os.access(one, os.X_OK) and os.path.isfile(one)), None)  # noqa: PTH113
    with suppress(OSError):
        return executable is not None and os.path.samefile(executable, started)  # noqa: PTH121
    return False
