"""Taking secrets out of an export: what a capture holds beside its events, and how each is removed.

nsys keeps the profiled program's whole environment in three tables (in StringIds that of every process of
the machine), the program's output, user and host names, and the names of all other processes. Events and
their strings are never touched, so every report of a redacted copy is the same. The command line of the
program stays. A .nsys-rep cannot be redacted: its format is nsys' own.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap import schema
from nsyswrap.errors import DamagedCapture, OutputError
from nsyswrap.reader import Export

if TYPE_CHECKING:
    from collections.abc import Iterable

# An environment is one or more NUL-separated NAME=value.
_VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.%()\-]*)=", re.ASCII)
_PERSONAL_KEYS = re.compile(
    r"(?i)(^|:|_)(host|hostname|user|user_?name|device_display_name|working_dir)$|_PATH(_ABS)?$"
)
_HOME = re.compile(r"(/home/|/Users/)(?!redacted\b)[^/\s]+")
_PERSONAL_TABLES = (schema.SYSTEM_ENV, schema.CAPTURE_METADATA, *schema.EXPORT_METADATA)
_ENVIRONMENT_ROWS = (
    (schema.CAPTURE_METADATA, "name LIKE '%ENVIRONMENT_VARIABLE%'"),
    (schema.SYSTEM_ENV, "name LIKE '%Environment'"),
)
_REMOVED = "redacted"


@dataclass(frozen=True)
class Finding:
    """One kind of secret: names where the export has names (never values), and how many."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


def findings(path: Path) -> list[Finding]:
    """Return what would leak; an empty list: nothing known to be secret is left."""
    export = Export(path)
    try:
        found = [_environment(export), _program_output(export), _personal(export), _other_processes(export)]
    finally:
        export.close()
    return [finding for finding in found if finding.count]


def remove_environment(path: Path) -> None:
    """Remove the environment in place, and compact the file: deleted rows leave their bytes behind."""
    with_export = Export(path)
    strings = _environment_strings(with_export)
    tables = set(with_export.tables)
    with_export.close()
    db = _writable(path)
    try:
        _delete_environment(db, tables, strings)
        db.commit()
        db.execute("VACUUM")
    except sqlite3.DatabaseError as error:
        raise OutputError(f"cannot remove the environment from {path}: {error}") from None
    finally:
        db.close()


def redact(source: Path, target: Path) -> None:
    """Write a copy of ``source`` without what ``findings`` lists, compacted."""
    export = Export(source)
    strings = _environment_strings(export)
    if target.exists():
        raise OutputError(f"{target} exists", "give another -o, or remove it first")
    part = target.with_name(f".{target.name}.part")
    try:
        _copy(source, part)
        db = _writable(part)
        try:
            _delete_environment(db, set(export.tables), strings)
            _delete_output(db, export)
            _delete_other_processes(db, export)
            _blank_personal(db, export)
            db.commit()
            db.execute("VACUUM")
        finally:
            db.close()
        part.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from None
    except sqlite3.DatabaseError as error:
        raise DamagedCapture(f"{source} cannot be redacted: {error}") from None
    finally:
        export.close()
        part.unlink(missing_ok=True)


def _environment(export: Export) -> Finding:
    names: list[str] = []
    count = 0
    for table, where in _ENVIRONMENT_ROWS:
        if table in export.tables:
            values = [str(value) for (value,) in export.rows(f"SELECT value FROM {table} WHERE {where}")]  # noqa: S608
            count += len(values)
            names += [name for value in values for name in _variable_names(value.replace(";", "\0"))]
    blocks = _environment_strings(export)
    names += [name for i in blocks for name in _variable_names(export.strings[i])]
    return Finding("environment", count + len(blocks), tuple(sorted(set(names))))


def _program_output(export: Export) -> Finding:
    return Finding("program output", export.count("ProcessStreams"))


def _personal(export: Export) -> Finding:
    names = tuple(f"{table}.{name}" for table, name, _ in _personal_rows(export))
    return Finding("user, host and paths", len(names), names)


def _other_processes(export: Export) -> Finding:
    own = _own_processes(export)
    count = sum(pid not in own for pid in _values(export, "PROCESSES", "globalPid"))
    return Finding("other processes' names", count)


def _variable_names(block: str) -> list[str]:
    return [found.group(1) for part in block.split("\0") if (found := _VARIABLE.match(part))]


def _environment_strings(export: Export) -> list[int]:
    """Ids of strings that are environments: every NUL-separated part is NAME=value, and no event uses it."""
    shaped = [
        i
        for i, text in export.strings.items()
        if (parts := [part for part in text.split("\0") if part]) and all(map(_VARIABLE.match, parts))
    ]
    used = _used_strings(export) if shaped else set()
    return [i for i in shaped if "\0" in export.strings[i] or i not in used]


