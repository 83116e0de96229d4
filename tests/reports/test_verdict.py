"""The verdict of a report: made of its rows, shown by every format that is not a plain table."""

import io
import json
from html import escape
from pathlib import Path

import pytest
from pyarrow import parquet as pq
from tiny_export import kernel, opened

from nsyswrap.api import CaptureReader
from nsyswrap.render.formats import csv, markdown, parquet, text
from nsyswrap.render.formats import json as json_format
from nsyswrap.render.notebook import table_html
from nsyswrap.reports.make import combine
from nsyswrap.reports.table import Column, Report, Result, Schema, Table

REPORT = Report(
    schema=Schema("kernels", "Kernels", Column("start_ns", "Start", "start")),
    needs=(("kernel",),),
    compute=lambda capture: Result(capture.columns("kernel", "start_ns")),
    conclude=lambda _, data: f"{len(data['start_ns'])} kernels <in all>.",
)
VERDICT = "2 kernels <in all>."


@pytest.fixture
def capture(tmp_path: Path) -> CaptureReader:
    return opened(tmp_path, kernel("a", 0, 10), kernel("b", 20, 30))


@pytest.fixture
def table(capture: CaptureReader) -> Table:
    return REPORT.make(capture)


def test_it_is_made_of_the_rows(table: Table) -> None:
    assert table.verdict == VERDICT


def test_where_there_are_no_rows_there_is_none(capture: CaptureReader) -> None:
    assert REPORT.make(capture.select(time="50ns/60ns")).verdict == ""


def test_it_stands_under_the_table(table: Table) -> None:
    assert text.render([table])["kernels.txt"].rstrip().endswith(VERDICT)
    assert "2 kernels \\<in all\\>." in markdown.render([table])["kernels.md"]


def test_csv_holds_rows_alone(table: Table) -> None:
    assert "in all" not in csv.render([table])["kernels.csv"]


def test_json_and_parquet_carry_it(table: Table) -> None:
    content = json_format.render([table])["kernels.json"]
    assert json.loads(content)["reports"][0]["verdict"] == VERDICT
    metadata = pq.read_schema(io.BytesIO(parquet.render([table])["kernels.parquet"])).metadata
    assert metadata[b"nsyswrap.verdict"].decode() == VERDICT


def test_of_several_captures_each_has_a_line(table: Table) -> None:
    table = combine([("x", table), ("y\n", table)])
    lines = [f"x: {VERDICT}", f"y\\n: {VERDICT}"]
    assert table.verdict.split("\n") == lines
    assert text.render([table])["kernels.txt"].splitlines()[-2:] == lines
    assert "\n\ny\\\\n: 2 kernels" in markdown.render([table])["kernels.md"]
    assert all(f"<div><b>{escape(line)}</b></div>" in table_html(table) for line in lines)
