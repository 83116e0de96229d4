"""Keep what windows need of a large export in the user's cache: what counts for it until it changes.

That is the first and the last time in each block of a table, kept whenever all starts and ends of it were
read (see ``partial``).
"""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unreadable
from nsyswrap.base.files import small_file, write
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.capture.stream import BlockTimes, Columns, block_times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsyswrap.capture.schema import Wanted
    from nsyswrap.capture.sqlite_pages import Leaves, PageFile
    from nsyswrap.capture.stream import Extremes


LARGE_LEAVES = 1 << 11  # pages of a table whose times are worth keeping: 8 MiB, as nsys writes them
_SETTLED_S = 2.0  # a file system may give changes within this time the same time of change
_UNUSED_S = 30 * 86_400.0
_FORM = 2  # of the stored times
_ENDING = ".times"


class StoredFile:
    """A file of the cache on one thing in an export: none for an export that was changed just now."""

    def __init__(self, pages: PageFile | None, what: str) -> None:
        """Find the file for ``what`` of the export with these pages."""
        self._path = _path(pages, what) if pages else None

    def read(self) -> bytes | None:
        """Return what was stored; None if nothing was."""
        with suppress(OSError):
            if self._path:
                content = small_file(self._path)
                os.utime(self._path)
                return content
        return None

    def write(self, content: bytes) -> None:
        """Store it, and remove what was not used for long."""
        if not self._path:
            return
        with suppress(OSError, OutputError, Unreadable):
            write(self._path, content)
            for other in paths.matching(self._path.parent, f"*{_ENDING}"):
                facts = paths.status(other)
                if facts and time.time() - facts.st_mtime > _UNUSED_S:
                    other.unlink(missing_ok=True)


class StoredTimes:
    """The times of a table: of a small one none are stored."""

    def __init__(self, pages: PageFile | None, table: str, leaves: Leaves | None) -> None:
        """Find the file for a table with these leaf pages."""
        self._leaves = leaves
        self.is_large = leaves is not None and len(leaves.numbers) >= LARGE_LEAVES
        self._file = StoredFile(pages if self.is_large else None, table)

    def times(self) -> BlockTimes | None:
        """Return what was stored; None if nothing is usable."""
        with suppress(ValueError):
            if self._leaves and (content := self._file.read()):
                times = BlockTimes(*np.frombuffer(content, np.int64).reshape(3, -1))
                if times.rows.sum() == self._leaves.rows.sum():
                    return times
        return None

    def keep_streamed(self, read: Wanted, extremes: Extremes) -> None:
        """Store the times of a table whose columns ``read`` were streamed."""
        self._keep(read, extremes.times)

    def keep_read(self, read: Wanted, columns: Columns) -> None:
        """Store the times of a table whose columns ``read`` were read completely."""
        self._keep(read, lambda: block_times(columns["start"], columns["end"]))

    def _keep(self, read: Wanted, find: Callable[[], BlockTimes | None]) -> None:
        """Store the times of a large table, once."""
        timed = {("start", "time"), ("end", "time")} <= set(read)
        if self.is_large and timed and not self.times() and (times := find()):
            self._file.write(np.stack(times).tobytes())


def _path(pages: PageFile, what: str) -> Path | None:
    with suppress(OSError, OutputError):
        status = pages.status()
        # Then nothing was changed since the export was opened. A private copy is always new.
        if pages.opened_s - max(status.st_ctime, status.st_mtime) > _SETTLED_S:
            identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            parts = _FORM, *identity, zlib.crc32(pages.header + os.fsencode(what))
            return cache_dir("times") / f"{'-'.join(f'{part:x}' for part in parts)}{_ENDING}"
    return None
