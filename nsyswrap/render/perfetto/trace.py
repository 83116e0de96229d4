"""Compose a trace from the captures of one job: the slices of each lane, counters and arrows.

A trace lists the events of the captures that it leaves out.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import READS as JUDGED_READS
from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import counted
from nsyswrap.base.units import duration
from nsyswrap.base.version import version
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.render.perfetto.events import (
    CALLS,
    CPU_FAULT,
    DRAWN,
    NVTX,
    Counter,
    bandwidths,
    calls_of_kind,
    counter_notes,
    cpu_page_faults,
    curve_counters,
    gpu_bars,
    gpu_slices,
    lane_slices,
    nvtx_events,
    thread_slices,
    with_running,
)
from nsyswrap.render.perfetto.tracks import CaptureLanes, Lanes, Slices, SliceStyles
from nsyswrap.render.timeline.lanes import Lane, idle, steps
from nsyswrap.render.timeline.names import STEPS
from nsyswrap.reports.wording.notes import note_texts

ARROWS = "arrows from call to GPU work"

CURVES = "curves"
IDLE_TIMES = "idle intervals"

# Kinds that name others, and those of curves. They are not counted as left out.
_NAMING_KINDS = (
    *("gpu", "mpi_rank", "gpu_metric_name", "gpu_metric", "memory_use", "cuda_event"),
    *("plugin_sample", "plugin_value", "plugin_field"),
)
# Why some or all events of a kind are not drawn.
_REASONS = {
    "synchronization": "the waiting calls are drawn",
    "diagnostic": "nsyswrap report -r diagnostics shows them",
    "nvtx": "names of domains, threads and categories, and events without a time",
    "um_cpu_fault": "outside the selected time",
}
_IN_OPERATIONS = ("correlation_id", "global_pid", "device_id", "context_id", "stream_id")
_UNTIMED = "no start, no end, or an end before the start"


@dataclass
class Trace:
    """The content of a trace, with times in ns since the start of the capture, or of the first one.

    ``about`` says where it comes from. ``started_ns`` is time 0 since 1970 UTC, None if unknown. ``counts``
    are numbers of drawn events by title. ``left_out`` are texts on events that are not drawn, ``notes`` on
    how the others are drawn.
    """

    about: dict[str, str]
    started_ns: int | None
    lanes: Lanes = field(default_factory=Lanes)
    styles: SliceStyles = field(default_factory=SliceStyles)
    slices: list[Slices] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    counts: Counts[str] = field(default_factory=Counts)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    arrows: int = 0

    def leave_out_arrows(self) -> None:
        """Say that the arrows and counters are not written, as in JSON."""
        if arrows := self.counts.pop(ARROWS, 0):
            self.left_out.append(f"{counted(arrows, ARROWS)} (JSON has none)")
        if self.counters or any(part.running for part in self.slices):
            self.left_out.append("counters and details of slices (JSON has none)")

    def contents(self) -> list[str]:
        """Return the number and title of each kind of event in the trace."""
        return [counted(count, title) for title, count in self.counts.items() if count]

    @property
    def first_ns(self) -> int:
        """The time of the first event."""
        times = [part.start_ns.min() for part in self.slices] + [part.times_ns[0] for part in self.counters]
        return int(min(times))


def compose(*captures: Capture, labels: Sequence[str] = ("",)) -> Trace:
    """Return one trace of the selections of captures. Several need labels, and clocks that can be aligned.

    Raises NotInCapture if there is nothing to draw, or if a capture does not say when it started.
    """
    starts = [capture.started_ns for capture in captures]
    if len(captures) > 1 and None in starts:
        unknown = captures[starts.index(None)].source
        raise NotInCapture(
            "the start of the recording is missing, times of several captures cannot be aligned",
            "export each capture by itself",
            source=unknown,
        )
    known = [start for start in starts if start is not None]
    first = min(known, default=None)
    trace = Trace(_about(captures, starts.index(first) if first is not None else 0), first)
    spans: list[tuple[int, int, str]] = []
    for capture, start, label in zip(captures, starts, labels, strict=True):
        part = Trace({}, None, trace.lanes, trace.styles, arrows=trace.arrows)
        _draw(part, capture, label)
        prefix = f"{label}: " if label else ""
        offset = (start or 0) - (first or 0)
        trace.slices += [_moved(slices, offset) for slices in part.slices if len(slices.lane)]
        trace.counters += [count._replace(times_ns=count.times_ns + offset) for count in part.counters]
        trace.counts += part.counts
        trace.left_out += [prefix + text for text in part.left_out]
        trace.notes += [prefix + text for text in part.notes]
        trace.arrows = part.arrows
        drawn = [slices.start_ns for slices in part.slices if len(slices.lane)]
        if drawn:
            ends = min(int(times.min()) for times in drawn), max(int(times.max()) for times in drawn)
            spans.append((ends[0] + offset, ends[1] + offset, label))
        else:
            trace.notes.append(f"{prefix}no event of this capture can be drawn")
    if not trace.slices:
        _nothing_drawn(captures[0])
    trace.notes += _far_apart(spans)
    return trace


def _far_apart(spans: Sequence[tuple[int, int, str]]) -> list[str]:
    """Return a note if the captures, given by first and last event, leave most of the timeline empty."""
    ordered = sorted(spans)
    recorded_ns = sum(last - first for first, last, _ in ordered)
    notes = []
    _, end, before = ordered[0]
    for first, last, label in ordered[1:]:
        if first - end > recorded_ns:
            notes.append(
                f"{label} begins {_long(first - end)} after the end of {before}, so most of the timeline is "
                "empty: export captures that were not recorded together one by one"
            )
        end, before = max((end, before), (last, label))
    return notes


def _long(ns: int) -> str:
    days, hours = ns / 86_400e9, ns / 3_600e9
    return f"{days:.1f} days" if days >= 2 else f"{hours:.1f} hours" if hours >= 2 else duration(ns)  # noqa: PLR2004 - two units


def _moved(slices: Slices, offset_ns: int) -> Slices:
    if not offset_ns:
        return slices
    return replace(slices, start_ns=slices.start_ns + offset_ns, end_ns=slices.end_ns + offset_ns)


def _draw(trace: Trace, capture: Capture, label: str) -> None:
    tracks = CaptureLanes(trace.lanes, capture, label)
    drawn, added = Counts[str](), Counts[str]()
    own = Capture(capture.path, source=capture.source, view=capture.view)  # so that its columns are freed
    try:
        lanes = _idle_and_steps(own)
    except NotInCapture as error:  # too many processes and GPUs for these, not for the events
        lanes = []
        trace.left_out.append(f"steps and idle time ({error.message})")
    bars, notes = gpu_bars(own), note_texts(operation_notes(own))
    recorded = {kind: own.count(kind) for kind in DRAWN if own.has(kind)}
    del own
    gpu = []
    if len(bars.row):
        work, launched_by = gpu_slices(capture, bars, tracks, trace.styles)
        gpu = [(with_running(work, bars, tracks), launched_by)]
    for lane in lanes:
        trace.slices.append(lane_slices(lane, tracks.lane(lane), trace.styles))
        added[STEPS if lane.family == STEPS else IDLE_TIMES] += len(lane)
    trace.counters += bandwidths(capture, bars, tracks)
    over_time, joined = curve_counters(capture, tracks)
    trace.counters += over_time
    drawn.update(dict(zip(DRAWN, np.bincount(bars.kind, minlength=len(DRAWN)).tolist(), strict=True)))
    nvtx = nvtx_events(capture, trace.styles) if capture.has(NVTX) else None
    threads = [nvtx.push_pop] if nvtx else []
    for kind in filter(capture.has, CALLS):
        calls, recorded[kind] = calls_of_kind(capture, kind, trace.styles)
        drawn[kind] = len(calls.start_ns)
        threads.append(calls)
    on_host = [thread_slices(threads, tracks)] if threads else []
    threads.clear()
    if nvtx:
        drawn[NVTX] = sum(len(part.start_ns) for part in (nvtx.push_pop, nvtx.start_end, nvtx.marks))
        trace.slices.append(thread_slices([nvtx.start_end], tracks, "NVTX start/end ranges")[0])
        trace.slices.append(thread_slices([nvtx.marks], tracks, points=True)[0])
        trace.notes += nvtx.notes
    if capture.has(CPU_FAULT):
        trace.slices.append(cpu_page_faults(capture, tracks, trace.styles))
        drawn[CPU_FAULT] = len(trace.slices[-1].lane)
    _count(trace, capture, drawn, recorded)
    trace.counts += added
    trace.counts[CURVES] += len(over_time)
    arrows = _add_arrows(trace, gpu, on_host)
    if bars.launched > arrows:
        trace.left_out.append(f"{counted(bars.launched - arrows, ARROWS)} (launch call not recorded)")
    trace.notes += (*notes, *counter_notes(capture, bars), *joined)


def _idle_and_steps(capture: Capture) -> list[Lane]:
    """Return the lanes of idle time and of steps. Columns of kernels are freed as soon as they are used.

    Raises NotInCapture for too many processes and GPUs.
    """
    for kind in filter(capture.has, JUDGED_READS):
        capture.whole.columns(kind, *JUDGED_READS[kind])  # in one pass
    gpu_operations_of(capture)
    capture.release_columns({"kernel": _IN_OPERATIONS})
    launches_of(capture)
    capture.release_columns({"kernel": ("graph_node_id", "name")})
    made = [*steps(capture)]  # before the gaps, of which there are many
    return [*idle(capture), *made]


def _count(trace: Trace, capture: Capture, drawn: Counts[str], recorded: Mapping[str, int]) -> None:
    """Count the drawn events and those left out. ``recorded`` has numbers of events that are known."""
    for kind, events in schema.EVENTS.items():
        trace.counts[events.title] += drawn[kind]
        missing = (recorded[kind] if kind in recorded else capture.count(kind)) - drawn[kind]
        if missing and kind not in _NAMING_KINDS:
            trace.left_out.append(f"{counted(missing, events.title)} ({_REASONS.get(kind, _UNTIMED)})")


def _add_arrows(
    trace: Trace, gpu: list[tuple[Slices, NDArray[Any]]], on_host: list[tuple[Slices, NDArray[Any]]]
) -> int:
    """Add slices with an arrow for each operation whose call is drawn. Return the number of arrows.

    The arrows of one call have consecutive numbers.
    """
    if not gpu or not on_host:
        trace.slices[:0] = [slices for slices, _ in (*gpu, *on_host)]
        return 0
    [(work, launched_by)], [(calls, call)] = gpu, on_host
    drawn = np.full(max(call.max(initial=0), launched_by.max(initial=0)) + 2, -1)  # the last one is for -1
    drawn[call] = np.arange(len(call))
    drawn[-1] = -1
    caller = drawn[launched_by]
    paired = np.flatnonzero(caller >= 0)
    arrow = np.zeros(len(caller), np.int64)
    arrow[paired[np.argsort(caller[paired], kind="stable")]] = trace.arrows + 1 + np.arange(len(paired))
    begun = np.bincount(caller[paired], minlength=len(call))
    first = trace.arrows + 1 + np.cumsum(begun) - begun
    trace.slices[:0] = [
        replace(work, arrow=arrow, arrows=(caller >= 0).astype(np.int32)),
        replace(calls, arrow=first, arrows=begun.astype(np.int32)),
    ]
    trace.arrows += len(paired)
    trace.counts[ARROWS] += len(paired)
    return len(paired)


def _nothing_drawn(capture: Capture) -> None:
    selected = capture.selected
    raise NotInCapture(
        "no event of this capture can be drawn" + (f" ({selected})" if selected else ""),
        "select more of the capture" if selected else "record again: nsyswrap profile --trace cuda,nvtx,osrt",
        source=capture.source,
    )


def _about(captures: Sequence[Capture], first: int) -> dict[str, str]:
    """Return what recorded the captures, on which machine, and the time 0: the first one's start."""
    info = captures[first].info
    facts = {
        "tool": f"nsyswrap {version()}",
        "nsys": info.exporter_version,
        "capture": ", ".join(capture.source.name for capture in captures),
        "selection": captures[0].selected,
        "gpus": ", ".join(info.gpus),
        "driver": info.driver_version,
        "cuda": info.cuda_version,
        "time_zero_utc": f"{info.started_utc}Z" if info.started_utc else "",
    }
    return {key: text for key, text in facts.items() if text}
