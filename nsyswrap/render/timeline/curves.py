"""Curves below the lanes (memory, samples, GPU metrics), and lanes of steps and of causes of idle time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import clipped, gpu_operations_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.analysis.usage import PINNED_MEMORY, gpu_metrics_of, memory_use_of, nvml_curves_of
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import IDLE, STEPS, gpu_name, process_text
from nsyswrap.reports.wording.states import CAUSE_NAMES

_MOST = 8192  # values of a curve; more are joined
_NS_PER_S = 1_000_000_000
BYTES = "bytes"
# Column of the samples: title, unit, and units of the column in it.
_SAMPLED = {
    "sm_mhz": ("SM clock", "MHz", 1),
    "memory_mhz": ("memory clock", "MHz", 1),
    "power_mw": ("power", "W", 1000),
    "temperature_c": ("temperature", "\N{DEGREE SIGN}C", 1),
}
WARM_UP, STEADY, OUTLIER, LEFT_OUT = range(4)
_STEP_KINDS = ("warm-up", "steady step", "outlier step", "other step")


class Curve(NamedTuple):
    """A curve: values in order of time, each from its time on, in ns on the clock of the capture.

    ``joined`` says what a value is of several that it can stand for; empty if each stands for itself.
    """

    group: str
    title: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[Any]
    joined: str = ""


def curves(capture: Capture) -> Iterator[Curve]:
    """Yield the curves of the selected time; none that were not recorded, or that do not change in it."""
    for curve, join in (*_memory(capture), *_samples(capture), *_plugin(capture), *_metrics(capture)):
        part = _selected(capture, curve)
        if len(part.values) and part.values.min() < part.values.max():
            yield _joined(part, *join)


_Join = tuple["Callable[..., NDArray[Any]]", str]
_HIGHEST: _Join = (lambda values, first, _: np.maximum.reduceat(values, first), "highest")
_MEAN: _Join = (lambda values, first, count: np.add.reduceat(values, first) / count, "mean")


def _memory(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    every = memory_use_of(capture)
    several = len({use.global_pid for use in every}) > 1
    for use in every:
        on_host = use.memory_kind == PINNED_MEMORY
        title = use.memory_kind if on_host else f"GPU {use.device} {use.memory_kind.removeprefix('GPU ')}"
        title += f", process {process_text(use.global_pid)}" if several else ""
        last = max(_last_ns(capture.whole), int(use.times_ns[-1]) + 1)  # what is not freed stays allocated
        times, values = np.append(use.times_ns, last), np.append(use.bytes, use.bytes[-1])
        yield Curve("allocated memory", title, BYTES, times, values), _HIGHEST


def _last_ns(capture: Capture) -> int:
    """Return the end of the recording, or of the last GPU operation if the export does not have it."""
    return max(capture.info.duration_ns or 0, int(gpu_operations_of(capture).end_ns.max(initial=0)))


def _samples(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    run = run_conditions_of(capture)
    for gpu in run.gpus if run else ():
        times_ns = np.round(gpu.seconds * _NS_PER_S).astype(np.int64)
        for column, (name, unit, factor) in _SAMPLED.items():
            values = gpu.samples[column]
            known = np.flatnonzero(~np.isnan(values))
            whole = np.round(values[known] / factor).astype(np.int64)
            title = f"GPU {gpu.gpu.index} {name}"
            yield Curve("clocks and power", title, unit, times_ns[known], whole), _MEAN


def _plugin(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    every = nvml_curves_of(capture.whole)
    several = len({curve.source for curve in every}) > 1
    for curve in every:
        title = f"{curve.name}, source {curve.source}" if several else curve.name
        yield Curve("nsys' NVML plugin", title, curve.unit, curve.times_ns, curve.values), _MEAN


def _metrics(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    for metric in gpu_metrics_of(capture.whole):
        group = f"GPU {metric.gpu} metrics"
        yield Curve(group, metric.name, metric.unit, metric.times_ns, metric.values), _MEAN


def _selected(capture: Capture, curve: Curve) -> Curve:
    """Return the part of a curve in the selected time, with the values that hold when it begins and ends."""
    if not capture.view.selection.windowed:
        return curve
    start, end = capture.window.start_ns, capture.window.end_ns
    first = max(int(np.searchsorted(curve.times_ns, start, "right")) - 1, 0)
    last = int(np.searchsorted(curve.times_ns, end, "right"))
    times, values = np.maximum(curve.times_ns[first:last], start), curve.values[first:last]
    if 0 < last < len(curve.times_ns) and times[-1] < end:
        times, values = np.append(times, end), np.append(values, values[-1])
    return curve._replace(times_ns=times, values=values)


def _joined(curve: Curve, join: Callable[..., NDArray[Any]], statistic: str) -> Curve:
    """Return a curve with a value for each of _MOST equal parts of the time, if it has more than that.

    Through the parts after it that have no value, the last value of a part holds.
    """
    times = curve.times_ns
    if len(times) <= _MOST:
        return curve
    width = -(-int(times[-1] - times[0] + 1) // _MOST)
    part = (times - times[0]) // width
    first = np.flatnonzero(np.diff(part, prepend=-1))
    count = np.diff(np.append(first, len(part)))
    before = np.flatnonzero(np.diff(part[first]) > 1)  # parts without a value follow
    quiet_ns = times[0] + (part[first[before]] + 1) * width
    held = curve.values[first[before + 1] - 1]
    return curve._replace(
        times_ns=np.insert(times[first], before + 1, quiet_ns),
        values=np.insert(join(curve.values, first, count), before + 1, held),
        joined=f"{statistic} of {duration(width)}",
    )


def steps(capture: Capture) -> Iterator[Lane]:
    """Yield the steps of each process with GPU work, and those of its other loops; none without any."""
    if not len(gpu_operations_of(capture)):
        return
    found = [one for judged in steps_of(capture) for one in (judged, *judged.others) if len(one)]
    several = len({one.global_pid for one in found}) > 1
    selection = capture.view.selection
    for one in found:
        kind = np.full(len(one), LEFT_OUT, np.int32)
        kind[one.steady] = STEADY
        kind[one.outlier] = OUTLIER
        kind[: one.warm_up] = WARM_UP
        number = np.arange(len(one), dtype=np.int32)
        if selection.windowed:
            first, last = capture.window.start_ns, capture.window.end_ns
            number = number[(one.end_ns > first) & (one.start_ns < last)]
        if len(number):
            title = one.label.short or "steps"
            if several:
                title = f"process {process_text(one.global_pid)}: {title}"
            place = (STEPS, one.global_pid, "steps", title)
            kinds = [(STEPS, text) for text in _STEP_KINDS]
            names = [f"step {one.first + i}" for i in range(len(one))]
            start, end = one.start_ns[number], one.end_ns[number]
            if clipped(capture):
                first, last = capture.window.start_ns, capture.window.end_ns
                start, end = np.clip(start, first, last), np.clip(end, first, last)
            yield Lane(*place, start, end, kinds, number, names, kind[number])


def idle(capture: Capture) -> Iterator[Lane]:
    """Yield the idle time of each process on each GPU, a part for each cause."""
    if not len(gpu_operations_of(capture)):
        return
    gaps = gaps_of(capture)
    gap = gaps.segments.gap
    several = len({process for process, *_ in gaps.owners}) > 1
    first = 0
    for process, device, last in gaps.owners:
        rows = slice(*np.searchsorted(gap, (first, last)))
        first = last
        start, end, cause = (part[rows] for part in gaps.segments[1:])
        if not (end > start).all():
            start, end, cause = (part[end > start] for part in (start, end, cause))
        if not len(start):
            continue
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end, cause = start[order], end[order], cause[order]
        title = f"idle, process {process_text(process)}" if several else "idle, by cause"
        causes = cause.astype(np.int32)
        kinds, names = [(IDLE, name) for name in CAUSES], [CAUSE_NAMES[name] for name in CAUSES]
        place = (IDLE, process, gpu_name(capture, device), title)
        yield Lane(*place, start, end, kinds, causes, names, causes, device=device)
