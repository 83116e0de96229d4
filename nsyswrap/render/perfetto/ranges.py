"""The NVTX events of a trace: push/pop ranges, start/end ranges, which may cross, and marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.nvtx_ranges import STYLES, counted_ranges, own_texts
from nsyswrap.analysis.range_tree.module_numbers import marks_of_modules
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_MARK, SPANS
from nsyswrap.render.perfetto.host import ThreadEvents, timed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.slices import Looks

KIND = "nvtx"


@dataclass(frozen=True)
class Nvtx:
    """The NVTX events of a selection, and how many of its ranges never ended."""

    push_pop: ThreadEvents
    start_end: ThreadEvents
    marks: ThreadEvents
    never_ended: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note on the ranges that never ended."""
        text = f"NVTX ranges that never ended: {self.never_ended}; drawn to the last NVTX event"
        return (text,) if self.never_ended else ()


def nvtx_events(capture: Capture, looks: Looks) -> Nvtx:
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
    events = ThreadEvents(start, end, thread, looks.plain(KIND, code, names), np.full(len(row), -1, np.int32))
    kept, drawn = _selected(own, row, events)
    opened = int((whole.columns(KIND, "end_ns")["end_ns"][row[kept]] == MISSING).sum())
    free = ranges.style[once][kept] == STYLES.index("StartEnd")
    push_pop, start_end = (ThreadEvents(*(column[rows] for column in drawn)) for rows in (~free, free))
    return Nvtx(push_pop, start_end, _marks(own, looks), opened)


def _marks(capture: Capture, looks: Looks) -> ThreadEvents:
    events = capture.whole.columns(KIND, "event_type", "start_ns", "global_tid")
    row = np.flatnonzero(events["event_type"] == NVTX_MARK)
    row = row[~marks_of_modules(capture.whole, row)]
    look = looks.plain(KIND, *own_texts(capture.whole, row))
    start, thread = events["start_ns"][row], events["global_tid"][row]
    marks = ThreadEvents(start, start, thread, look, np.full(len(row), -1, np.int32))
    return _selected(capture, row, marks)[1]


def _selected(capture: Capture, row: NDArray[Any], every: ThreadEvents) -> tuple[NDArray[Any], ThreadEvents]:
    """Return the positions of the selected events, and these. Times are clipped if the selection clips."""
    kept = np.flatnonzero(np.isin(row, capture.columns(KIND, "row")["row"] - 1))
    start, end = every.start_ns, every.end_ns
    if capture.view.selection.clip and capture.view.selection.windowed:
        spans = {**dict(zip(SPANS, (start, end), strict=True)), "global_tid": every.thread}
        start, end = capture.window.clip(spans).values()
    kept = kept[timed(start[kept], end[kept])]
    events = every._replace(start_ns=start, end_ns=end)
    return kept, ThreadEvents(*(column[kept] for column in events))
