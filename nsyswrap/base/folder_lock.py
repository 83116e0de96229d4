"""Holding a folder: one process at a time is at work in it, and the system notices when it ends."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "lock"
_LONGEST = 200  # bytes of what a lock says
_HOLDER = re.compile(r"(?P<host>.+), process (?P<pid>\d+)")


@contextmanager
def held(folder: Path, what: str, hint: str = "") -> Iterator[None]:
    """Hold a folder for the length of a ``with`` block; raises OutputError where somebody else holds it.

    The system lets go of it when this process ends, however it ends. In order, its file goes too.
    """
    path = folder / LOCK
    try:
        descriptor = _open(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    try:
        if not _lock(descriptor):
            holder = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
            raise OutputError(
                f"{folder}: {what} is at work here already ({holder or 'it does not say who'})", hint
            )
        with suppress(OSError):  # a full disk: then it does not say who
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{socket.gethostname()}, process {os.getpid()}".encode())
        try:
            yield
        finally:
            if _is_at(descriptor, path):
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the lock's file; one that its holder removed meanwhile is opened anew.

    Raises OutputError where a file of somebody else has its name.
    """
    while True:
        if os.path.lexists(path) and (path.is_symlink() or not is_lock(path)):
            raise OutputError(f"{path} is in the way: it is not nsyswrap's", "give another --output")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with suppress(OSError):  # of a run that is shared, the group sees that it is held
            os.fchmod(descriptor, 0o640)
        if not _lock(descriptor) or _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


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
