"""The events of a trace as slices of its tracks, and its counters: bandwidth, concurrent kernels, curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMCPY, gpu_operations_of
from nsyswrap.analysis.nvtx_ranges import STYLES, counted_ranges, own_texts
from nsyswrap.analysis.range_tree.tree import call_paths, marks_of_modules
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_MARK, SPANS
from nsyswrap.render.perfetto.tracks import (
    Argument,
    CaptureLanes,
    RunningKernels,
    Slices,
    SliceStyles,
    style_fields,
)
from nsyswrap.render.timeline.lanes import (
    OTHER_CALLS,
    Lane,
    curves,
    disjoint,
    drawing_order,
    nested,
    rows_by_lane,
    sublanes,
)
from nsyswrap.render.timeline.names import (
    FAULT,
    IN_STREAM,
    Stream,
    name_of,
    place_of,
    stream_names,
    streams_of,
    sublane_suffix,
)

CPU_FAULT = "um_cpu_fault"
_IN_CUDA = ("osrt", "overhead", "cuda_overhead")  # calls that CUDA's make
# Of two calls that start together, the one whose kind is first here is outside.
CALLS = (*(kind for kind in OTHER_CALLS if kind not in _IN_CUDA), "api", *_IN_CUDA)
GPU_FAULT = "um_gpu_fault"
DRAWN = (*KINDS, GPU_FAULT)
NVTX = "nvtx"


class ThreadEvents(NamedTuple):
    """Events on the host: times in ns, global thread ids, styles, and positions among all API calls or -1."""

    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    thread: NDArray[Any]
    style: NDArray[Any]
    call: NDArray[Any]


def calls_of_kind(capture: Capture, kind: str, styles: SliceStyles) -> tuple[ThreadEvents, int]:
    """Return the calls of one kind that have a start and an end, and the number of all."""
    own = Capture(capture.path, source=capture.source, view=capture.view)  # so that its columns are freed
    places = (*SPANS, "global_tid")
    own.columns(kind, *places, *style_fields(kind))  # in one pass
    columns = own.columns(kind, *places)
    row = timed(columns["start_ns"], columns["end_ns"])
    call = own.columns(kind, "row")["row"][row] - 1 if kind == "api" else np.full(len(row), -1)
    style = styles.of_events(own, kind, row)
    start, end, thread = (values[row] for values in columns.values())
    return ThreadEvents(start, end, thread, style, call.astype(np.int32)), own.count(kind)


def timed(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of events that have a start and do not end before it."""
    return np.flatnonzero((start != MISSING) & (end != MISSING) & (end >= start))


def thread_slices(
    parts: Sequence[ThreadEvents], tracks: CaptureLanes, name: str = "", *, points: bool = False
) -> tuple[Slices, NDArray[Any]]:
    """Return the slices of all parts in the lanes of their threads, and the call of each.

    Of events that start together, the one of the earlier part is outside. ``name`` is that of a lane below
    the thread.
    """
    rank = np.repeat(np.arange(len(parts), dtype=np.int8), [len(part.start_ns) for part in parts])
    start, end, thread, style, call = (
        np.concatenate([getattr(part, field) for part in parts]) for field in ThreadEvents._fields
    )
    threads, code = distinct(thread)
    order = drawing_order(code, len(threads), rank, start, end)
    rows_of = rows_by_lane(code, len(threads), order)
    packed = (lambda start, _: np.zeros(len(start), np.int8)) if points else nested
    lanes = [
        (tracks.thread_lane(int(threads[of]), name, sublane), rows)
        for of, sublane, rows in sublanes(rows_of, start, end, packed)
    ]
    slices, rows = Slices.of(lanes, (start, end, style), calling=True, points=points)
    return slices, call[rows]


def cpu_page_faults(capture: Capture, tracks: CaptureLanes, styles: SliceStyles) -> Slices:
    """Return the CPU page faults in the selected time, named after the faulting instruction."""
    columns = capture.columns(CPU_FAULT, "start_ns", "global_pid")
    start = columns["start_ns"]
    row = np.flatnonzero((start != MISSING) & capture.window.holding(columns, clip=True))
    style = styles.of_events(capture, CPU_FAULT, row)
    times, owner = start[row], columns["global_pid"][row]
    known, process = distinct(owner)
    order = np.lexsort((times, process))
    rows_of = zip(known.tolist(), rows_by_lane(process, len(known), order), strict=True)
    lanes = [(tracks.process(global_pid), rows) for global_pid, rows in rows_of]
    return Slices.of(lanes, (times, times, style), points=True)[0]


