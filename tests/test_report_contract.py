"""What every report has to keep, those to come included."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from typing import TYPE_CHECKING

import pytest
from tiny_export import (
    API,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    call,
    kernel,
    memcpy,
    memset,
    nvtx,
    opened,
    row,
)

from nsyswrap import formats, reports, schema
from nsyswrap.errors import NotInCapture, UsageError
from nsyswrap.formats import csv, text
from nsyswrap.formats import json as json_format
from nsyswrap.report import Table
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

EVERYTHING = (
    kernel("k", 20, 30, 1),
    kernel("k", 60, 80, 2),
    call("cudaLaunchKernel", 0, 10, 1),
    call("cudaLaunchKernel", 40, 50, 2),
    memcpy(1, 0, 10, 1000),
    memset(0, 5, 10),
    nvtx("step", 0, 100),
)
TABLES = (KERNEL, API, MEMCPY, MEMSET, NVTX)
ELSEWHERE = row("TARGET_INFO_GPU", id=0, name="GPU")  # makes it an nsys export
TABLE_FORMATS = {"csv": csv, "json": json_format, "text": text}
OTHER_MODULES = {"names", "screen"}
SUFFIXES = {
    Unit.NS: "_ns",
    Unit.BYTES: "_bytes",
    Unit.BYTES_PER_S: "_bytes_per_s",
    Unit.PERCENT: "_percent",
    Unit.ID: "_id",
}

every_report = pytest.mark.parametrize("name", reports.NAMES)
every_format = pytest.mark.parametrize("form", TABLE_FORMATS.values(), ids=TABLE_FORMATS)


def modules_of(package: ModuleType) -> set[str]:
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    assert modules_of(reports) == set(reports.NAMES)
    assert len(set(reports.NAMES)) == len(reports.NAMES)


def test_every_format_is_tested_here() -> None:
    assert modules_of(formats) == set(TABLE_FORMATS) | OTHER_MODULES


@every_report
def test_the_module_is_named_like_its_report(name: str) -> None:
    report = importlib.import_module(f"nsyswrap.reports.{name}").REPORT
    assert report.name == name
    assert report.title
    assert reports.find(name) is report


def test_a_name_that_no_report_has() -> None:
    with pytest.raises(UsageError, match="no report 'cuda_gpu_sun'") as caught:
        reports.find("cuda_gpu_sun")
    assert "cuda_gpu_sum" in caught.value.hint


@every_report
def test_columns_have_unique_names_that_carry_their_unit_and_say_what_they_are(name: str) -> None:
    columns = reports.find(name).columns
    names = [column.name for column in columns]
    assert len(set(names)) == len(names)
    for column in columns:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", column.name)
        assert column.header
        assert column.help.strip()
        assert column.name.endswith(SUFFIXES.get(column.unit, ""))
        for unit, suffix in SUFFIXES.items():
            assert column.unit is unit or not column.name.endswith(suffix), column.name


@every_report
def test_the_order_is_over_columns_of_the_report(name: str) -> None:
    report = reports.find(name)
    assert {order.column for order in report.order} <= {column.name for column in report.columns}


@every_report
def test_the_values_are_those_of_the_columns(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *EVERYTHING).report(name)
    assert {column.name for column in table.report.columns} <= set(table.data)
    assert len({len(values) for values in table.data.values()}) == 1
    assert len(table.rows()) == len(table) > 0
    for values in table.rows():
        for value, column in zip(values, table.report.columns, strict=True):
            expected = str if column.unit is Unit.TEXT else (int, float)
            assert isinstance(value, expected), column.name  # plain Python, nothing of numpy


@every_report
def test_it_says_how_to_collect_what_is_missing(name: str, tmp_path: Path) -> None:
    for number, group in enumerate(reports.find(name).needs):
        tables = {schema.EVENTS[kind].table for kind in group}
        without = [event for event in EVERYTHING if event.table not in tables]
        (tmp_path / str(number)).mkdir()
        capture = opened(tmp_path / str(number), *without, ELSEWHERE)
        with pytest.raises(NotInCapture, match=f"^{name}: .*tiny.sqlite holds no ") as caught:
            capture.report(name)
        assert "--trace=" in caught.value.hint
        assert schema.EVENTS[group[0]].title in str(caught.value)


@every_report
def test_an_empty_table_is_as_good_as_a_missing_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotInCapture, match="holds no ") as caught:
        opened(tmp_path, empty=TABLES).report(name)
    assert "--trace=" in caught.value.hint


@every_report
@every_format
def test_it_renders(name: str, form: ModuleType, tmp_path: Path) -> None:
    [(file, content)] = form.render([opened(tmp_path, *EVERYTHING).report(name)]).items()
    assert file.startswith(f"{name}.")
    assert len(content.splitlines()) > 1


@every_report
def test_no_rows_are_no_error(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *EVERYTHING).report(name)
    nothing = Table(table.report, {column: values[:0] for column, values in table.data.items()})
    assert len(nothing) == 0
    assert csv.render([nothing])[f"{name}.csv"].count("\n") == 1
    assert json.loads(json_format.render([nothing])[f"{name}.json"])["rows"] == []
    assert "no rows" in text.render([nothing])[f"{name}.txt"]
    assert list(nothing.frame.columns) == [column.name for column in table.report.columns]


@pytest.mark.parametrize("name", ["cuda_kern_exec_sum", "launch_overhead", "nvtx_phases"])
def test_events_that_do_not_meet_make_no_rows(name: str, tmp_path: Path) -> None:
    apart = (kernel("k", 20, 30, 1), call("launch", 0, 10, 2), nvtx("mark", 0, None, eventType=34))
    assert opened(tmp_path, *apart).report(name).rows() == []


@pytest.mark.parametrize("name", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "memcpy_bandwidth"])
def test_copies_of_an_unknown_kind_make_no_rows(name: str, tmp_path: Path) -> None:
    assert opened(tmp_path, memcpy(77, 0, 1, 1)).report(name).rows() == []


@every_report
def test_a_report_takes_a_capture_and_nothing_else(name: str) -> None:
    assert len(inspect.signature(reports.find(name).compute).parameters) == 1


@every_report
def test_the_frame_is_unrounded_and_named_for_machines(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *EVERYTHING).report(name)
    frame = table.frame
    assert list(frame.columns) == [column.name for column in table.report.columns]
    for position, column in enumerate(table.report.columns):
        assert frame[column.name].tolist() == [values[position] for values in table.rows()]
