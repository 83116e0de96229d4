"""Exports of any nsys are read, whole, trimmed or extended; other SQLite files are named as what they are."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from recorded import ROOT
from sampled import sampled
from tiny_export import (
    API,
    COPY_KINDS,
    KERNEL,
    MEM_KINDS,
    NVTX,
    Row,
    everything,
    kernel,
    nvtx,
    opened,
    row,
    write,
)

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotACapture, NotInCapture
from nsyswrap.capture import schema
from nsyswrap.capture.info import newer_than_known
from nsyswrap.reports import NAMES
from nsyswrap.reports.table import Table

EVERYTHING = everything()
TABLES = sorted({event.table for event in EVERYTHING})
COLUMNS = sorted({(event.table, column) for event in EVERYTHING for column in event.cells})
EXPORTED = ("META_DATA_EXPORT", "EXPORT_META_DATA")


def answer(capture: CaptureReader, name: str) -> Table | str:
    """Return the report, or why there is none."""
    try:
        return capture.report(name)
    except NotInCapture as error:
        return f"{error.message}; {error.hint}"


def said(capture: CaptureReader) -> dict[str, list[tuple[Any, ...]] | str]:
    """Return the rows of every report on events, or why there are none."""
    answers = {name: answer(capture, name) for name in NAMES if name != "diagnostics"}
    return {name: made if isinstance(made, str) else made.rows() for name, made in answers.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]] | str]:
    """What every report says of everything."""
    answers = said(opened(tmp_path_factory.mktemp("whole"), *EVERYTHING))
    assert all(isinstance(rows, list) and rows for rows in answers.values())
    return answers


def metadata(table: str, schema_version: str, product: str = "2030.1.1.1") -> list[Row]:
    pairs = {"EXPORT_PRODUCT_VERSION": product, "EXPORT_SCHEMA_VERSION": schema_version}
    return [row(table, name=name, value=value) for name, value in pairs.items()]


def test_the_eras_are_in_order() -> None:
    assert list(schema.ERAS) == sorted(schema.ERAS, key=lambda era: (era[1], era[0]))


@pytest.mark.parametrize("table", EXPORTED)
@pytest.mark.parametrize("version", [f"{major}.{minor}.7" for _, (major, minor) in schema.ERAS])
def test_an_era_that_was_compared(table: str, version: str, tmp_path: Path) -> None:
    info = opened(tmp_path, *EVERYTHING, *metadata(table, version)).info
    assert (info.schema_version, info.exporter_version) == (version, "2030.1.1.1")
    assert newer_than_known(info) == ""


@pytest.mark.parametrize("version", ["3.26.0", "3.100", "4.0.1", "30.1"])
@pytest.mark.slow
def test_an_export_that_is_newer_than_any_compared(version: str, tmp_path: Path, cli: Cli) -> None:
    export = write(tmp_path / "x.sqlite", *EVERYTHING, *metadata("META_DATA_EXPORT", version))
    note = newer_than_known(open_capture(export).info)
    assert note.startswith(
        f"written by nsys 2030.1.1.1 (schema {version}), newer than the last tested release "
    )
    assert schema.ERAS[-1][0] in note
    done = cli("report", export, "-r", "cuda_gpu_sum")
    assert done.returncode == 0
    assert note in done.stderr
    assert note not in done.stdout


@pytest.mark.parametrize("version", ["", "3", "unknown", "3.x", "2.9.1"])
def test_a_version_that_says_nothing_of_being_newer(version: str, tmp_path: Path) -> None:
    assert newer_than_known(opened(tmp_path, *EVERYTHING, *metadata("META_DATA_EXPORT", version)).info) == ""


def test_metadata_of_both_names(tmp_path: Path) -> None:
    both = [*metadata(EXPORTED[1], "2.9.1", "2022.1"), *metadata(EXPORTED[0], "3.4.0", "2023.3")]
    assert opened(tmp_path, *EVERYTHING, *both).info.exporter_version == "2023.3"


@pytest.mark.parametrize("rows", [(), metadata(EXPORTED[0], "3.20.3"), metadata(EXPORTED[1], "2.9.1")])
def test_metadata_changes_no_report(rows: Iterable[Row], tmp_path: Path, whole: dict[str, object]) -> None:
    assert said(opened(tmp_path, *EVERYTHING, *rows)) == whole


def test_columns_that_others_added_change_no_report(tmp_path: Path, whole: dict[str, object]) -> None:
    added = {"kernel_name": "mine", "long_kernel_name": 7, "cuda_name": None, "graphExecId2": 1}
    rows = [Row(event.table, {**added, **event.cells}) for event in EVERYTHING]
    assert said(opened(tmp_path, *rows)) == whole


@sampled(("table", "column"), COLUMNS, fast=[*dict(COLUMNS).items()][::3])
def test_a_report_is_not_silent_about_a_column_that_was_trimmed(
    table: str, column: str, tmp_path: Path
) -> None:
    rows = [
        Row(name, {key: cell for key, cell in cells.items() if (name, key) != (table, column)})
        for name, cells in EVERYTHING
    ]
    capture = opened(tmp_path, *rows)
    for name in NAMES:
        made = answer(capture, name)
        if isinstance(made, str):
            assert f"{table} has no column {column}; the file was trimmed" in made
        else:
            assert len(made) or any(f"{table} has no {column}" in note for note in made.notes), name


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.slow
def test_an_empty_table_is_as_good_as_none(table: str, tmp_path: Path) -> None:
    """Exports are lazy, a table without rows is not there; or they are not."""
    rest = [event for event in EVERYTHING if event.table != table]
    columns = next(event.cells for event in EVERYTHING if event.table == table)
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty" / "tiny.sqlite", *rest)
    with closing(sqlite3.connect(tmp_path / "empty" / "tiny.sqlite")) as db, db:
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    none = said(opened(tmp_path, *rest))
    for name, found in said(CaptureReader(tmp_path / "empty" / "tiny.sqlite")).items():
        if name in ("um_sum", "um_total_sum"):  # of which an empty table is an answer
            continue
        expected = none[name]
        if isinstance(expected, str):
            expected = expected.replace(str(tmp_path), str(tmp_path / "empty"))
        assert found == expected, name


def test_an_export_of_empty_tables(tmp_path: Path, cli: Cli) -> None:
    export = write(tmp_path / "x.sqlite", empty=[KERNEL, API, NVTX])
    done = cli("report", export, "-r", "all")
    assert done.returncode == 0
    assert [name for name in NAMES if f"  {name}\n" in done.stdout] == ["diagnostics"]
    assert "Traceback" not in done.stderr


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel(b"k\xff", 0, 5, 1), *EVERYTHING)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {NVTX} SET text = CAST(x'73fe' AS TEXT) WHERE text = 'step'")  # noqa: S608
        db.execute("UPDATE TARGET_INFO_GPU SET name = CAST(x'fd' AS TEXT)")
    capture = CaptureReader(path)
    assert r"k\xff" in capture.report("cuda_gpu_kern_sum").data["name"]
    assert r":s\xfe" in capture.report("nvtx_sum").data["range"]
    assert r"\xfd (0)" in capture.report("cuda_gpu_trace").data["device"]


@pytest.mark.parametrize(
    ("text", "registered"), [("step", None), (None, "step"), ("step", "step"), ("", "step")]
)
def test_nvtx_text_is_in_one_column_or_the_other(
    text: str | None, registered: str | None, tmp_path: Path, whole: dict[str, object]
) -> None:
    rows = [event for event in EVERYTHING if event.cells.get("text") != "step"]
    step = nvtx(text, 0, 100, textId=registered)
    place = next(i for i, event in enumerate(EVERYTHING) if event.cells.get("text") == "step")
    assert said(opened(tmp_path, *rows[:place], step, *rows[place:])) == whole


def test_ids_are_negative_where_the_hardware_id_is_high(tmp_path: Path, whole: dict[str, object]) -> None:
    """64 bits of an id, of which SQLite takes the highest as a sign."""
    high = 0x80 << 56
    rows = [
        Row(
            table,
            {
                column: cell - high
                if column in ("globalTid", "globalPid") and isinstance(cell, int)
                else cell
                for column, cell in cells.items()
            },
        )
        for table, cells in EVERYTHING
    ]
    assert all(event.cells.get("globalPid", -1) < 0 for event in rows)  # type: ignore[operator]
    assert said(opened(tmp_path, *rows)) == whole


def test_an_export_before_2022_4_says_nothing_of_what_numbers_mean(
    tmp_path: Path, whole: dict[str, object]
) -> None:
    newer = (COPY_KINDS, MEM_KINDS)
    old = opened(tmp_path, *(event for event in EVERYTHING if event.table not in newer))
    assert said(old) == whole
    assert "built-in labels used" in str(old.report("cuda_gpu_mem_time_sum").notes)


# What else is an SQLite file: the tables of a browser's history, and of another profiler's database.
OTHERS = {
    "places.sqlite": (
        "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT, title TEXT, visit_count INTEGER)",
        "CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER)",
    ),
    "dlprof_dldb.sqlite": (
        "CREATE TABLE kernels (id INTEGER PRIMARY KEY, name TEXT, gpu_time INTEGER, op_id INTEGER)",
        "CREATE TABLE ops (id INTEGER PRIMARY KEY, name TEXT, type TEXT, cpu_time INTEGER)",
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
    ),
    "empty.sqlite": ("VACUUM",),
}


@pytest.mark.parametrize("name", OTHERS)
def test_sqlite_files_that_are_no_export(name: str, tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / name
    with closing(sqlite3.connect(path)) as db:
        for statement in OTHERS[name]:
            db.execute(statement)
    with pytest.raises(NotACapture, match=name):
        open_capture(path)
    done = cli("report", path)
    assert (done.returncode, done.stdout) == (65, "")
    line, hint = done.stderr.splitlines()
    assert line.startswith(f"nsyswrap: {path} is not a capture: ")
    assert hint.startswith("  give a .sqlite ")


PUBLIC = ROOT.parent / "shared" / "exports"
EXPORTS = sorted(PUBLIC.glob("*.sqlite"))
every_export = pytest.mark.parametrize("export", EXPORTS, ids=[path.stem for path in EXPORTS])


@cache
def real(export: Path) -> CaptureReader:
    return open_capture(export)


@pytest.mark.skipif(not EXPORTS, reason=f"no public exports in {PUBLIC}")
def test_real_exports_are_of_eras_that_were_compared() -> None:
    for export in EXPORTS:
        assert newer_than_known(real(export).info) == ""
    assert {real(export).info.schema_version[:1] for export in EXPORTS} == {"", "2", "3"}


@every_export
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_real_export_answers_or_says_what_it_lacks(export: Path, name: str) -> None:
    capture = real(export)
    made = answer(capture, name)
    if isinstance(made, str):
        assert f"{name}: {export} holds no " in made or "the file was trimmed" in made
        return
    assert len(capture.report(name, rounding="legacy")) == len(made)
    middle = (capture.info.duration_ns or 2 * 10**9) // 2
    for time, clip in ((f"/{middle}", False), (f"{middle}/", True)):
        assert capture.select(time=time, clip=clip).report(name).columns == made.columns
