"""NVTX events of a trace: push/pop ranges as bars, start/end ranges as async spans, marks as instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.nvtx_ranges import STYLES, counted_ranges, own_texts
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.perfetto.host import ThreadEvents, timed
from nsyswrap.render.perfetto.rows import Section, Texts, encoded, lines, micros
from nsyswrap.render.perfetto.slices import Bars, complete, outer_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.lanes import Lanes
    from nsyswrap.render.perfetto.rows import Column

KIND = "nvtx"
_MARK = 34  # NVTX_EVENTS.eventType of a mark


@dataclass(frozen=True)
class NamedEvents:
    """Events on host threads, with a code per event and the name of each code."""

    events: ThreadEvents
    codes: NDArray[Any]
    names: Sequence[str | None]

    def of(self, rows: NDArray[Any]) -> NamedEvents:
        """Return the events at these positions or of this mask."""
        return NamedEvents(ThreadEvents(*(part[rows] for part in self.events)), self.codes[rows], self.names)


@dataclass(frozen=True)
class Nvtx:
    """The NVTX events of a selection, and how many of its ranges never ended."""

    push_pop: NamedEvents
    start_end: NamedEvents
    marks: NamedEvents
    never_ended: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note on the ranges that never ended."""
        text = f"NVTX ranges that never ended: {self.never_ended}; drawn to the last NVTX event"
        return (text,) if self.never_ended else ()

    def parts(self) -> dict[str, ThreadEvents]:
        """Return the events that lanes are assigned to, by name. Events that are not bars get no length."""
        points = {"start_end": self.start_end.events, "marks": self.marks.events}
        points = {name: events._replace(end_ns=events.start_ns) for name, events in points.items()}
        return {"push_pop": self.push_pop.events, **points}


def nvtx_events(capture: Capture) -> Nvtx:
    """Return the NVTX events of the selection. A range in a domain is named ``domain:name``.

    A range that never ended lasts to the last event of NVTX.
    """
    whole = capture.whole
    # Names come from domains, and the ends of what never ended from other events: selected or not.
    ranges = counted_ranges(whole.viewed(rounding="2025"))
    row, once = np.unique(ranges.row, return_index=True)  # several threads may have created their domain
    thread, start, end = (part[once] for part in ranges.spans)
    end = np.where(end == MISSING, start.max(initial=0), end)  # no range has an end
    names = [name.removeprefix(":") or None for name in ranges.names]
    drawn = _selected(
        capture, NamedEvents(ThreadEvents(row - 1, start, end, thread), ranges.code[once], names)
    )
    opened = int((whole.columns(KIND, "end_ns")["end_ns"][drawn.events.row] == MISSING).sum())
    free = ranges.style[once][np.searchsorted(row - 1, drawn.events.row)] == STYLES.index("StartEnd")
    return Nvtx(drawn.of(~free), drawn.of(free), _selected(capture, _marks(whole)), opened)


def _marks(whole: Capture) -> NamedEvents:
    events = whole.columns(KIND, "event_type", "start_ns", "global_tid")
    row = np.flatnonzero(events["event_type"] == _MARK)
    codes, texts = own_texts(whole, row)
    start = events["start_ns"][row]
    return NamedEvents(ThreadEvents(row, start, start, events["global_tid"][row]), codes, texts)


def _selected(capture: Capture, every: NamedEvents) -> NamedEvents:
    """Return the selected events. Their times are clipped if the selection clips."""
    events = every.events
    kept = np.isin(events.row, capture.columns(KIND, "row")["row"] - 1)
    times = [events.start_ns, events.end_ns]
    if capture.view.selection.clip and capture.view.selection.windowed:
        spans = {**dict(zip(SPANS, times, strict=True)), "global_tid": events.thread}
        times = list(capture.window.clip(spans).values())
    events = events._replace(start_ns=times[0], end_ns=times[1])
    selected = NamedEvents(events, every.codes, every.names).of(kept)
    return selected.of(timed(selected.events.start_ns, selected.events.end_ns))


def sections(nvtx: Nvtx, lane: Mapping[str, NDArray[Any]], lanes: Lanes) -> list[Section]:
    """Return the sections of the events. ``lane`` has the lanes of ``parts``."""
    return [
        _bars(nvtx.push_pop, lane["push_pop"], lanes),
        _spans(nvtx.start_end, lane["start_end"], lanes),
        _instants(nvtx.marks, lane["marks"], lanes),
    ]


def _bars(ranges: NamedEvents, lane: NDArray[Any], lanes: Lanes) -> Section:
    events = ranges.events
    order = outer_first(events.start_ns, events.end_ns)
    bars = Bars(KIND, *(part[order] for part in (*events[:3], lane)))
    blocks = complete(bars, (ranges.codes[order], ranges.names), lanes, {})
    return Section("NVTX push/pop ranges", len(lane), blocks, KIND)


def _spans(ranges: NamedEvents, lane: NDArray[Any], lanes: Lanes) -> Section:
    """Draw ranges that may cross as asynchronous events (``b``, ``e``), each with its own id."""
    head = '"cat":"nvtx","id":"%s","name":%s,%s,"ts":%s.%03d}'
    common: list[Column] = [
        np.arange(1, len(lane) + 1),
        Texts(ranges.codes, encoded(ranges.names)),
        Texts(lane, lanes.heads),
    ]
    columns: list[Column] = [*common, *micros(ranges.events.start_ns), *common, *micros(ranges.events.end_ns)]
    template = f'{{"ph":"b",{head},\n{{"ph":"e",{head}'
    return Section("NVTX start/end ranges", len(lane), lines(template, columns), KIND)


def _instants(marks: NamedEvents, lane: NDArray[Any], lanes: Lanes) -> Section:
    template = '{"ph":"i","s":"t","cat":"nvtx","name":%s,%s,"ts":%s.%03d}'
    columns: list[Column] = [
        Texts(marks.codes, encoded(marks.names)),
        Texts(lane, lanes.heads),
        *micros(marks.events.start_ns),
    ]
    return Section("NVTX marks", len(lane), lines(template, columns), KIND)
