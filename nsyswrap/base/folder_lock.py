"""Holding a folder: one process at a time is at work in it, and the system notices when it ends."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "lock"
_LONGEST = 200  # bytes of what a lock says
_HOLDER = re.compile(r"(?P<host>.+), process (?P<pid>\d+)")


@contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder for the length of a ``with`` block; raises OutputError where somebody else holds it.

    The system lets go of it when this process ends, however it ends.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OutputError(f"cannot write {folder / LOCK}: {error.strerror}") from None
    try:
        if not _lock(descriptor):
            holder = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
            raise OutputError(
                f"{folder}: {what} is at work here already ({holder or 'it does not say who'})",
                "wait for it, or end it with `nsyswrap batch cancel`",
            )
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{socket.gethostname()}, process {os.getpid()}".encode())
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process holds the folder: on this machine, and on others where its file system tells."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def holder_here(folder: Path) -> int:
    """Return the process of this machine that holds the folder; 0: none."""
    found = _HOLDER.fullmatch(_text(folder / LOCK)) if is_held(folder) else None
    return int(found["pid"]) if found and found["host"] == socket.gethostname() else 0


def is_lock(path: Path) -> bool:
    """Whether a file is what ``held`` leaves: others have files of that name too."""
    if path.name != LOCK or not path.is_file():
        return False
    text = _text(path)
    return not text or _HOLDER.fullmatch(text) is not None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return "?"


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: then nothing keeps two apart
        return True
    return True
