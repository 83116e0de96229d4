"""Merge the kernels of many captures into exact statistics, with one kernel in memory at a time.

An SQLite file pools the durations of each kernel, and how often each occurs. Sums are integers of any size.
Every figure equals that of ``cuda_gpu_kern_sum`` for one capture with all the executions.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from fractions import Fraction
from itertools import groupby
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.reports.runs.digest import Kernel

    Counted = tuple[NDArray[Any], NDArray[Any]]  # durations in ns, and how often each occurs

_CACHE_KIB = 16_384  # of the file; what does not fit stays on disk
_AT_ONCE = 2**20  # durations in memory before equal ones are merged
_SETUP = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE pooled (group_id INTEGER, name TEXT, durations_ns BLOB, executions BLOB);
CREATE INDEX by_kernel ON pooled (group_id, name);
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
        rows = (
            (group, name, *(array("q", part) for part in counted)) for name, *counted in kernels if counted[0]
        )
        self._db.executemany("INSERT INTO pooled VALUES (?, ?, ?, ?)", rows)
        self._db.commit()

    def groups(self) -> Iterator[tuple[int, list[PooledStatistics]]]:
        """Yield each group that has kernels, in order, and their statistics: the most total time first."""
        every = self._db.execute("SELECT * FROM pooled ORDER BY group_id, name")
        for group, of_group in groupby(every, itemgetter(0)):
            rows = [
                _statistics(name, *_together(counted for _, _, *counted in captures))
                for name, captures in groupby(of_group, itemgetter(1))
            ]
            yield group, sorted(rows, key=lambda row: (-row.total_ns, row.executions, row.name or ""))


def _together(captures: Iterable[Sequence[bytes]]) -> Counted:
    """Return the distinct durations of a kernel in ascending order, and how often each occurs."""
    parts: list[Counted] = []
    added = 0
    for durations_ns, executions in captures:
        parts.append((np.frombuffer(durations_ns, np.int64), np.frombuffer(executions, np.int64)))
        added += len(parts[-1][0])
        if added > _AT_ONCE:
            parts, added = [_merged(parts)], 0
    return _merged(parts)


def _merged(parts: Sequence[Counted]) -> Counted:
    durations_ns, executions = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(durations_ns, kind="stable")
    ordered = durations_ns[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.add.reduceat(executions[order], first)


def _statistics(name: str | None, durations_ns: NDArray[Any], executions: NDArray[Any]) -> PooledStatistics:
    ends = np.cumsum(executions)
    count = int(ends[-1])
    low, high = durations_ns[np.searchsorted(ends, ((count - 1) // 2, count // 2), "right")].tolist()
    known = durations_ns.tolist()
    totals = list(map(mul, known, executions.tolist()))  # of any size, as the sums
    total, squares = sum(totals), sum(map(mul, known, totals))
    variance = Fraction(count * squares - total * total, count * max(count - 1, 1))
    average, median = total / count, (low + high) / 2
    return PooledStatistics(name, count, total, average, median, known[0], known[-1], math.sqrt(variance))


def shares(rows: Sequence[PooledStatistics]) -> list[float | None]:
    """Return each kernel's share of the total time in percent, or None if that is 0."""
    whole = sum(row.total_ns for row in rows)
    return [row.total_ns * 100.0 / whole if whole else None for row in rows]
