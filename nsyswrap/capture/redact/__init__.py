"""Find secrets in an export, and write copies of it without them.

What stands in a place for secrets is deleted. Then all cells are searched for the values that stood there,
for personal folders in paths, and for credentials. Names of kernels, calls and modules are never changed.
Texts of NVTX ranges and of nsys' messages can be; the numbers of all reports stay. A .nsys-rep cannot be
redacted: only nsys can write its format.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError
from nsyswrap.base.files import replacing, temporary_folder, umask
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.sqlite import copies_of, quoted, read_only
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact.search import Search, ValueSearch, rule_of

with lazy_imports():
    from nsyswrap.capture.redact import cells, places, values


_PLAIN_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}|BASH_FUNC_.{1,64}|[a-z_]{1,24}")
_CANNOT_WRITE = re.compile(r"full|disk I/O|unable to open|readonly|locked|too big")


@dataclass(frozen=True)
class Secret:
    """One kind of secret with its number; ``names`` has names from the export, never values."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportSecrets:
    """What an export holds: ``secrets`` that redacting removes, and what stays.

    ``kept`` counts cells with a name that is never changed although it holds a value to remove, by table and
    column. ``unknown`` lists tables that this version has no rule for; they are searched. ``values_known``:
    the values of environment variables could be searched for, now or before they were removed.
    """

    secrets: tuple[Secret, ...]
    kept: dict[str, int]
    unknown: tuple[str, ...]
    values_known: bool = True


def secrets_in(path: Path) -> list[Secret]:
    """Return the kinds of secrets in an export; an empty list if there are none."""
    return list(check(path).secrets)


def check(path: Path) -> ExportSecrets:
    """Search an export for secrets, and for what redacting keeps. Raises DamagedCapture."""
    with _searchable(path) as export, _reading(path), closing(_opened(export.file)) as db:
        search, strings = _search(export)
        found = cells.DatabaseCells(db, search, strings)
        texts = places.event_texts(export)
        secrets = (
            _environment(export),
            Secret("program output", sum(map(export.count, places.OUTPUT_TABLES))),
            _personal(export),
            Secret("other processes' names", len(places.other_processes(export))),
            Secret(
                "texts of system events", sum(count for _, count in texts), tuple(table for table, _ in texts)
            ),
        )
        changed = found.count()
        inside = Secret("inside other texts", sum(changed.values()), tuple(changed))
        kept = found.count_kept()
        known = places.values_are_known(export)
    found_ones = tuple(secret for secret in (*secrets, inside) if secret.count)
    return ExportSecrets(found_ones, kept, _without_rule(export), known)


@dataclass(frozen=True)
class RedactionResult:
    """What redacting did: ``changed`` and ``kept`` count cells by table and column.

    ``renamed`` counts the different names that reports can show and that lost a value. ``values_known`` is
    that of ``ExportSecrets``.
    """

    changed: dict[str, int]
    renamed: int
    kept: dict[str, int]
    unknown: tuple[str, ...]
    values_known: bool = True


def redact(source: Path, target: Path) -> RedactionResult:
    """Write a copy of ``source`` without the secrets that ``check`` finds.

    Raises OutputError if ``target`` exists or cannot be written, or if a removed value remains in it, and
    DamagedCapture if ``source`` is damaged.
    """
    if paths.is_taken(target):
        raise OutputError(f"{target} already exists", "use another -o, or remove the file")
    with _searchable(source) as export, _reading(source, target):
        with replacing(target) as part, _whole_copy(export.file, part) as whole:
            search, strings = _search(export)
            known = places.values_are_known(export)
            with closing(_editing(whole)) as db:
                places.delete_environment(db, export)
                places.delete_output(db, export)
                places.delete_other_processes(db, export)
                places.blank_personal(db, export)
                places.blank_event_texts(db, export)
                places.mark(db, export, known=known)
                edited = cells.DatabaseCells(db, search, strings)
                changed = edited.replace()
                db.commit()
            _copy(whole, part)
            kept = _kept(part, search, strings, source)
            part.chmod(0o666 & ~umask())
        return RedactionResult(changed, len(edited.renamed), kept, _without_rule(export), known)


@contextmanager
def _searchable(path: Path) -> Iterator[Export]:
    """Open an export all of whose tables can be searched. Raises NotACapture."""
    with closing(Export(path)) as export:
        for table, reason in export.unusual.items():
            raise NotACapture(
                f"{path} cannot be redacted: {table} {reason}, which is not searched",
                "remove it from a copy of the file, then redact the copy",
            )
        yield export


def _search(export: Export) -> tuple[Search, cells.StringUses]:
    strings = cells.sort_strings(export)
    names = (export.strings[i] for i in strings.events if i in export.strings)
    return values.search_for(export, names), strings


