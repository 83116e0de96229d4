"""Merge the kernels of many captures into exact statistics, in constant memory.

An SQLite file pools (kernel, duration, count). Sums are integers of any size. Every figure equals that of
``cuda_gpu_kern_sum`` for one capture with all the executions.
"""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from nsyswrap.reports.runs.digest import Kernel

_CACHE_KIB = 16_384  # of the file; what does not fit stays on disk
_SETUP = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE kernel (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE pooled (
    group_id INTEGER, kernel INTEGER, duration_ns INTEGER, executions INTEGER,
    PRIMARY KEY (group_id, kernel, duration_ns)
) WITHOUT ROWID;
"""
_ADD = """
INSERT INTO pooled VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET executions = executions + excluded.executions
"""
_KERNELS_OF_GROUP = """
SELECT kernel, name, sum(executions) FROM pooled LEFT JOIN kernel ON id = kernel
WHERE group_id = ? GROUP BY kernel
"""
_DURATIONS = """
SELECT duration_ns, executions FROM pooled WHERE group_id = ? AND kernel = ? ORDER BY duration_ns
"""


class PooledStatistics(NamedTuple):
    """Statistics of one kernel, in ns. ``std_ns`` is the sample's (n - 1), and 0 for a single execution."""

    name: str | None
    executions: int
    total_ns: int
    avg_ns: float
    med_ns: float
    min_ns: int
    max_ns: int
    std_ns: float


class Pool:
    """Durations of kernels by group. A group is a number: all that is added to it has statistics together."""

    def __init__(self, file: Path) -> None:
        """Create the file, which the caller removes."""
        self._db = sqlite3.connect(file)
        self._db.executescript(_SETUP)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, group: int, kernels: Iterable[Kernel]) -> None:
        """Add the kernels of one capture."""
        for name, durations_ns, counts in kernels:
            kernel = self._kernel_id(name)
            rows = zip(durations_ns, counts, strict=True)
            self._db.executemany(_ADD, ((group, kernel, *row) for row in rows))
        self._db.commit()

    def groups(self) -> Iterator[tuple[int, list[PooledStatistics]]]:
        """Yield each group that has kernels, in order, and their statistics: the most total time first."""
        for (group,) in self._db.execute("SELECT DISTINCT group_id FROM pooled ORDER BY group_id").fetchall():
            rows = []
            for kernel, name, count in self._db.execute(_KERNELS_OF_GROUP, (group,)).fetchall():
                ordered = self._db.execute(_DURATIONS, (group, kernel))
                rows.append(statistics(name, count, ordered))
            yield group, sorted(rows, key=lambda row: (-row.total_ns, row.executions, row.name or ""))

    def _kernel_id(self, name: str | None) -> int:
        """Return the number of a kernel. A kernel without a name is 0."""
        if name is None:
            return 0
        self._db.execute("INSERT OR IGNORE INTO kernel (name) VALUES (?)", (name,))
        return int(self._db.execute("SELECT id FROM kernel WHERE name = ?", (name,)).fetchone()[0])


def statistics(name: str | None, count: int, ordered: Iterable[tuple[int, int]]) -> PooledStatistics:
    """Return the statistics of ``count`` executions: (duration in ns, executions) in ascending order."""
    before = total = squares = 0
    least: int | None = None
    low = high = duration = 0
    for duration, executions in ordered:
        least = duration if least is None else least
        low = duration if before <= (count - 1) // 2 else low
        high = duration if before <= count // 2 else high
        before += executions
        total += duration * executions
        squares += duration * duration * executions
    variance = Fraction(count * squares - total * total, count * max(count - 1, 1))
    return PooledStatistics(
        name, count, total, total / count, (low + high) / 2, least or 0, duration, math.sqrt(variance)
    )


def shares(rows: Sequence[PooledStatistics]) -> list[float | None]:
    """Return each kernel's share of the total time in percent, or None if that is 0."""
    whole = sum(row.total_ns for row in rows)
    return [row.total_ns * 100.0 / whole if whole else None for row in rows]
