"""Taking secrets out of an export: what a capture holds beside its events, and how each is removed.

nsys keeps the profiled program's whole environment in three tables (in StringIds that of every process of
the machine), the program's output (twice), user and host names, and the names of all other processes. Events
and their names are never touched, so every report of a redacted copy is the same. The command line of the
program stays. A .nsys-rep cannot be redacted: its format is nsys' own.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import DamagedCapture, OutputError
from nsyswrap.base.files import replacing, umask
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# An environment is one or more NUL-separated NAME=value; a process may have written its title over some.
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
_OUTPUT_TABLES = ("ProcessStreams", "ANALYSIS_FILE")  # from 2024.5 nsys keeps the output in both
_DIAGNOSTICS = schema.EVENTS["diagnostic"].table
_REMOVED = "redacted"


@dataclass(frozen=True)
class Secret:
    """One kind of secret: names where the export has names (never values), and how many."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


def secrets_in(path: Path) -> list[Secret]:
    """Return what would leak; an empty list: nothing known to be secret is left."""
    export = Export(path)
    try:
        found = [_environment(export), _program_output(export), _personal(export), _other_processes(export)]
    finally:
        export.close()
    return [finding for finding in found if finding.count]


def remove_environment(path: Path) -> None:
    """Take the environment out of an export that is nobody else's yet; needs as much room again meanwhile.

    Raises OutputError: then the export is half done, and to be removed.
    """
    export = Export(path)
    try:
        with closing(_editing(path)) as db:
            _delete_environment(db, export)
            db.commit()
        with replacing(path, capture=True) as part:
            _copy(path, part)
    except (sqlite3.DatabaseError, MemoryError, OSError, OutputError, UnicodeError) as error:
        raise OutputError(
            f"cannot remove the environment from {path}: {str(error) or 'out of memory'}",
            f"make room for a copy, then `nsyswrap redact {path} -o OUT`",
        ) from None
    finally:
        export.close()