def _kept(copy: Path, search: Search, strings: cells.StringUses, source: Path) -> dict[str, int]:
    """Count the names that hold a value. Raises OutputError if the file holds one in any other place."""
    remaining = places.values_in(copy, search)
    if not remaining:
        return {}
    with closing(_opened(copy)) as db:
        edited = cells.DatabaseCells(db, search, strings)
        counts = edited.count_kept()
    if remaining - edited.remaining:
        raise OutputError(
            f"{source} cannot be redacted: "
            "a removed value is in the definition of a table, or begins in one cell and ends in the next",
            "export the .nsys-rep again with `nsys export`, then redact that export",
        )
    return counts


@dataclass(frozen=True)
class RemovalResult:
    """What ``remove_environment`` did.

    ``renamed`` counts the different names that reports can show and that lost a value. ``text`` returns any
    other text without the removed values.
    """

    renamed: int
    text: Callable[[str], str]


def remove_environment(path: Path, environment: Mapping[str, str] | None = None) -> RemovalResult:
    """Remove the environment from an export, in place, and its telling values from all other texts.

    ``environment`` is what the profiled program got, if that is known: an export can lack it. This
    temporarily needs twice the space. The export must not be in use. Raises OutputError; the export is then
    incomplete and has to be removed.
    """
    export = Export(path)
    try:
        blocks = places.own_environment(export)
        search = values.own_values(blocks, environment or {})
        known = environment is not None or bool(blocks)
        only = _cells_that_hold(export, search)
        strings = cells.sort_strings(export) if only else None
        renamed = 0
        with closing(_editing(path)) as db:
            places.delete_environment(db, export)
            if strings:
                edited = cells.DatabaseCells(db, search, strings, only)
                edited.replace()
                renamed = len(edited.renamed)
            places.mark(db, export, known=known)
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
    return RemovalResult(renamed, search.text)


def _cells_that_hold(export: Export, search: ValueSearch) -> cells.Cells:
    if not search.values:
        return {}
    with closing(_opened(export.file)) as db:
        return cells.cells_that_hold(db, export, search)


@contextmanager
def _reading(source: Path, target: Path | None = None) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, MemoryError, UnicodeError, OverflowError) as error:
        if (
            target is not None
            and isinstance(error, sqlite3.OperationalError)
            and _CANNOT_WRITE.search(str(error))
        ):
            raise OutputError(f"cannot write {target}: {error}") from None
        raise DamagedCapture(
            f"{source} cannot be redacted: {str(error) or 'out of memory'}",
            "export the .nsys-rep again with `nsys export`",
        ) from None


@contextmanager
def _whole_copy(source: Path, target: Path) -> Iterator[Path]:
    """Yield a temporary copy beside ``target``, to delete from. Raises OSError if there is no room for it."""
    with temporary_folder(target.parent) as folder:
        yield copies_of([source], folder)[0]


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file for reading only; texts are returned as bytes."""
    db = read_only(path)
    db.text_factory = bytes
    return db


def _editing(path: Path) -> sqlite3.Connection:
    """Open a file to delete rows, without a journal, which would contain the deleted rows.

    Triggers are dropped, as they could write, and indexes that nsys does not make, as they could compute
    values without end. Statistics of SQLite hold copies of cells.
    """
    db = sqlite3.connect(path)
    db.text_factory = bytes
    db.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA temp_store = MEMORY; PRAGMA ignore_check_constraints = ON"
    )
    left = (
        "SELECT type, name FROM sqlite_master WHERE type = 'trigger' "
        "OR type = 'index' AND sql IS NOT NULL OR name LIKE 'sqlite^_stat%' ESCAPE '^'"
    )
    for kind, name in db.execute(left).fetchall():
        db.execute(f"DROP {kind.decode()} {quoted(name.decode())}")
    return db


def _copy(source: Path, target: Path) -> None:
    """Write a copy of a file that contains its rows and no deleted bytes.

    SQLite overwrites deleted bytes, but a page can contain them a second time.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))  # for an error with a reason, which SQLite lacks
    with closing(_opened(source)) as db:
        db.execute("VACUUM INTO ?", (target.as_uri(),))  # as a text its name would have to be UTF-8


def _without_rule(export: Export) -> tuple[str, ...]:
    return tuple(
        sorted(table for table in export.tables if rule_of(table) is None and not table.startswith("sqlite_"))
    )


def _environment(export: Export) -> Secret:
    # A part of a value can look like a variable, so only what is written as a name is listed.
    names = tuple(sorted(filter(_PLAIN_NAME.fullmatch, places.environment_names(export))))
    return Secret("environment", len(places.environment(export)), names)


def _personal(export: Export) -> Secret:
    names = [f"{table}.{name}" for table, name, _ in places.personal_rows(export)]
    rows = [(name, value) for _, name, value in places.named_rows(export)]
    names += [f"{schema.CAPTURE_METADATA}.{name}" for name, _ in places.secret_arguments(rows)]
    numbers = places.identifying_numbers(export)
    columns = [f"{table}.{column}" for table, column, _ in numbers]
    count = len(names) + sum(count for _, _, count in numbers)
    return Secret("user, host and paths", count, tuple(dict.fromkeys(names + columns)))