def _used_strings(export: Export, without: Iterable[str] = ()) -> set[int]:
    """Ids of the strings that rows refer to, in the tables not named."""
    skipped = {*without, schema.STRINGS}
    return {
        value
        for table, columns in export.tables.items()
        if table not in skipped
        for column in columns
        if schema.STRING_COLUMN.fullmatch(column)
        for value in _values(export, table, column)
    }


def _own_processes(export: Export) -> set[int]:
    """Processes that have events."""
    own: set[int] = set()
    for events in schema.EVENTS.values():
        for column in ("globalPid", "globalTid"):
            if events.table != schema.EVENTS["diagnostic"].table and column in export.tables.get(
                events.table, ()
            ):
                own |= {value & schema.PROCESS_MASK for value in _values(export, events.table, column)}
    return own


def _values(export: Export, table: str, column: str) -> set[int]:
    if column not in export.tables.get(table, ()):
        return set()
    rows = export.rows(f'SELECT DISTINCT "{column}" FROM "{table}"')  # noqa: S608 - names of this file
    return {value for (value,) in rows if isinstance(value, int)}


def _personal_rows(export: Export) -> list[tuple[str, str, str]]:
    """(table, name, value) of every row that names a user, a host or a folder."""
    return [
        (table, name, str(value))
        for table in _PERSONAL_TABLES
        if {"name", "value"} <= set(export.tables.get(table, ()))
        for name, value in export.rows(f"SELECT name, value FROM {table}")  # noqa: S608
        if value not in ("", _REMOVED, None)
        and "ENVIRONMENT" not in name.upper()
        and (_PERSONAL_KEYS.search(name) or _HOME.search(str(value)))
    ]


def _copy(source: Path, target: Path) -> None:
    reading = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    target.unlink(missing_ok=True)
    writing = sqlite3.connect(target)
    try:
        reading.backup(writing)
    finally:
        reading.close()
        writing.close()


def _writable(path: Path) -> sqlite3.Connection:
    """Open for writing, with no journal beside the file."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = MEMORY")
    return db


def _delete_environment(db: sqlite3.Connection, tables: set[str], strings: list[int]) -> None:
    for table, where in _ENVIRONMENT_ROWS:
        if table in tables:
            db.execute(f"DELETE FROM {table} WHERE {where}")  # noqa: S608
    _delete_strings(db, strings)


def _delete_output(db: sqlite3.Connection, export: Export) -> None:
    if "ProcessStreams" not in export.tables:
        return
    used = _used_strings(export, without=["ProcessStreams"])
    texts = _values(export, "ProcessStreams", "contentId") | _values(export, "ProcessStreams", "filenameId")
    db.execute("DELETE FROM ProcessStreams")
    _delete_strings(db, texts - used)


def _delete_other_processes(db: sqlite3.Connection, export: Export) -> None:
    own = _own_processes(export)
    for table, column, mask in (
        ("PROCESSES", "globalPid", -1),
        ("ThreadNames", "globalTid", schema.PROCESS_MASK),
    ):
        for value in _values(export, table, column):  # none where the table is missing
            if value & mask not in own:
                db.execute(f'DELETE FROM "{table}" WHERE "{column}" = ?', (value,))  # noqa: S608
    if "ThreadNames" in export.tables:
        kept = {row[0] for row in db.execute("SELECT DISTINCT nameId FROM ThreadNames")}
        used = _used_strings(export, without=["ThreadNames", "ProcessStreams"]) | kept
        _delete_strings(db, _values(export, "ThreadNames", "nameId") - used)
    if "PROCESSES" in export.tables:
        for (name,) in db.execute("SELECT DISTINCT name FROM PROCESSES").fetchall():
            db.execute("UPDATE PROCESSES SET name = ? WHERE name = ?", (Path(str(name)).name, name))


def _blank_personal(db: sqlite3.Connection, export: Export) -> None:
    for table, name, value in _personal_rows(export):
        personal = _PERSONAL_KEYS.search(name) is not None
        kept = _REMOVED if personal else _HOME.sub(rf"\g<1>{_REMOVED}", value)
        db.execute(f"UPDATE {table} SET value = ? WHERE name = ? AND value = ?", (kept, name, value))  # noqa: S608
    diagnostic = schema.EVENTS["diagnostic"].table
    if diagnostic in export.tables:
        for (text,) in db.execute(f"SELECT DISTINCT text FROM {diagnostic}").fetchall():  # noqa: S608
            changed = _HOME.sub(rf"\g<1>{_REMOVED}", str(text))
            if changed != text:
                db.execute(f"UPDATE {diagnostic} SET text = ? WHERE text = ?", (changed, text))  # noqa: S608


def _delete_strings(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    db.executemany(f"DELETE FROM {schema.STRINGS} WHERE id = ?", [(i,) for i in ids])  # noqa: S608
