"""Exports that SQLite finds in order, with contents, a schema or a form that nsys does not write."""

# ruff: noqa: S608 - statements of names in this file and in the exports that the tests make

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fuzz import sql_files
from fuzz.bases import any_base
from fuzz.case import Case
from fuzz.commands import command

if TYPE_CHECKING:
    Random = random.Random
    Mutation = Callable[[Random, sqlite3.Connection], str]

_IN_FILE = 0.25  # of the cases: how the file is stored, or what happens to it meanwhile
MAIN = (
    *("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"),
    *("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"),
)
_SPANS = (*MAIN[:-1], "OSRT_API", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "PROFILER_OVERHEAD")
_VALUES: tuple[object, ...] = (
    *(None, 0, -1, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**62), 10**18),
    *(1.5, 5.0, -0.0, 1e15, 2.0**53, 1e300, float("inf"), float("-inf"), 459_381.9),
    *(
        "1_000",
        "1000",
        " 7",
        "7 ",
        "0x10",
        "1e3",
        "१२",
        "",
        "nan",
        "x" * 300,
        "\x1b[31m",
        "=1+1",
        "a\nb",
        "\0",
    ),
    *(b"", b"12", b"\xff\xfe\x00", b"\0" * 9),
)
_ENDLESS = ("hex(zeroblob(400000000))", "i", "randomblob(300000000)")
_TEXTS: tuple[object, ...] = (
    *(
        "",
        " ",
        ":",
        "a:b",
        "@",
        "/",
        "a/1-2",
        "[CUDA memset]",
        "void f<int, 3>(é)",
        "x" * 3000,
        "\ud7ff\uffff",
    ),
    *(
        "=cmd()",
        "a\rb",
        'quote"d',
        "comma, semi;",
        "\x00nul",
        "\x1b[2J",
        "\u202e",
        "_v7000",
        "x_v1234",
        7,
        1.5,
    ),
)
_BYTES = (b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"ok\x80")
_LONG_NAME = 400_000


class Found(NamedTuple):
    """A table with rows, one of its columns, and a condition that some of its rows meet."""

    table: str
    column: str
    where: str


def tables(db: sqlite3.Connection) -> list[str]:
    kinds = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return [name for (name,) in db.execute(kinds)]


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def any_table(random: Random, db: sqlite3.Connection, names: tuple[str, ...] = MAIN) -> str:
    """Return a table, mostly one of ``names``."""
    present = tables(db)
    return random.choice([name for name in names if name in present and random.random() < 0.9] or present)


def any_cell(random: Random, db: sqlite3.Connection, names: tuple[str, ...] = MAIN) -> Found:
    table = any_table(random, db, names)
    count = db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    first = random.randrange(max(count, 1))
    many = random.choice((1, 1, 2, count))
    where = f'rowid IN (SELECT rowid FROM "{table}" LIMIT {many} OFFSET {first if many < count else 0})'
    return Found(table, random.choice(columns(db, table)), where)


def _value(random: Random, db: sqlite3.Connection) -> str:
    found = any_cell(random, db)
    value = random.choice(_VALUES)
    db.execute(f'UPDATE "{found.table}" SET "{found.column}" = ? WHERE {found.where}', (value,))
    return f"{found.table}.{found.column} = {value!r:.40} where {found.where}"


def _time(random: Random, db: sqlite3.Connection) -> str:
    found = any_cell(random, db, _SPANS)
    present = columns(db, found.table)
    if not {"start", "end"} <= set(present):
        return ""
    big = random.choice((2**40, 2**53, 2**61, 2**62, 6 * 10**18, 2**63 - 1))
    change = random.choice(
        (
            *(
                "end = start",
                "start = end + 1000",
                "end = start - 5",
                "start = -start",
                "start = NULL",
                "end = NULL",
            ),
            *(f"end = start + {big}", f"start = start - {big}, end = end - {big}", f"start = {-big}"),
            *(
                f"end = {big}",
                f"start = {big}, end = {big}",
                "start = end, end = start",
                "end = start + 1000.9",
            ),
            *("start = start * 1.0", f"start = start + {big}, end = end + {big}", "start = 0, end = 0"),
        )
    )
    db.execute(f'UPDATE "{found.table}" SET {change} WHERE {found.where}')
    return f"{found.table} {change} where {found.where}"


