"""``nsyswrap report``: what is in captures, as one screen or as reports in any format."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import ascii_layout
from nsyswrap.cli.folders import are_ranks, captures_in, is_folder, listed
from nsyswrap.cli.help import Command, option
from nsyswrap.cli.options import (
    OUTPUT,
    SHOW,
    captures_argument,
    csv_option,
    explain_option,
    open_all,
    opener,
    output_option,
    report_option,
    selection_options,
    steps_option,
    top_option,
)
from nsyswrap.cli.output import (
    check_csv_folder,
    check_made,
    make_tables,
    note,
    note_selection,
    note_silence,
    print_data,
    report_command,
    say,
    step,
    summary_text,
    tables_in_turn,
    terminal_layout,
    write_csv,
)
from nsyswrap.render import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nsyswrap.base.units import Rounding, TimeUnit
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection
    from nsyswrap.capture.view_options import KernelNames
    from nsyswrap.render.formats import Content, Document, Format, Layout
    from nsyswrap.reports import Request
    from nsyswrap.reports.table import Table

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.analysis import kernel_names
    from nsyswrap.cli import explain, repeats, report_ranks
    from nsyswrap.render import readable_names
    from nsyswrap.reports import ranks, summary

NAMES = "Names and units"  # a heading of the help
_OF_ANY_CAPTURE = "nsyswrap report CAPTURE -"  # in a line of code of the advice
_SCREENS = 5  # of the captures in a folder
_RANK_ROWS = 20  # rows of each table over ranks, if no report is named


@dataclass(frozen=True)
class ReportOptions:
    """The command line of ``nsyswrap report``: one field for each option, and what follows from them."""

    captures: tuple[Path, ...]
    reports: tuple[str, ...]
    csv_folder: Path | None
    top: int | None
    by: str | None
    advice: bool
    listing: bool
    explain: str | None
    form: str
    output: Path | None
    selection: Selection
    steps: str
    names: KernelNames
    nvtx_names: bool
    readable: bool
    classes: Path | None
    time_unit: TimeUnit
    rounding: Rounding
    csv_safe: bool

    @cached_property
    def format(self) -> Format:
        """The output format."""
        return formats.find_format(self.form)

    @cached_property
    def named_reports(self) -> list[str]:
        """The reports that are named, in the grammar of ``-r``."""
        return [*self.reports, *(["advice"] if self.advice else [])]

    @cached_property
    def _capture_and_rank_reports(self) -> tuple[list[str], list[str]]:
        of_captures, over_ranks = ranks.split(self.named_reports)
        if self.by and "all" in of_captures:
            over_ranks = list(ranks.NAMES)
        elif self.by and not self.named_reports:
            over_ranks = list(ranks.SCREEN)
        return of_captures, over_ranks

    @property
    def rank_reports(self) -> list[str]:
        """The reports that compare ranks."""
        return self._capture_and_rank_reports[1]

    @property
    def by_rank(self) -> bool:
        """True if captures are ranks of one job."""
        return bool(self.by or self.rank_reports)

    @property
    def is_screen(self) -> bool:
        """True if the summary screen is shown instead of reports."""
        named = bool(self._capture_and_rank_reports[0]) or self.by_rank
        return not named and self.form == "text"

    @property
    def begins_with_answer(self) -> bool:
        """True if the answer stands before the tables: the format has answers, and no report is named."""
        return self.format.has_answers and not self.named_reports

    @cached_property
    def requests(self) -> list[Request]:
        """The reports to make of each capture. Raises UsageError for an unknown one."""
        names, _ = self._capture_and_rank_reports
        all_reports = not self.by_rank and (not self.is_screen or self.csv_folder)
        return reports.parse_all(names) if names or all_reports else []

    @property
    def prints_tables(self) -> bool:
        """True if tables are printed, or written to ``-o``. With --csv alone the files are enough."""
        return not self.is_screen and not (self.csv_folder and self.form == "text" and not self.output)

    @property
    def writes_in_turn(self) -> bool:
        """True if each table can be written before the next is made."""
        return not self.prints_tables or (self.format.one_table and not self.csv_folder)

    @cached_property
    def layout(self) -> Layout:
        """How tables are laid out."""
        layout = terminal_layout(self.top)
        if layout.top is None and self.by_rank and not self.named_reports and self.form == "text":
            layout = replace(layout, top=_RANK_ROWS)
        if self.output:  # a file has no colors, and is UTF-8
            layout = replace(layout, color=False, ascii=False)
        return replace(layout, time_unit=self.time_unit, csv_safe=self.csv_safe)

    def with_folders_opened(self) -> ReportOptions:
        """Return the options with the captures of each folder in its place.

        If these are the ranks of a launch, they are compared.
        """
        captures = tuple(captures_in(self.captures))
        if captures == self.captures or self.by_rank or not are_ranks(captures):
            return replace(self, captures=captures)
        note(
            f"nsyswrap: {listed(self.captures)} holds ranks of a launch: --by rank is assumed\n"
            f"  nsyswrap report {shlex.quote(str(captures[0]))} shows one rank"
        )
        return replace(self, captures=captures, by="rank")

    def opener(self) -> Callable[[Path], Capture]:
        """Return a function that opens a capture in the view that is asked for."""
        view: dict[str, Any] = {
            "names": self.names,
            "nvtx_names": self.nvtx_names,
            "rounding": self.rounding,
            "steps": self.steps,
        }
        if self.classes:
            view["classes"] = kernel_names.read_rules(self.classes)
        return opener(self.selection, **view)

    def check(self) -> None:
        """Raise UsageError for options that do not go together, and OutputError for a wrong folder."""
        check_csv_folder(self.csv_folder)
        if self.format.is_binary and not self.output:
            raise UsageError(
                f"--format {self.form} needs -o",
                "name a file, or a folder for several reports, with -o",
            )
        if self.format.one_table and not self.named_reports:
            raise UsageError(
                f"--format {self.form} needs the name of a report",
                "omit --format" if self.csv_folder else "use -r NAME, or --csv DIR for a file of each report",
            )
        if self.output and len(self.captures) > 1 and self.is_screen:
            raise UsageError(
                "-o takes the screen of one capture", "name reports with -r, or give one capture"
            )
        if self.output and self.csv_folder and self.is_screen:
            raise UsageError(
                "-o cannot be used with --csv alone", "omit -o, or name reports to print with -r"
            )
        if self.readable and not self.format.for_people:
            raise UsageError(
                f"--readable cannot be used with --format {self.form}",
                "omit --readable, or use --format text or markdown",
            )

    def check_alone(self) -> None:
        """Raise UsageError for options that have no use beside --list and --explain."""
        option = "--explain" if self.explain else "--list"
        others = {
            "--list": self.explain and self.listing,
            "--format": self.form != "text",
            "--report": self.reports,
            "--advice": self.advice,
            "--csv": self.csv_folder,
            "--by": self.by,
        }
        for other in filter(others.get, others):
            raise UsageError(f"{option} cannot be used with {other}", f"omit {other}")


@click.command(
    cls=Command,
    examples=(
        "nsyswrap report -r cuda_gpu_kern_sum --top 5     # of the newest run",
        "nsyswrap report run1 run2 -r gpu_time --format csv",
    ),
)
@captures_argument
@report_option
@option(SHOW, "--advice", is_flag=True, help="Say what to change, most time at stake first (-r advice).")
@option(SHOW, "--by", type=click.Choice(["rank"]), help="Show reports by rank, and compare the ranks.")
@top_option
@option(
    SHOW, "--list", "listing", is_flag=True, help="List available reports, and the events that others lack."
)
@explain_option
@selection_options("yes; nsys' reports: no")
@steps_option
@option(
    NAMES,
    "--names",
    type=click.Choice(["full", "base", "mangled"]),
    default="full",
    metavar="FORM",
    help="Write kernel names in full, base or mangled form.",
)
@option(NAMES, "--nvtx-names", is_flag=True, help="Put the innermost NVTX range before each kernel name.")
@option(NAMES, "--readable", is_flag=True, help="Shorten kernel names for reading; #1, #2 tell them apart.")
@option(
    NAMES,
    "--classes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Classify kernels by the rules in this TOML file first.",
)
@option(
    NAMES,
    "--timeunit",
    "time_unit",
    type=click.Choice(["auto", "ns", "us", "ms", "s"]),
    default="auto",
    metavar="UNIT",
    help="Write times in auto, ns, us, ms or s; JSON stays in ns.",
)
@option(
    NAMES,
    "--rounding",
    type=click.Choice(["2025", "legacy"]),
    default="2025",
    metavar="ERA",
    help="Round and name as nsys 2025, or legacy: nsys up to 2024.",
)
@option(
    OUTPUT,
    "--format",
    "form",
    type=click.Choice(formats.NAMES),
    default="text",
    metavar="FORMAT",
    help=f"Write {', '.join(formats.NAMES[:-1])} or {formats.NAMES[-1]}.",
)
@output_option(
    "Write into this file; - is stdout.",
    metavar="FILE",
    callback=lambda _context, _option, path: None if str(path) == "-" else path,
)
@csv_option(OUTPUT)
@option(OUTPUT, "--csv-safe", is_flag=True, help="Guard CSV cells that spreadsheets would run as formulas.")
def command(**options: Any) -> None:
    """Show captures: one screen, or reports in any format.

    CAPTURE is a run folder, a .sqlite or .nsys-rep file, or a parquetdir or arrowdir folder; by default the
    newest run. Ranks of a job: give their folder and --by rank.
    """
    asked = ReportOptions(**options)
    source = click.get_current_context().get_parameter_source("readable")
    is_setting = source is click.core.ParameterSource.DEFAULT_MAP
    if is_setting and not asked.format.for_people:
        asked = replace(asked, readable=False)  # the user's settings are not about files for programs
    if asked.explain or asked.listing:
        asked.check_alone()
        _emit(_about_reports(asked), asked.output)
        return
    given, asked = asked.captures, asked.with_folders_opened()
    if asked.rank_reports and not asked.by:
        note(f"nsyswrap: {asked.rank_reports[0]} compares ranks: --by rank is assumed")
    asked.check()
    requests = asked.requests  # an unknown report is an error before a capture is opened
    if asked.readable and asked.csv_folder and not is_setting:
        note("nsyswrap: --readable does not change names in the files of --csv")
    if asked.by_rank:
        sys.exit(_report_ranks(asked, requests, given))
    shows_screens = asked.is_screen and not asked.csv_folder
    if shows_screens and not asked.output and repeats.are_repeats(given):
        repeats.show(given[0], asked.opener())
        return
    limit = _SCREENS if shows_screens and any(map(is_folder, given)) else None
    captures, exit_code = open_all(asked.captures[:limit], asked.opener(), as_screens=shows_screens)
    if shows_screens:
        _show_screens(captures.values(), asked)
        if left_out := asked.captures[limit or len(asked.captures) :]:
            note(f"nsyswrap: not shown: {listed(left_out)}")
            note(f"  name those to show, or compare all: nsyswrap collect {shlex.join(map(str, given))}")
    elif captures:
        _write_tables(captures, requests, asked, given)
    sys.exit(exit_code)


def _write_tables(
    captures: Mapping[str, Capture], requests: Sequence[Request], asked: ReportOptions, given: Sequence[Path]
) -> None:
    if asked.writes_in_turn:
        _write_in_turn(tables_in_turn(captures, requests), asked)
        return
    answered = captures if asked.begins_with_answer else {}
    answers = {label: summary.answer_with_lines(capture) for label, capture in answered.items()}
    tables, missing = make_tables(captures, requests)
    sources = given or [capture.source for capture in captures.values()]
    _write(formats.Document(tables, captures, asked.selection, missing, answers), asked, sources)


def _report_ranks(asked: ReportOptions, requests: Sequence[Request], given: Sequence[Path]) -> int:
    """Show the reports by rank, and return the exit code of damaged captures."""
    members, exit_code = report_ranks.opened(asked.captures, asked.opener())
    if members:
        captures = {member.label: member.capture for member in members}
        tables, missing = report_ranks.made(members, requests, asked.rank_reports)
        sources = given or [member.capture.source for member in members]
        _write(formats.Document(tables, captures, asked.selection, missing), asked, sources)
    return exit_code


def _about_reports(asked: ReportOptions) -> str:
    """Return the text of --explain or --list."""
    if not asked.explain:
        return explain.listing(captures_in(asked.captures))
    explain_report = report_ranks.explain if asked.explain in ranks.NAMES else explain.explain
    return explain_report(asked.explain)


def _show_screens(captures: Iterable[Capture], asked: ReportOptions) -> None:
    for number, capture in enumerate(captures):
        if len(asked.captures) > 1:
            say(f"\n== {capture.source}" if number else f"== {capture.source}")
        _show_screen(capture, asked)


def _show_screen(capture: Capture, asked: ReportOptions) -> None:
    in_file = asked.output is not None
    _emit(summary_text(capture, asked.layout, readable=asked.readable, in_file=in_file), asked.output)
    note_silence(capture, on_screen=not in_file)


def _write(document: Document, asked: ReportOptions, sources: Sequence[Path]) -> None:
    """Print the tables or write them to files. Raises NotInCapture if there are none.

    On the screen, commands name ``sources``: what was asked for.
    """
    if not asked.format.has_envelope:
        check_made(document.tables, document.captures)
    prints_selection = asked.prints_tables and (asked.format.for_people or asked.format.has_envelope)
    if not prints_selection:
        note_selection(document.tables)
    if asked.csv_folder:
        write_csv(asked.csv_folder, document.tables, asked.layout)
    if not asked.prints_tables:
        return
    with step(f"writing {asked.form} …"):
        if asked.readable:
            document = replace(document, tables=readable_names.readable_tables(document.tables))
        with ascii_layout(active=asked.layout.ascii and asked.form == "text"):
            files = asked.format.render(document, asked.layout)
        if asked.format.is_binary:
            _write_files(files, asked.output or Path())
            return
        if asked.form != "text":
            _emit(formats.in_one(files.values()), asked.output, is_data=True)
            return
        content = "\n".join(map(str, files.values()))
        if not asked.output:
            content = content.replace(_OF_ANY_CAPTURE, f"{report_command(*sources)} -")
        _emit(content, asked.output)


def _write_in_turn(tables: Iterator[Table], asked: ReportOptions) -> None:
    """Write each table before the next is made, into the folder of --csv or one after the other."""
    if asked.csv_folder:
        write_csv(asked.csv_folder, tables, asked.layout)
    else:
        _emit(formats.in_one(_contents(tables, asked)), asked.output, is_data=True)


def _contents(tables: Iterator[Table], asked: ReportOptions) -> Iterator[Content]:
    while (table := next(tables, None)) is not None:
        contents = asked.format.render(formats.Document([table]), asked.layout).values()
        del table  # or it would be there while the next is made
        yield from contents


def _write_files(files: Mapping[str, Content], output: Path) -> None:
    """Write one file to ``output``, several into it as a folder."""
    for name, content in files.items():
        path = output if len(files) == 1 and output.suffix else output / name
        write(path, content)
        note(f"wrote {path}")


def _emit(content: str | Iterator[bytes], output: Path | None, *, is_data: bool = False) -> None:
    """Print the text, or write it to the file of ``-o``."""
    if output is not None:
        write(output, content)
        note(f"wrote {output}")
    elif is_data or not isinstance(content, str):
        print_data(content)
    else:
        say(content, styled=True)
