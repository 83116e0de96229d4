"""The launch join: which API call launched which kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.reader import NULL
from nsyswrap.schema import PROCESS_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture import Capture


@dataclass(frozen=True)
class Launches:
    """Pairs of rows: ``kernel[i]`` was launched by API call ``api[i]``.

    A kernel whose call has two rows (runtime and driver) stands in two pairs, as in nsys;
    ``kernels_without_call`` counts those that stand in none.
    """

    kernel: NDArray[Any]
    api: NDArray[Any]
    kernels_without_call: int


_known_launches: WeakKeyDictionary[Capture, Launches] = WeakKeyDictionary()


def launches(capture: Capture) -> Launches:
    """Return the joined rows of a capture; computed once, and shared by all who ask."""
    if capture not in _known_launches:
        _known_launches[capture] = _join(capture)
    return _known_launches[capture]


def _join(capture: Capture) -> Launches:
    """Join kernels to API calls on correlation id *and* process, in kernel row order, then API row order.

    Correlation ids repeat between processes. Without globalPid in the export (trimmed files) the process
    is unknown, and the correlation id alone has to do.
    """
    kernel = capture.columns("kernel", "correlation_id", "global_pid")
    api = capture.columns("api", "correlation_id", "global_tid")
    known = not (kernel["global_pid"] == NULL).all()
    left = (
        kernel["global_pid"] if known else np.zeros_like(kernel["correlation_id"]),
        kernel["correlation_id"],
    )
    right = (
        api["global_tid"] & PROCESS_MASK if known else np.zeros_like(api["correlation_id"]),
        api["correlation_id"],
    )
    return _match(*_keys(left, right), _known(*left), _known(*right))


def _known(processes: NDArray[Any], correlations: NDArray[Any]) -> NDArray[Any]:
    """Mark the rows that can match: as in SQL, what is missing equals nothing."""
    return (processes != NULL) & (correlations != NULL)  # type: ignore[no-any-return]


def _keys(
    left: tuple[NDArray[Any], NDArray[Any]], right: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One int64 per (process, correlation id), equal on both sides where the pair is equal."""
    processes, process = np.unique(np.concatenate((left[0], right[0])), return_inverse=True)
    correlation = np.concatenate((left[1], right[1]))
    if not len(correlation):
        return correlation, correlation
    low, high = int(correlation.min()), int(correlation.max())
    if (high - low + 1) * len(processes) > np.iinfo(np.int64).max:
        _, correlation = np.unique(correlation, return_inverse=True)
        low, high = 0, len(correlation)
    keys = process.astype(np.int64) * (high - low + 1) + (correlation - low)
    return keys[: len(left[0])], keys[len(left[0]) :]


def _match(
    kernel_keys: NDArray[Any], api_keys: NDArray[Any], kernel_known: NDArray[Any], api_known: NDArray[Any]
) -> Launches:
    rows = np.flatnonzero(api_known)
    order = rows[np.argsort(api_keys[rows], kind="stable")]
    ordered = api_keys[order]
    first = np.searchsorted(ordered, kernel_keys, "left")
    matches = np.where(kernel_known, np.searchsorted(ordered, kernel_keys, "right") - first, 0)
    kernel = np.repeat(np.arange(len(kernel_keys)), matches)
    within = np.arange(len(kernel)) - np.repeat(np.cumsum(matches) - matches, matches)
    return Launches(kernel, order[np.repeat(first, matches) + within], int((matches == 0).sum()))


@dataclass(frozen=True)
class OutermostLaunches:
    """One entry per launch, in order of its call's start; times in ns.

    ``api_row`` is the outer call's row; ``queue_ns`` is negative where the first kernel started before the
    call returned; ``kernel_ns`` sums the launch's kernels; ``is_first`` marks the first launch of a kernel
    name in its process.
    """

    api_row: NDArray[Any]
    api_ns: NDArray[Any]
    queue_ns: NDArray[Any]
    kernel_ns: NDArray[Any]
    is_first: NDArray[Any]


def outermost_launches(capture: Capture) -> OutermostLaunches:
    """Return launches with one call each: of a runtime call and the driver call below it, the outer one."""
    pairs = launches(capture)
    kernel = capture.columns("kernel", "start_ns", "end_ns", "global_pid", "name")
    api = capture.columns("api", "start_ns", "end_ns")
    # Per kernel the call that started first; pairs are already in kernel order.
    by_call = np.lexsort((-api["end_ns"][pairs.api], api["start_ns"][pairs.api], pairs.kernel))
    kernels, keep = np.unique(pairs.kernel[by_call], return_index=True)
    calls = pairs.api[by_call][keep]
    # Per call its kernels, the earliest first.
    order = np.lexsort((kernel["start_ns"][kernels], calls, api["start_ns"][calls]))
    kernels, calls = kernels[order], calls[order]
    changes = np.ones(len(calls), dtype=bool)
    changes[1:] = calls[1:] != calls[:-1]
    starts = np.flatnonzero(changes)
    first_kernels, api_row = kernels[starts], calls[starts]
    durations = kernel["end_ns"][kernels] - kernel["start_ns"][kernels]
    return OutermostLaunches(
        api_row=api_row,
        api_ns=api["end_ns"][api_row] - api["start_ns"][api_row],
        queue_ns=kernel["start_ns"][first_kernels] - api["end_ns"][api_row],
        kernel_ns=np.add.reduceat(durations, starts) if len(starts) else durations,
        is_first=_first_of(kernel["name"][first_kernels], kernel["global_pid"][first_kernels]),
    )


def _first_of(names: NDArray[Any], processes: NDArray[Any]) -> NDArray[Any]:
    """Mark the first row of each (name, process), in row order."""
    order = np.lexsort((np.arange(len(names)), names, processes))
    changes = np.ones(len(names), dtype=bool)
    changes[1:] = (names[order][1:] != names[order][:-1]) | (processes[order][1:] != processes[order][:-1])
    first = np.zeros(len(names), dtype=bool)
    first[order[changes]] = True
    return first