def _text(random: Random, db: sqlite3.Connection) -> str:
    table, column = random.choice((("StringIds", "value"), ("StringIds", "value"), ("NVTX_EVENTS", "text")))
    if table not in tables(db):
        return ""
    found = any_cell(random, db, (table,))
    if random.random() < 0.4:
        raw = random.choice(_BYTES)
        db.execute(f'UPDATE "{table}" SET "{column}" = CAST(? AS TEXT) WHERE {found.where}', (raw,))
        return f"{table}.{column} = text of {raw!r} where {found.where}"
    where, text = found.where, random.choice(_TEXTS)
    if random.random() < 0.02:  # of a few rows: the time grows with the size of the file
        where, text = f'rowid IN (SELECT rowid FROM "{table}" LIMIT 3)', "n" * _LONG_NAME
    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (text,))
    return f"{table}.{column} = {text!r:.40} where {where}"


def _ids(random: Random, db: sqlite3.Connection) -> str:
    """Ids that dangle, repeat, or belong to another process."""
    column = random.choice(
        (
            *(
                "demangledName",
                "shortName",
                "nameId",
                "textId",
                "correlationId",
                "correlationId",
                "globalTid",
            ),
            *(
                "globalPid",
                "copyKind",
                "deviceId",
                "streamId",
                "domainId",
                "eventType",
                "graphNodeId",
                "srcKind",
            ),
        )
    )
    having = [table for table in tables(db) if column in columns(db, table)]
    if not having:
        return ""
    found = any_cell(random, db, (random.choice(having),))
    value = random.choice(
        (0, 1, -1, 7, 59, 60, 99_999_999, 2**40, "rowid", f"{column} + 1", f"{column} + 16777216")
    )
    db.execute(f'UPDATE "{found.table}" SET "{column}" = {value} WHERE {found.where}')
    return f"{found.table}.{column} = {value} where {found.where}"


def _nvtx(random: Random, db: sqlite3.Connection) -> str:
    """Ranges that cross, that are equal, or that nest a thousand deep."""
    if "NVTX_EVENTS" not in tables(db):
        return ""
    change = random.choice(
        (
            *(
                "start = 1000 * rowid, end = 1000 * rowid + 1500",
                "start = 5, end = 1000000",
                "domainId = rowid % 3",
            ),
            *(
                "start = rowid, end = 100000000 - rowid",
                "end = NULL",
                "eventType = 60",
                "endGlobalTid = globalTid",
            ),
            *(
                "globalTid = NULL",
                "textId = NULL, text = NULL",
                "eventType = 75",
                "text = 'é'",
                "globalTid = 1",
            ),
            *("start = 100000000 - rowid, end = 200000000 - 2 * rowid", "eventType = 70", "eventType = 34"),
        )
    )
    db.execute(f"UPDATE NVTX_EVENTS SET {change}")
    return f"NVTX_EVENTS {change}"


def _copied(random: Random, db: sqlite3.Connection, table: str, wanted: list[str], suffix: str = "") -> None:
    """Replace a table by one with these columns; a column that it lacks is NULL."""
    present = columns(db, table)
    typed = ", ".join(
        f'"{name}" {random.choice(("INTEGER", "", "BLOB", "NUMERIC")) if suffix == "?" else ""}'
        for name in wanted
    )
    named = ", ".join(f'"{name}"' if name in present else "NULL" for name in wanted)
    db.execute(f'ALTER TABLE "{table}" RENAME TO "old"')
    db.execute(f'CREATE TABLE "{table}" ({typed})')
    db.execute(f'INSERT INTO "{table}" SELECT {named} FROM "old"')
    db.execute('DROP TABLE "old"')


