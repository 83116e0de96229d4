"""The counters of a trace: bandwidth of the copies in flight, concurrent kernels, and recorded curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import KERNEL, MEMCPY
from nsyswrap.capture.capture import Capture
from nsyswrap.render.perfetto.events import GpuBars
from nsyswrap.render.perfetto.lanes import CaptureLanes
from nsyswrap.render.perfetto.slices import Running, Slices
from nsyswrap.render.timeline.curves import curves

Steps = tuple[NDArray[Any], NDArray[Any]]


class Counter(NamedTuple):
    """A counter: its track, the times in ns at which it changes, ascending, and its value from each on."""

    track: int
    times_ns: NDArray[Any]
    values: NDArray[Any]


def with_running(slices: Slices, bars: GpuBars, tracks: CaptureLanes) -> Slices:
    """Return the GPU slices with the number of kernels that run, where kernels overlap.

    A kernel of no length does not count.
    """
    track = np.full(len(slices.lane), -1, np.int32)
    begin, end = np.zeros_like(track), np.zeros_like(track)
    parents = np.array([-1 if one.parent is None else one.parent for one in tracks.lanes.tracks])[slices.lane]
    rows = bars.lasting(KERNEL)
    gpu = _gpu_tracks(bars, rows, tracks)
    for parent in distinct(gpu)[0].tolist():
        mine = rows[gpu == parent]
        times, value = steps(bars.start_ns[mine], bars.end_ns[mine], np.ones(len(mine), np.int8))
        if value.max(initial=0) > 1:  # without overlap the streams already show it
            at = np.flatnonzero(parents == parent)
            track[at] = tracks.lanes.add_below(parent, "kernels running", "kernels")
            value = np.append(value, 0)  # before the first kernel
            for counted, of_slices in ((begin, slices.start_ns), (end, slices.end_ns)):
                counted[at] = value[np.searchsorted(times, of_slices[at], "right") - 1]
    return replace(slices, running=Running(track, begin, end)) if (track >= 0).any() else slices


def _gpu_tracks(bars: GpuBars, rows: NDArray[Any], tracks: CaptureLanes) -> NDArray[Any]:
    """Return the track of the GPU of these bars."""
    every = np.array([tracks.gpu(*stream.gpu) for stream in bars.streams])
    return every[bars.stream[rows]]  # type: ignore[no-any-return]


def curve_counters(capture: Capture, tracks: CaptureLanes) -> tuple[list[Counter], tuple[str, ...]]:
    """Return a counter for each curve of memory, clocks and metrics, and a note on values that are joined."""
    made, joined = [], {}
    for curve in curves(capture):
        track = tracks.lanes.add_below(tracks.group(curve.group), curve.title, curve.unit or "value")
        made.append(Counter(track, curve.times_ns, curve.values))
        if curve.joined:
            joined[curve.group] = f"{curve.group}: each value is the {curve.joined}"
    return made, tuple(joined.values())


def steps(start: NDArray[Any], end: NDArray[Any], value: NDArray[Any]) -> Steps:
    """Return the times at which the sum over the open events changes, ascending, and the sum from each on.

    The sum is exactly 0 when no event is open.
    """
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    times = times[order]
    last = np.flatnonzero(np.append(times[1:] != times[:-1], [True] * bool(len(times))))
    open_events = np.cumsum(np.repeat([1, -1], len(start))[order])[last]
    total = np.cumsum(np.concatenate((value, -value))[order])[last]
    return times[last], np.where(open_events == 0, 0, total)


def counter_notes(capture: Capture, bars: GpuBars) -> tuple[str, ...]:
    """Return the notes on the names of the counters."""
    return capture.notes_on_labels("copy_kind") if len(bars.lasting(MEMCPY)) else ()


def bandwidths(capture: Capture, bars: GpuBars, tracks: CaptureLanes) -> Iterator[Counter]:
    """Yield a counter for each GPU and direction of copies.

    A copy counts with its mean bandwidth from its start to its end. A copy of no length does not count.
    """
    rows = bars.lasting(MEMCPY)
    if not len(rows):
        return
    gpu = _gpu_tracks(bars, rows, tracks)
    columns = capture.whole.columns(MEMCPY, "bytes", "copy_kind", "start_ns", "end_ns")
    mine = {field: values[bars.row[rows]] for field, values in columns.items()}
    bytes_per_ns = mine["bytes"] / (mine["end_ns"] - mine["start_ns"])  # of the whole copy, clipped or not
    labels = capture.labels("copy_kind")
    codes, (number, kind) = group_keys(gpu, mine["copy_kind"])
    for code, (parent, direction) in enumerate(zip(number.tolist(), kind.tolist(), strict=True)):
        part = rows[codes == code]
        times, value = steps(bars.start_ns[part], bars.end_ns[part], bytes_per_ns[codes == code])
        name = labels.get(direction, f"kind {direction}")
        yield Counter(tracks.lanes.add_below(parent, name, "GB/s"), times, np.round(value, 6))