def lane_slices(lane: Lane, track: int, styles: SliceStyles) -> Slices:
    """Return a lane of steps or of idle time, which all timelines have, as slices of a track."""
    used, code = distinct(lane.name)
    names = [lane.names[name] for name in used.tolist()]
    group = np.zeros(len(used), np.int64)
    group[code] = lane.series
    style = styles.plain(lane.family, code, names, group, [name_of(kind) for kind in lane.kinds])
    return Slices.of([(track, np.arange(len(lane)))], (lane.start_ns, lane.end_ns, style))[0]


class GpuBars(NamedTuple):
    """The GPU operations and page faults of a selection, by start; times in ns.

    ``kind`` is a number in DRAWN, ``row`` the position among the whole capture's events of that kind,
    ``call`` that of the API call that launched the bar, or -1. ``stream`` is a number in ``streams``.
    """

    kind: NDArray[Any]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    call: NDArray[Any]
    stream: NDArray[Any]
    streams: list[Stream]

    def rows_with_length(self, kind: str) -> NDArray[Any]:
        """Return the positions of the bars of one kind that have a length."""
        return np.flatnonzero((self.kind == DRAWN.index(kind)) & (self.end_ns > self.start_ns))

    @property
    def launched(self) -> int:
        """The number of bars that an API call launched: all but migrations and page faults."""
        in_stream = np.array([stream.where == IN_STREAM for stream in self.streams], bool)
        return int(in_stream[self.stream].sum())


def gpu_bars(capture: Capture) -> GpuBars:
    """Return the bars of the selection: events with a start that do not end before it."""
    operations = gpu_operations_of(capture)
    operations = operations.of(timed(operations.start_ns, operations.end_ns))
    code, streams = streams_of(operations) if len(operations) else (operations.call, [])
    names = ("kind", "row", "start_ns", "end_ns", "call")
    columns = [*(getattr(operations, name) for name in names), code]
    if capture.has(GPU_FAULT):
        *faults, places = _faults(capture)
        columns = [np.concatenate(both) for both in zip(columns, faults, strict=True)]
        columns[-1][len(operations) :] += len(streams)
        streams = [*streams, *places]
    kind, row, start, end, call, code = columns
    every = sorted(streams)
    code = np.array([every.index(stream) for stream in streams], np.int32)[code]
    order = drawing_order(code, len(every), np.zeros(len(code), np.int8), start, end)
    return GpuBars(kind[order], row[order], start[order], end[order], call[order], code[order], every)


def _faults(capture: Capture) -> tuple[Any, ...]:
    """Return the columns of the page faults, and the places that the last one numbers."""
    columns = capture.columns(GPU_FAULT, "row", "start_ns", "end_ns", "global_pid", "device_id")
    kept = timed(columns["start_ns"], columns["end_ns"])
    row, start, end, pid, device = (values[kept] for values in columns.values())
    codes, keys = group_keys(pid, device)
    owners = zip(*(part.tolist() for part in keys), strict=True)
    places = [place_of(process, gpu, FAULT) for process, gpu in owners]
    kind, none = np.full(len(row), DRAWN.index(GPU_FAULT)), np.full(len(row), -1)
    return kind, row - 1, start, end, none, codes, places


def gpu_slices(
    capture: Capture, bars: GpuBars, tracks: CaptureLanes, styles: SliceStyles
) -> tuple[Slices, NDArray[Any]]:
    """Return the slices of all bars, and the call of each."""
    style = np.empty(len(bars.row), np.int32)
    for number in np.flatnonzero(np.bincount(bars.kind)).tolist():
        mine = np.flatnonzero(bars.kind == number)
        style[mine] = _gpu_styles(capture, DRAWN[number], bars.row[mine], bars.call[mine], styles)
    gpu = {stream.gpu: tracks.gpu(*stream.gpu) for stream in bars.streams}
    names, rows_of = stream_names(bars.streams), rows_by_lane(bars.stream, len(bars.streams))
    lanes = [
        (tracks.lanes.add_below(gpu[bars.streams[of].gpu], names[of] + sublane_suffix(beside)), rows)
        for of, beside, rows in sublanes(rows_of, bars.start_ns, bars.end_ns, disjoint)
    ]
    slices, rows = Slices.of(lanes, (bars.start_ns, bars.end_ns, style))
    return slices, bars.call[rows]


