"""Compose a whole trace, and write it to a stream or to a file that is complete or absent.

A trace says which parts of the capture it leaves out.
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
from nsyswrap.render.perfetto.gpu import DRAWN, on_gpu
from nsyswrap.render.perfetto.gpu import placed as placed_on_gpu
from nsyswrap.render.perfetto.host import CALLS, calls, placed
from nsyswrap.render.perfetto.lanes import Lanes
from nsyswrap.render.perfetto.slices import Bars, section

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.gpu import OnGpu
    from nsyswrap.render.perfetto.rows import Section


_LEVEL = 3  # of gzip: what the default takes three times as long for is a tenth smaller

# What is no event to draw: it names processes and GPUs.
_DESCRIBE = ("gpu", "mpi_rank")
# Why events of a kind are not drawn, all or some.
_WHY = {
    "synchronization": "the calls that waited are drawn",
    "diagnostic": "nsyswrap report -r diagnostics shows them",
    "nvtx": "names of domains, threads and categories, and what has no time",
    "um_cpu_fault": "outside the selected time",
}
_UNTIMED = "they lack a start or an end, or end before they start"


def write(trace: Trace, path: Path) -> None:
    """Write Chrome trace-event JSON to ``path``, compressed where its name ends in ``.gz``.

    Raises OutputError where it cannot be written.
    """
    with replacing(path) as part, part.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                stream(trace, packed)
        else:
            stream(trace, file)


def stream(trace: Trace, file: BinaryIO | gzip.GzipFile) -> None:
    """Write Chrome trace-event JSON to an open file."""
    head = json.dumps(trace.head)
    file.write(f'{head[:-1]}, "traceEvents": [\n'.encode())
    for number, block in enumerate(trace.blocks()):
        file.write(b",\n" if number else b"")
        file.write(block.encode("ascii"))
    file.write(b"\n]}\n")


@dataclass(frozen=True)
class Trace:
    """What a trace holds: ``head`` are its members before the events.

    ``left_out`` and ``notes`` are sentences for readers: on what is not drawn, and on how the rest is.
    """

    head: dict[str, Any]
    lanes: Lanes
    sections: list[Section]
    left_out: list[str]
    notes: tuple[str, ...]

    def blocks(self) -> Iterator[str]:
        """Yield the events, block by block, each a line of JSON, with commas between those of a block."""
        metadata = ",\n".join(self.lanes.metadata())
        return chain([metadata] if metadata else [], *(section.blocks for section in self.sections))

    def contents(self) -> list[str]:
        """Say how many of what are in it."""
        found: dict[str, int] = {}
        for part in self.sections:
            found[part.title] = found.get(part.title, 0) + part.count
        return [f"{count:,} {title}" for title, count in found.items()]


def compose(capture: Capture) -> Trace:
    """Return the trace of a capture's selection; raises NotInCapture where nothing is in it.

    Columns are read here, and texts made as the blocks are asked for, which works once.
    """
    lanes = Lanes(capture)
    nvtx = ranges.read(capture) if capture.has(ranges.KIND) else None
    called = {kind: calls(capture, kind) for kind in CALLS if capture.has(kind)}
    parts = {**(nvtx.parts() if nvtx else {}), **called}
    lane = dict(zip(parts, placed(list(parts.values()), lanes), strict=True))
    bars = on_gpu(capture)
    bar_lane = placed_on_gpu(bars, lanes)
    sections = [
        *(ranges.sections(nvtx, lane, lanes) if nvtx else ()),
        *(section(capture, Bars(kind, *part[:3], lane[kind]), lanes) for kind, part in called.items()),
        *_gpu_sections(capture, bars, bar_lane, lanes),
        *([extras.on_cpu(capture, lanes)] if capture.has(extras.KIND) else ()),
    ]
    _check(capture, sections)
    left_out = _left_out(capture, sections)
    if "api" in called:
        row = capture.columns("api", "row")["row"][called["api"].row] - 1
        arrows = flows((bars, bar_lane), (row, called["api"].start_ns, lane["api"]), lanes)
        sections.append(arrows)
    left_out += _without_arrow(bars, sections)
    sections += counters(capture, bars, bars.numbers(lanes))
    notes = (
        *(nvtx.notes if nvtx else ()),
        *operation_notes(capture),
        *extras.counter_notes(capture, bars),
    )
    return Trace(_head(capture), lanes, [part for part in sections if part.count], left_out, notes)


def _gpu_sections(capture: Capture, bars: OnGpu, lane: NDArray[Any], lanes: Lanes) -> Iterator[Section]:
    for number, kind in enumerate(DRAWN):
        mine = np.flatnonzero(bars.kind == number)
        part = bars.of(mine)
        if len(mine):
            yield section(capture.whole, Bars(kind, part.row, part.start_ns, part.end_ns, lane[mine]), lanes)


def _check(capture: Capture, sections: list[Section]) -> None:
    if any(part.count for part in sections):
        return
    selected = str(capture.view.selection)
    raise NotInCapture(
        f"{capture.source}: no event of this capture can be drawn" + (f" ({selected})" if selected else ""),
        "select more of it" if selected else "profile again with --trace=cuda,nvtx,osrt",
    )


def _left_out(capture: Capture, sections: list[Section]) -> list[str]:
    """Say how many events are not drawn, kind by kind, and why."""
    drawn: dict[str, int] = {}
    for part in sections:
        drawn[part.kind] = drawn.get(part.kind, 0) + part.count
    said = []
    for kind, events in schema.EVENTS.items():
        missing = capture.count(kind) - drawn.get(kind, 0)
        if missing and kind not in _DESCRIBE:
            said.append(f"{missing:,} {events.title} ({_WHY.get(kind, _UNTIMED)})")
    return said


def _without_arrow(bars: OnGpu, sections: list[Section]) -> list[str]:
    """Say how much GPU work has no arrow, though a call launched it."""
    missing = bars.launched - sum(part.count for part in sections if part.title == ARROWS)
    return [f"{missing:,} {ARROWS} (the call that launched the work is not there)"] if missing else []


def _head(capture: Capture) -> dict[str, Any]:
    """Return the members of the trace before its events: what recorded it, and when its time 0 was."""
    info = capture.info
    said = {
        "tool": f"nsyswrap {__version__}",
        "nsys": info.exporter_version,
        "capture": capture.source.name,
        "selection": str(capture.view.selection),
        "gpus": ", ".join(info.gpus),
        "driver": info.driver_version,
        "cuda": info.cuda_version,
        "time_zero_utc": f"{info.started_utc}Z" if info.started_utc else "",
    }
    return {"displayTimeUnit": "ns", "otherData": {key: text for key, text in said.items() if text}}
