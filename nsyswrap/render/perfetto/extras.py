"""Counters, CPU page faults and arrows of a trace.

The counters are the bandwidth of the copies in flight by direction, and the number of concurrent kernels. CPU
page faults of unified memory are instants of their process. An arrow leads from an API call to each GPU
operation that it launched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import EVENTS
from nsyswrap.render.perfetto.gpu import DRAWN
from nsyswrap.render.perfetto.rows import Section, Texts, Wide, encoded, lines, micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.gpu import GpuBars
    from nsyswrap.render.perfetto.lanes import Lanes
    from nsyswrap.render.perfetto.rows import Column

    Steps = tuple[NDArray[Any], NDArray[Any]]
    Ints = NDArray[Any]


KIND = "um_cpu_fault"

ARROWS = "arrows from call to GPU work"
_HEAD = '"id":%s,"name":"launch","cat":"launch",%s,"ts":%s.%03d'


def counters(capture: Capture, bars: GpuBars, gpu: NDArray[Any]) -> list[Section]:
    """Return a counter for each GPU and direction of copies, and one for each GPU whose kernels overlap.

    ``gpu`` is the number of each bar's GPU in the trace. A copy counts with its mean bandwidth from its start
    to its end. A copy of no length does not count.
    """
    return [*_bandwidths(capture, bars, gpu), *_kernels_running(bars, gpu)]


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
    return capture.notes_on_labels("copy_kind") if len(_timed_copies(bars)) else ()


def _timed_copies(bars: GpuBars) -> NDArray[Any]:
    return np.flatnonzero((bars.kind == DRAWN.index("memcpy")) & (bars.end_ns > bars.start_ns))


def _bandwidths(capture: Capture, bars: GpuBars, gpu: NDArray[Any]) -> Iterator[Section]:
    rows = _timed_copies(bars)
    if not len(rows):
        return
    columns = capture.whole.columns("memcpy", "bytes", "copy_kind", "start_ns", "end_ns")
    mine = {field: values[bars.row[rows]] for field, values in columns.items()}
    bytes_per_ns = mine["bytes"] / (mine["end_ns"] - mine["start_ns"])  # of the whole copy, clipped or not
    labels = capture.labels("copy_kind")
    codes, (number, kind) = group_keys(gpu[rows], mine["copy_kind"])
    for code, (process, direction) in enumerate(zip(number.tolist(), kind.tolist(), strict=True)):
        part = codes == code
        times, value = steps(bars.start_ns[rows][part], bars.end_ns[rows][part], bytes_per_ns[part])
        name = labels.get(direction, f"kind {direction}")
        yield _counter(process, name, "GB/s", times, np.round(value, 6))


def _kernels_running(bars: GpuBars, gpu: NDArray[Any]) -> Iterator[Section]:
    kernels = (bars.kind == DRAWN.index("kernel")) & (bars.end_ns > bars.start_ns)
    for process in np.unique(gpu[kernels]).tolist():
        mine = kernels & (gpu == process)
        times, value = steps(bars.start_ns[mine], bars.end_ns[mine], np.ones(int(mine.sum()), np.int64))
        if value.max() > 1:  # without overlap the streams already show it
            yield _counter(process, "kernels running", "kernels", times, value)


def _counter(process: int, name: str, unit: str, times: NDArray[Any], value: NDArray[Any]) -> Section:
    [text] = encoded([name])
    # The name becomes part of a template, so % has to be escaped.
    head = f'{{"ph":"C","pid":{process},"tid":{process},"name":{text},'.replace("%", "%%")
    template = f'{head}"ts":%s.%03d,"args":{{"{unit}":%s}}}}'
    return Section("counters", 1, lines(template, [*micros(times), value]))


def cpu_page_faults(capture: Capture, lanes: Lanes) -> Section:
    """Return the CPU page faults in the selected time, named after the faulting instruction."""
    columns_read = capture.columns(KIND, "start_ns", "global_pid", "address")
    start = columns_read["start_ns"]
    row = np.flatnonzero((start != MISSING) & capture.window.holding(columns_read, clip=True))
    codes, names = name_codes(capture, KIND)
    known, process = distinct(columns_read["global_pid"][row])
    heads = [f'"pid":{number},"tid":{number}' for number in map(lanes.process, known.tolist())]
    template = f'{{"ph":"i","s":"p","cat":"{KIND}","name":%s,%s,"ts":%s.%03d,"args":{{"address":%s}}}}'
    address = Wide(columns_read["address"][row], "0x%x")
    columns: list[Column] = [
        Texts(codes[row], encoded(names)),
        Texts(process, heads),
        *micros(start[row]),
        address,
    ]
    return Section(EVENTS[KIND].title, len(row), lines(template, columns), KIND)


def flows(work: tuple[GpuBars, Ints], calls: tuple[Ints, Ints, Ints], lanes: Lanes) -> Section:
    """Return an arrow for each operation whose API call is drawn, from start of call to start of operation.

    ``work`` are operations and their lanes. ``calls`` are positions of calls in the whole capture, their
    starts in ns and their lanes. A viewer binds both ends to the innermost bar at that time. Operations do
    not overlap in their lane, and a runtime call starts before the driver call inside it.
    """
    (operations, lane), (row, start, call_lane) = work, calls
    last = max(row.max(initial=-1), operations.call.max(initial=-1))
    drawn = np.full(last + 2, -1)  # one more, at the end: call -1 finds it
    drawn[row] = np.arange(len(row))
    call = drawn[operations.call]
    paired = np.flatnonzero(call >= 0)
    number, call = np.arange(1, len(paired) + 1), call[paired]
    columns: list[Column] = [
        *(number, Texts(call_lane[call], lanes.heads), *micros(start[call])),
        *(number, Texts(lane[paired], lanes.heads), *micros(operations.start_ns[paired])),
    ]
    template = f'{{"ph":"s",{_HEAD}}},\n{{"ph":"f","bp":"e",{_HEAD}}}'
    return Section(ARROWS, len(paired), lines(template, columns))
