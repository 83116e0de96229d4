"""A part of a large capture is read without the rest, and is what it would be with it."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import sampled
from tiny_export import call, changed, kernel, nvtx, write

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.capture import partial as reading
from nsyswrap.capture import selection, sqlite_pages, stream
from nsyswrap.capture.intervals import LEAST, MOST, Window, whole_time
from nsyswrap.capture.selection import Selection, parse_time

FIELDS = ("start_ns", "end_ns", "device_id", "global_pid", "name", "grid_x", "row")


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels and their calls on many pages, in no order; some kernels have no process."""
    order = list(range(6000))
    random.Random(1).shuffle(order)  # noqa: S311 - no secret
    kernels = [kernel(f"k{n % 7}", 10 * n + 3, 10 * n + 9, n, gridX=n + 1) for n in sorted(order)]
    kernels[:2000] = [changed(one, globalPid=None) for one in kernels[:2000]]
    kernels[4000:] = random.Random(2).sample(kernels[4000:], 2000)  # noqa: S311
    calls = [call("cudaLaunchKernel", 10 * n, 10 * n + 2, n) for n in order]
    ranges = [nvtx("step", 30_000, 30_500), nvtx("step", 50_000, 50_100)]
    return write(tmp_path_factory.mktemp("parts") / "c.sqlite", *kernels, *calls, *ranges)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize(
    "selected",
    [{"time": "31us/31500ns"}, {"time": "/100"}, {"nvtx": "step"}, {"time": "90s/"}, {"process": 100}],
)
def test_it_is_the_part_that_the_whole_has(
    selected: dict[str, str],
    clip: bool,  # noqa: FBT001
    export: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_ROWS", 500)
    part = open_capture(export).select(clip=clip, **selected)  # type: ignore[arg-type]
    after = _read_first(open_capture(export)).select(clip=clip, **selected)  # type: ignore[arg-type]
    for kind, fields in (("kernel", FIELDS), ("api", ("start_ns", "end_ns", "correlation_id", "row"))):
        read, expected = part.columns(kind, *fields), after.columns(kind, *fields)
        assert part.count(kind) == len(expected["row"])
        for field in fields:
            assert np.array_equal(read[field], expected[field])


def test_it_reads_only_its_pages(export: Path) -> None:
    part = open_capture(export).select(time="31us/31500ns")
    assert len(part.columns("kernel", *FIELDS)["row"]) == 50
    assert not part._export._columns  # noqa: SLF001
    assert not part._export.by_sqlite  # noqa: SLF001
    assert part.whole.count("kernel") == 6000


WINDOWS = [
    ("11us/12us", 3),
    ("35us/35100ns", 2),
    ("1s/", 1),
    ("/19ns", 1),
    ("20001ns/20002ns", 2),
    ("99s/", 0),
]


@sampled(
    ("time", "blocks", "clip"), [(*window, clip) for window in WINDOWS for clip in (True, False)], fast=5
)
def test_it_reads_only_blocks_with_a_row_in_the_window(
    time: str,
    blocks: int,
    clip: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = [kernel(f"k{n % 7}", 10 * n + 3, 10 * n + 9, n) for n in range(6000)]
    kernels[0] = kernel("begins late", 3 * 10**9, 4 * 10**9, 0)  # in no order
    kernels[100] = kernel("lasts", 1003, 50_000, 100)
    kernels[1000] = kernel("ends before it starts", 10_009, 10_003, 1000)
    path = write(tmp_path / "c.sqlite", *kernels)
    every = open_capture(path).columns("kernel", "start_ns", "end_ns")
    first, last = parse_time(time)
    read: list[int] = []
    select = selection.select

    def counted(columns: dict[str, Any], asked: Selection, window: Window) -> object:
        read.append(len(columns["start_ns"]))
        return select(columns, asked, window)

    monkeypatch.setattr(sqlite_pages, "_BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(reading, "select", counted)
    part = open_capture(path).select(time=time, clip=clip)
    expected = select(every, part.view.selection, whole_time(first or LEAST, last or MOST))
    assert part.columns("kernel", "row")["row"].tolist() == (np.flatnonzero(expected) + 1).tolist()
    assert blocks == round(sum(read) / 380)
    again = part.viewed(names="base")
    assert again.count("kernel") == part.count("kernel")


@pytest.mark.parametrize("owners", [100, None])
def test_owners_count_that_lie_outside_of_the_window(tmp_path: Path, owners: int | None) -> None:
    """Kernels without a process are in everyone's window, unless others have one."""
    kernels = [changed(kernel("k", 10 * n, 10 * n + 5, n), globalPid=None) for n in range(9000)]
    kernels[-1] = changed(kernels[-1], globalPid=owners and owners << 24)
    path = write(tmp_path / "c.sqlite", *kernels, nvtx("step", 1000, 1999))
    count = open_capture(path).select(nvtx="step").count("kernel")
    assert count == (0 if owners else 100)
    assert count == _read_first(open_capture(path)).select(nvtx="step").count("kernel")


def _read_first(capture: CaptureReader) -> CaptureReader:
    capture.columns("kernel", *(field for field in FIELDS if field != "row"))
    if capture.has("api"):
        capture.columns("api", "start_ns", "end_ns", "global_tid", "correlation_id")
    return capture


@pytest.mark.parametrize("first", ["count", "columns", "part"])
def test_a_row_that_was_deleted_is_not_counted(tmp_path: Path, first: str) -> None:
    path = write(tmp_path / "c.sqlite", *(kernel("k", 10 * n, 10 * n + 5, n) for n in range(6000)))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start = 30000")
    capture = open_capture(path)
    if first == "count":
        assert capture.count("kernel") == 5999
    if first == "columns":
        assert len(capture.columns("kernel", "start_ns")["start_ns"]) == 5999
    part = capture.select(time="29990ns/30025ns").columns("kernel", "start_ns", "grid_x")
    assert part["start_ns"].tolist() == [29990, 30010, 30020]
    assert capture.count("kernel") == 5999
    assert not capture._export.by_sqlite  # noqa: SLF001


@pytest.mark.parametrize("numbers", [0, 1, 16, 17, 400])
def test_values_are_marked_that_are_one_of_any_number_of_numbers(numbers: int) -> None:
    values, wanted = np.arange(500) % 97, [*range(90, 90 + numbers)]
    marks = stream.one_of(values, iter(wanted))
    assert marks.tolist() == [value in wanted for value in values.tolist()]