def redact(source: Path, target: Path) -> None:
    """Write a copy of ``source`` without what ``findings`` lists."""
    if target.exists():
        raise OutputError(f"{target} exists", "give another -o, or remove it first")
    export = Export(source)
    try:
        with replacing(target) as part, _whole_copy(export.file, part) as whole:
            with closing(_editing(whole)) as db:
                _delete_environment(db, export)
                _delete_output(db, export)
                _delete_other_processes(db, export)
                _blank_personal(db, export)
                db.commit()
            _copy(whole, part)
            part.chmod(0o666 & ~umask())
    except sqlite3.OperationalError as error:
        raise OutputError(f"cannot write {target}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise DamagedCapture(f"{source} cannot be redacted: {error}") from None
    finally:
        export.close()


@contextmanager
def _whole_copy(source: Path, part: Path) -> Iterator[Path]:
    """Give a copy to delete from, beside ``part``."""
    whole = part.with_suffix(".whole")
    try:
        _copy(source, whole)
        yield whole
    finally:
        whole.unlink(missing_ok=True)


def _editing(path: Path) -> sqlite3.Connection:
    """Open a file to delete from it, without a journal: that would hold what is deleted."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = OFF")
    return db


def _copy(source: Path, part: Path) -> None:
    """Write a copy of the rows of a file, and of nothing that was deleted from it.

    Deleted bytes, though overwritten by SQLite, may stand in a page a second time.
    """
    os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite would not say why it cannot
    with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        db.execute("VACUUM INTO ?", (str(part),))


def _environment(export: Export) -> Secret:
    names: list[str] = []
    count = 0
    for table, where in _ENVIRONMENT_ROWS:
        if table in export.tables:
            values = [str(value) for (value,) in export.rows(f"SELECT value FROM {table} WHERE {where}")]  # noqa: S608
            count += len(values)
            if table == schema.CAPTURE_METADATA:  # the other one parts variables by what values hold too
                names += [name for value in values for name in _variable_names(value)]
    blocks = _environment_strings(export)
    names += [name for i in blocks for name in _variable_names(export.strings[i])]
    return Secret("environment", count + len(blocks), tuple(sorted(set(names))))


def _program_output(export: Export) -> Secret:
    return Secret("program output", sum(map(export.count, _OUTPUT_TABLES)))


def _personal(export: Export) -> Secret:
    names = [f"{table}.{name}" for table, name, _ in _personal_rows(export)]
    names += [schema.STRINGS] * len(_home_strings(export)) + [_DIAGNOSTICS] * len(_home_diagnostics(export))
    return Secret("user, host and paths", len(names), tuple(dict.fromkeys(names)))


def _other_processes(export: Export) -> Secret:
    named = _values(export, "PROCESSES", "globalPid") | _values(export, "ThreadNames", "globalTid")
    others = {value & schema.PROCESS_MASK for value in named} - _own_processes(export)
    return Secret("other processes' names", len(others))


def _variable_names(block: str) -> list[str]:
    return [found.group(1) for part in block.split("\0") if (found := _VARIABLE.match(part))]


def _environment_strings(export: Export) -> list[int]:
    """Ids of strings that are environments: several of NUL-separated parts, or one that no row refers to.

    No name of an event can hold a NUL. Of a variable alone the name can be anything: ``=`` is what it has.
    """
    shaped = [i for i, text in export.strings.items() if "\0" in text or "=" in text]
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


def _home_strings(export: Export) -> dict[int, str]:
    """Strings with a home folder in them, apart from events' names, as they are to be."""
    homes = {i: text for i, text in export.strings.items() if _HOME.search(text)}
    names = _event_names(export) if homes else set()
    return {i: _without_home(text) for i, text in homes.items() if i not in names}


def _event_names(export: Export) -> set[int]:
    """Ids of the strings that reports show."""
    return {
        value
        for events in schema.EVENTS.values()
        for field in events.fields.values()
        if field.kind == "string"
        for column in field.columns
        for value in _values(export, events.table, column)
    }


def _home_diagnostics(export: Export) -> list[str]:
    if "text" not in export.tables.get(_DIAGNOSTICS, ()):
        return []
    texts = (str(text) for (text,) in export.rows(f"SELECT DISTINCT text FROM {_DIAGNOSTICS}"))  # noqa: S608
    return [text for text in texts if _HOME.search(text)]


def _without_home(text: str) -> str:
    return _HOME.sub(rf"\g<1>{_REMOVED}", text)


def _delete_environment(db: sqlite3.Connection, export: Export) -> None:
    blocks = _environment_strings(export)  # the file that is read may be the one that is changed
    for table, where in _ENVIRONMENT_ROWS:
        if table in export.tables:
            db.execute(f"DELETE FROM {table} WHERE {where}")  # noqa: S608
    _delete_strings(db, blocks)


def _delete_output(db: sqlite3.Connection, export: Export) -> None:
    used = _used_strings(export, without=_OUTPUT_TABLES)
    for table in _OUTPUT_TABLES:
        if table in export.tables:
            texts = _values(export, table, "contentId") | _values(export, table, "filenameId")
            db.execute(f"DELETE FROM {table}")  # noqa: S608
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
    if "PROCESSES" in export.tables:
        for (name,) in db.execute("SELECT DISTINCT name FROM PROCESSES").fetchall():
            db.execute("UPDATE PROCESSES SET name = ? WHERE name = ?", (Path(str(name)).name, name))
    used = _used_strings(export, without=[*_OUTPUT_TABLES, "ThreadNames"])
    if "ThreadNames" in export.tables:
        used |= {name for (name,) in db.execute("SELECT DISTINCT nameId FROM ThreadNames")}
    _delete_strings(db, _process_strings(export) - used)


def _process_strings(export: Export) -> set[int]:
    """Ids of strings that are the name of a process or thread; nsys leaves some that no row refers to."""
    known = "PROCESSES" in export.tables
    rows = set(export.rows("SELECT DISTINCT name FROM PROCESSES") if known else [])
    strings = {i for i, text in export.strings.items() if (text,) in rows}
    return strings | _values(export, "ThreadNames", "nameId")


def _blank_personal(db: sqlite3.Connection, export: Export) -> None:
    for table, name, value in _personal_rows(export):
        personal = _PERSONAL_KEYS.search(name) is not None
        kept = _REMOVED if personal else _without_home(value)
        db.execute(f"UPDATE {table} SET value = ? WHERE name = ? AND value = ?", (kept, name, value))  # noqa: S608
    for i, text in _home_strings(export).items():
        db.execute(f"UPDATE {schema.STRINGS} SET value = ? WHERE id = ?", (text, i))  # noqa: S608
    for text in _home_diagnostics(export):
        db.execute(f"UPDATE {_DIAGNOSTICS} SET text = ? WHERE text = ?", (_without_home(text), text))  # noqa: S608


def _delete_strings(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    db.executemany(f"DELETE FROM {schema.STRINGS} WHERE id = ?", [(i,) for i in ids])  # noqa: S608
