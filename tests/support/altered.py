"""Copies of an export in which something is different that must not change what is said of it."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tiny_export import KERNEL, NVTX

from nsyswrap.analysis.kernel_names import classify
from nsyswrap.base.constants import MEASURE_MARK

_TIMES = ("start", "end", "timestamp", "duration", "startTime", "stopTime", "eventSyncTimestamp")
_HOOK_DOMAIN = "nsyswrap"
_KERNEL_NAMES = ("demangledName", "shortName", "mangledName")


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous=OFF")  # nothing waits for the disk
    return db


def scaled(path: Path, target: Path, factor: float) -> Path:
    """Write a copy of an export with all its times multiplied, also those that nsyswrap.measure took."""

    def times(values: dict[str, object]) -> dict[str, object]:
        return {
            key: round(value * factor) if key.endswith("_ns") and isinstance(value, (int, float)) else value
            for key, value in values.items()
        }

    shutil.copyfile(path, target)
    with closing(_opened(target)) as db, db:
        for table in _tables(db):
            for column in sorted(_columns(db, table) & {*_TIMES}):
                times_factor = f'CAST(ROUND("{column}" * ?) AS INTEGER)'
                db.execute(f'UPDATE "{table}" SET "{column}" = {times_factor}', (factor,))  # noqa: S608 - no input
        _change_marks(db, times)
    return target


def renamed(path: Path, target: Path) -> Path:
    """Write a copy of an export in which all kernels and NVTX ranges have other names, with the same numbers.

    Communication kernels keep theirs: nothing else tells that they communicate. So do the steps that
    nsyswrap's hook marked: they are known by their names.
    """

    def name(values: dict[str, object]) -> dict[str, object]:
        return {**values, "name": _range(str(values.get("name", "")))}

    names: dict[str, int] = {}

    def _range(text: str) -> str:
        place = names.setdefault(re.sub(r"\d+", "*", text), len(names))
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(place))
        return " ".join(("renamed range", letters, *re.findall(r"\d+", text)))

    shutil.copyfile(path, target)
    with closing(_opened(target)) as db, db:
        db.text_factory = lambda raw: raw.decode(errors="surrogateescape")
        if KERNEL in _tables(db):
            _rename_kernels(db)
        if NVTX in _tables(db):
            _rename_ranges(db, _range)
            _change_marks(db, name)
    return target


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {column[1] for column in db.execute(f'PRAGMA table_info("{table}")')}


def _rename_kernels(db: sqlite3.Connection) -> None:
    ids = db.execute(f"SELECT DISTINCT demangledName FROM {KERNEL} ORDER BY 1").fetchall()  # noqa: S608
    columns = sorted(_columns(db, KERNEL) & {*_KERNEL_NAMES})
    for number, (known,) in enumerate(ids):
        found = db.execute("SELECT value FROM StringIds WHERE id = ?", (known,)).fetchone()
        if found and classify(found[0]) == "communication":
            continue
        new = _new_string(db, f"renamed_kernel_{number}(int)")
        rows = db.execute(f"SELECT rowid FROM {KERNEL} WHERE demangledName = ?", (known,)).fetchall()  # noqa: S608
        changes = ", ".join(f"{column} = {new}" for column in columns)
        db.executemany(f"UPDATE {KERNEL} SET {changes} WHERE rowid = ?", rows)  # noqa: S608


def _rename_ranges(db: sqlite3.Connection, name: Callable[[str], str]) -> None:
    ids = "textId" in _columns(db, NVTX)
    events = db.execute(
        f"SELECT rowid, text, {'textId' if ids else 'NULL'} FROM {NVTX} WHERE eventType IN (59, 60, 70, 71) "  # noqa: S608
        f"AND coalesce(domainId, 0) NOT IN (SELECT domainId FROM {NVTX} WHERE eventType = 75 AND text = ?)",
        (_HOOK_DOMAIN,),
    ).fetchall()
    new: dict[str, int] = {}
    texts = dict(db.execute("SELECT id, value FROM StringIds").fetchall())
    for row, text, text_id in events:
        if text is not None:
            db.execute(f"UPDATE {NVTX} SET text = ? WHERE rowid = ?", (name(text), row))  # noqa: S608
        elif text_id is not None:
            other = name(texts[text_id])
            if other not in new:
                new[other] = _new_string(db, other)
            db.execute(f"UPDATE {NVTX} SET textId = ? WHERE rowid = ?", (new[other], row))  # noqa: S608


def _new_string(db: sqlite3.Connection, text: str) -> int:
    db.execute("INSERT INTO StringIds SELECT MAX(id) + 1, ? FROM StringIds", (text,))
    return int(db.execute("SELECT MAX(id) FROM StringIds").fetchone()[0])


def _change_marks(db: sqlite3.Connection, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    """Change what the marks of nsyswrap.measure hold, wherever the export has their texts."""
    places = [("StringIds", "value")] + ([(NVTX, "text")] if NVTX in _tables(db) else [])
    for table, column in places:
        marks = db.execute(
            f"SELECT rowid, {column} FROM {table} WHERE {column} LIKE ?",  # noqa: S608
            (f"{MEASURE_MARK}%",),
        ).fetchall()
        for row, text in marks:
            values = change(json.loads(text.removeprefix(MEASURE_MARK)))
            changed = f"{MEASURE_MARK}{json.dumps(values, separators=(',', ':'))}"
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))  # noqa: S608
