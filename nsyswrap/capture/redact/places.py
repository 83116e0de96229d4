"""Know the places where nsys keeps secrets, and delete or blank what is there.

nsys stores the whole environment of the profiled program in three tables; one of them, StringIds, has that
of every process of the machine. nsys also stores the program's output (twice), user and host names, and the
names of all other processes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.sqlite import statement
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact.credentials import one_of
from nsyswrap.capture.redact.search import (
    ENVIRONMENT_KEYS,
    IDENTIFIERS,
    PERSONAL_KEYS,
    REMOVED,
    RULES,
    SHORTEST,
    Search,
)
from nsyswrap.capture.schema import FieldKind

with lazy_imports():
    from nsyswrap.capture.redact import credentials, secret_names

_VALUES: WeakKeyDictionary[Export, dict[tuple[str, str], set[int]]] = WeakKeyDictionary()
# An environment has NUL-separated NAME=value entries; a process can overwrite some with its title.
_VARIABLE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.%()\-]*)=(.*)", re.ASCII | re.DOTALL)
_ENTRIES = re.compile(r"\0|;(?=[A-Za-z_]\w*=)")
ARGUMENT = re.compile(r":(COMMAND|ARGUMENT_\d{1,6})$", re.ASCII)
_SPACE = "\1"  # in place of a space in an argument: a value ends at others
_NUMBERS = "SELECT count(*) FROM {t} WHERE typeof({c}) IN ('integer', 'real') AND {c} <> 0"
_TEXT = "data"  # of a plugin, or a trace of the system, as JSON
_TEXTS = "SELECT count(*) FROM {t} WHERE {c} IS NOT NULL AND {c} NOT IN ('', ?)"
PAIR: tuple[tuple[str, FieldKind], ...] = (("name", "text"), ("value", "text"))  # columns of these tables
NAMED_TABLES = (schema.SYSTEM_ENV, schema.CAPTURE_METADATA, *schema.EXPORT_METADATA)
MARK = "NSYSWRAP_SEARCHED_FOR_VALUES"  # a row of ours
OUTPUT_TABLES = tuple(table for table, rule in RULES.items() if rule.rows == "program output")


def environment(export: Export) -> list[str]:
    """Return the environments and parts of them."""
    return [value for _, value in _environment_rows(export)] + [
        export.strings[i] for i in environment_strings(export)
    ]


def own_environment(export: Export) -> list[str]:
    """Return the environment of the profiled program, and that of nsys."""
    return [value for _, value in _environment_rows(export)]


def values_are_known(export: Export) -> bool:
    """Return True if the values of environment variables can be searched for, or were before."""
    rows = named_rows(export)
    marks = [value for _, name, value in rows if name == MARK]
    if marks or environment(export):
        return "no" not in marks
    return any(value == REMOVED for _, _, value in rows)  # a redacted copy of an earlier version


def mark(db: sqlite3.Connection, export: Export, *, known: bool) -> None:
    """Note in a table of names and values whether the values of variables were searched for."""
    for table in (*schema.EXPORT_METADATA, schema.CAPTURE_METADATA):
        if {"name", "value"} <= set(export.tables.get(table, ())):
            db.execute(statement("DELETE FROM {table} WHERE name = ?", table=table), (MARK,))
            into = statement("INSERT INTO {table} (name, value) VALUES (?, ?)", table=table)
            db.execute(into, (MARK, "yes" if known else "no"))
            return


def environment_names(export: Export) -> set[str]:
    """Return the names of the variables in the environments."""
    found: list[str] = []
    for table, value in _environment_rows(export):
        if table == schema.CAPTURE_METADATA:  # the other table also splits values
            found += [name for name, _ in _entries(value.split("\0"))]
    for i in environment_strings(export):
        found += [name for name, _ in _entries(export.strings[i].split("\0"))]
    return set(found)


def variables(block: str) -> list[tuple[str, str]]:
    """Return name and value of each variable in an environment, in all ways to read it."""
    parts = dict.fromkeys((*block.split("\0"), *_ENTRIES.split(block)))
    return [(name, value.strip().strip('"')) for name, value in _entries(parts)]


def _entries(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if match := _VARIABLE.match(part):
            yield match.group(1), match.group(2)


def _environment_rows(export: Export) -> list[tuple[str, str]]:
    return [
        (table, str(value))
        for table in NAMED_TABLES
        if {"name", "value"} <= set(export.tables.get(table, ()))
        for (value,) in export.rows(
            statement("SELECT value FROM {table} WHERE name LIKE ?", table=table), ENVIRONMENT_KEYS
        )
    ]


def environment_strings(export: Export) -> list[int]:
    """Return the ids of strings that are environments.

    Those are strings with a NUL that are no event's name, and strings with a ``=`` that no row refers to,
    which are single variables.
    """
    shaped = [i for i, text in export.strings.items() if "\0" in text or "=" in text]
    names, used = (_event_names(export), used_strings(export)) if shaped else (set[int](), set[int]())
    return [i for i in shaped if i not in (names if "\0" in export.strings[i] else used)]


def _event_names(export: Export) -> set[int]:
    return {
        value
        for events in schema.EVENTS.values()
        for field in events.fields.values()
        for column in field.columns
        for table in events.tables(export.tables)
        if field.kind == "string"
        for value in values(export, table, column)
    }


def used_strings(export: Export, without: Iterable[str] = ()) -> set[int]:
    """Return the ids of strings that rows refer to, in all tables except ``without``."""
    skipped = {*without, schema.STRINGS}
    return {
        value
        for table, columns in export.tables.items()
        if table not in skipped
        for column in columns
        if schema.STRING_COLUMN.fullmatch(column)
        for value in values(export, table, column)
    }


def values(export: Export, table: str, column: str) -> set[int]:
    """Return the different integers in a column, read once; none if it is missing."""
    known = _VALUES.setdefault(export, {})
    if (table, column) not in known:
        known[table, column] = {
            value for (value,) in _distinct(export, table, column) if isinstance(value, int)
        }
    return known[table, column]


def _distinct(export: Export, table: str, column: str) -> list[tuple[object, ...]]:
    if column not in export.tables.get(table, ()):
        return []
    return export.rows(statement("SELECT DISTINCT {column} FROM {table}", column=column, table=table))


def _own_processes(export: Export) -> set[int]:
    own: set[int] = set()
    of_nsys = {schema.EVENTS[kind].table for kind in ("diagnostic", "plugin_sample")}
    for events in schema.EVENTS.values():
        for column in ("globalPid", "globalTid"):
            if events.table not in of_nsys and column in export.tables.get(events.table, ()):
                own |= {value & schema.PROCESS_MASK for value in values(export, events.table, column)}
    return own


def other_processes(export: Export) -> set[int]:
    """Return the global ids of processes that have a name and no events."""
    named = values(export, "PROCESSES", "globalPid") | values(export, "ThreadNames", "globalTid")
    return {value & schema.PROCESS_MASK for value in named} - _own_processes(export)


def named_rows(export: Export) -> list[tuple[str, str, str]]:
    """Return table, name and value of each row about the session that is no part of an environment."""
    return [
        (table, str(name), str(value))
        for table in NAMED_TABLES
        if {"name", "value"} <= set(export.tables.get(table, ()))
        for name, value in export.rows(statement("SELECT name, value FROM {table}", table=table))
        if value is not None and "ENVIRONMENT" not in str(name).upper()
    ]


def personal_rows(export: Export) -> list[tuple[str, str, str]]:
    """Return table, name and value of each row that is personal as a whole."""
    return [
        (table, name, value)
        for table, name, value in named_rows(export)
        if value not in ("", "{}", REMOVED) and PERSONAL_KEYS.search(name)
    ]


def secret_arguments(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return name and value of each argument that holds a secret by what stands before it.

    Such is ``X`` in ``--password X`` and in ``sshpass -p X``. The argument is removed as a whole. ``rows``
    are names and values, of which those of arguments count.
    """
    return [(name, value) for name, value, _ in _in_command_lines(rows) if name]


