"""Find secrets in an export, and write copies of it without them.

nsys stores the whole environment of the profiled program in three tables; one of them, StringIds, has that
of every process of the machine. nsys also stores the program's output (twice), user and host names, and the
names of all other processes. Events and their names are never changed, so the reports of a redacted copy are
the same. The program's command line stays. A .nsys-rep cannot be redacted: only nsys can write its format.
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
from nsyswrap.capture.sql import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# An environment has NUL-separated NAME=value entries; a process can overwrite some with its title.
_VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.%()\-]*)=", re.ASCII)
_PERSONAL_KEYS = re.compile(
    r"(?i)(^|:|_)(host|hostname|user|user_?name|device_display_name|working_dir)$|_PATH(_ABS)?$"
)
_HOME = re.compile(r"(/home/|/Users/)(?!redacted\b)[^/\s]+")
_PERSONAL_TABLES = (schema.SYSTEM_ENV, schema.CAPTURE_METADATA, *schema.EXPORT_METADATA)
_ENVIRONMENT_ROWS = (  # table, pattern of names
    (schema.CAPTURE_METADATA, "%ENVIRONMENT_VARIABLE%"),
    (schema.SYSTEM_ENV, "%Environment"),
)
_OUTPUT_TABLES = ("ProcessStreams", "ANALYSIS_FILE")  # nsys 2024.5 and newer write the output into both
_DIAGNOSTICS = schema.EVENTS["diagnostic"].table
_REMOVED = "redacted"


@dataclass(frozen=True)
class Secret:
    """One kind of secret with its number; ``names`` has names from the export, never values."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


def secrets_in(path: Path) -> list[Secret]:
    """Return the kinds of secrets in an export; an empty list if there are none."""
    export = Export(path)
    try:
        secrets = [_environment(export), _program_output(export), _personal(export), _other_processes(export)]
    finally:
        export.close()
    return [secret for secret in secrets if secret.count]


def remove_environment(path: Path) -> None:
    """Remove the environment from an export, in place; this temporarily needs twice the space.

    The export must not be in use. Raises OutputError; the export is then incomplete and has to be removed.
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
            f"free disk space for a copy, then: nsyswrap redact {path} -o OUT",
        ) from None
    finally:
        export.close()


def redact(source: Path, target: Path) -> None:
    """Write a copy of ``source`` without the secrets that ``secrets_in`` lists.

    Raises OutputError if ``target`` exists or cannot be written, DamagedCapture if ``source`` is damaged.
    """
    if target.exists():
        raise OutputError(f"{target} already exists", "use another -o, or remove the file")
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
    """Yield a temporary copy beside ``part``, to delete from."""
    whole = part.with_suffix(".whole")
    try:
        _copy(source, whole)
        yield whole
    finally:
        whole.unlink(missing_ok=True)


def _editing(path: Path) -> sqlite3.Connection:
    """Open a file to delete rows, without a journal, which would contain the deleted rows."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = OFF")
    return db


def _copy(source: Path, part: Path) -> None:
    """Write a copy of a file that contains its rows and no deleted bytes.

    SQLite overwrites deleted bytes, but a page can contain them a second time.
    """
    os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))  # for an error with a reason, which SQLite lacks
    with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        db.execute("VACUUM INTO ?", (str(part),))


def _environment(export: Export) -> Secret:
    names: list[str] = []
    count = 0
    for table, pattern in _ENVIRONMENT_ROWS:
        if table in export.tables:
            sql = statement("SELECT value FROM {table} WHERE name LIKE ?", table=table)
            values = [str(value) for (value,) in export.rows(sql, pattern)]
            count += len(values)
            if table == schema.CAPTURE_METADATA:  # the other table also splits values
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
    return [match.group(1) for part in block.split("\0") if (match := _VARIABLE.match(part))]


def _environment_strings(export: Export) -> list[int]:
    """Return the ids of strings that are environments.

    Those are strings with a NUL, which no event's name can contain, and strings with a ``=`` that no row
    refers to, which are single variables.
    """
    shaped = [i for i, text in export.strings.items() if "\0" in text or "=" in text]
    used = _used_strings(export) if shaped else set()
    return [i for i in shaped if "\0" in export.strings[i] or i not in used]


def _used_strings(export: Export, without: Iterable[str] = ()) -> set[int]:
    """Return the ids of strings that rows refer to, in all tables except ``without``."""
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
    """Return the global ids of the processes that have events."""
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
    rows = export.rows(statement("SELECT DISTINCT {column} FROM {table}", column=column, table=table))
    return {value for (value,) in rows if isinstance(value, int)}