def _schema(random: Random, db: sqlite3.Connection) -> str:
    """Tables and columns that are missing, renamed, empty, or have no types."""
    table = any_table(random, db)
    column = random.choice(columns(db, table))
    how = random.choice(
        ("drop table", "drop column", "rename table", "rename column", "empty", "no types", "twice")
    )
    if how in ("drop column", "no types", "twice"):
        wanted = [name for name in columns(db, table) if (how, name) != ("drop column", column)]
        if not wanted:
            return ""
        _copied(random, db, table, wanted, "?" if how == "no types" else "")
        if how == "twice":
            db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
    else:
        change = {
            "drop table": f'DROP TABLE "{table}"',
            "rename table": f'ALTER TABLE "{table}" RENAME TO "{table}_2"',
            "rename column": f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{column}_2"',
            "empty": f'DELETE FROM "{table}"',
        }[how]
        db.execute(change)
    return f"{how}: {table}.{column}"


def _two_texts(random: Random, db: sqlite3.Connection) -> str:
    """Ids of which a table without a key has two."""
    table = random.choice(("StringIds", "ENUM_CUDA_MEMCPY_OPER", "TARGET_INFO_GPU", "ThreadNames"))
    if table not in tables(db):
        return ""
    names = columns(db, table)
    _copied(random, db, table, names)
    rest = ", ".join(["id" if "id" in names else names[0], *(f"'other' || \"{name}\"" for name in names[1:])])
    db.execute(f'INSERT INTO "{table}" SELECT {rest} FROM "{table}" LIMIT 3')
    return f"{table} has three ids twice"


def _view(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db)
    db.execute(f'ALTER TABLE "{table}" RENAME TO "data of {table}"')
    db.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "data of {table}"')
    return f"{table} is a view"


def _endless(random: Random, db: sqlite3.Connection) -> str:
    """A view, a generated column or a default that makes up rows or bytes without end."""
    table = any_table(random, db)
    names = columns(db, table)
    values = ", ".join(f'{random.choice(_ENDLESS)} AS "{name}"' for name in names)
    endless = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {values} FROM n"
    plain = ", ".join(f'"{name}"' for name in names[1:])
    how, definition = random.choice(
        (
            ("a view", f'CREATE VIEW "{table}" AS {endless}'),
            ("one value of a view", f'CREATE VIEW "{table}" AS {endless} LIMIT 1'),
            ("a virtual table", f'CREATE VIRTUAL TABLE "{table}" USING fts5({plain or "a"})'),
            ("generated", f'CREATE TABLE "{table}" ({plain or "a"}, "{names[0]}" AS ({_ENDLESS[0]}))'),
        )
    )
    kind = random.choice(("view", "table"))
    db.execute("PRAGMA writable_schema = ON")
    change = "UPDATE sqlite_master SET sql = ?, type = ?, rootpage = rootpage * (? = 'table') WHERE name = ?"
    db.execute(change, (definition, kind, kind, table))
    db.execute("PRAGMA writable_schema = OFF")
    return f"{table} is {how} stored as a {kind}"


def _without_rowid(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db)
    names = columns(db, table)
    named = ", ".join(f'"{name}"' for name in names)
    db.execute(f'ALTER TABLE "{table}" RENAME TO "old"')
    key = "counted" if "counted" not in names else names[0]
    db.execute(f'CREATE TABLE "{table}" ("{key}" INTEGER PRIMARY KEY, {named}) WITHOUT ROWID')
    db.execute(f'INSERT INTO "{table}" SELECT rowid, {named} FROM "old"')
    db.execute('DROP TABLE "old"')
    return f"{table} has no rowid"


def _key(random: Random, db: sqlite3.Connection) -> str:
    """A column of integers that is the rowid, or rowids with gaps and below zero."""
    table = any_table(random, db, MAIN[:-1])
    change = random.choice(("rowid * 1000", "-rowid", "rowid + 9000000000000000000", "rowid * 2 - 50"))
    db.execute(f'UPDATE "{table}" SET rowid = {change} WHERE rowid > 0')
    return f"rowids of {table}: {change}"


