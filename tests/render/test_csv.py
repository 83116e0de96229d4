"""CSV and TSV: any reader of these formats gets the cells back unchanged."""

import csv as plain_csv
import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import sampled
from tiny_export import everything, kernel, memcpy, opened

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.base.units import Unit
from nsyswrap.render.formats import Document, Layout, csv, tsv
from nsyswrap.reports import NAMES
from nsyswrap.reports.table import Column, Schema, Table, Values, table_of


def test_analysis_reports_are_unrounded_in_csv(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(1, 0, 3, 10), memcpy(1, 0, 4, 10), memcpy(2, 0, 0, 5))
    [content] = csv.render([capture.report("memcpy_bandwidth")]).values()
    names, *lines = plain_csv.reader(content.splitlines())
    shown = ("operation", "count", "total_bytes", "total_ns", "bandwidth_bytes_per_s", "med_ns")
    assert [[line[names.index(name)] for name in shown] for line in lines] == [
        ["[CUDA memcpy Host-to-Device]", "2", "20", "7", "2857142857.142857", "3.5"],
        ["[CUDA memcpy Device-to-Host]", "1", "5", "0", "", "0.0"],
    ]


def test_what_is_selected_and_noted_is_not_in_csv(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 5)).report("cuda_gpu_sum")
    told = replace(table, notes=("a note",), selection="device 0")
    assert csv.render([told]) == csv.render([table])
    assert tsv.render([told]) == tsv.render([table])


HARMLESS = [
    "a=1",
    "k<-1>",
    "",
    "1+1",
    "'=1",
    "漢",
    "[CUDA memset]",
    "at::native::add",
    "a::b ::c",
    "#[x",
    "## [x",
]
GUARDED = {
    **{text: f"'{text}" for text in ("=1+1", "+1", "-1", "@SUM(A1)", "  =1", "＝1")},  # noqa: RUF001
    "\t=1": r"\t=1",
    "\r=1": r"\r=1",
    "\n=1": r"\n=1",
    "x\n::set-env name=A::b": r"x\n::set-env name=A::b",
    "x\r::error::b": r"x\r::error::b",
    "::error::x": "'::error::x",
    "  ::error::x": "'  ::error::x",
    "a ##[add-mask]1": r"a \x23#[add-mask]1",
    "\x1b]0;x\x07\x9b31m": r"\x1b]0;x\x07\x9b31m",
    "\u202eevil\ufeff": r"\u202eevil\ufeff",
    "\udcff": r"\xff",
}
RUNNER_LINE = re.compile(r"[\n\r]")  # where GitHub's runner begins a line


@pytest.mark.parametrize(("form", "delimiter"), [(csv, ","), (tsv, "\t")])
def test_cells_are_guarded_where_that_is_asked_for(form: Any, delimiter: str) -> None:  # noqa: ANN401
    columns = (Column("name", "Name", "h"), Column("queue_ns", "Queue", "h"))
    schema = Schema("r", "R", *columns)
    table = table_of(schema, [(name, -5) for name in (*GUARDED, *HARMLESS)])

    def names(**options: bool) -> list[str]:
        [content] = form.render([table], **options).values()
        _, *rows = plain_csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
        assert {queue for _, queue in rows} == {"-5"}  # a number is not a formula
        return [name for name, _ in rows]

    assert names() == [*GUARDED, *HARMLESS]
    assert names(safe=True) == [*GUARDED.values(), *HARMLESS]
    [content] = form.render([table], safe=True).values()
    assert [
        line for line in RUNNER_LINE.split(content) if line.lstrip().startswith("::") or "##[" in line
    ] == []
    assert len(content.splitlines()) == len(table) + 1


def test_headers_are_guarded_too() -> None:
    columns = (Column("::error::x", "N", "h"), Column("=1", "Q", "h", unit=Unit.NS))
    table = table_of(Schema("r", "R", *columns), [("k", 1)])
    assert csv.render([table]) == {"r.csv": "::error::x,=1\nk,1\n"}
    assert csv.render([table], safe=True) == {"r.csv": "'::error::x,'=1\nk,1\n"}


@sampled("report", NAMES, fast=12)
def test_tsv_has_the_cells_of_csv(report: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).report(report)
    read = [
        list(plain_csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True))
        for form, delimiter in ((csv, ","), (tsv, "\t"))
        for content in form.render([table], time_unit="us").values()
    ]
    assert read[0] == read[1]
    assert len(read[0]) == len(table) + 1


def test_tsv_quotes_what_would_break_a_cell(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(kernel(name, 0, 5) for name in ('a"b', "c\td", "e\rf", "g\nh", "i, j")))
    [content] = tsv.render([capture.report("cuda_gpu_kern_sum")]).values()
    cells = [line.split("\t", 7)[7] for line in content.split("\n20.0\t")[1:]]
    assert cells == ['"a""b"', '"c\td"', '"e\rf"', '"g\nh"', "i, j\n"]


def test_texts_of_any_length_stand_in_their_cells() -> None:
    control = "\x00" if sys.version_info >= (3, 11) else "\x01"  # which csv.reader of older ones refuses
    texts = ["short", None, "100%", 'c"d', "e\nf", control, "a, %b", "h" * 500, "漢字", "\udcff"]
    names = tuple(f"t{number}" for number in range(3))
    schema = Schema(
        "r", "R", Column.count("n", "N", "h"), *(Column(n, n, "h", unit=Unit.TEXT) for n in names)
    )
    long, short = TextColumn.of(texts), TextColumn.of(texts[:4])
    rows = np.arange(2 * 2**14 + 3)  # three blocks
    data: dict[str, Values] = {
        "n": rows,
        "t0": long[rows % 10],
        "t1": short[rows % 4],
        "t2": [f"row {row}" for row in rows],
    }
    content = csv.delimited(Table(schema, data), ",", "ns", safe=False)
    _, *read = plain_csv.reader(io.StringIO(content, newline=""), strict=True)
    assert read == [
        [str(row), texts[row % 10] or "", texts[row % 4] or "", f"row {row}"] for row in rows.tolist()
    ]


def test_a_table_without_rows_is_its_header() -> None:
    schema = Schema("r", "R", Column("a", "A", "h", unit=Unit.NS), Column("b", "B", "h"))
    texts: tuple[Values, ...] = ([], TextColumn.of([]))
    for nothing in texts:
        data: dict[str, Values] = {"a": np.empty(0, np.int64), "b": nothing}
        assert csv.render([Table(schema, data)]) == {"r.csv": "a,b\n"}


def test_a_large_table_is_written_in_blocks() -> None:
    schema = Schema("r", "R", Column.count("n", "N", "h"))
    table = Table(schema, {"n": np.arange(10**5)})
    [blocks] = csv.FORMAT.render(Document([table]), Layout()).values()
    assert not isinstance(blocks, (str, bytes))
    sizes = [len(block) for block in blocks]
    assert sum(sizes) == len(csv.delimited(table, ",", "ns", safe=False))
    assert max(sizes) < sum(sizes) / 4
