"""Tell whether a file is a complete SQLite file, before SQLite opens it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, NotACapture
from nsyswrap.base.suggest import did_you_mean_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100


def take_in_journal(copy: Path) -> None:
    """Apply or undo the changes in the journal, and leave a file without one."""
    db = sqlite3.connect(copy)
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        db.execute("PRAGMA journal_mode = DELETE").fetchone()
    finally:
        db.close()


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
            f"{path} is not a capture: it is a pipe or a device",
            "write the export into a file first",
        )
    with opening(path), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.strip(b"\0"):  # nsys writes the first page last
        raise NotACapture(
            f"{path} is not complete: nsys is still writing it, or was interrupted",
            "wait until nsys ends; if it has ended, export the .nsys-rep again with `nsys export`",
        )
    if not header.startswith(_MAGIC):
        raise NotACapture(
            f"{path} is not a capture: it is not an SQLite database",
            "give a .sqlite, a .nsys-rep or a run folder",
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
