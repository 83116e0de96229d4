"""Tell captures apart by their size and content, so that copies of a file are the same capture."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.files import reading
from nsyswrap.base.run_folder import EXPORT, REPORT
from nsyswrap.base.sqlite import read_only, tables_of
from nsyswrap.capture import schema
from nsyswrap.capture.arrow_export import is_table_folder

Identity = tuple[int, str]

_EDGE = 4096  # bytes at the beginning and at the end; SQLite counts the changes of a file in the first page
_LONG_EDGE = 262_144
_METADATA = (schema.SESSION_START, schema.CAPTURE_METADATA, *schema.EXPORT_METADATA)
_DIGITS = 24  # of the hash


def identity_of(path: Path) -> Identity | None:
    """Return the size in bytes and a hash of header and metadata of a capture; None if there is no file.

    ``path`` is a file, a folder of tables or a run folder. The time of change does not count.
    """
    files = _files(path)
    if not files:
        return None
    content = hashlib.sha256()
    for file in files:
        for part in _parts(file):
            content.update(part)
    return sum(map(paths.size, files)), content.hexdigest()[:_DIGITS]


def has_capture(path: Path) -> bool:
    """Return True if there is a file that ``identity_of`` would read."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    if is_table_folder(path):
        return list(paths.matching(path, "*"))
    if paths.is_folder(path):
        return [file for file in (path / EXPORT, path / REPORT) if paths.exists(file)][:1]
    return [path] if paths.exists(path) else []


def _parts(file: Path) -> Iterator[bytes]:
    """Yield the metadata of an export and both ends of a file, which are longer for one without metadata."""
    metadata = _metadata(file) if file.suffix == ".sqlite" else []
    edge = _EDGE if metadata else _LONG_EDGE
    with suppress(OSError), reading(file) as (descriptor, size):
        yield os.pread(descriptor, edge, 0)
        yield os.pread(descriptor, edge, max(0, size - edge))
    yield repr(metadata).encode("utf-8", "backslashreplace")


def _metadata(file: Path) -> list[object]:
    rows: list[object] = []
    with suppress(sqlite3.Error), closing(read_only(file)) as db:
        db.text_factory = bytes
        plain, _ = tables_of(db)
        for table in _METADATA:
            with suppress(sqlite3.Error):
                if table in plain:
                    rows += db.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()  # noqa: S608 - names of ours
    return rows
