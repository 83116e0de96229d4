"""Open SQLite files of unknown origin for reading: nothing is written, and no work is without a bound."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, NotACapture
from nsyswrap.base.text import did_you_mean_file
from nsyswrap.base.text import quoted as quoted_text

_STEPS = 10_000  # of SQLite between two counts
# A statement takes fewer steps for each byte of the file, as each value of a row takes one byte or more.
_STEPS_PER_BYTE = 64
_FEW_STEPS = 100_000_000
_PLAIN = "CREATE TABLE "  # SQLite stores each definition of a table so
_LONGEST_DEFAULT = 100  # characters: rows of a few bytes each get the whole value
EXHAUSTED = "interrupted"  # the message of SQLite if a statement takes too many steps

_COMPRESSED = {
    b"\x1f\x8b": ("compressed by gzip", "gunzip -k"),
    b"\xfd7zXZ": ("compressed by xz", "unxz -k"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "unzstd -k"),
    b"BZh": ("compressed by bzip2", "bunzip2 -k"),
    b"PK\x03\x04": ("a zip archive", "unzip"),
}
_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_WAL, _ROLLBACK = "-wal", "-journal"
_JOURNAL_BYTES = 1 << 30  # that a journal may be larger than its file
# A rollback journal can end with the name of another file, which SQLite would delete. This is no such end.
_NO_SUPER_JOURNAL = bytes(16)


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


def tables_of(
    db: sqlite3.Connection, names: Collection[str] | None = None
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the columns of each table with plain rows; and of each other table or view, why it has none.

    With ``names``, others are not looked at.

    A view, a virtual table, a generated column and a long default value make up rows without end, or rows
    much larger than the file. What the schema says of a table cannot be trusted: its SQL text can be that of
    a view.
    """
    plain: dict[str, list[str]] = {}
    other: dict[str, str] = {}
    sql = "SELECT type, name, rootpage, sql FROM sqlite_master WHERE type IN ('table', 'view')"
    for kind, name, root, definition in _cells(db.execute(sql)):
        if names is not None and name not in names:
            continue
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


# Tell whether a file is a complete SQLite file, before SQLite opens it, and copy it with its journals.


def journals_of(file: Path) -> list[Path]:
    """Return the journals beside a file that have content."""
    journals = [file.with_name(file.name + kind) for kind in (_WAL, _ROLLBACK)]
    return [journal for journal in journals if paths.is_file(journal) and paths.size(journal)]


def settled_copy(file: Path, journals: Sequence[Path], folder: Path) -> Path:
    """Copy a file with its journals into a private folder, apply or undo their changes, return the copy.

    Raises OSError, sqlite3.Error, and NotACapture for a journal that is larger than that of an export can be.
    """
    size = paths.size(file)
    for journal in journals:
        if paths.size(journal) > size + _JOURNAL_BYTES:
            raise NotACapture(
                f"{journal} is larger than the journal of {file.name} can be: more than "
                f"{(size + _JOURNAL_BYTES) / 1e6:,.0f} MB",
                "remove the journal if it does not belong to the capture",
            )
    [copy, *copies] = copies_of((file, *journals), folder)
    for part in copies:
        if part.name.endswith(_ROLLBACK):
            with part.open("ab") as content:
                content.write(_NO_SUPER_JOURNAL)
    with closing(sqlite3.connect(copy)) as db:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        db.execute("PRAGMA journal_mode = DELETE").fetchone()
    return copy


def copies_of(files: Sequence[Path], folder: Path) -> list[Path]:
    """Copy files into a folder, and return the copies. Raises OSError if there is no room, before it copies.

    A file of a few bytes can have a hole of terabytes behind it.
    """
    needed = sum(map(paths.size, files))
    if needed > (free := shutil.disk_usage(folder).free):
        raise OSError(errno.ENOSPC, f"it takes {needed / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free")
    return [Path(shutil.copyfile(file, folder / file.name)) for file in files]


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Raise NotACapture where a file cannot be opened or read."""
    try:
        yield
    except FileNotFoundError:
        raise NotACapture(f"{path} not found", did_you_mean_file(path)) from None
    except OSError as error:
        raise NotACapture(f"{path} cannot be read: {error.strerror}", paths.advice(error)) from None


def check_magic(path: Path) -> None:
    """Raise NotACapture for a directory, pipe, empty file or file of another format."""
    if paths.exists(path) and not paths.is_file(path) and not paths.is_folder(path):
        raise NotACapture(
            f"{path} is not a capture: it is a pipe or a device", "write the export into a file first"
        )
    with opening(path), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.strip(b"\0"):  # nsys writes the first page last
        raise NotACapture(
            f"{path} is not complete: nsys is still writing it, or was interrupted",
            "wait until nsys ends; if it has ended, export the .nsys-rep again with `nsys export`",
        )
    if not header.startswith(_MAGIC):
        for magic, (kind, command) in _COMPRESSED.items():
            if header.startswith(magic):
                raise NotACapture(
                    f"{path} is not a capture: it is {kind}", f"use {command} {quoted_text(str(path))}"
                )
        is_program = path.suffix in (".py", ".cu")
        raise NotACapture(
            f"{path} is not a capture: it is not an SQLite database",
            f"to record it: nsyswrap profile {quoted_text(str(path))}"
            if is_program
            else "give a .sqlite, a .nsys-rep or a run folder",
        )


def check_size(file: Path, path: Path) -> None:
    """Raise DamagedCapture if ``file`` is shorter than its header says; ``path`` is its name in messages."""
    with opening(path), file.open("rb") as content:
        header = content.read(_HEADER_BYTES)
        size = content.seek(0, os.SEEK_END)
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if size < expected:
        raise DamagedCapture(
            f"{path} is cut off: {size:,} of {expected:,} bytes",
            "wait if it is still being written or copied, or export the .nsys-rep again",
        )
