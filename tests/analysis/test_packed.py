"""Kernels and calls in few bytes a row give the same tables as their columns do."""

import random
from pathlib import Path

import numpy as np
import pytest
from report_tables import csv_of
from tiny_export import Row, call, changed, kernel, opened

from nsyswrap.analysis import execution_phases
from nsyswrap.analysis.execution_phases import phases_of
from nsyswrap.analysis.packed import launched, packed_events, packed_names
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import DamagedCapture
from nsyswrap.capture import sqlite_pages, stream

REPORT = "cuda_kern_exec_sum"


@pytest.fixture(params=[0, 10**9], ids=["pages", "rows"])
def _read_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read pages, in blocks of one, or rows through SQLite."""
    monkeypatch.setattr(sqlite_pages, "FEW_LEAVES", request.param)
    monkeypatch.setattr(sqlite_pages, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 7)


def launches(count: int, *, lost: int = 9) -> list[Row]:
    """Launches of two processes in any order of rows; one call in so many is lost."""
    dice = random.Random(count)  # noqa: S311 - no secret
    rows: list[Row] = []
    for number in range(count):
        pid, start = dice.choice((100, 200)), dice.randrange(10_000)
        name = dice.choice(("cudaLaunchKernel_v7000", "cudaLaunchKernel_v9000", "cuLaunchKernel"))
        begin = start + dice.randrange(50)
        end = begin + dice.choice((1, 60, 2**33))
        device = dice.randrange(3)
        rows.append(kernel(dice.choice("abc"), begin, end, number // 2, pid=pid, deviceId=device))
        if dice.randrange(lost):
            rows.append(call(name, start, start + 20, number // 2, pid=pid, tid=pid + dice.randrange(2)))
    dice.shuffle(rows)
    return rows


def distinct_calls(rows: list[Row]) -> list[Row]:
    """Leave one call for each process and correlation id."""
    calls = {}
    for row in rows:
        cells = row.cells
        key = (row.table, cells.get("globalTid", 0) >> 24, cells["correlationId"])  # type: ignore[operator]
        calls[key if "globalTid" in cells else id(row)] = row
    return list(calls.values())


@pytest.mark.usefixtures("_read_by")
def test_launches_by_table_equal_those_by_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = distinct_calls(launches(300))
    capture = opened(tmp_path, *rows)
    found = launched(capture)
    assert found is not None
    assert (found.keys[:, 0] == MISSING).any()  # kernels without a call

    def tables(capture: CaptureReader) -> tuple[str, str]:
        return csv_of(capture, REPORT), csv_of(capture.select(time="2us/7us", process=100), REPORT)

    packed, of_part = tables(capture)
    assert packed != of_part
    monkeypatch.setattr(execution_phases, "launched", lambda _: None)
    assert tables(CaptureReader(capture.path)) == (packed, of_part)


@pytest.mark.parametrize("other", [10**9, -(2**62), 2**63 - 1])
def test_ids_can_lie_far_apart(tmp_path: Path, other: int) -> None:
    calls = [call("launch", 0, 9, 1), call("launch", 2, 8, other)]
    kernels = [kernel("k", 10, 20, 1), kernel("k", 20, 40, other), kernel("k", 40, 80, other - 1)]
    capture = opened(tmp_path, *calls, *kernels)
    assert launched(capture) is None
    assert phases_of(capture).queue_ns.tolist() == [1, 12]  # the last kernel has no call


def test_a_call_without_an_id_launched_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [call("launch", 0, 9, 1), changed(call("launch", 2, 8, 2), correlationId=None)]
    capture = opened(tmp_path, *calls, kernel("k", 10, 20, 1), kernel("k", 20, 40, 2))
    found = launched(capture)
    assert found is not None
    assert found.keys[found.launch, 0].tolist().index(MISSING) == 1
    table = csv_of(capture, REPORT)
    monkeypatch.setattr(execution_phases, "launched", lambda _: None)
    assert csv_of(CaptureReader(capture.path), REPORT) == table


@pytest.mark.parametrize(
    "rows",
    [
        [call("runtime", 0, 9, 1), call("driver", 1, 8, 1), kernel("k", 10, 20, 1)],
        [call("launch", 0, 9, 1), kernel("k", 10, 20, 1, globalPid=None)],
    ],
    ids=["two calls", "no process"],
)
def test_what_no_table_can_hold_is_joined_in_pairs(tmp_path: Path, rows: list[Row]) -> None:
    capture = opened(tmp_path, *rows)
    assert launched(capture) is None
    assert packed_events(capture, "kernel").duration_ns.tolist() == [10]


@pytest.mark.usefixtures("_read_by")
def test_names_and_durations_are_those_of_the_columns(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launches(200))
    for kind in ("kernel", "api"):
        codes, names = packed_names(capture, kind)
        texts = [capture.text(i) for i in capture.columns(kind, "name")["name"].tolist()]
        assert [names[code] for code in codes] == [text and text.split("_v")[0] for text in texts]
        assert packed_events(capture, kind).duration_ns.tolist() == capture.durations(kind).tolist()
    assert packed_events(capture, "kernel").code.itemsize == 1
    assert packed_events(capture, "api").duration_ns.dtype == np.int32
    assert packed_events(capture, "kernel").duration_ns.dtype == np.int64  # 2^33 ns


@pytest.mark.usefixtures("_read_by")
@pytest.mark.parametrize(
    ("cells", "said"), [({"end": None}, "is empty in row"), ({"start": 2**61}, "such a time")]
)
def test_damage_is_told_as_for_columns(tmp_path: Path, cells: dict[str, object], said: str) -> None:
    rows = launches(60)
    capture = opened(tmp_path, *rows, changed(kernel("k", 1, 2, 1), **cells))
    with pytest.raises(DamagedCapture, match=said):
        csv_of(capture, "cuda_gpu_kern_sum")
