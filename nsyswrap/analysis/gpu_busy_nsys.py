"""Collect the work of each device for each process as nsys' expert rules on GPU time define it.

Work is kernels, copies (unified-memory migrations too) and memsets in any stream. Whole-graph executions do
not count. The profiler's own work counts only if the export gives it a name that nsys searches for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.capture.global_ids import process_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

KINDS = ("kernel", "memcpy", "memset")
_FIELDS = ("start_ns", "end_ns", "context_id", "device_id", "global_pid")
# Profiler work that counts as work, because the program cannot avoid it. Newer exports use other names.
OVERHEADS = {
    "CUDA profiling data flush overhead",
    "CUDA profiling stop overhead",
    "CUDA profiling overhead",
}


@dataclass(frozen=True)
class DeviceWork:
    """The operations of one process on one device, and the context of each. Times are in ns."""

    process_id: int
    device_id: int
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    context_id: NDArray[Any]

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return the first start and the last end."""
        return int(self.start_ns.min()), int(self.end_ns.max())

    @property
    def last_context_id(self) -> int:
        """Return the context of the operation that ends last, of the first one if several do."""
        return int(self.context_id[self.end_ns.argmax()])


def device_work(capture: Capture) -> Iterator[DeviceWork]:
    """Yield the work of each process on each device, by process id and device id."""
    parts = [capture.columns(kind, *_FIELDS) for kind in KINDS if capture.has(kind)]
    work = {field: np.concatenate([part[field] for part in parts]) for field in _FIELDS}
    known = work["start_ns"] > 0
    work = {field: values[known] for field, values in work.items()}
    codes, keys = group_keys(process_ids(work["global_pid"]), work["device_id"])
    overhead = _overhead(capture)
    for code, (process, device) in enumerate(zip(*(key.tolist() for key in keys), strict=True)):
        rows = np.flatnonzero(codes == code)
        times = (work[field][rows] for field in ("start_ns", "end_ns", "context_id"))
        yield _with_overhead(DeviceWork(process, device, *times), *overhead)


def graph_notes(capture: Capture) -> tuple[str, ...]:
    """Return a note if the capture holds whole-graph executions, which are not part of the work."""
    graphs = capture.count("graph")
    text = (
        f"whole-graph executions ({graphs:,}) do not count as busy, as in nsys; record their kernels with "
        "--cuda-graph-trace=node"
    )
    return (text,) if graphs else ()


def _overhead(capture: Capture) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return process, start and end of each piece of the profiler's work."""
    if not capture.has("overhead"):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    events = capture.columns("overhead", "global_tid", "start_ns", "end_ns", "name")
    named = [i for i in np.unique(events["name"]).tolist() if capture.text(i) in OVERHEADS]
    rows = np.isin(events["name"], named)
    return process_ids(events["global_tid"][rows]), events["start_ns"][rows], events["end_ns"][rows]


def _with_overhead(
    work: DeviceWork, process: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
) -> DeviceWork:
    """Return the work with that of the profiler in the same process and within the span, put first."""
    first, last = work.span_ns
    rows = np.flatnonzero((process == work.process_id) & (start > first) & (end < last))
    return replace(
        work,
        start_ns=np.concatenate((start[rows], work.start_ns)),
        end_ns=np.concatenate((end[rows], work.end_ns)),
        context_id=np.concatenate((np.full(len(rows), work.last_context_id), work.context_id)),
    )
