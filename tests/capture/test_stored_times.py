"""The times of a large table's blocks are kept, and only for a file that did not change."""

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tiny_export import kernel, write

from nsyswrap import open_capture
from nsyswrap.capture import stored_times
from nsyswrap.capture.export import Export

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Kernels in no order, so that SQLite's pages say nothing about their times."""
    order = list(range(3000))
    random.Random(1).shuffle(order)  # noqa: S311 - no secret
    return write(tmp_path / "c.sqlite", *(kernel("k", 10 * n, 10 * n + 5, n) for n in order))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the tables whose times are all read; those of small, new files are kept, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stored_times, "LARGE_LEAVES", 1)
    monkeypatch.setattr(stored_times, "_SETTLED_S", -60)
    scanned: list[str] = []
    stream = Export.stream_noted

    def noted(export: Export, table: str, wanted: list[object], work: Callable[..., object]) -> object:
        scanned.append(table)
        return stream(export, table, wanted, work)  # type: ignore[arg-type]

    monkeypatch.setattr(Export, "stream_noted", noted)
    return scanned


def starts(export: Path) -> list[int]:
    """Return the starts of the kernels in a window."""
    found = open_capture(export).select(time="5000/5030", clip=False)
    return sorted(found.columns("kernel", "start_ns")["start_ns"].tolist())


def test_a_second_window_reads_no_times(export: Path, scans: list[str]) -> None:
    assert starts(export) == [5000, 5010, 5020]
    assert starts(export) == [5000, 5010, 5020]
    assert scans == [KERNELS]


def test_a_file_that_was_changed_is_read_again(export: Path, scans: list[str]) -> None:
    starts(export)
    before = export.stat()
    with closing(sqlite3.connect(export)) as db, db:
        db.execute(f"UPDATE {KERNELS} SET start = 5001, end = 5002 WHERE start = 100")  # noqa: S608
    os.utime(export, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert starts(export) == [5000, 5001, 5010, 5020]
    assert scans == [KERNELS] * 2


def test_a_file_that_was_changed_just_now_is_not_kept(
    export: Path, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_times, "_SETTLED_S", 3600)
    starts(export)
    starts(export)
    assert scans == [KERNELS] * 2


@pytest.mark.parametrize("report", ["cuda_gpu_kern_sum", "cuda_gpu_trace"])
def test_a_report_of_all_keeps_the_times(report: str, export: Path, scans: list[str]) -> None:
    """One report streams the columns, the other one reads them."""
    assert open_capture(export).report(report).rows()
    scans.clear()
    assert starts(export) == [5000, 5010, 5020]
    assert scans == []


@pytest.mark.parametrize("content", [b"", b"no array", bytes(400)])
def test_damaged_times_are_not_used(content: bytes, export: Path, scans: list[str]) -> None:
    starts(export)
    [kept] = (export.parent / "cache").rglob("*.times")
    kept.write_bytes(content)
    assert starts(export) == [5000, 5010, 5020]
    assert starts(export) == [5000, 5010, 5020]
    assert scans == [KERNELS] * 2


def test_times_of_another_table_are_not_used(export: Path, scans: list[str]) -> None:
    starts(export)
    [kept] = (export.parent / "cache").rglob("*.times")
    kept.write_bytes(bytes(24))
    assert starts(export) == [5000, 5010, 5020]
    assert scans == [KERNELS] * 2


def test_a_cache_that_cannot_be_written(
    export: Path, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(export))
    assert starts(export) == [5000, 5010, 5020]
    assert scans == [KERNELS]


def test_times_that_were_not_used_for_long_are_removed(export: Path, scans: list[str]) -> None:
    folder = export.parent / "cache" / "nsyswrap" / "times"
    folder.mkdir(parents=True)
    old = folder / "0.times"
    old.touch()
    os.utime(old, (0, 0))
    starts(export)
    assert scans
    assert not old.exists()
