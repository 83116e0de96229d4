"""Lock a folder, so that one process at a time works in it. The system releases the lock with the process."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import head
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    import socket

LOCK = "lock"
_LONGEST = 200  # bytes of a lock file
_GLANCE_S = 0.2  # longer than `is_locked` takes, which locks the file too
_PAUSE_S = 0.1
_held: dict[str, int] = {}  # path of a folder that this process has locked -> descriptor of its lock file
_HOLDER = re.compile(r"(?P<host>.+), process (?P<pid>\d+)")


@contextmanager
def locked(folder: Path, user: str, hint: str = "", patience_s: float = 0) -> Iterator[None]:
    """Lock a folder for a ``with`` block. Raises OutputError if another process holds the lock.

    It waits ``patience_s`` for that process, which ``user`` names in the message. The lock file is removed at
    the end of the block. The system releases the lock if this process is killed; the file then stays.
    """
    path, real = folder / LOCK, os.path.realpath(folder)
    with paths.writing(path, _whose(folder)):
        descriptor = _open(path, patience_s)
    try:
        if not _lock(descriptor):
            holder = os.read(descriptor, _LONGEST).decode(errors="replace").strip()
            message = f"{folder} is in use by {user} ({holder or 'unknown process'})"
            raise OutputError(message, hint, retryable=True)
        with suppress(OSError):  # a full disk: the file stays empty
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{socket.gethostname()}, process {os.getpid()}".encode())
        _held[real] = descriptor
        try:
            yield
        finally:
            del _held[real]
            if _is_at(descriptor, path):
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _whose(folder: Path) -> str:
    """Return a hint for a folder of another user; else it is empty."""
    status = paths.status(folder)
    if status is None or status.st_uid == os.geteuid():
        return ""
    return f"{folder} belongs to another user: ask its owner, or use an --output of your own"


def descriptor_of(folder: Path) -> int | None:
    """Return the descriptor of the lock that this process has on a folder; None if it has none.

    A process that inherits it keeps the folder locked after this one.
    """
    return _held.get(os.path.realpath(folder))


def _open(path: Path, patience_s: float) -> int:
    """Open and lock the file, again if its holder removed it in the meantime, or for ``patience_s``.

    Raises OutputError if a file of this name is not a lock file.
    """
    deadline = time.monotonic() + max(patience_s, _GLANCE_S)
    while True:
        if paths.exists(path, follow=False) and not is_lock_file(path):
            raise OutputError(f"{path} exists and is not a lock file of nsyswrap", "use another --output")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with suppress(OSError):  # the group of a shared run may test the lock
            folder = paths.status(path.parent)
            os.fchmod(descriptor, 0o600 | (folder.st_mode & 0o040 if folder else 0))
        is_mine = _lock(descriptor)
        if _is_at(descriptor, path) if is_mine else time.monotonic() > deadline:
            return descriptor
        os.close(descriptor)
        if not is_mine:
            time.sleep(_PAUSE_S)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - as fstat
    except OSError:
        return False


def is_locked(folder: Path | str) -> bool:
    """Return True if a process has locked the folder.

    A process on another machine counts only if the file system shares its locks.
    """
    path = f"{folder}/{LOCK}"
    if not os.access(path, os.F_OK):  # of 100,000 runs this takes half the time of an error
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for the writer of a pipe
    except OSError:
        return False
    try:
        return not _lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def holder_here(folder: Path) -> int:
    """Return the id of the process on this machine that has locked the folder; 0 if there is none."""
    holder = _HOLDER.fullmatch(_text(folder / LOCK)) if is_locked(folder) else None
    return int(holder["pid"]) if holder and holder["host"] == socket.gethostname() else 0


def terminate(pid: int) -> None:
    """Send SIGTERM to a process that works in a folder. Nothing happens to one that has ended.

    Raises OutputError for a process of another user.
    """
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise OutputError(f"process {pid} is that of another user", "ask its owner to end it") from None


def is_lock_file(path: Path) -> bool:
    """Return True if ``locked`` wrote this file: a user's own file may have the same name. A link is none."""
    if path.name != LOCK or not paths.is_file(path, follow=False):
        return False
    text = _text(path)
    return not text or _HOLDER.fullmatch(text) is not None


def _text(path: Path) -> str:
    try:
        return head(path, _LONGEST).decode(errors="replace")
    except OSError:
        return "?"


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks cannot keep two processes apart
        return True
    return True
