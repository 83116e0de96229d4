"""Reports of tiny exports as tests compare them: CSV text, its lines, columns by name, notes."""

import io
from collections.abc import Iterable
from csv import DictReader
from pathlib import Path
from typing import Any

from tiny_export import Row, opened, row

from nsyswrap.api import CaptureReader
from nsyswrap.base.units import Rounding
from nsyswrap.render.formats import csv
from nsyswrap.reports import parse
from nsyswrap.reports.table import Table

STATISTICS = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"


def capture_of(
    folder: Path, *rows: Row, empty: Iterable[str] = (), without: Iterable[str] = ()
) -> CaptureReader:
    """Open an export with these rows and a GPU: every export names the machine that it is from."""
    return opened(folder, *rows, row("TARGET_INFO_GPU", id=0, name="GPU"), empty=empty, without=without)


def table_of(capture: CaptureReader, asked: str, rounding: Rounding | None = None) -> Table:
    """Make a report that is asked for as nsys asks: ``gpu_gaps:gap=1``."""
    return parse(asked).make(capture.viewed(rounding=rounding) if rounding else capture)


def csv_text(table: Table) -> str:
    [text] = csv.render([table]).values()
    return text


def read_csv(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV by column name."""
    return list(DictReader(io.StringIO(text)))


def csv_of(capture: CaptureReader, asked: str, rounding: Rounding | None = None) -> str:
    return csv_text(table_of(capture, asked, rounding))


def rows_of(capture: CaptureReader, asked: str, rounding: Rounding | None = None) -> list[str]:
    """Return the lines of the CSV below its header."""
    return csv_of(capture, asked, rounding).splitlines()[1:]


def names_of(capture: CaptureReader, asked: str) -> list[str]:
    """Return the last column: the names, in row order."""
    return [line.rpartition(",")[2] for line in rows_of(capture, asked)]


def starts_of(capture: CaptureReader, asked: str) -> list[int]:
    return table_of(capture, asked).frame["start_ns"].tolist()


def notes_of(capture: CaptureReader, asked: str) -> tuple[str, ...]:
    return table_of(capture, asked).notes


def notes_text(capture: CaptureReader, asked: str) -> str:
    return "; ".join(notes_of(capture, asked))


def values_of(table: Table, *columns: str) -> list[tuple[object, ...]]:
    """Return the unrounded values of these columns, row by row."""
    return [tuple(record[column] for column in columns) for record in records_of(table)]


def records_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows as values by column name."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in table.rows()]
