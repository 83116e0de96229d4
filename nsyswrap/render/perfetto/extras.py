"""Counters of a trace: bandwidth of the copies in flight by direction, and kernels that run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.render.perfetto.gpu import DRAWN
from nsyswrap.render.perfetto.rows import Section, encoded, lines, micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.gpu import OnGpu

    Steps = tuple[NDArray[Any], NDArray[Any]]


def counters(capture: Capture, bars: OnGpu, gpu: NDArray[Any]) -> list[Section]:
    """Return a counter per GPU and direction of copies, and one per GPU where kernels overlap.

    ``gpu`` is the number of each bar's GPU in the trace. A copy counts with its mean bandwidth from its start
    to its end; one without a length has none.
    """
    return [*_bandwidths(capture, bars, gpu), *_running(bars, gpu)]


def steps(start: NDArray[Any], end: NDArray[Any], value: NDArray[Any]) -> Steps:
    """Return the times at which a sum over what is going on changes, ascending, and the sum from each on.

    Where nothing is going on it is 0.
    """
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    times = times[order]
    last = np.flatnonzero(np.append(times[1:] != times[:-1], [True] * bool(len(times))))
    going = np.cumsum(np.repeat([1, -1], len(start))[order])[last]
    total = np.cumsum(np.concatenate((value, -value))[order])[last]
    return times[last], np.where(going == 0, 0, total)


def _bandwidths(capture: Capture, bars: OnGpu, gpu: NDArray[Any]) -> Iterator[Section]:
    rows = np.flatnonzero((bars.kind == DRAWN.index("memcpy")) & (bars.end_ns > bars.start_ns))
    if not len(rows):
        return
    found = capture.whole.columns("memcpy", "bytes", "copy_kind", "start_ns", "end_ns")
    mine = {field: values[bars.row[rows]] for field, values in found.items()}
    bytes_per_ns = mine["bytes"] / (mine["end_ns"] - mine["start_ns"])  # of all of it, be it cut off or not
    labels = capture.labels("copy_kind")
    codes, (number, kind) = group_keys(gpu[rows], mine["copy_kind"])
    for code, (process, direction) in enumerate(zip(number.tolist(), kind.tolist(), strict=True)):
        part = codes == code
        times, value = steps(bars.start_ns[rows][part], bars.end_ns[rows][part], bytes_per_ns[part])
        name = labels.get(direction, f"kind {direction}")
        yield _counter(process, name, "GB/s", times, np.round(value, 6))


def _running(bars: OnGpu, gpu: NDArray[Any]) -> Iterator[Section]:
    kernels = (bars.kind == DRAWN.index("kernel")) & (bars.end_ns > bars.start_ns)
    for process in np.unique(gpu[kernels]).tolist():
        mine = kernels & (gpu == process)
        times, value = steps(bars.start_ns[mine], bars.end_ns[mine], np.ones(int(mine.sum()), np.int64))
        if value.max() > 1:  # else the streams say the same
            yield _counter(process, "kernels running", "kernels", times, value)


def _counter(process: int, name: str, unit: str, times: NDArray[Any], value: NDArray[Any]) -> Section:
    [text] = encoded([name])
    # A name stands in a template, in which % has a meaning.
    head = f'{{"ph":"C","pid":{process},"tid":{process},"name":{text},'.replace("%", "%%")
    template = f'{head}"ts":%s.%03d,"args":{{"{unit}":%s}}}}'
    return Section("counters", 1, lines(template, [*micros(times), value]))
