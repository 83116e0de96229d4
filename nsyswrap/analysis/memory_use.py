"""Compute how much memory is allocated over time, from the allocations that nsys recorded.

An address that is allocated again was freed in between. A free of what was allocated before the recording
does not count. A framework that keeps freed memory for itself, as PyTorch does, counts as using it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import FREED, MANAGED, ON_DEVICE, PINNED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

KIND = "memory_use"
_MANAGED_STATIC = 6
PLACES = ("GPU memory", "managed memory", "pinned host memory", "other memory")
PINNED_MEMORY = PLACES[2]
_PLACE = {**dict.fromkeys(ON_DEVICE, 0), MANAGED: 1, _MANAGED_STATIC: 1, PINNED: 2}
_FIELDS = ("start_ns", "address", "bytes", "operation", "global_pid", "device_id", "mem_kind")


class MemoryUse(NamedTuple):
    """The bytes that a process has allocated in one place: a bit of PLACES on a device, from each time on."""

    global_pid: int
    device: int
    place: str
    times_ns: NDArray[Any]
    bytes: NDArray[Any]


@per_capture
def memory_use_of(capture: Capture) -> list[MemoryUse]:
    """Return the memory of the selected processes and devices over the whole time; none if not recorded."""
    selection = replace(capture.view.selection, start_ns=None, end_ns=None, nvtx="")
    capture = capture.viewed(selection=selection)  # what was allocated before the selected time counts
    if not capture.has(KIND):
        return []
    time, address, size, operation, process, device, kind = capture.columns(KIND, *_FIELDS).values()
    place = np.full(len(kind), len(PLACES) - 1)
    for number, of in _PLACE.items():
        place[kind == number] = of
    begun = np.flatnonzero(operation != FREED)
    order = np.lexsort((time, address, process))
    same = (address[order][1:] == address[order][:-1]) & (process[order][1:] == process[order][:-1])
    before, after = order[:-1][same], order[1:][same]
    allocated = operation[before] != FREED
    ended, at = before[allocated], time[after[allocated]]
    rows = np.concatenate((begun, ended))
    times = np.concatenate((time[begun], at))
    change = np.concatenate((size[begun], -size[ended]))
    found = []
    for (owner, gpu, where), mine in rows_by(process[rows], device[rows], place[rows]).items():
        moments, which = np.unique(times[mine], return_inverse=True)
        changes = np.zeros(len(moments), np.int64)
        np.add.at(changes, which, change[mine])
        found.append(MemoryUse(owner, gpu, PLACES[where], moments, np.cumsum(changes)))
    return found
