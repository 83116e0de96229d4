"""Open SQLite files of unknown origin for reading: nothing is written, and no work is without a bound."""

from __future__ import annotations

import re
import sqlite3
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from nsyswrap.base import paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_STEPS = 10_000  # of SQLite between two counts
# A statement takes fewer steps for each byte of the file, as each value of a row takes one byte or more.
_STEPS_PER_BYTE = 64
_FEW_STEPS = 100_000_000
_PLAIN = "CREATE TABLE "  # SQLite stores each definition of a table so
_LONGEST_DEFAULT = 100  # characters: rows of a few bytes each get the whole value
EXHAUSTED = "interrupted"  # the message of SQLite if a statement takes too many steps


class ReadOnlyConnection(sqlite3.Connection):
    """A connection whose statements each take a number of steps that the size of the file explains."""

    most = _FEW_STEPS

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement; sqlite3.OperationalError says ``EXHAUSTED`` if it takes too many steps."""
        # No function of Python: what a signal handler raises in one, sqlite3 drops.
        is_exhausted = partial(next, repeat(0, self.most // _STEPS), 1)
        self.set_progress_handler(is_exhausted, _STEPS)
        return super().execute(*arguments)

    def bound(self, most: int) -> None:
        """Let each statement take ``most`` steps."""
        self.most = most


def read_only(path: Path) -> ReadOnlyConnection:
    """Open a file. SQLite takes no lock, reads no journal, and writes nothing. Raises sqlite3.Error.

    The connection can be used by several threads, one at a time.
    """
    file = paths.real(path)
    if not paths.is_file(file):  # SQLite would wait for the writer of a pipe
        raise sqlite3.OperationalError("not a regular file")
    db = sqlite3.connect(
        f"{file.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False, factory=ReadOnlyConnection
    )
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        # Otherwise SQLite takes what lies behind a page for a damaged row.
        db.execute("PRAGMA cell_size_check = ON")
        db.bound(_FEW_STEPS + _STEPS_PER_BYTE * paths.size(file))
    except BaseException:
        db.close()
        raise
    return db


def tables_of(db: sqlite3.Connection) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the columns of each table with plain rows; and of each other table or view, why it has none.

    A view, a virtual table, a generated column and a long default value make up rows without end, or rows
    much larger than the file. What the schema says of a table cannot be trusted: its SQL text can be that of
    a view.
    """
    plain: dict[str, list[str]] = {}
    other: dict[str, str] = {}
    sql = "SELECT type, name, rootpage, sql FROM sqlite_master WHERE type IN ('table', 'view')"
    for kind, name, root, definition in _cells(db.execute(sql)):
        if kind == "view":
            other[name] = "is a view"
        elif root == "0" or not _defines(definition, name):
            other[name] = "is a virtual table or a view"
        else:
            columns = _cells(db.execute(statement("PRAGMA table_xinfo({name})", name=name)))
            if reason := _unusual(columns):
                other[name] = reason
            else:
                plain[name] = [column for _, column, *_ in columns]
    return plain, other


def _unusual(columns: list[list[str]]) -> str:
    for _, name, _, _, default, _, hidden in columns:
        if hidden != "0":
            return f"has a generated column, {name}"
        if len(default) > _LONGEST_DEFAULT:
            return f"has a default value of {len(default):,} characters for {name}"
    return ""


def _defines(definition: str, name: str) -> bool:
    """Return True if this is the definition of a table of this name, as SQLite stores it."""
    start = definition.removeprefix(_PLAIN)
    forms = (name, quoted(name), "'{}'".format(name.replace("'", "''")), f"[{name}]", f"`{name}`")
    return start != definition and any(
        start.startswith(form) and re.match(r"\s*\(", start[len(form) :]) for form in forms
    )


def _cells(cursor: sqlite3.Cursor) -> list[list[str]]:
    """Return rows as texts, whatever the connection makes of a text."""
    return [
        [cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else str(cell) for cell in row]
        for row in cursor.fetchall()
    ]


def quoted(name: str) -> str:
    """Return a name as an SQL identifier in double quotes."""
    return '"{}"'.format(name.replace('"', '""'))


def statement(template: str, /, **names: str | Iterable[str]) -> str:
    """Return an SQL statement with each ``{placeholder}`` replaced by its quoted name or names."""
    texts = {
        placeholder: quoted(name) if isinstance(name, str) else ", ".join(map(quoted, name))
        for placeholder, name in names.items()
    }
    return template.format(**texts)
