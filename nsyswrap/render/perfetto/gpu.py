"""The GPU slices of a trace: kernels, copies, memsets and graphs by stream, and GPU page faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import KINDS, operations_of_kind
from nsyswrap.analysis.nvtx_paths import call_paths
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.perfetto.host import timed
from nsyswrap.render.perfetto.slices import Argument, Slices, laid_out
from nsyswrap.render.timeline.names import (
    FAULT,
    IN_STREAM,
    place_of,
    stream_names,
    streams_of,
    sublane_suffix,
)
from nsyswrap.render.timeline.packing import disjoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.lanes import CaptureLanes
    from nsyswrap.render.perfetto.slices import Looks
    from nsyswrap.render.timeline.names import Stream

GPU_FAULT = "um_gpu_fault"
DRAWN = (*KINDS, GPU_FAULT)
_READ = (*SPANS, "global_pid", "device_id", "context_id", "stream_id", "correlation_id")


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
    if kind == GPU_FAULT:
        return _faults(capture)
    capture.whole.columns(kind, *_READ)  # in one pass
    operations = operations_of_kind(capture, kind)
    operations = operations.of(timed(operations.start_ns, operations.end_ns))
    row, call = operations.row, operations.call
    return GpuBars(kind, row, operations.start_ns, operations.end_ns, call, *streams_of(operations))


def _faults(capture: Capture) -> GpuBars:
    columns = capture.columns(GPU_FAULT, "row", "start_ns", "end_ns", "global_pid", "device_id")
    kept = timed(columns["start_ns"], columns["end_ns"])
    row, start, end, pid, device = (values[kept] for values in columns.values())
    codes, keys = group_keys(pid, device)
    owners = zip(*(part.tolist() for part in keys), strict=True)
    places = [place_of(process, gpu, FAULT) for process, gpu in owners]
    none = np.full(len(row), -1, np.int32)
    return GpuBars(GPU_FAULT, (row - 1).astype(np.int32), start, end, none, codes.astype(np.int32), places)


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
    gpu = {stream.gpu: tracks.gpu(*stream.gpu) for stream in every}
    names = stream_names(every)

    def add(stream: int, beside: int) -> int:
        return tracks.lanes.add_below(gpu[every[stream].gpu], names[stream] + sublane_suffix(beside))

    order, lane = laid_out(code, np.zeros(len(code), np.int8), (start, end), disjoint, add)
    nothing = np.zeros(len(lane), np.int32)
    return Slices(lane, start[order], end[order], look[order], nothing, nothing), call[order]


def _looks(capture: Capture, bars: GpuBars, looks: Looks) -> NDArray[Any]:
    own = Capture(capture.path, source=capture.source, view=capture.view).whole
    paths = Argument(*call_paths(own, bars.call)) if own.has("nvtx") and own.has("api") else None
    return looks.of_events(own, bars.kind, bars.row, paths)
