"""The GPU bars of a trace: kernels, copies, memsets and graphs by stream, and GPU page faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import machine_ids
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT
from nsyswrap.render.perfetto.host import timed
from nsyswrap.render.perfetto.lanes import sublane_suffix
from nsyswrap.render.perfetto.sublanes import disjoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.lanes import Lanes

FAULT = "um_gpu_fault"
DRAWN = (*KINDS, FAULT)
_IN_STREAM, _MIGRATION, _FAULT = range(3)
_LANES = {_MIGRATION: "unified memory", _FAULT: "page faults"}  # the lanes of bars without a stream


@dataclass(frozen=True)
class GpuBars:
    """Arrays with one entry per bar; times in ns.

    ``kind`` is the position in ``DRAWN``, ``row`` the position among the capture's events of that kind.
    ``call`` is the position of the API call that launched the bar, or -1. ``where`` says whether a bar is in
    a stream, a migration or a page fault.
    """

    kind: NDArray[Any]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    global_pid: NDArray[Any]
    device_id: NDArray[Any]
    context_id: NDArray[Any]
    stream_id: NDArray[Any]
    call: NDArray[Any]
    where: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> GpuBars:
        """Return the bars at these positions or of this mask."""
        return GpuBars(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def launched(self) -> int:
        """The number of bars that an API call launched: all but migrations and page faults."""
        return int(np.count_nonzero(self.where == _IN_STREAM))

    def gpu_numbers(self, lanes: Lanes) -> NDArray[Any]:
        """Return for each bar the process number that its GPU has in the trace."""
        codes, keys = group_keys(_machine(self.global_pid), self.device_id)
        of_gpu = [lanes.gpu(*key) for key in zip(*(key.tolist() for key in keys), strict=True)]
        numbers: NDArray[Any] = np.array(of_gpu, np.int64)[codes]
        return numbers


def gpu_bars(capture: Capture) -> GpuBars:
    """Return the bars of the selection: events with a start that do not end before it."""
    operations = gpu_operations_of(capture)
    bars = GpuBars(
        operations.kind,
        operations.row,
        operations.start_ns,
        operations.end_ns,
        operations.global_pid,
        operations.device_id,
        operations.context_id,
        operations.stream_id,
        operations.call,
        np.where(operations.migration, _MIGRATION, _IN_STREAM),
    )
    if capture.has(FAULT):
        faults = _page_faults(capture)
        bars = GpuBars(
            *(np.concatenate((getattr(bars, f.name), getattr(faults, f.name))) for f in fields(GpuBars))
        )
    return bars.of(timed(bars.start_ns, bars.end_ns))


def _page_faults(capture: Capture) -> GpuBars:
    columns = capture.columns(FAULT, "row", "start_ns", "end_ns", "global_pid", "device_id")
    same = np.zeros_like(columns["row"])
    return GpuBars(
        same + DRAWN.index(FAULT),
        columns["row"] - 1,
        columns["start_ns"],
        columns["end_ns"],
        columns["global_pid"],
        columns["device_id"],
        *(same, same, same - 1, same + _FAULT),
    )


def stream_lanes(bars: GpuBars, lanes: Lanes) -> NDArray[Any]:
    """Add lanes for streams, migrations and page faults. Return the lane of each bar."""
    gpu = bars.gpu_numbers(lanes)
    streams, keys = group_keys(gpu, bars.where, bars.global_pid, bars.context_id, bars.stream_id)
    names = _names(keys)
    lane, (of, sublane) = group_keys(streams, disjoint(streams, bars.start_ns, bars.end_ns))
    added = [
        lanes.add_named(int(keys[0][stream]), names[stream] + sublane_suffix(number))
        for stream, number in zip(of.tolist(), sublane.tolist(), strict=True)
    ]
    lane_of_bar: NDArray[Any] = np.array(added, np.int64)[lane]
    return lane_of_bar


def _names(keys: list[NDArray[Any]]) -> list[str]:
    """Name streams. Add context and process if their GPU has several of these."""
    rows = list(zip(*(key.tolist() for key in keys), strict=True))
    processes = Counter(gpu for gpu, _ in {(gpu, process) for gpu, _, process, _, _ in rows})
    in_streams = {(gpu, process, context) for gpu, where, process, context, _ in rows if where == _IN_STREAM}
    contexts = Counter((gpu, process) for gpu, process, _ in in_streams)
    names = []
    for gpu, where, process, context, stream in rows:
        name = _LANES.get(where, f"stream {stream}")
        if where == _IN_STREAM and contexts[gpu, process] > 1:
            name += f", context {context}"
        if processes[gpu] > 1:
            name += f", process {process >> PID_SHIFT & ID_MASK}"
        names.append(name)
    return names


def _machine(global_pid: NDArray[Any]) -> NDArray[Any]:
    return np.where(global_pid == MISSING, 0, machine_ids(global_pid))
