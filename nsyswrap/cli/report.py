"""``nsyswrap report``: what is in a capture."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.cli.show import (
    Look,
    make,
    note,
    reporting_options,
    show_reports,
    summary_text,
    write,
    write_csv,
)
from nsyswrap.errors import CaptureError, NotInCapture, UsageError

if TYPE_CHECKING:
    from nsyswrap.capture import Capture, KernelNames
    from nsyswrap.units import Rounding, TimeUnit


@click.command()
@click.argument("captures", nargs=-1, type=click.Path(path_type=Path), metavar="[CAPTURE]...")
@reporting_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    help="How to print reports.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Print into FILE instead."
)
@click.option(
    "--names", type=click.Choice(["full", "base", "mangled"]), default="full", help="How kernels are called."
)
@click.option(
    "--timeunit",
    "time_unit",
    type=click.Choice(["auto", "ns", "us", "ms", "s"]),
    default="auto",
    help="Unit of times; auto: what fits on a screen, ns in CSV. JSON is always in ns.",
)
@click.option(
    "--rounding",
    type=click.Choice(["2025", "legacy"]),
    default="2025",
    help="Round as nsys 2025, or as nsys up to 2024.",
)
def command(  # noqa: PLR0913 - one parameter an option
    *,
    captures: tuple[Path, ...],
    reports: tuple[str, ...],
    csv_folder: Path | None,
    top: int | None,
    form: str,
    output: Path | None,
    names: KernelNames,
    time_unit: TimeUnit,
    rounding: Rounding,
) -> None:
    """Show what is in a capture: one screen, or reports as text, CSV or JSON.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder; without one,
    the newest run folder under nsyswrap-runs/ is taken. `-r all` shows every report there is.
    """
    from nsyswrap.capture import open_capture  # noqa: PLC0415
    from nsyswrap.folder import newest_run  # noqa: PLC0415

    if len(captures) > 1 and (csv_folder or output):
        raise UsageError("--csv and -o take one capture", "run `nsyswrap report` once for each")
    look = Look(top, time_unit, rounding)
    asked = _Asked(reports, csv_folder, form, output, replace(look, color=False) if output else look)
    failed, several = 0, len(captures) > 1
    for path in captures or (newest_run(),):
        if several and form == "text":
            click.echo(f"== {path}")
        try:
            _show(path, open_capture(path, names=names), asked)
        except CaptureError as error:  # the others still have something to say
            if not several:
                raise
            note(f"nsyswrap: {error}")
            failed = error.exit_code
    sys.exit(failed)


@dataclass(frozen=True)
class _Asked:
    """What the user wants to see of each capture."""

    reports: tuple[str, ...]
    csv_folder: Path | None
    form: str
    output: Path | None
    look: Look


def _show(path: Path, capture: Capture, asked: _Asked) -> None:
    """Print the screen or the reports of one capture, or write them where they are asked for."""
    from nsyswrap.folder import RunFolder  # noqa: PLC0415

    as_tables = bool(asked.reports) or asked.form != "text"
    tables = make(capture, asked.reports, asked.look) if as_tables or asked.csv_folder else []
    if (as_tables or asked.csv_folder) and not tables:
        raise NotInCapture(f"{path} holds nothing for the reports asked for")
    if asked.csv_folder:
        write_csv(asked.csv_folder, tables, asked.look)
    if as_tables:
        _emit(show_reports(tables, asked.form, asked.look), asked.output)
    elif not asked.csv_folder:
        _emit(summary_text(capture, asked.look, RunFolder(path).read_run()), asked.output)


def _emit(content: str, output: Path | None) -> None:
    """Print, or write where -o says."""
    if output is None:
        click.echo(content, nl=False)
        return
    write(output, content)
    note(f"wrote {output}")
