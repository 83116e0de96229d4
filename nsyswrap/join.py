"""The launch join: which API call launched which kernel, copy, memset or whole CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap import schema
from nsyswrap.reader import NULL
from nsyswrap.schema import PROCESS_MASK, UNIFIED_MEMORY_KINDS
from nsyswrap.stats import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture import Capture

_DENSE = 4  # places a table of positions may have for every row
_INT32 = 2**31


@dataclass(frozen=True)
class Launches:
    """Pairs of rows: ``operation[i]`` was launched by API call ``api[i]``.

    An operation whose call has two rows (runtime and driver) stands in two pairs, as in nsys;
    ``without_call`` counts those that stand in none.
    """

    operation: NDArray[Any]
    api: NDArray[Any]
    without_call: int


_known_launches: WeakKeyDictionary[Capture, dict[str, Launches]] = WeakKeyDictionary()


def launches(capture: Capture, kind: str = "kernel") -> Launches:
    """Return the joined rows of a kind of GPU operation; computed once, and shared by all who ask."""
    if not _has_processes(capture, kind):
        capture.note(
            f"{schema.EVENTS[kind].title} of this export lack their process (globalPid): they meet their API "
            "calls on the correlation id alone"
        )
    known = _known_launches.setdefault(capture, {})
    if kind not in known:
        known[kind] = _join(capture, kind)
    return known[kind]


def _join(capture: Capture, kind: str) -> Launches:
    """Join operations to API calls on correlation id *and* process, by operation row, then API row.

    Correlation ids repeat between processes. Without globalPid in the export (trimmed files) the process
    is unknown, and the correlation id alone has to do.
    """
    operation = capture.columns(kind, "correlation_id", "global_pid")
    api = capture.columns("api", "correlation_id", "global_tid")
    known = _has_processes(capture, kind)
    left = (
        operation["global_pid"] if known else np.zeros_like(operation["correlation_id"]),
        operation["correlation_id"],
    )
    right = (
        api["global_tid"] & PROCESS_MASK if known else np.zeros_like(api["correlation_id"]),
        api["correlation_id"],
    )
    called = _known(*left)
    if kind == "memcpy":
        called &= ~np.isin(capture.columns(kind, "copy_kind")["copy_kind"], UNIFIED_MEMORY_KINDS)
    keys = _keys(left, right)
    met, calls = equal_pairs(np.where(called, keys[0], NULL), np.where(_known(*right), keys[1], NULL))
    without = len(called) - np.count_nonzero(np.diff(met, prepend=-1))  # operations are in order
    return Launches(met, calls, without)


def _has_processes(capture: Capture, kind: str) -> bool:
    processes = capture.columns(kind, "global_pid")["global_pid"]
    return not len(processes) or bool((processes != NULL).any())


def _known(processes: NDArray[Any], correlations: NDArray[Any]) -> NDArray[Any]:
    """Mark the rows that can match: as in SQL, what is missing equals nothing."""
    return (processes != NULL) & (correlations != NULL)  # type: ignore[no-any-return]


def _keys(
    left: tuple[NDArray[Any], NDArray[Any]], right: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One int64 per (process, correlation id), equal on both sides where the pair is equal."""
    processes, process = distinct(np.concatenate((left[0], right[0])))
    correlation = np.concatenate((left[1], right[1]))
    if not len(correlation):
        return correlation, correlation
    low, high = int(correlation.min()), int(correlation.max())
    if (high - low + 1) * len(processes) > np.iinfo(np.int64).max:
        _, correlation = distinct(correlation)
        low, high = 0, len(correlation)
    keys = process.astype(np.int64) * (high - low + 1) + (correlation - low)
    return keys[: len(left[0])], keys[len(left[0]) :]


def equal_pairs(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the positions of all equal pairs, by those on the left, then on the right; NULL equals none."""
    found = _addressed(left, right)
    if found is not None:
        return found
    order = np.argsort(right, kind="stable")
    first, last = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    matches = np.where(left == NULL, 0, last - first)
    pair = np.repeat(np.arange(len(left)), matches)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(matches) - matches, matches)
    return pair, order[first[pair] + within]


def _addressed(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the pairs by a table of positions; None where keys on the right repeat or are too sparse."""
    rows = np.flatnonzero(right != NULL)
    keys = right[rows]
    if not len(keys) or not len(left):
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low >= _DENSE * (len(left) + len(right)):
        return None
    position = np.full(high - low + 2, -1, np.int32 if len(right) < _INT32 else np.int64)  # the last: none
    position[keys - low] = rows
    if np.count_nonzero(position >= 0) < len(rows):
        return None
    there = (left >= low) & (left <= high)
    found = position[np.where(there, left - low, high - low + 1)]
    pair = np.flatnonzero(found >= 0)
    return pair, found[pair].astype(np.int64)


@dataclass(frozen=True)
class OutermostLaunches:
    """One entry per launch, in order of its call's start; times in ns.

    ``api_row`` is the outer call's row, ``operation_row`` that of the first operation it started;
    ``queue_ns`` is negative where that started before the call returned; ``gpu_ns`` sums all of them.
    """

    api_row: NDArray[Any]
    operation_row: NDArray[Any]
    api_ns: NDArray[Any]
    queue_ns: NDArray[Any]
    gpu_ns: NDArray[Any]


def outermost_launches(capture: Capture, kind: str = "kernel") -> OutermostLaunches:
    """Return launches with one call each: of a runtime call and the driver call below it, the outer one."""
    pairs = launches(capture, kind)
    operation = capture.columns(kind, "start_ns", "end_ns")
    api = capture.columns("api", "start_ns", "end_ns")
    # Per operation the call that started first; pairs are already in the operations' order.
    by_call = np.lexsort((-api["end_ns"][pairs.api], api["start_ns"][pairs.api], pairs.operation))
    operations, keep = np.unique(pairs.operation[by_call], return_index=True)
    calls = pairs.api[by_call][keep]
    # Per call its operations, the earliest first.
    order = np.lexsort((operation["start_ns"][operations], calls, api["start_ns"][calls]))
    operations, calls = operations[order], calls[order]
    changes = np.ones(len(calls), dtype=bool)
    changes[1:] = calls[1:] != calls[:-1]
    starts = np.flatnonzero(changes)
    first, api_row = operations[starts], calls[starts]
    durations = operation["end_ns"][operations] - operation["start_ns"][operations]
    return OutermostLaunches(
        api_row=api_row,
        operation_row=first,
        api_ns=api["end_ns"][api_row] - api["start_ns"][api_row],
        queue_ns=operation["start_ns"][first] - api["end_ns"][api_row],
        gpu_ns=np.add.reduceat(durations, starts) if len(starts) else durations,
    )


def first_launches(capture: Capture, launched: OutermostLaunches) -> NDArray[Any]:
    """Mark the first launch of each kernel name in its process."""
    kernel = capture.columns("kernel", "name", "global_pid")
    rows = launched.operation_row
    return _first_of(kernel["name"][rows], kernel["global_pid"][rows])


def _first_of(names: NDArray[Any], processes: NDArray[Any]) -> NDArray[Any]:
    """Mark the first row of each (name, process), in row order."""
    order = np.lexsort((np.arange(len(names)), names, processes))
    changes = np.ones(len(names), dtype=bool)
    changes[1:] = (names[order][1:] != names[order][:-1]) | (processes[order][1:] != processes[order][:-1])
    first = np.zeros(len(names), dtype=bool)
    first[order[changes]] = True
    return first
