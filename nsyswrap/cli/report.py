"""``nsyswrap report``: what is in a capture."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.files import write
from nsyswrap.cli.options import open_all, opener, selection_of, selection_options
from nsyswrap.cli.output import (
    Look,
    asked,
    make,
    note,
    note_silence,
    reporting_options,
    show_tables,
    step,
    summary_text,
    write_csv,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection
    from nsyswrap.cli.output import Made
    from nsyswrap.reports import Request
    from nsyswrap.reports.table import Table

_RANK_ROWS = 20  # of each table over ranks, where nothing else is asked for
FORMATS = ("text", "csv", "tsv", "json", "markdown", "parquet")


@click.command()
@click.argument("captures", nargs=-1, type=click.Path(readable=False, path_type=Path), metavar="[CAPTURE]...")
@reporting_options
@click.option("--by", type=click.Choice(["rank"]), help="Show reports per rank, and who waits for whom.")
@click.option(
    "--advice", is_flag=True, help="Say what to do about it: findings by time at stake (-r advice)."
)
@click.option(
    "--list", "listing", is_flag=True, help="Say which reports CAPTURE can answer, and what the others lack."
)
@click.option("--explain", metavar="NAME", help="Say what every column of a report means.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print reports.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    callback=lambda _context, _option, path: None if str(path) == "-" else path,
    metavar="FILE",
    help="Print into FILE instead; - is stdout.",
)
@selection_options
@click.option(
    "--names", type=click.Choice(["full", "base", "mangled"]), default="full", help="How kernels are called."
)
@click.option("--nvtx-names", is_flag=True, help="Put the innermost NVTX range before a kernel's name.")
@click.option(
    "--readable",
    is_flag=True,
    help="Show kernels by names a person can read; #1, #2: different ones that read alike.",
)
@click.option(
    "--classes",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Own rules for kernel_class_sum, tried before the built-in ones.",
)
@click.option(
    "--timeunit",
    "time_unit",
    type=click.Choice(["auto", "ns", "us", "ms", "s"]),
    default="auto",
    help="Unit of times; auto: what fits on a screen, ns in CSV. JSON and Parquet are always in ns.",
)
@click.option(
    "--rounding",
    type=click.Choice(["2025", "legacy"]),
    default="2025",
    help="Round and name as nsys 2025, or as nsys up to 2024.",
)
@click.option("--csv-safe", is_flag=True, help="Guard CSV cells that a spreadsheet would run as formulas.")
def command(**options: Any) -> None:  # noqa: ANN401 - one an option
    """Show what is in captures: one screen, or reports in any format.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder; without one,
    the newest run folder under nsyswrap-runs/ is taken. `-r all` shows every report there is; of several
    captures it makes one table a report, with the capture's label in front.

    With --by rank, CAPTURE is the folder of a launch, or captures of several ranks, or one of several
    processes. Without -r it shows rank_waiting and rank_skew; rank_steps has every step.
    """
    if options["explain"] or options["listing"]:
        _emit(_told(options), options["output"])
        return
    wanted = _wanted(options)
    if wanted.by_rank:
        sys.exit(_ranks(options, wanted))
    tables = wanted.as_tables or bool(wanted.csv_folder)
    captures, failed = open_all(options["captures"], _opener(options, wanted), as_screens=not tables)
    if tables:
        if captures:
            _tables(captures, make(captures, wanted.requests), wanted)
    else:
        for capture in captures.values():
            _screen(capture, wanted, several=len(options["captures"]) > 1)
    sys.exit(failed)


def _ranks(options: Mapping[str, Any], wanted: _Wanted) -> int:
    """Show the reports by rank; return the exit code of damaged captures."""
    from nsyswrap.cli import report_ranks as ranks  # noqa: PLC0415

    members, failed = ranks.opened(options["captures"], _opener(options, wanted))
    if members:
        made = ranks.made(members, wanted.requests, wanted.over_ranks)
        _tables({member.label: member.capture for member in members}, made, wanted)
    return failed


def _told(options: Mapping[str, Any]) -> str:
    """Say what a report is, or which there are."""
    from nsyswrap.cli import explain as catalogue  # noqa: PLC0415
    from nsyswrap.cli import report_ranks as ranks  # noqa: PLC0415
    from nsyswrap.reports.ranks import NAMES  # noqa: PLC0415

    _check_alone(options, "--explain" if options["explain"] else "--list")
    if not options["explain"]:
        return catalogue.listing(options["captures"])
    explain = ranks.explain if options["explain"] in NAMES else catalogue.explain
    return explain(options["explain"])


def _check_alone(options: Mapping[str, Any], asked_for: str) -> None:
    """Raise UsageError for what has no use beside --list and --explain, which print text."""
    others = {
        "--list": options["explain"] and options["listing"],
        "--format": options["form"] != "text",
        "--report": options["reports"],
        "--advice": options["advice"],
        "--csv": options["csv_folder"],
        "--by": options["by"],
    }
    for option in filter(others.get, others):
        raise UsageError(f"{asked_for} and {option} do not go together", f"leave out {option}")


@dataclass(frozen=True)
class _Wanted:
    """What the user wants to see; ``over_ranks`` are the reports that compare ranks."""

    requests: Sequence[Request]
    as_tables: bool
    csv_folder: Path | None
    form: str
    output: Path | None
    look: Look
    selection: Selection
    over_ranks: Sequence[str] = ()
    by_rank: bool = False


def _wanted(options: Mapping[str, Any]) -> _Wanted:
    from nsyswrap.cli.report_ranks import reports_asked  # noqa: PLC0415

    named = [*options["reports"], *(["advice"] if options["advice"] else [])]
    reports, over = reports_asked(named, by_rank=bool(options["by"]))
    by_rank = bool(options["by"] or over)
    as_tables = bool(reports) or by_rank or options["form"] != "text"
    if options["form"] == "parquet" and not options["output"]:
        raise UsageError(
            "--format parquet writes no text", "name a file, or a folder for several reports, with -o"
        )
    if options["output"] and len(options["captures"]) > 1 and not as_tables:
        raise UsageError("-o takes one screen", "ask for reports with -r, or for one capture")
    if options["output"] and options["csv_folder"] and not as_tables:
        raise UsageError(
            "--csv alone prints nothing that -o could take", "leave out -o, or name reports to print with -r"
        )
    screen = by_rank and not named and options["form"] == "text"
    top = options["top"] or (_RANK_ROWS if screen else None)
    look = Look(top, options["time_unit"], options["csv_safe"], _readable(options))
    return _Wanted(
        asked(reports) if reports or (not by_rank and (as_tables or options["csv_folder"])) else (),
        as_tables,
        options["csv_folder"],
        options["form"],
        options["output"],
        replace(look, color=False) if options["output"] else look,
        selection_of(options),
        over,
        by_rank,
    )


def _readable(options: Mapping[str, Any]) -> bool:
    """Whether names are for people; files of data keep them as they are."""
    if not options["readable"]:
        return False
    if options["form"] not in ("text", "markdown"):
        raise UsageError(
            f"--readable and --format {options['form']} do not go together: there, names are data",
            "leave out --readable, or take --format text or markdown",
        )
    if options["csv_folder"]:
        note("nsyswrap: --csv: names in files stay as they are")
    return True


def _opener(options: Mapping[str, Any], wanted: _Wanted) -> Callable[[Path], Capture]:
    view = {name: options[name] for name in ("names", "nvtx_names", "rounding")}
    if options["classes"]:
        from nsyswrap.analysis.kernel_names import read_rules  # noqa: PLC0415 - few ask for it

        view["classes"] = read_rules(options["classes"])
    return opener(wanted.selection, **view)


def _screen(capture: Capture, wanted: _Wanted, *, several: bool) -> None:
    from nsyswrap.base.run_folder import RunFolder  # noqa: PLC0415

    if several:
        click.echo(f"== {capture.source}")
    _emit(summary_text(capture, wanted.look), wanted.output)
    note_silence(capture, RunFolder(capture.source).read_run())


def _tables(captures: Mapping[str, Capture], made: Made, wanted: _Wanted) -> None:
    """Print the reports, or write them where they are asked for; raises NotInCapture where there is none."""
    if not made.tables and wanted.form != "json":
        names = ", ".join(str(capture.source) for capture in captures.values())
        raise NotInCapture(f"{names} holds nothing for the reports asked for")
    if made.tables and wanted.form in ("csv", "tsv", "parquet") and (selected := made.tables[0].selection):
        note(f"nsyswrap: selected: {selected}")
    if wanted.csv_folder:
        write_csv(wanted.csv_folder, made.tables, wanted.look)
    if not wanted.as_tables:
        return
    if wanted.form == "parquet":
        _write_parquet(captures, made.tables, wanted.output or Path())
        return
    with step(f"writing {wanted.form} …"):
        if wanted.form == "json":
            content = _envelope(captures, made, wanted)
        else:
            content = show_tables(_named(made.tables, wanted), wanted.form, wanted.look)
    _emit(content, wanted.output)


def _named(tables: Sequence[Table], wanted: _Wanted) -> Sequence[Table]:
    if not wanted.look.readable:
        return tables
    from nsyswrap.render.formats.text import readable_tables  # noqa: PLC0415

    return readable_tables(tables)


def _envelope(captures: Mapping[str, Capture], made: Made, wanted: _Wanted) -> str:
    from nsyswrap.render.formats import json  # noqa: PLC0415

    return json.as_one(
        made.tables,
        captures=list(captures.items()),
        selection=wanted.selection,
        missing=made.missing,
        notes=[f"{label}: {remark}" for label, capture in captures.items() for remark in capture.remarks],
    )


def _write_parquet(captures: Mapping[str, Capture], tables: Sequence[Table], output: Path) -> None:
    """Write one table to a file, several into a folder."""
    from nsyswrap.render.formats import parquet  # noqa: PLC0415

    files = parquet.render(tables, captures=list(captures.items()))
    for name, content in files.items():
        path = output if len(files) == 1 and output.suffix else output / name
        write(path, content)
        note(f"wrote {path}")


def _emit(content: str, output: Path | None) -> None:
    """Print, or write where -o says."""
    if output is None:
        click.echo(content, nl=False)
        return
    write(output, content)
    note(f"wrote {output}")