def _personal_rows(export: Export) -> list[tuple[str, str, str]]:
    """Return table, name and value of each row that names a user, a host or a home folder."""
    return [
        (table, name, str(value))
        for table in _PERSONAL_TABLES
        if {"name", "value"} <= set(export.tables.get(table, ()))
        for name, value in export.rows(statement("SELECT name, value FROM {table}", table=table))
        if value not in ("", _REMOVED, None)
        and "ENVIRONMENT" not in name.upper()
        and (_PERSONAL_KEYS.search(name) or _HOME.search(str(value)))
    ]


def _home_strings(export: Export) -> dict[int, str]:
    """Return the redacted texts of strings with a home folder, by id, except names of events."""
    homes = {i: text for i, text in export.strings.items() if _HOME.search(text)}
    names = _event_names(export) if homes else set()
    return {i: _without_home(text) for i, text in homes.items() if i not in names}


def _event_names(export: Export) -> set[int]:
    """Return the ids of the strings that reports can show."""
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
    sql = statement("SELECT DISTINCT text FROM {table}", table=_DIAGNOSTICS)
    texts = (str(text) for (text,) in export.rows(sql))
    return [text for text in texts if _HOME.search(text)]


def _without_home(text: str) -> str:
    return _HOME.sub(rf"\g<1>{_REMOVED}", text)


def _delete_environment(db: sqlite3.Connection, export: Export) -> None:
    blocks = _environment_strings(export)  # before any change: it can be the same file
    for table, pattern in _ENVIRONMENT_ROWS:
        if table in export.tables:
            db.execute(statement("DELETE FROM {table} WHERE name LIKE ?", table=table), (pattern,))
    _delete_strings(db, blocks)


def _delete_output(db: sqlite3.Connection, export: Export) -> None:
    used = _used_strings(export, without=_OUTPUT_TABLES)
    for table in _OUTPUT_TABLES:
        if table in export.tables:
            texts = _values(export, table, "contentId") | _values(export, table, "filenameId")
            db.execute(statement("DELETE FROM {table}", table=table))
            _delete_strings(db, texts - used)


def _delete_other_processes(db: sqlite3.Connection, export: Export) -> None:
    own = _own_processes(export)
    for table, column, mask in (
        ("PROCESSES", "globalPid", -1),
        ("ThreadNames", "globalTid", schema.PROCESS_MASK),
    ):
        sql = statement("DELETE FROM {table} WHERE {column} = ?", table=table, column=column)
        for value in _values(export, table, column):
            if value & mask not in own:
                db.execute(sql, (value,))
    if "PROCESSES" in export.tables:
        for (name,) in db.execute("SELECT DISTINCT name FROM PROCESSES").fetchall():
            db.execute("UPDATE PROCESSES SET name = ? WHERE name = ?", (Path(str(name)).name, name))
    used = _used_strings(export, without=[*_OUTPUT_TABLES, "ThreadNames"])
    if "ThreadNames" in export.tables:
        used |= {name for (name,) in db.execute("SELECT DISTINCT nameId FROM ThreadNames")}
    _delete_strings(db, _process_strings(export) - used)


def _process_strings(export: Export) -> set[int]:
    """Return the ids of names of processes and threads, including those that no row refers to."""
    known = "PROCESSES" in export.tables
    rows = set(export.rows("SELECT DISTINCT name FROM PROCESSES") if known else [])
    strings = {i for i, text in export.strings.items() if (text,) in rows}
    return strings | _values(export, "ThreadNames", "nameId")


def _blank_personal(db: sqlite3.Connection, export: Export) -> None:
    for table, name, value in _personal_rows(export):
        personal = _PERSONAL_KEYS.search(name) is not None
        kept = _REMOVED if personal else _without_home(value)
        sql = statement("UPDATE {table} SET value = ? WHERE name = ? AND value = ?", table=table)
        db.execute(sql, (kept, name, value))
    sql = statement("UPDATE {table} SET value = ? WHERE id = ?", table=schema.STRINGS)
    for i, text in _home_strings(export).items():
        db.execute(sql, (text, i))
    sql = statement("UPDATE {table} SET text = ? WHERE text = ?", table=_DIAGNOSTICS)
    for text in _home_diagnostics(export):
        db.execute(sql, (_without_home(text), text))


def _delete_strings(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    sql = statement("DELETE FROM {table} WHERE id = ?", table=schema.STRINGS)
    db.executemany(sql, [(i,) for i in ids])
