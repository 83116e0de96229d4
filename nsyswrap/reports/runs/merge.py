"""Merge kernel statistics exactly over any number of captures, in constant memory.

An SQLite file pools rows of (kernel, duration, count). Sums are integers of any size. So every figure equals
that of ``cuda_gpu_kern_sum`` for one capture with all the executions.
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

_CACHE_KIB = 16_384  # of the file; the rest stays on disk
_SETUP = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE kernel (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE pooled (
    part INTEGER, kernel INTEGER, duration_ns INTEGER, executions INTEGER,
    PRIMARY KEY (part, kernel, duration_ns)
) WITHOUT ROWID;
"""
_ADD = """
INSERT INTO pooled VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET executions = executions + excluded.executions
"""


class PooledStatistics(NamedTuple):
    """Statistics of one kernel in ns. The deviation is the sample's (n - 1), 0 for a single execution."""

    name: str | None
    executions: int
    total_ns: int
    avg_ns: float
    med_ns: float
    min_ns: int
    max_ns: int
    std_ns: float


class Pool:
    """Pool durations of kernels. Each part, given by number, has statistics of its own."""

    def __init__(self, file: Path) -> None:
        """Pool in a new file, which the caller removes."""
        self._db = sqlite3.connect(file)
        self._db.executescript(_SETUP)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, part: int, kernels: Iterable[Kernel]) -> None:
        """Add the kernels of one capture."""
        for name, durations_ns, counts in kernels:
            kernel = self._kernel_id(name)
            rows = zip(durations_ns, counts, strict=True)
            self._db.executemany(_ADD, ((part, kernel, *row) for row in rows))
        self._db.commit()

    def parts(self) -> Iterator[tuple[int, list[PooledStatistics]]]:
        """Yield each part that has kernels, and their statistics by descending total time."""
        parts = self._db.execute("SELECT DISTINCT part FROM pooled ORDER BY part").fetchall()
        for (part,) in parts:
            kernels = [self._statistics(part, *kernel) for kernel in self._kernels(part)]
            yield part, sorted(kernels, key=lambda row: (-row.total_ns, row.executions, row.name or ""))

    def _kernel_id(self, name: str | None) -> int:
        """Return the number of a kernel, 0 for one without a name."""
        if name is None:
            return 0
        self._db.execute("INSERT OR IGNORE INTO kernel (name) VALUES (?)", (name,))
        return int(self._db.execute("SELECT id FROM kernel WHERE name = ?", (name,)).fetchone()[0])

    def _kernels(self, part: int) -> list[tuple[int, str | None, int]]:
        """Return number, name and executions of a part's kernels."""
        return self._db.execute(
            "SELECT kernel, name, sum(executions) FROM pooled LEFT JOIN kernel ON id = kernel WHERE part = ? "
            "GROUP BY kernel",
            (part,),
        ).fetchall()

    def _statistics(self, part: int, kernel: int, name: str | None, count: int) -> PooledStatistics:
        ordered = self._db.execute(
            "SELECT duration_ns, executions FROM pooled WHERE part = ? AND kernel = ? ORDER BY duration_ns",
            (part, kernel),
        )
        return statistics(name, count, ordered)


def statistics(name: str | None, count: int, ordered: Iterable[tuple[int, int]]) -> PooledStatistics:
    """Return the statistics of ``count`` executions, given as (duration in ns, executions) in order."""
    seen = total = squares = 0
    least: int | None = None
    low = high = duration = 0
    for duration, executions in ordered:
        least = duration if least is None else least
        low = duration if seen <= (count - 1) // 2 else low
        high = duration if seen <= count // 2 else high
        seen += executions
        total += duration * executions
        squares += duration * duration * executions
    variance = Fraction(count * squares - total * total, count * max(count - 1, 1))
    return PooledStatistics(
        name, count, total, total / count, (low + high) / 2, least or 0, duration, math.sqrt(variance)
    )


def shares(rows: Sequence[PooledStatistics]) -> list[float | None]:
    """Return each kernel's percentage of the total time, or None if the total is 0."""
    whole = sum(row.total_ns for row in rows)
    return [row.total_ns * 100.0 / whole if whole else None for row in rows]