def secrets_in_arguments(export: Export) -> set[str]:
    """Return the secrets in all command lines."""
    return {secret for _, _, secret in _in_command_lines(_names_and_values(export))}


def _names_and_values(export: Export) -> Iterator[tuple[str, str]]:
    return ((name, value) for _, name, value in named_rows(export))


def _in_command_lines(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield name and value of an argument, and the secret in it; no name if the argument alone shows it."""
    lines: dict[str, list[tuple[str, str]]] = {}
    for name, value in rows:
        if ARGUMENT.search(name):
            lines.setdefault(name.rpartition(":")[0], []).append((name, value))
    for line in lines.values():
        yield from _in_command_line(sorted(line, key=_place_in_line))


def _place_in_line(row: tuple[str, str]) -> int:
    number = row[0].rpartition("_")[2]
    return int(number) + 1 if number.isdigit() else 0


def _in_command_line(line: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    spans = credentials.find(" ".join(re.sub(r"\s", _SPACE, value) for _, value in line))
    start, before = 0, ""
    for name, value in line:
        end = start + len(value)
        inside = [(max(one - start, 0), other - start) for one, other in spans if one < end and other > start]
        alone = credentials.find(value)
        is_option = before.startswith("-") and credentials.may_hold(before) and not value.startswith("-")
        if is_option and secret_names.demand_of(before) == "any":
            inside = [(0, len(value))]
        for span in inside if value != REMOVED else ():
            yield name if span not in alone else "", value, value[slice(*span)]
        start, before = end + 1, value


def identifying_numbers(export: Export) -> list[tuple[str, str, int]]:
    """Return table, column and count of numbers that identify a device."""
    return [
        (table, column, count)
        for table, columns in export.tables.items()
        for column in columns
        if IDENTIFIERS.fullmatch(column)
        and (count := export.rows(statement(_NUMBERS, t=table, c=column))[0][0])
    ]


def event_texts(export: Export) -> list[tuple[str, int]]:
    """Return the tables of plugins and traces of the system, and how many rows of each hold a text.

    That text is JSON of any form: escaped paths, and commands of other processes. The numbers stand apart.
    """
    tables = [table for table in export.tables if table.startswith("GENERIC_EVENT")]
    held = [table for table in tables if _TEXT in export.tables[table]]
    counts = ((table, export.rows(statement(_TEXTS, t=table, c=_TEXT), REMOVED)[0][0]) for table in held)
    return [(table, count) for table, count in counts if count]


def blank_event_texts(db: sqlite3.Connection, export: Export) -> None:
    """Replace the texts of plugins and of traces of the system."""
    for table, _ in event_texts(export):
        where = statement("WHERE {c} IS NOT NULL AND {c} <> ''", c=_TEXT)
        db.execute(statement("UPDATE {t} SET {c} = ? ", t=table, c=_TEXT) + where, (REMOVED,))


def delete_environment(db: sqlite3.Connection, export: Export) -> None:
    """Delete the environments of all processes."""
    blocks = environment_strings(export)  # before any change: it can be the same file
    for table in NAMED_TABLES:
        if "name" in export.tables.get(table, ()):
            db.execute(statement("DELETE FROM {table} WHERE name LIKE ?", table=table), (ENVIRONMENT_KEYS,))
    _delete_strings(db, blocks)


def delete_output(db: sqlite3.Connection, export: Export) -> None:
    """Delete what the program printed, which nsys stores in two tables."""
    used = used_strings(export, without=OUTPUT_TABLES)
    for table in OUTPUT_TABLES:
        if table in export.tables:
            texts = values(export, table, "contentId") | values(export, table, "filenameId")
            db.execute(statement("DELETE FROM {table}", table=table))
            _delete_strings(db, texts - used)


def delete_other_processes(db: sqlite3.Connection, export: Export) -> None:
    """Delete the names of processes without events, and the folders of the others."""
    own = _own_processes(export)
    for table, column, mask in (
        ("PROCESSES", "globalPid", -1),
        ("ThreadNames", "globalTid", schema.PROCESS_MASK),
    ):
        ids = {value for value in values(export, table, column) if value & mask not in own}
        _delete(db, table, column, ids)
    if "name" in export.tables.get("PROCESSES", ()):
        slash = "/".encode(encoding_of(db))
        db.create_function("base_name", 1, lambda raw: raw.rpartition(slash)[2], deterministic=True)
        db.execute(
            "UPDATE PROCESSES SET name = CAST(base_name(CAST(name AS BLOB)) AS TEXT) "
            "WHERE typeof(name) = 'text' AND instr(name, '/')"
        )
    used = used_strings(export, without=[*OUTPUT_TABLES, "ThreadNames"])
    if "nameId" in export.tables.get("ThreadNames", ()):
        used |= {name for (name,) in db.execute("SELECT DISTINCT nameId FROM ThreadNames")}
    # Names of processes and threads go too if no row refers to them any more.
    rows = set(_distinct(export, "PROCESSES", "name"))
    strings = {i for i, text in export.strings.items() if (text,) in rows}
    _delete_strings(db, (strings | values(export, "ThreadNames", "nameId")) - used)


def blank_personal(db: sqlite3.Connection, export: Export) -> None:
    """Replace values that are personal as a whole, and numbers that identify a device."""
    names = {name for _, name, _ in personal_rows(export)}
    names |= {name for name, _ in secret_arguments(_names_and_values(export))}
    encoding = encoding_of(db)

    def personal(name: bytes | None) -> bool:
        return (name or b"").decode(encoding, "backslashreplace") in names

    db.create_function("personal", 1, personal, deterministic=True)
    for table in NAMED_TABLES:
        if {"name", "value"} <= set(export.tables.get(table, ())):
            where = "WHERE value NOT IN ('', '{}') AND personal(CAST(name AS BLOB))"
            db.execute(statement("UPDATE {table} SET value = ? ", table=table) + where, (REMOVED,))
    for table, column, _ in identifying_numbers(export):
        where = statement("WHERE typeof({c}) IN ('integer', 'real')", c=column)
        db.execute(statement("UPDATE {t} SET {c} = 0 ", t=table, c=column) + where)


def encoding_of(db: sqlite3.Connection) -> str:
    """Return how a database stores its texts; its connection returns them as bytes."""
    return str(db.execute("PRAGMA encoding").fetchone()[0].decode())


def _delete_strings(db: sqlite3.Connection, ids: Iterable[int]) -> None:
    _delete(db, schema.STRINGS, "id", ids)


def _delete(db: sqlite3.Connection, table: str, column: str, ids: Iterable[int]) -> None:
    if ids := set(ids):
        db.execute("CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO gone VALUES (?)", [(i,) for i in ids])
        in_table = statement("DELETE FROM main.{t} WHERE {c} IN (SELECT id FROM gone)", t=table, c=column)
        db.execute(in_table)
        db.execute("DROP TABLE gone")


_CHUNK_BYTES = 1 << 22
_UNITS = {"utf-8": 1, "utf-16-le": 2, "utf-16-be": 2}


def values_in(path: Path, search: Search) -> set[str]:
    """Return the values that the bytes of a file hold, in UTF-8 or UTF-16."""
    found: set[str] = set()
    for code, unit in _UNITS.items():
        forms = {text.encode(code, "surrogatepass"): text for text in {*search.values, *search.words}}
        if not forms:
            continue
        width = SHORTEST * unit
        lengths: dict[bytes, set[int]] = {}
        for form in forms:
            lengths.setdefault(form[:width], set()).add(len(form))
        pattern = one_of([form.decode("latin-1") for form in lengths], width)
        starts = re.compile(pattern.encode("latin-1"), re.DOTALL)
        longest = max(map(len, forms)) + unit
        with path.open("rb") as file:
            before = b""
            while chunk := file.read(_CHUNK_BYTES):
                raw = before + chunk
                for match in _overlapping(starts, raw):
                    at = match.start()
                    for length in lengths[match.group()]:
                        text = forms.get(raw[at : at + length])
                        if text and (text in search.values or _is_word(raw, at, at + length, unit)):
                            found.add(text)
                before = raw[-longest:]
    return found


def _overlapping(pattern: re.Pattern[bytes], raw: bytes) -> Iterator[re.Match[bytes]]:
    position = 0
    while match := pattern.search(raw, position):
        yield match
        position = match.start() + 1


def _is_word(raw: bytes, start: int, end: int, unit: int) -> bool:
    first, last = raw[max(start - unit, 0) : start], raw[end : end + unit]
    return not any(side.replace(b"\0", b"").isalnum() for side in (first, last))
