"""How an export is stored, and what another process does with it: the rows stay the same."""

# ruff: noqa: S608 - statements of names in the exports that the tests make

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    Random = random.Random

_PAGES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_REFUSED = (65,)
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def any_table(random: Random, db: sqlite3.Connection) -> str:
    """Return a table with a rowid, one that reports read if there is one."""
    kinds = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ? ORDER BY name"
    names = [name for like in ("CUPTI%", "%") for (name,) in db.execute(kinds, (like,))]
    return str(random.choice(names[: len(names) // 2 + 1]))


class Stored(NamedTuple):
    """What was done, what gives back a lock, the right exit codes, and whether the rows are as before."""

    made: str
    after: Callable[[], object] = lambda: None
    codes: tuple[int, ...] = (0, 65)
    harmless: bool = True


def _vacuumed(random: Random, export: Path) -> Stored:
    page, vacuum = random.choice(_PAGES), random.randrange(3)
    with closing(sqlite3.connect(export, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {page}")
        db.execute(f"PRAGMA auto_vacuum = {vacuum}")
        db.execute("VACUUM")
    return Stored(f"pages of {page} bytes, auto_vacuum {vacuum}")


def _rebuilt(random: Random, export: Path) -> Stored:
    """A text encoding, and bytes at the end of each page that are reserved, as by an extension."""
    encoding = random.choice(("UTF-8", "UTF-16le", "UTF-16be"))
    page, reserved = random.choice(_PAGES[:4]), random.choice((0, 0, 8, 32))
    with closing(sqlite3.connect(export)) as old:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        schema = old.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL").fetchall()
        names = [name for kind, name, sql in schema if kind == "table" and "VIRTUAL" not in sql]
        rows = {name: old.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    export.unlink()
    _reserve(export, page, encoding, reserved)
    with closing(sqlite3.connect(export, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        for kind in ("table", "index", "view", "trigger"):
            for sql in (sql for one, _, sql in schema if one == kind):
                db.execute(sql)
        db.execute("BEGIN")
        for name, cells in rows.items():
            if cells:
                marks = ", ".join("?" * len(cells[0]))
                db.executemany(f'INSERT INTO "{name}" VALUES ({marks})', cells)
        db.execute("COMMIT")
    return Stored(f"rebuilt in {encoding}, pages of {page} bytes, {reserved} reserved")


def _reserve(export: Path, page: int, encoding: str, reserved: int) -> None:
    """Write an empty database of this form."""
    with closing(sqlite3.connect(export, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {page}")
        db.execute(f"PRAGMA encoding = '{encoding}'")
        db.execute("CREATE TABLE t (a)")
        db.execute("DROP TABLE t")
        db.execute("VACUUM")
    if reserved:
        content = bytearray(export.read_bytes())
        content[20] = reserved
        content[105:107] = (page - reserved).to_bytes(
            2, "big"
        )  # where the cells of page 1 begin: there are none
        export.write_bytes(content)


def naming_super_journal(victim: Path) -> bytes:
    """Return the end of a rollback journal that names a super-journal, which SQLite deletes afterwards."""
    name = os.fsencode(victim)
    checksum = sum(byte - 256 * (byte > 127) for byte in name) & 0xFFFFFFFF
    return b"\xff" * 4 + name + struct.pack(">II", len(name), checksum) + _JOURNAL_MAGIC


def _journaled(random: Random, export: Path) -> Stored:
    """A write-ahead log, or the journal of a transaction that was cut off, as a crash leaves them."""
    mode = random.choice(("WAL", "DELETE"))
    with tempfile.TemporaryDirectory(dir=export.parent.parent) as folder:
        work = Path(folder, export.name)
        shutil.move(export, work)
        with closing(sqlite3.connect(work, isolation_level=None)) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("PRAGMA cache_size = 2")
            db.execute("BEGIN")
            table = any_table(random, db)
            # No cells: those of a hostile table can be made up without end.
            db.execute(f'CREATE TABLE more AS SELECT rowid FROM "{table}"')
            db.execute(f'DELETE FROM "{table}"')
            if mode == "WAL":
                db.execute("COMMIT")
            for part in (work, Path(f"{work}-wal"), Path(f"{work}-journal")):
                if part.exists():
                    shutil.copy(part, export.parent)
    beside = next((path for path in export.parent.iterdir() if path != export), export)
    if mode == "DELETE" and random.random() < 0.5:
        victim = export.with_name("thesis.tex")
        victim.write_text("years of work", encoding="utf-8")
        with beside.open("ab") as journal:
            journal.write(naming_super_journal(victim) * random.choice((1, 2, 3)))
    harmless = random.random() < 0.6
    if not harmless:
        content = bytearray(beside.read_bytes())
        for _ in range(random.choice((1, 5))):
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        beside.write_bytes(content[: random.choice((len(content), random.randrange(len(content))))])
    return Stored(f"{beside.name}{'' if harmless else ', damaged'}", harmless=harmless)


def _locked(random: Random, export: Path) -> Stored:
    """Another process holds a lock, and may have written into its journal."""
    mode = random.choice(("EXCLUSIVE", "IMMEDIATE", "DEFERRED"))
    db = sqlite3.connect(export, isolation_level=None)
    db.execute(f"BEGIN {mode}")
    db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mode != "DEFERRED" and random.random() < 0.5:
        db.execute(f'DELETE FROM "{any_table(random, db)}"')
        mode += ", changes not written yet"
    return Stored(f"locked {mode}", after=db.close)


def _being_written(random: Random, export: Path) -> Stored:
    """An export that nsys has not finished: its first page comes last, or the rest is not there yet."""
    content = export.read_bytes()
    page = int.from_bytes(content[16:18], "big")
    count = len(content) // page
    how = random.choice(("zero header", "empty", "half", "first page"))
    export.write_bytes(
        {
            "zero header": bytes(page) + content[page:],
            "empty": b"",
            "half": content[: page * max(1, count // 2)],
            "first page": content[:page],
        }[how]
    )
    return Stored(f"being written: {how}", codes=_REFUSED)


FORMS = (_vacuumed, _vacuumed, _rebuilt, _rebuilt, _journaled, _journaled, _locked, _being_written)