# What must not matter: the reports are those of the rows that are there.


def _added(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db)
    kind = random.choice(
        ("TEXT", "REAL DEFAULT 1.5", "INTEGER NOT NULL DEFAULT 7", "BLOB", "", "TEXT DEFAULT 'é'")
    )
    db.execute(f'ALTER TABLE "{table}" ADD COLUMN "added \'é" {kind}')
    return f"column {kind or 'without a type'} added to {table}"


def _generated(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db)
    column = random.choice(columns(db, table))
    db.execute(f'ALTER TABLE "{table}" ADD COLUMN made GENERATED ALWAYS AS (length("{column}")) VIRTUAL')
    return f"a generated column in {table}"


def _index(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db)
    named = ", ".join(
        f'"{name}"' for name in random.sample(columns(db, table), min(3, len(columns(db, table))))
    )
    db.execute(f'CREATE INDEX "i" ON "{table}" ({named})')
    return f"index on {table} ({named})"


def _deleted(random: Random, db: sqlite3.Connection) -> str:
    """Rows that are gone: their pages have gaps, or are on the freelist."""
    table = any_table(random, db, MAIN[:-1])
    which = random.choice(("rowid % 3 = 1", "rowid < 20", "rowid % 2", "rowid > 30", "rowid % 7 < 5"))
    db.execute(f'DELETE FROM "{table}" WHERE {which}')
    return f"rows deleted from {table} where {which}"


def _reordered(random: Random, db: sqlite3.Connection) -> str:
    table = any_table(random, db, MAIN[:-1])
    names = columns(db, table)
    _copied(random, db, table, random.sample(names, len(names)))
    return f"columns of {table} in another order"


def _more_tables(random: Random, db: sqlite3.Connection) -> str:
    for number in range(random.choice((1, 5, 60))):
        db.execute(f'CREATE TABLE "other {number}" (a TEXT UNIQUE, b REAL)')
        db.execute(f'INSERT INTO "other {number}" VALUES (?, 0.5)', ("x" * 2000,))
    db.execute("CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT 1; END")
    return "other tables and a trigger"


HARMFUL: tuple[Mutation, ...] = (
    *(_value,) * 6,
    *(_time,) * 4,
    *(_text, _text, _ids, _ids, _nvtx, _schema, _schema, _two_texts, _view, _endless, _without_rowid, _key),
    _generated,
)
HARMLESS: tuple[Mutation, ...] = (_added, _index, _deleted, _reordered, _more_tables)


def case(random: Random, folder: Path) -> Case:
    """Return a command on an export of which SQL or the file's form is changed."""
    name, base = any_base(random)
    export = folder / "x.sqlite"
    export.write_bytes(base)
    harmless = random.random() < 0.3
    made = _mutated(random, export, HARMLESS if harmless else HARMFUL, random.choice((0, 1, 1, 1, 2, 3)))
    ask = partial(command, random, export)
    if random.random() < _IN_FILE or not made:
        with suppress(sqlite3.DatabaseError):  # of a schema that SQLite refuses
            stored = random.choice(sql_files.FORMS)(random, export)
            ask = partial(ask, after=stored.after, codes=stored.codes)
            made.append(stored.made)
            harmless &= 0 in stored.codes and stored.harmless
    return ask("; ".join([name, *made]), harmless=harmless)


def _mutated(random: Random, export: Path, kinds: tuple[Mutation, ...], count: int) -> list[str]:
    made = []
    with closing(sqlite3.connect(export, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        for _ in range(count):
            mutation = random.choice(kinds)
            try:
                made.append(mutation(random, db))
            except (sqlite3.Error, OverflowError) as error:  # some mutations cannot follow others
                made.append(f"{mutation.__name__}: {error}")
    return [text for text in made if text]
