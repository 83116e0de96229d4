"""Exports made to delete a file, to fill the disk, or to keep the reader busy for ever."""

import os
import re
import shutil
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from conftest import Cli
from fuzz.sql_files import naming_super_journal
from sampled import sampled
from test_private_copy import interrupted, scratch
from tiny_export import KERNEL, NVTX, OSRT, kernel, nvtx, on_cpu, write

from nsyswrap.base.errors import CaptureError, DamagedCapture, NotACapture, OutputError
from nsyswrap.capture.export import Export
from nsyswrap.capture.open import identity_of

__all__ = ["scratch"]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
HUGE = "SELECT hex(zeroblob(400000000)) AS text"


def test_calls_that_all_end_before_they_start_are_not_drawn(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), on_cpu(OSRT, "poll", 30, 20))
    done = cli("view", path, "-o", "page.html")
    assert done.returncode == 0, done.stderr


@sampled(
    ("command", "times"),
    product(
        ("report", "view", "doctor", "redact --check", "collect", "export --perfetto out.json"), (1, 2, 3)
    ),
    fast=4,
)
def test_a_journal_that_names_a_file_deletes_nothing(
    cli: Cli, tmp_path: Path, command: str, times: int
) -> None:
    path = interrupted(tmp_path, "DELETE")
    victim = tmp_path / "thesis.tex"
    victim.write_text("years of work")
    with path.with_name(f"{path.name}-journal").open("ab") as journal:
        journal.write(naming_super_journal(victim) * times)
    word, *options = command.split()
    done = cli(word, path, *options)
    assert done.returncode == 0, done.stderr
    assert "read from a private copy" in done.stderr or word not in ("report", "view", "export")
    assert victim.read_text() == "years of work"


