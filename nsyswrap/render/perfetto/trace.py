"""Compose a trace from a capture, and write it to a stream or a file.

A file is either complete or absent. A trace lists the events of the capture that it leaves out.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nsyswrap.analysis.gpu_operations import operation_notes
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.files import replacing
from nsyswrap.base.version import __version__
from nsyswrap.capture import schema
from nsyswrap.render.perfetto import extras, ranges
from nsyswrap.render.perfetto.extras import ARROWS, counters, flows
from nsyswrap.render.perfetto.gpu import DRAWN, gpu_bars, stream_lanes
from nsyswrap.render.perfetto.host import CALLS, calls, thread_lanes
from nsyswrap.render.perfetto.lanes import Lanes
from nsyswrap.render.perfetto.slices import Bars, section

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.gpu import GpuBars
    from nsyswrap.render.perfetto.rows import Section


_LEVEL = 3  # of gzip; the default level takes three times as long and saves a tenth

# Kinds that name processes and GPUs. They are not drawn and not counted as left out.
_NAMING_KINDS = ("gpu", "mpi_rank")
# Why some or all events of a kind are not drawn.
_REASONS = {
    "synchronization": "the waiting calls are drawn",
    "diagnostic": "nsyswrap report -r diagnostics shows them",
    "nvtx": "names of domains, threads and categories, and events without a time",
    "um_cpu_fault": "outside the selected time",
}
_UNTIMED = "no start, no end, or an end before the start"


def write(trace: Trace, path: Path) -> None:
    """Write Chrome trace-event JSON to ``path``. Compress it if the name ends in ``.gz``.

    Raises OutputError if the file cannot be written.
    """
    with replacing(path) as part, part.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                stream(trace, packed)
        else:
            stream(trace, file)


def stream(trace: Trace, file: BinaryIO | gzip.GzipFile) -> None:
    """Write Chrome trace-event JSON to an open file."""
    members = json.dumps(trace.members)
    file.write(f'{members[:-1]}, "traceEvents": [\n'.encode())
    for number, block in enumerate(trace.blocks()):
        file.write(b",\n" if number else b"")
        file.write(block.encode("ascii"))
    file.write(b"\n]}\n")


@dataclass(frozen=True)
class Trace:
    """The content of a trace.

    ``members`` are the JSON members before the events. ``left_out`` are texts on events that are not drawn,
    ``notes`` on how the others are drawn.
    """

    members: dict[str, Any]
    lanes: Lanes
    sections: list[Section]
    left_out: list[str]
    notes: tuple[str, ...]

    def blocks(self) -> Iterator[str]:
        """Yield blocks of events: a line of JSON for each event, with commas between the lines."""
        metadata = ",\n".join(self.lanes.metadata())
        return chain([metadata] if metadata else [], *(section.blocks for section in self.sections))

    def contents(self) -> list[str]:
        """Return the number and title of each kind of event in the trace."""
        counts: dict[str, int] = {}
        for part in self.sections:
            counts[part.title] = counts.get(part.title, 0) + part.count
        return [f"{count:,} {title}" for title, count in counts.items()]


def compose(capture: Capture) -> Trace:
    """Return the trace of a capture's selection. Raises NotInCapture if there is nothing to draw.

    Columns are read here. The JSON text is made when ``blocks`` is iterated, which works only once.
    """
    lanes = Lanes(capture)
    nvtx = ranges.nvtx_events(capture) if capture.has(ranges.KIND) else None
    calls_of = {kind: calls(capture, kind) for kind in CALLS if capture.has(kind)}
    parts = {**(nvtx.parts() if nvtx else {}), **calls_of}
    lane = dict(zip(parts, thread_lanes(list(parts.values()), lanes), strict=True))
    bars = gpu_bars(capture)
    bar_lane = stream_lanes(bars, lanes)
    sections = [
        *(ranges.sections(nvtx, lane, lanes) if nvtx else ()),
        *(section(capture, Bars(kind, *part[:3], lane[kind]), lanes) for kind, part in calls_of.items()),
        *_gpu_sections(capture, bars, bar_lane, lanes),
        *([extras.cpu_page_faults(capture, lanes)] if capture.has(extras.KIND) else ()),
    ]
    _check_not_empty(capture, sections)
    left_out = _left_out(capture, sections)
    if "api" in calls_of:
        row = capture.columns("api", "row")["row"][calls_of["api"].row] - 1
        arrows = flows((bars, bar_lane), (row, calls_of["api"].start_ns, lane["api"]), lanes)
        sections.append(arrows)
    left_out += _arrows_left_out(bars, sections)
    sections += counters(capture, bars, bars.gpu_numbers(lanes))
    notes = (
        *(nvtx.notes if nvtx else ()),
        *operation_notes(capture),
        *extras.counter_notes(capture, bars),
    )
    return Trace(_members(capture), lanes, [part for part in sections if part.count], left_out, notes)


def _gpu_sections(capture: Capture, bars: GpuBars, lane: NDArray[Any], lanes: Lanes) -> Iterator[Section]:
    for number, kind in enumerate(DRAWN):
        mine = np.flatnonzero(bars.kind == number)
        part = bars.of(mine)
        if len(mine):
            yield section(capture.whole, Bars(kind, part.row, part.start_ns, part.end_ns, lane[mine]), lanes)


def _check_not_empty(capture: Capture, sections: list[Section]) -> None:
    if any(part.count for part in sections):
        return
    selected = capture.selected
    raise NotInCapture(
        f"{capture.source}: no event of this capture can be drawn" + (f" ({selected})" if selected else ""),
        "select more of the capture" if selected else "record again: nsyswrap profile --trace cuda,nvtx,osrt",
    )


def _left_out(capture: Capture, sections: list[Section]) -> list[str]:
    """Return for each kind the number of events that are not drawn, and the reason."""
    drawn: dict[str, int] = {}
    for part in sections:
        drawn[part.kind] = drawn.get(part.kind, 0) + part.count
    texts = []
    for kind, events in schema.EVENTS.items():
        missing = capture.count(kind) - drawn.get(kind, 0)
        if missing and kind not in _NAMING_KINDS:
            texts.append(f"{missing:,} {events.title} ({_REASONS.get(kind, _UNTIMED)})")
    return texts


def _arrows_left_out(bars: GpuBars, sections: list[Section]) -> list[str]:
    """Return the number of launched GPU operations without an arrow, and the reason."""
    missing = bars.launched - sum(part.count for part in sections if part.title == ARROWS)
    return [f"{missing:,} {ARROWS} (launch call not recorded)"] if missing else []


def _members(capture: Capture) -> dict[str, Any]:
    """Return the members of the trace before its events: the recorder, the machine and the time 0."""
    info = capture.info
    metadata = {
        "tool": f"nsyswrap {__version__}",
        "nsys": info.exporter_version,
        "capture": capture.source.name,
        "selection": capture.selected,
        "gpus": ", ".join(info.gpus),
        "driver": info.driver_version,
        "cuda": info.cuda_version,
        "time_zero_utc": f"{info.started_utc}Z" if info.started_utc else "",
    }
    return {"displayTimeUnit": "ns", "otherData": {key: text for key, text in metadata.items() if text}}
