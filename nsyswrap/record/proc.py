"""Read processes in /proc. Of a process that has ended or is not readable, everything is empty."""

from __future__ import annotations

import os
from functools import partial
from itertools import islice

_BLOCK, _MOST_BLOCKS = 1 << 16, 1 << 8
PARENT = 1  # position of the parent's process id in ``stat``


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name."""
    return text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def name(pid: int) -> str:
    """Return the name of the program."""
    return text(f"/proc/{pid}/comm").strip()


def environment(pid: int) -> bytes:
    """Return the variables with which the program began."""
    return contents(f"/proc/{pid}/environ")


def contents(path: str) -> bytes:
    """Return the contents of a file, of a longer one the first 16 MiB: processes of others are read, too."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
            return b"".join(islice(iter(partial(file.read, _BLOCK), b""), _MOST_BLOCKS))
    except OSError:
        return b""


def text(path: str) -> str:
    """Return the contents of a file as text."""
    return contents(path).decode(errors="replace")


def names(folder: str) -> list[str]:
    """Return the names in a folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - four times as fast
    except OSError:
        return []


def link(path: str) -> str:
    """Return the target of a link."""
    try:
        return os.readlink(path)  # noqa: PTH115 - four times as fast
    except OSError:
        return ""
