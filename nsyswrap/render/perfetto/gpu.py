"""The GPU slices of a trace: kernels, copies, memsets and graphs by stream, and GPU page faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys, order_by_code
from nsyswrap.analysis.gpu_operations import KINDS, operations_of_kind
from nsyswrap.analysis.nvtx_paths import call_paths
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.global_ids import machine_ids
from nsyswrap.render.perfetto.host import timed
from nsyswrap.render.perfetto.slices import Argument, Slices
from nsyswrap.render.timeline.owners import (
    FAULT,
    IN_STREAM,
    MIGRATION,
    Stream,
    stream_names,
    sublane_suffix,
)
from nsyswrap.render.timeline.packing import disjoint, drawing_order, sublanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.lanes import CaptureLanes
    from nsyswrap.render.perfetto.slices import Looks

GPU_FAULT = "um_gpu_fault"
DRAWN = (*KINDS, GPU_FAULT)


@dataclass(frozen=True)
class GpuBars:
    """One entry per bar of one kind; times in ns.

    ``row`` is the position among the whole capture's events of that kind, ``call`` that of the API call that
    launched the bar, or -1. ``stream`` is a number in ``streams``.
    """

    kind: str
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    call: NDArray[Any]
    stream: NDArray[Any]
    streams: list[Stream]

    @property
    def launched(self) -> int:
        """The number of bars that an API call launched: all but migrations and page faults."""
        in_stream = np.array([stream.where == IN_STREAM for stream in self.streams], bool)
        return int(in_stream[self.stream].sum())


def gpu_bars(capture: Capture) -> list[GpuBars]:
    """Return the bars of the selection by kind: events with a start that do not end before it."""
    return [_bars(capture, kind) for kind in DRAWN if capture.has(kind)]


def _bars(capture: Capture, kind: str) -> GpuBars:
    columns = _fault_columns(capture) if kind == GPU_FAULT else _operation_columns(capture, kind)
    kept = timed(columns["start_ns"], columns["end_ns"])
    columns = {name: values[kept] for name, values in columns.items()}
    pid = columns["global_pid"]
    machine = np.where(pid == MISSING, 0, machine_ids(pid))
    keys = (machine, columns["device"], columns["where"], pid, columns["context"], columns["stream"])
    codes, found = group_keys(*keys)
    streams = [Stream(*key) for key in zip(*(key.tolist() for key in found), strict=True)]
    narrow = (columns[name].astype(np.int32) for name in ("row", "call"))
    row, call = narrow
    return GpuBars(kind, row, columns["start_ns"], columns["end_ns"], call, codes.astype(np.int32), streams)


def _operation_columns(capture: Capture, kind: str) -> dict[str, NDArray[Any]]:
    operations = operations_of_kind(capture, kind)
    return {
        **{name: getattr(operations, name) for name in ("row", "start_ns", "end_ns", "call", "global_pid")},
        "device": operations.device_id,
        "context": operations.context_id,
        "stream": operations.stream_id,
        "where": np.where(operations.migration, MIGRATION, IN_STREAM),
    }


def _fault_columns(capture: Capture) -> dict[str, NDArray[Any]]:
    columns = capture.columns(GPU_FAULT, "row", "start_ns", "end_ns", "global_pid", "device_id")
    same = np.zeros_like(columns["row"])
    columns["row"] = columns["row"] - 1
    none = {"call": same - 1, "context": same, "stream": same, "where": same + FAULT}
    return {**columns, "device": columns["device_id"], **none}


def gpu_slices(
    capture: Capture, bars: Sequence[GpuBars], tracks: CaptureLanes, looks: Looks
) -> tuple[Slices, NDArray[Any]]:
    """Return the slices of all bars, and the call of each."""
    look = np.concatenate([_looks(capture, part, looks) for part in bars])
    every = sorted({stream for part in bars for stream in part.streams})
    numbers = [np.array([every.index(stream) for stream in part.streams], np.int32) for part in bars]
    code = np.concatenate([number[part.stream] for number, part in zip(numbers, bars, strict=True)])
    start, end, call = (
        np.concatenate([getattr(part, name) for part in bars]) for name in ("start_ns", "end_ns", "call")
    )
    order = drawing_order(code, len(every), np.zeros(len(code), np.int8), start, end)
    code, start, end, look, call = (column[order] for column in (code, start, end, look, call))
    lane = _lanes(every, code, sublanes(code, start, end, disjoint), tracks)
    if (lane[1:] < lane[:-1]).any():
        order = order_by_code(lane, len(tracks.lanes.tracks))
        lane, start, end, look, call = (column[order] for column in (lane, start, end, look, call))
    nothing = np.zeros(len(lane), np.int32)
    return Slices(lane, start, end, look, nothing, nothing), call


def _looks(capture: Capture, bars: GpuBars, looks: Looks) -> NDArray[Any]:
    own = Capture(capture.path, source=capture.source, view=capture.view).whole
    paths = Argument(*call_paths(own, bars.call)) if own.has("nvtx") and own.has("api") else None
    return looks.of_events(own, bars.kind, bars.row, paths)


def _lanes(
    streams: list[Stream], code: NDArray[Any], sublane: NDArray[Any], tracks: CaptureLanes
) -> NDArray[Any]:
    """Add the lanes of streams, migrations and page faults. Return the lane of each bar."""
    gpu = {stream[:2]: tracks.gpu(*stream[:2]) for stream in streams}
    names = stream_names(streams)
    lane, (of, number) = group_keys(code.astype(np.int64), sublane)
    added = [
        tracks.lanes.add_below(gpu[streams[stream][:2]], names[stream] + sublane_suffix(beside))
        for stream, beside in zip(of.tolist(), number.tolist(), strict=True)
    ]
    lanes: NDArray[Any] = np.array(added, np.int32)[lane]
    return lanes
