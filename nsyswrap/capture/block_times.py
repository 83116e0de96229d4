"""The first and the last time in each block of a large table, which tell where a window can have rows.

Rows can lie in any order and last for any time, so all of them are read for it. That takes most of the time
of a window, therefore the times stay in the user's cache. They count only for an export that did not change.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import cache_dir

with lazy_imports():
    import hashlib

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.schema import FieldKind
    from nsyswrap.capture.sqlite_pages import Leaves

    Columns = dict[str, NDArray[Any]]

LARGE_LEAVES = 1 << 11  # pages of a table whose times are worth keeping: 8 MiB, as nsys writes them
_SETTLED_S = 2.0  # a file system may give changes within this time the same time of change
_UNUSED_S = 30 * 86_400.0
_FORM = 1  # of the stored times
_ENDING = ".times"


class BlockTimes(NamedTuple):
    """The number of rows of each block, and the first and the last time in it, in ns."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


_KNOWN: WeakKeyDictionary[Export, dict[str, BlockTimes]] = WeakKeyDictionary()  # for all windows


def block_times(export: Export, table: str, times: Sequence[tuple[str, FieldKind]]) -> BlockTimes:
    """Return the times of all blocks of a table; ``times`` are its columns of start and end."""
    known = _KNOWN.setdefault(export, {})
    if table not in known:
        leaves = export.leaves(table)
        large = leaves and len(leaves.numbers) >= LARGE_LEAVES and hasattr(export, "pages")
        stored = _stored(export, table) if large else None
        kept = _read(stored, leaves) if stored and leaves else None
        known[table] = kept or _computed(export, table, times)
        if stored and not kept:
            _keep(stored, known[table])
    return known[table]


def _computed(export: Export, table: str, times: Sequence[tuple[str, FieldKind]]) -> BlockTimes:
    def span(columns: Columns) -> Columns:
        start, end = (columns[name] for name, _ in times)
        first, last = min(start.min(), end.min()), max(start.max(), end.max())
        return {"rows": np.array([len(start)]), "first": np.array([first]), "last": np.array([last])}

    return BlockTimes(**export.stream(table, times, span))


def _stored(export: Export, table: str) -> Path | None:
    """Return the file for the times of a table; None if the export is a copy, or was changed just now."""
    with suppress(OSError, OutputError):
        status = export.pages.status()
        changed = max(status.st_ctime, status.st_mtime)
        if not export.note and time.time() - changed > _SETTLED_S:
            identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            key = repr((_FORM, identity, export.pages.header, table))
            return cache_dir("times") / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}{_ENDING}"
    return None


def _read(stored: Path, leaves: Leaves) -> BlockTimes | None:
    """Return what was stored for a table with these pages; None if nothing is usable."""
    with suppress(OSError, ValueError):
        times = BlockTimes(*np.frombuffer(stored.read_bytes(), np.int64).reshape(3, -1))
        if times.rows.sum() == leaves.rows.sum():
            os.utime(stored)
            return times
    return None


def _keep(stored: Path, times: BlockTimes) -> None:
    """Store the times, and remove what was not used for long."""
    with suppress(OSError, OutputError):
        write(stored, np.stack(times).tobytes())
        for other in stored.parent.glob(f"*{_ENDING}"):
            if time.time() - other.stat().st_mtime > _UNUSED_S:
                other.unlink(missing_ok=True)