def test_a_hole_of_terabytes_is_not_copied(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    os.truncate(path, shutil.disk_usage(tmp_path).total * 2)
    done = cli("redact", path, "-o", "out.sqlite")
    assert done.returncode == 73
    assert "MB are free" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_hole_in_what_a_killed_run_left_is_not_copied(cli: Cli, tmp_path: Path) -> None:
    left = tmp_path / "run" / ".recording-0123456789ab"
    left.mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    export = write(left / "report.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(export)) as db:  # nsys writes it last
        db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    assert cli("report", "run").returncode == 0
    os.truncate(export, shutil.disk_usage(tmp_path).total * 2)
    done = cli("report", "run")
    assert done.returncode == 73
    assert "MB are free" in done.stderr


@pytest.mark.parametrize("name", ["report.sqlite", "report.nsys-rep"])
@pytest.mark.parametrize("options", [(), ("--by", "rank")])
def test_a_pipe_in_a_run_folder_is_not_waited_for(
    cli: Cli, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    os.mkfifo(tmp_path / "run" / name)
    done = cli("report", *options, "run")
    assert (done.returncode, done.stderr.count("\n")) in {(65, 1), (65, 2)}


@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 53), reason="SQLite deletes no such file since")
def test_sqlite_itself_would_delete_it(tmp_path: Path) -> None:
    """Show that the test above tests something."""
    path = interrupted(tmp_path, "DELETE")
    (tmp_path / "thesis.tex").write_text("years of work")
    with path.with_name(f"{path.name}-journal").open("ab") as journal:
        journal.write(naming_super_journal(tmp_path / "thesis.tex") * 2)
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT count(*) FROM sqlite_master")
    assert not (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize("kind", ["-wal", "-journal"])
def test_a_journal_of_terabytes_is_not_copied(tmp_path: Path, scratch: Path, kind: str) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with (tmp_path / f"x.sqlite{kind}").open("wb") as journal:
        journal.write(b"\x37\x7f\x06\x82")
        journal.truncate(3 << 40)
    with pytest.raises(NotACapture, match=rf"x.sqlite{kind} is larger than .* more than 1,074 MB"):
        Export(path)
    assert list(scratch.iterdir()) == []


def test_a_copy_needs_room(tmp_path: Path, scratch: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    os.truncate(path, shutil.disk_usage(tmp_path).total * 2)  # nothing but a hole
    (tmp_path / "x.sqlite-wal").write_bytes(b"?")
    with pytest.raises(OutputError, match=r"cannot copy .*it takes [\d,.]+ MB, and [\d,.]+ MB are free"):
        Export(path)
    assert list(scratch.iterdir()) == []


def stored_as(path: Path, table: str, definition: str, kind: str) -> None:
    """Let the schema say that a table is something else; ``kind`` is what it calls it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        changed = "sql = ?, type = ?, rootpage = CASE ? WHEN 'view' THEN 0 ELSE rootpage END"
        db.execute(f"UPDATE sqlite_master SET {changed} WHERE name = ?", (definition, kind, kind, table))  # noqa: S608


UNUSUAL = {
    "an endless view": (f"CREATE VIEW {NVTX} AS {ENDLESS}", "view", "is a view"),
    "a huge view": (f"CREATE VIEW {NVTX} AS {HUGE}", "view", "is a view"),
    "a view called a table": (f"CREATE VIEW {NVTX} AS {ENDLESS}", "table", "is a virtual table or a view"),
    "a virtual table": (
        f"CREATE VIRTUAL TABLE {NVTX} USING fts5(text)",
        "table",
        "is a virtual table or a view",
    ),
    "a generated column": (
        f"CREATE TABLE {NVTX} (start INT, end INT, text AS (hex(zeroblob(400000000))))",
        "table",
        "has a generated column, text",
    ),
    "a long default": (
        f"CREATE TABLE {NVTX} (start INT, end INT, text DEFAULT '{'x' * 5000}')",
        "table",
        "has a default value of 5,002 characters for text",
    ),
}  # fmt: skip


@sampled(
    ("case", "command"),
    product(UNUSUAL, ("report", "report -r nvtx_sum", "view", "redact --check", "doctor", "collect")),
    fast=7,
)
def test_only_plain_tables_are_read(cli: Cli, tmp_path: Path, case: str, command: str) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("range", 0, 9))
    definition, kind, reason = UNUSUAL[case]
    stored_as(path, NVTX, definition, kind)
    word, *options = command.split()
    done = cli(word, path, *options)
    assert done.returncode == 65
    assert re.search(rf"{NVTX} {reason}; nsys writes plain tables|malformed database schema", done.stderr)


def test_a_view_with_a_name_of_its_own_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE VIEW my_kernels AS {ENDLESS}")
    with closing(Export(path)) as export:
        assert export.unusual == {"my_kernels": "is a view"}
        assert "my_kernels" not in export.tables
        assert export.count(KERNEL) == 1


def test_a_table_whose_definition_is_that_of_another_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("range", 0, 9))
    stored_as(path, NVTX, "CREATE TABLE other (a)", "table")
    with pytest.raises(CaptureError, match=r"is a virtual table or a view|malformed database schema"):
        Export(path)


def test_copies_are_told_apart_without_views(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE VIEW META_DATA_CAPTURE AS {ENDLESS}")
    assert identity_of(path) is not None


def test_a_statement_ends_after_steps_that_no_file_of_its_size_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsyswrap.base.sqlite._FEW_STEPS", 1_000_000)
    with closing(Export(write(tmp_path / "x.sqlite", kernel("k", 0, 5)))) as export:
        with pytest.raises(DamagedCapture, match="more steps than the size of the file explains"):
            export.rows(f"SELECT count(*) FROM ({ENDLESS})")  # noqa: S608
        assert export.count(KERNEL) == 1


def test_a_header_that_promises_a_file_of_terabytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *(kernel("k", 2 * i, 2 * i + 1) for i in range(20_000)))
    with path.open("r+b") as file:
        file.seek(28)
        file.write((1 << 31).to_bytes(4, "big"))
        file.truncate(4096 << 31)  # nothing but a hole
    with closing(Export(path)) as export:
        assert len(export.columns(KERNEL, [("start", "int")])[0]) == 20_000
        assert export.by_sqlite == {KERNEL: "more pages than a capture has"}
