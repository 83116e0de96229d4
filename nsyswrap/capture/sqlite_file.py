"""Tell whether a file is a complete SQLite file, before SQLite opens it, and copy it with its journals."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, NotACapture
from nsyswrap.base.text import did_you_mean_file, quoted

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
                    f"{path} is not a capture: it is {kind}", f"use {command} {quoted(str(path))}"
                )
        is_program = path.suffix in (".py", ".cu")
        raise NotACapture(
            f"{path} is not a capture: it is not an SQLite database",
            f"to record it: nsyswrap profile {quoted(str(path))}"
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
