"""The command line of ``nsyswrap report``, and what follows from it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import unknown
from nsyswrap.cli.folders import are_ranks, captures_in, listed
from nsyswrap.cli.options import opener
from nsyswrap.cli.output import check_csv_folder, note, terminal_layout
from nsyswrap.render import formats

if TYPE_CHECKING:
    from nsyswrap.base.units import Rounding, TimeUnit
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import KernelNames, Selection
    from nsyswrap.reports import ReportRequest

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.analysis import kernel_names
    from nsyswrap.reports import make, ranks, summary
    from nsyswrap.reports import table as report_table

_RANK_ROWS = 20  # rows of each table over ranks, if no report is named


@dataclass(frozen=True)
class ReportOptions:
    """The command line of ``nsyswrap report``: one field for each option, and what follows from them."""

    captures: tuple[Path, ...]
    reports: tuple[str, ...]
    csv_folder: Path | None
    top: int | None
    sort: str
    match: str
    by: str | None
    advice: bool
    listing: bool
    explain: str | None
    ncu: str | None
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
    like_nsys: bool

    @cached_property
    def format(self) -> formats.Format:
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
        elif self.by and not self.named_reports and not self.format.without_reports:
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
    def answers_job(self) -> bool:
        """True if the answer over all ranks comes first: no report is named."""
        has_answer = self.form == "text" or self.format.has_answers or self.format.without_reports
        return has_answer and self.prints_tables and not self.named_reports

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
    def requests(self) -> list[ReportRequest]:
        """The reports to make of each capture. Raises UsageError for an unknown one.

        If none is named, files hold all summaries, and a document that begins with the answer those of the
        screen.
        """
        if self.format.without_reports:
            return []
        names, _ = self._capture_and_rank_reports
        if not names and not self.csv_folder:
            if self.by_rank or self.is_screen:
                return []
            names = [name for name, _ in summary.SECTIONS] if self.begins_with_answer else []
        if self.csv_folder and not (names or self.rank_reports):
            names = [name for name in reports.SUMMARIES if name in reports.NSYS or not self.like_nsys]
        return [] if self.by_rank and not names else reports.parse_all(names)

    def arranged(self, table: report_table.Table) -> report_table.Table:
        """Return a table with the rows of --match in the order of --sort."""
        return report_table.arranged(table, self.sort, self.match) if self.sort or self.match else table

    @property
    def selecting(self) -> list[str]:
        """The options that decide which part of a capture is judged, and the classes of its kernels."""
        classes = ["--classes", str(self.classes)] if self.classes else []
        steps = ["--steps", self.steps] if self.steps else []
        return [*self.selection.options, *steps, *classes]

    @property
    def stands_alone(self) -> bool:
        """True if something else is asked for than the screen or reports."""
        return bool(self.explain or self.listing or self.ncu is not None)

    @property
    def prints_tables(self) -> bool:
        """True if tables are printed, or written to ``-o``. With --csv alone the files are enough."""
        return not self.is_screen and not (self.csv_folder and self.form == "text" and not self.output)

    @property
    def writes_in_turn(self) -> bool:
        """True if each table can be written before the next is made."""
        return not self.prints_tables or (self.format.one_table and not self.csv_folder)

    @cached_property
    def layout(self) -> formats.Layout:
        """How tables are laid out."""
        layout = terminal_layout(self.top)
        if layout.top is None and self.by_rank and not self.named_reports and self.form == "text":
            layout = layout._replace(top=_RANK_ROWS)
        if self.output:  # a file has no colors, and is UTF-8
            layout = layout._replace(color=False, ascii=False)
        return layout._replace(time_unit=self.time_unit, csv_safe=self.csv_safe)

    def with_folders_opened(self) -> ReportOptions:
        """Return the options with the captures of each folder in its place.

        If these are the ranks of a launch, they are compared.
        """
        captures = tuple(captures_in(self.captures))
        if captures == self.captures or self.by_rank or not are_ranks(captures, self.captures):
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
            "shared": self.form == "markdown",  # as it is made to be sent to others
        }
        if self.classes:
            view["classes"] = kernel_names.read_rules(self.classes)
        return opener(self.selection, **view)

    def check(self) -> None:
        """Raise UsageError for options that do not go together, and OutputError for a wrong folder."""
        if not self.like_nsys:
            check_csv_folder(self.csv_folder)
        else:
            self._check_prefix()
        if self.format.is_binary and not self.output:
            raise UsageError(
                f"--format {self.form} needs -o", "name a file, or a folder for several reports, with -o"
            )
        if self.format.without_reports and (self.named_reports or self.csv_folder):
            raise UsageError(
                f"--format {self.form} is the answer alone",
                "use --format json for reports, or omit -r and --csv",
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
        if self.csv_safe and not (self.csv_folder or self.format.one_table):
            raise UsageError(
                f"--csv-safe cannot be used with --format {self.form}",
                "omit --csv-safe, or use --format csv, --format tsv or --csv DIR",
            )
        if self.readable and not self.format.for_people:
            raise UsageError(
                f"--readable cannot be used with --format {self.form}",
                "omit --readable, or use --format text or markdown",
            )

        self._check_rows()

    def _check_prefix(self) -> None:
        if not self.csv_folder or self.form != "text" or self.by:
            raise UsageError("--like-nsys needs --csv PREFIX, without --format and --by", "add --csv PREFIX")
        if self.csv_folder.name in ("", ".."):
            raise UsageError(
                f"--csv {self.csv_folder} is a folder, but --like-nsys needs a prefix of names",
                "use --csv DIR/NAME; for `-o .` nsys takes the capture without its ending",
            )

    def _check_rows(self) -> None:
        if not (self.sort or self.match):
            return
        if not (self.named_reports or self.csv_folder):
            option = "--sort" if self.sort else "--match"
            raise UsageError(
                f"{option} needs the name of a report", "use -r NAME, for example -r cuda_gpu_kern_sum"
            )
        schemas = [request.report.schema for request in self.requests]
        schemas += [ranks.find_rank_report(name).schema for name in self.rank_reports]
        columns = [column for schema in schemas for column in schema.columns]
        name = self.sort.removeprefix("-")
        if self.sort and not report_table.column_named([*columns, make.CAPTURE], name):
            names = dict.fromkeys(column.name for column in columns)
            message, hint = unknown("column", name, names, f"columns: {', '.join(names)}")
            is_mean = name.casefold() in ("average", "mean") and "avg_ns" in names
            raise UsageError(message, "did you mean 'avg_ns'?" if is_mean else hint)

    def check_alone(self) -> None:
        """Raise UsageError for options that have no use beside --list, --explain and --ncu."""
        option = "--explain" if self.explain else "--list" if self.listing else "--ncu"
        others = {
            "--list": self.explain and self.listing,
            "--ncu": option != "--ncu" and self.ncu is not None,
            "--format": self.form != "text",
            "--report": self.reports,
            "--advice": self.advice,
            "--csv": self.csv_folder,
            "--by": self.by,
            "--sort": self.sort,
            "--match": self.match,
        }
        for other in filter(others.get, others):
            raise UsageError(f"{option} cannot be used with {other}", f"omit {other}")
        if option == "--ncu" and len(self.captures) > 1:
            raise UsageError("--ncu takes one capture", "name the capture of the kernel")
