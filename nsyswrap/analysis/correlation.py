"""Join GPU operations to the API calls that launched them: kernels, copies, memsets, whole CUDA graphs.

There are two ways, which return the same pairs, by operation and then by call:

- ``CallTable``, an array of positions by process and correlation id: one look-up for an operation. It cannot
  be made if an id repeats in a process, as that of a runtime call and the driver call in it does, if it had
  more than ``_DENSE`` places for a call, or for more than ``_MOST_PROCESSES`` processes.
- ``equal_pairs``: one number for process and id, the calls sorted by it, two binary searches for an
  operation.

The CPU time for 1,000,000 kernels and as many calls, on an AMD EPYC with other work, 2026-11-28: table 20 ms,
sorting 57 ms. With the kernels in random order 34 and 446 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import Factorizer
from nsyswrap.analysis.arrays.groups import ascending, check_pairs, distinct, repeated
from nsyswrap.analysis.finding import Note
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK, UNIFIED_MEMORY_KINDS
from nsyswrap.capture.stream import BLOCK_ROWS, in_blocks, one_of

Pair = tuple[NDArray[Any], NDArray[Any]]  # of operations, of calls


_DENSE = 4  # most places per row in a table of positions
_SPARSE = 2**40  # a range of ids that leaves room for processes in 64 bits
_INT32 = 2**31
_MOST_PROCESSES = 64


@dataclass(frozen=True)
class LaunchPairs:
    """Pairs of rows: ``operation[i]`` was launched by API call ``api[i]``.

    An operation whose call has two rows (runtime and driver) is in two pairs, as in nsys.
    """

    operation: NDArray[Any]
    api: NDArray[Any]


@per_capture
def launch_pairs_of(capture: Capture, kind: str = "kernel") -> LaunchPairs:
    """Join operations to API calls on correlation id *and* process, by operation row, then API row.

    Correlation ids repeat between processes. If the export lacks globalPid (trimmed files), operations are
    joined on the correlation id alone.
    """
    operation = capture.columns(kind, "correlation_id", "global_pid")
    if kind == "memcpy":
        migrated = one_of(capture.columns(kind, "copy_kind")["copy_kind"], UNIFIED_MEMORY_KINDS)
        if migrated.any():
            operation["correlation_id"] = np.where(migrated, MISSING, operation["correlation_id"])
    left, owner = operation.values()
    table = call_table(capture) if _has_processes(capture, kind) else None
    if table is not None:
        place = table.of(left, owner)
        met = np.flatnonzero(place >= 0)
        return LaunchPairs(met.astype(np.int32), place[met])
    right, caller = capture.columns("api", "correlation_id", "global_tid").values()
    if _has_processes(capture, kind):
        left, right = _in_processes((left, right), (owner, caller))
    name = schema.EVENTS[kind].table + " and API calls with the same correlationId"  # in an error
    met, calls = equal_pairs(left, right, name, capture.source)
    return LaunchPairs(met.astype(np.int32), calls.astype(np.int32))


@per_capture
def call_table(capture: Capture) -> CallTable | None:
    """Return the table of all API calls; None if it cannot hold them."""
    return CallTable.build(*capture.columns("api", "correlation_id", "global_tid").values())


class CallTable:
    """The positions of API calls by process and correlation id, neither of which repeats."""

    def __init__(self, low: int, width: int) -> None:
        """Take the lowest id, and how many from there on can occur."""
        self.low, self.width = low, width
        self.numbers, self.owners = Factorizer(sparse=True), _MOST_PROCESSES
        self.position = np.empty(0, np.int32)

    @classmethod
    def build(
        cls, ids: NDArray[Any], threads: NDArray[Any], thread: NDArray[Any] | None = None
    ) -> CallTable | None:
        """Return the table of calls; None if calls of a process share an id, or ids are far apart.

        ``threads`` has the global id of each call's thread, or of each number in ``thread``.
        """
        most = min(_DENSE * len(ids), _INT32 - 1)
        known = ids[ids != MISSING] if ids.min(initial=0) == MISSING else ids
        low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
        if high - low >= most:
            return None
        table = cls(low, high - low + 1)
        met, position = 0, np.full(1, -1, np.int32)  # the last is that of no key
        for first in range(0, len(ids), BLOCK_ROWS):
            block = slice(first, first + BLOCK_ROWS)
            keys = table.keys(ids[block], threads[block] if thread is None else threads.take(thread[block]))
            places = table.width * len(table.numbers) + 1
            if places > most or len(table.numbers) > _MOST_PROCESSES:
                return None
            if places > len(position):  # a process that was not met before
                position = np.concatenate((position[:-1], np.full(places + 1 - len(position), -1, np.int32)))
            position[keys] = np.arange(first, first + len(keys), dtype=np.int32)
            met += int(np.count_nonzero(keys >= 0))
        position[-1] = -1
        table.owners, table.position = len(table.numbers), position
        return table if np.count_nonzero(position >= 0) == met else None

    def of(self, ids: NDArray[Any], owners: NDArray[Any]) -> NDArray[np.int32]:
        """Return the position of the call of each operation; -1 without one."""
        columns = {"ids": ids, "owners": owners}
        return in_blocks(columns, lambda block: {"": self.position[self.keys(*block.values())]})[""]

    def keys(self, ids: NDArray[Any], owners: NDArray[Any]) -> NDArray[Any]:
        """Return one number for each pair of a correlation id and the process of an owner; -1 for others."""
        number = self.numbers.of(owners & PROCESS_MASK).astype(np.int64)
        known = (owners != MISSING) & (number < self.owners)
        known &= (ids >= self.low) & (ids < self.low + self.width) & (ids != MISSING)
        return np.where(known, number * self.width + (ids - self.low), -1)


def process_notes(capture: Capture, *kinds: str) -> tuple[Note, ...]:
    """Return a note for each kind of GPU operation whose process the export does not record."""
    return tuple(
        Note("no_processes", {"title": schema.EVENTS[kind].title})
        for kind in kinds
        if capture.has(kind) and not _has_processes(capture, kind)
    )


@per_capture
def _has_processes(capture: Capture, kind: str) -> bool:
    processes = capture.columns(kind, "global_pid")["global_pid"]
    return not len(processes) or bool((processes != MISSING).any())


def _in_processes(ids: Pair, owners: Pair) -> Pair:
    """Return keys that are equal if correlation id and process are; MISSING if either is.

    ``ids`` are the correlation ids of operations and of calls, ``owners`` their global process or thread ids.
    """
    distinct_owners = [distinct(owner) for owner in owners]
    processes = [np.where(owner == MISSING, MISSING, owner & PROCESS_MASK) for owner, _ in distinct_owners]
    every = ascending(np.concatenate(processes))
    if len(every) == 1:
        return ids
    low, high = _range(ids)
    if high - low > _SPARSE:  # ids count up, so this is only a safeguard
        _, codes = distinct(np.concatenate(ids))
        codes[np.concatenate(ids) == MISSING] = MISSING
        ids = codes[: len(ids[0])], codes[len(ids[0]) :]
        low, high = _range(ids)
    keys = []
    for correlation, (_, codes), own in zip(ids, distinct_owners, processes, strict=True):
        key = (np.searchsorted(every, own) * (high - low + 1) - low)[codes]
        key += correlation
        key[(correlation == MISSING) | (own == MISSING)[codes]] = MISSING
        keys.append(key)
    return keys[0], keys[1]


def _range(ids: Sequence[NDArray[Any]]) -> tuple[int, int]:
    """Return the lowest and the highest of the known ids and 0."""
    known = [part[part != MISSING] for part in ids]
    return min(int(part.min(initial=0)) for part in known), max(int(part.max(initial=0)) for part in known)


def equal_pairs(
    left: NDArray[Any], right: NDArray[Any], name: str = "equal numbers", source: object = ""
) -> Pair:
    """Return the positions of all equal pairs, sorted by left, then right. MISSING equals nothing.

    Raises NotInCapture, with the ``name`` of the pairs and their source, if there are too many to be stored.
    """
    order = np.argsort(right, kind="stable")
    first, last = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    matches = np.where(left == MISSING, 0, last - first)
    check_pairs(int(matches.sum()), len(left) + len(right), name, source)
    pair, within = repeated(matches)
    return pair, order[first[pair] + within]
