"""Parquet: unrounded typed values with the metadata of the columns."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as arrow
from sampled import sampled
from tiny_export import call, everything, kernel, opened

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.units import Unit
from nsyswrap.base.version import pip_install
from nsyswrap.render.formats import parquet
from nsyswrap.reports import NAMES
from nsyswrap.reports.table import Table


def read(table: Table) -> pa.Table:
    [content] = parquet.render([table]).values()
    return arrow.read_table(io.BytesIO(content))


@sampled("name", NAMES, fast=12)
def test_every_report_comes_back_unrounded(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).report(name)
    back = read(table)
    assert back.column_names == [column.name for column in table.columns]
    assert [tuple(row.values()) for row in back.to_pylist()] == table.rows()
    for column in table.columns:
        field = back.schema.field(column.name)
        kinds = {"string"} if column.unit is Unit.TEXT else {"int64", "double"}
        assert str(field.type) in kinds
        said = {"header": column.header, "unit": column.unit.value, "help": column.help}
        assert {key.decode(): value.decode() for key, value in field.metadata.items()} == said


def test_what_is_missing_is_null(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel(7, 100, 103, 1), call("l", 90, 200, 1))
    [row] = read(capture.report("cuda_kern_exec_sum")).to_pylist()
    assert (row["queue_min_ns"], row["queue_avg_ns"], row["kernel_name"]) == (None, None, None)
    assert (row["queue_count"], row["kernel_min_ns"]) == (0, 3)


def test_a_text_that_utf8_cannot_hold_is_escaped(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 5)).report("cuda_gpu_kern_sum")
    named = replace(table, data={**table.data, "name": ["caf\udce9 \ud800"]})
    assert read(named)["name"].to_pylist() == ["caf\\udce9 \\ud800"]


def test_the_file_says_what_it_is_about(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5)).viewed(rounding="legacy").select(device=0)
    table = replace(capture.report("cuda_gpu_kern_sum"), notes=("a note",), suffix="_base")
    [(file, content)] = parquet.render([table], captures=[("run", capture)]).items()
    metadata = {
        key.decode(): value.decode() for key, value in arrow.read_schema(io.BytesIO(content)).metadata.items()
    }
    said = {
        key.removeprefix("nsyswrap."): value for key, value in metadata.items() if key.startswith("nsyswrap.")
    }
    assert file == "cuda_gpu_kern_sum_base.parquet"
    assert said["report"] == "cuda_gpu_kern_sum"
    assert said["label"] == "cuda_gpu_kern_sum_base"
    assert said["title"] == "CUDA GPU Kernel Summary"
    assert (said["layer"], said["rounding"], said["selection"]) == ("parity", "legacy", "device 0")
    assert json.loads(said["notes"]) == ["a note"]
    [about] = json.loads(said["captures"])
    assert (about["label"], about["path"]) == ("run", str(capture.source))


def test_without_rows_the_columns_are_there(tmp_path: Path) -> None:
    back = read(opened(tmp_path, kernel("k", 0, 5)).select(time="7/9").report("cuda_gpu_kern_sum"))
    assert back.num_rows == 0
    assert back.column_names[-1] == "name"


def test_pandas_reads_it(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 5), kernel("l", 0, 8)).report("cuda_gpu_kern_sum")
    assert read(table).to_pandas().to_dict("records") == table.frame.to_dict("records")


def test_it_says_how_to_get_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path, kernel("k", 0, 5)).report("cuda_gpu_kern_sum")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match="Parquet needs pyarrow") as caught:
        parquet.render([table])
    assert caught.value.hint == pip_install("parquet")


def test_a_long_csv_file_has_few_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group takes memory until the end, and space in the file."""
    monkeypatch.setattr(parquet, "_CSV_BLOCK", 1000)
    rows = [(number, None if number % 3 else number / 4, f'"text, {number}"') for number in range(5000)]
    lines = (f"{n},{'' if part is None else part},{text}" for n, part, text in rows)
    (tmp_path / "a.csv").write_text("\n".join(["n,part,text", *lines]) + "\n")
    parquet.from_csv(tmp_path / "a.csv", tmp_path / "a.parquet", {"n": int, "part": float, "text": str})
    back = arrow.ParquetFile(tmp_path / "a.parquet")
    blocks = (tmp_path / "a.csv").stat().st_size / 1000
    assert blocks / 9 < back.num_row_groups < blocks / 7
    assert [tuple(row.values()) for row in back.read().to_pylist()] == [
        (number, part, text.strip('"')) for number, part, text in rows
    ]