def _gpu_styles(
    capture: Capture, kind: str, row: NDArray[Any], call: NDArray[Any], styles: SliceStyles
) -> NDArray[Any]:
    own = Capture(capture.path, source=capture.source, view=capture.view).whole
    paths = Argument(*call_paths(own, call)) if own.has("nvtx") and own.has("api") else None
    return styles.of_events(own, kind, row, paths)


class NvtxEvents(NamedTuple):
    """The NVTX events of a selection, and a note on its ranges that never ended."""

    push_pop: ThreadEvents
    start_end: ThreadEvents
    marks: ThreadEvents
    notes: tuple[str, ...]


def nvtx_events(capture: Capture, styles: SliceStyles) -> NvtxEvents:
    """Return the NVTX events of the selection. A range in a domain is named ``domain:name``.

    A range that never ended lasts to the last event of NVTX.
    """
    own = Capture(capture.path, source=capture.source, view=capture.view)  # so that its columns are freed
    whole = own.whole
    # Names come from domains, and the ends of what never ended from other events: selected or not.
    ranges = counted_ranges(whole.viewed(rounding="2025"))
    row, once = np.unique(ranges.row - 1, return_index=True)  # several threads may have created their domain
    thread, start, end = (part[once] for part in ranges.spans)
    end = np.where(end == MISSING, start.max(initial=0), end)  # no range has an end
    names = [*(name.removeprefix(":") for name in ranges.names), None]
    code = np.where(ranges.code[once] < 0, len(names) - 1, ranges.code[once])
    events = ThreadEvents(
        start, end, thread, styles.plain(NVTX, code, names), np.full(len(row), -1, np.int32)
    )
    kept, drawn = _selected(own, row, events)
    opened = int((whole.columns(NVTX, "end_ns")["end_ns"][row[kept]] == MISSING).sum())
    free = ranges.style[once][kept] == STYLES.index("StartEnd")
    push_pop, start_end = (ThreadEvents(*(column[rows] for column in drawn)) for rows in (~free, free))
    note = f"NVTX ranges that never ended: {opened}; drawn to the last NVTX event"
    return NvtxEvents(push_pop, start_end, _marks(own, styles), (note,) if opened else ())


def _marks(capture: Capture, styles: SliceStyles) -> ThreadEvents:
    events = capture.whole.columns(NVTX, "event_type", "start_ns", "global_tid")
    row = np.flatnonzero(events["event_type"] == NVTX_MARK)
    row = row[~marks_of_modules(capture.whole, row)]
    style = styles.plain(NVTX, *own_texts(capture.whole, row))
    start, thread = events["start_ns"][row], events["global_tid"][row]
    marks = ThreadEvents(start, start, thread, style, np.full(len(row), -1, np.int32))
    return _selected(capture, row, marks)[1]


def _selected(capture: Capture, row: NDArray[Any], every: ThreadEvents) -> tuple[NDArray[Any], ThreadEvents]:
    """Return the positions of the selected events, and these. Times are clipped if the selection clips."""
    kept = np.flatnonzero(np.isin(row, capture.columns(NVTX, "row")["row"] - 1))
    start, end = every.start_ns, every.end_ns
    if capture.view.selection.clip and capture.view.selection.windowed:
        spans = {**dict(zip(SPANS, (start, end), strict=True)), "global_tid": every.thread}
        start, end = capture.window.clip(spans).values()
    kept = kept[timed(start[kept], end[kept])]
    events = every._replace(start_ns=start, end_ns=end)
    return kept, ThreadEvents(*(column[kept] for column in events))


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
    rows = bars.rows_with_length(KERNEL)
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
    return replace(slices, running=RunningKernels(track, begin, end)) if (track >= 0).any() else slices


def _gpu_tracks(bars: GpuBars, rows: NDArray[Any], tracks: CaptureLanes) -> NDArray[Any]:
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


def steps(start: NDArray[Any], end: NDArray[Any], value: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
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
    return capture.notes_on_labels("copy_kind") if len(bars.rows_with_length(MEMCPY)) else ()


def bandwidths(capture: Capture, bars: GpuBars, tracks: CaptureLanes) -> Iterator[Counter]:
    """Yield a counter for each GPU and direction of copies.

    A copy counts with its mean bandwidth from its start to its end. A copy of no length does not count.
    """
    rows = bars.rows_with_length(MEMCPY)
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
