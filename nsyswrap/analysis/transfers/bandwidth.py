"""What transfers reached, row by row of a table: bandwidths, and calls that were asynchronous in name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import Groups, group_keys
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.calls import calls_named
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, work
from nsyswrap.analysis.transfers import TIMED, gpu_memory, links, timed
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PAGEABLE, SPANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.transfers import Transfers
    from nsyswrap.capture.capture import Capture

    Figures = dict[str, NDArray[Any]]  # by column, an entry per row

_ASYNCHRONOUS = re.compile("cu(da)?Memcpy.*Async", re.IGNORECASE)


def per_s(size: NDArray[Any], time_ns: NDArray[Any]) -> NDArray[Any]:
    """Return bytes/s; NaN where no time passed."""
    return np.where(time_ns > 0, size * 1e9 / np.maximum(time_ns, 1), np.nan)


def bandwidths(capture: Capture, found: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return what the transfers of each row reached whose time is their own, and what their link gives.

    ``codes`` has the row of each. All of one row go over the same kind of link.
    """
    memory = gpu_memory(capture)
    good = timed(found, memory) == TIMED
    groups, moved, took = Groups(codes[good], rows), found.size_bytes[good], found.duration_ns[good]
    size = groups.of(moved).total
    link = np.full(rows, np.nan)
    link[codes] = links(found, memory)
    reached = per_s(size, groups.of(took).total)
    return {
        "bandwidth_bytes_per_s": reached,
        "med_bandwidth_bytes_per_s": groups.quantile(per_s(moved, took), 0.5),
        "aggregate_bytes_per_s": per_s(size, _busy(found.of(good), codes[good], rows)),
        "link_bytes_per_s": link,
        "link_percent": reached * 100.0 / link,
        "left_out": np.bincount(codes[~good], minlength=rows),
    }


def _busy(found: Transfers, codes: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return how long at least one transfer of a row went on, in ns, summed over devices."""
    busy = np.zeros(rows, np.int64)
    pairs, (row, _) = group_keys(codes, found.work.device_id)
    for pair, code in enumerate(row.tolist()):
        mine = np.flatnonzero(pairs == pair)
        busy[code] += union(found.start_ns[mine], found.end_ns[mine]).length
    return busy


def waiting_calls(capture: Capture, found: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return how many asynchronous calls copied pageable memory, and their time.

    To the device such a call fills a buffer before it returns, to the host it waits for the copy. Missing
    where the export does not say what memory it was, or has no calls.
    """
    number, took = np.full(rows, MISSING), np.full(rows, MISSING)
    if capture.whole.has("api"):
        pageable = (found.src_kind == PAGEABLE) | (found.dst_kind == PAGEABLE)
        pageable &= np.isin(found.work.call, calls_named(capture.whole, _ASYNCHRONOUS))
        _, (row, call) = group_keys(codes[pageable], found.work.call[pageable])
        api = capture.whole.columns("api", *SPANS)
        calls = Groups(row, rows).of(api["end_ns"][call] - api["start_ns"][call])
        said = np.bincount(codes[~found.memory_unsaid], minlength=rows) > 0
        number, took = np.where(said, calls.count, MISSING), np.where(said, calls.total, MISSING)
    return {"async_pageable": number, "async_pageable_ns": took}


def compute_overlap(
    capture: Capture,
    process: NDArray[Any],
    device: NDArray[Any],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
) -> NDArray[Any]:
    """Return how long kernels or graphs ran in each interval for its process on its device, in ns.

    Where an export lacks the process of either, the device alone has to do.
    """
    every = work(capture)
    every = every.of(np.isin(every.kind, (KINDS.index(KERNEL), KINDS.index(GRAPH))))
    found = np.zeros_like(start_ns)
    for global_pid, device_id, computing in every.by_device():
        same = (process == global_pid) | (process == MISSING) | (global_pid == MISSING)
        rows = np.flatnonzero(same & (device == device_id))
        cover = union(every.start_ns[computing], every.end_ns[computing])
        found[rows] += cover.within(start_ns[rows], end_ns[rows])
    return np.minimum(found, end_ns - start_ns)  # type: ignore[no-any-return]
