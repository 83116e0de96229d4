"""Keep the first and the last time in each block of a large table in the user's cache.

Windows need them, see ``capture``. They are kept whenever all starts and ends of a table were read. They
count only for an export that did not change.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unreadable
from nsyswrap.base.files import small_file, write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.capture.stream import Columns

with lazy_imports():
    import hashlib

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.capture.schema import Wanted
    from nsyswrap.capture.sqlite_pages import Leaves, PageFile
    from nsyswrap.capture.stream import Extremes


LARGE_LEAVES = 1 << 11  # pages of a table whose times are worth keeping: 8 MiB, as nsys writes them
_BLOCK_ROWS = 1 << 13
_SETTLED_S = 2.0  # a file system may give changes within this time the same time of change
_UNUSED_S = 30 * 86_400.0
_FORM = 1  # of the stored times
_ENDING = ".times"


class BlockTimes(NamedTuple):
    """The number of rows of each block, and the first and the last time in it, in ns."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


class StoredTimes:
    """The file for the times of a table: none for a small table, or an export that was changed just now."""

    def __init__(self, pages: PageFile | None, table: str, leaves: Leaves | None) -> None:
        """Find the file for a table with these leaf pages."""
        self._leaves = leaves
        large = leaves is not None and len(leaves.numbers) >= LARGE_LEAVES
        self._path = _path(pages, table) if pages and large else None

    def times(self) -> BlockTimes | None:
        """Return what was stored; None if nothing is usable."""
        with suppress(OSError, ValueError):
            if self._path and self._leaves:
                times = BlockTimes(*np.frombuffer(small_file(self._path), np.int64).reshape(3, -1))
                if times.rows.sum() == self._leaves.rows.sum():
                    os.utime(self._path)
                    return times
        return None

    def keep_streamed(self, read: Wanted, extremes: Extremes) -> None:
        """Store the times of a table whose columns ``read`` were streamed."""
        self._keep(read, lambda: BlockTimes(*extremes.blocks("start", "end")))

    def keep_read(self, read: Wanted, columns: Columns) -> None:
        """Store the times of a table whose columns ``read`` were read completely."""

        def times() -> BlockTimes:
            begins = np.arange(0, len(columns["start"]), _BLOCK_ROWS)
            low, high = (edge(columns["start"], columns["end"]) for edge in (np.minimum, np.maximum))
            rows = np.diff(begins, append=len(low))
            return BlockTimes(rows, np.minimum.reduceat(low, begins), np.maximum.reduceat(high, begins))

        self._keep(read, times)

    def _keep(self, read: Wanted, times: Callable[[], BlockTimes]) -> None:
        """Store the times, and remove what was not used for long."""
        if not self._path or not {("start", "time"), ("end", "time")} <= set(read) or self.times():
            return
        with suppress(OSError, OutputError, Unreadable):
            write(self._path, np.stack(times()).tobytes())
            for other in paths.matching(self._path.parent, f"*{_ENDING}"):
                facts = paths.status(other)
                if facts and time.time() - facts.st_mtime > _UNUSED_S:
                    other.unlink(missing_ok=True)


def _path(pages: PageFile, table: str) -> Path | None:
    with suppress(OSError, OutputError):
        status = pages.status()
        # Then nothing was changed since the export was opened. A private copy is always new.
        if pages.opened_s - max(status.st_ctime, status.st_mtime) > _SETTLED_S:
            identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            key = repr((_FORM, identity, pages.header, table))
            return cache_dir("times") / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:24]}{_ENDING}"
    return None
