"""An export that was not closed properly is read from a copy, which is gone afterwards."""

import gc
import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli
from sampled import sampled
from tiny_export import KERNEL, kernel, write

from nsyswrap.base.errors import CaptureError, OutputError
from nsyswrap.capture.export import Export


def state(path: Path) -> tuple[bytes, list[Path], int]:
    """What must not change: the bytes, what lies beside them, the time of the last write."""
    return path.read_bytes(), sorted(path.parent.iterdir()), path.stat().st_mtime_ns


def interrupted(folder: Path, journal: str) -> Path:
    """An export of one kernel to which a second is added, as it lies there when its writer is killed."""
    path = write(folder / "writing.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute("PRAGMA cache_size = 1")  # written page by page
        db.execute("BEGIN")
        db.execute(f"INSERT INTO {KERNEL} (start, end) VALUES (7, 9)")  # noqa: S608
        db.execute("CREATE TABLE more AS SELECT zeroblob(100000)")
        if journal == "WAL":
            db.execute("COMMIT")
        (folder / "killed").mkdir()
        for file in folder.glob("writing.sqlite*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder / "killed" / file.name)
    return folder / "killed" / path.name


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@sampled(
    ("journal", "starts", "end"),
    [
        ("WAL", [0, 7], "closed"),
        ("WAL", [0, 7], "dropped"),
        ("DELETE", [0], "dropped"),
        ("DELETE", [0], "closed"),
    ],
    fast=2,
)
def test_an_export_that_was_being_written_is_read_from_a_copy(
    tmp_path: Path, scratch: Path, journal: str, starts: list[int], end: str
) -> None:
    path = interrupted(tmp_path, journal)
    beside = path.with_name(f"writing.sqlite-{'wal' if journal == 'WAL' else 'journal'}")
    before = state(path), state(beside)
    export = Export(path)
    assert export.note == f"read from a private copy, because of {beside.name} beside it"
    assert [column.tolist() for column in export.columns(KERNEL, [("start", "int")])] == [starts]
    assert export.file.parent.parent == scratch
    assert export.file.parent.stat().st_mode & 0o077 == 0
    if end == "closed":
        export.close()
    del export
    gc.collect()
    assert list(scratch.iterdir()) == []
    assert (state(path), state(beside)) == before


def test_the_command_line_says_so_and_a_redacted_copy_holds_what_was_written(
    cli: Cli, tmp_path: Path
) -> None:
    path = interrupted(tmp_path, "WAL")
    said = "read from a private copy, because of writing.sqlite-wal beside it"
    done = cli("report", path, "-r", "cuda_gpu_kern_sum", "--format", "json")
    assert done.stderr == f"nsyswrap: {path}: {said}\n"
    document = json.loads(done.stdout)
    assert document["notes"] == [f"writing: {said}"]
    assert cli("redact", path, "-o", tmp_path / "copy.sqlite").returncode == 0
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as db:
        assert db.execute(f"SELECT start FROM {KERNEL}").fetchall() == [(0,), (7,)]  # noqa: S608


@pytest.mark.parametrize("command", ["report", "export --perfetto trace.json"])
def test_the_name_of_an_export_stays_on_the_line_that_says_so(cli: Cli, tmp_path: Path, command: str) -> None:
    (tmp_path / "line\nbreak").mkdir()
    path = interrupted(tmp_path / "line\nbreak", "WAL")
    word, *options = command.split()
    first, *_ = cli(word, path, *options).stderr.splitlines()
    assert first.startswith(f"nsyswrap: {tmp_path}/line\\nbreak/killed/writing.sqlite: ")


def test_a_journal_beside_what_a_link_points_to_counts(tmp_path: Path, scratch: Path) -> None:
    path = interrupted(tmp_path, "WAL")
    (tmp_path / "link.sqlite").symlink_to(path)
    export = Export(tmp_path / "link.sqlite")
    assert export.count(KERNEL) == 2
    export.close()
    assert list(scratch.iterdir()) == []


def test_an_empty_journal_is_nothing(tmp_path: Path, scratch: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    (tmp_path / "x.sqlite-wal").touch()
    export = Export(path)
    assert (export.note, export.file) == ("", path.resolve())
    assert list(scratch.iterdir()) == []


def no_export(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "x")) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    (folder / "x-wal").write_bytes(b"?")
    return folder / "x"


def no_database(folder: Path) -> Path:
    path = interrupted(folder, "WAL")
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"\xff" * 84)
    path.with_name(f"{path.name}-wal").write_bytes(b"?")
    return path


@pytest.mark.parametrize("make", [no_export, no_database])
def test_a_copy_that_is_no_export_is_removed_too(
    tmp_path: Path, scratch: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    with pytest.raises(CaptureError, match=re.escape(str(path))):
        Export(path)
    assert list(scratch.iterdir()) == []


def test_a_copy_that_finds_no_room(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = interrupted(tmp_path, "WAL")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OutputError, match=r"cannot copy .*writing.sqlite-wal into .*: No space left"):
        Export(path)
    assert list(scratch.iterdir()) == []
