"""When the GPUs worked, and at what, above what the host did meanwhile.

A lane for each device and stream, and for each thread. The window is that of ``gpu_time``, begun with the
call that led to the first operation; without GPU work it is all of the host's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import work
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration, percent
from nsyswrap.render.plots.drawn_lanes import HEIGHTS, draw_lanes
from nsyswrap.render.plots.figure import NAMES, WIDTH_IN, sheet
from nsyswrap.render.plots.gpu_lanes import gpu_lanes
from nsyswrap.render.plots.host_lanes import NVTX_RANGE, api_spans, host_lanes, nvtx_spans
from nsyswrap.render.plots.lanes import bins
from nsyswrap.render.plots.lettering import columns_in, fitted
from nsyswrap.render.plots.plot import Plot, nothing_selected
from nsyswrap.reports import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots.figure import Sheet
    from nsyswrap.render.plots.lanes import Lane

_LANE_IN, _AXIS_IN, _LABEL_IN = 0.27, 0.75, 0.2
_OF_ONE, _OF_ALL = "between its first operation and its last", "between first and last operation"
_NOTHING = "no GPU work, no CUDA API calls and no NVTX ranges"


@dataclass(frozen=True)
class Timeline:
    """Edges of the bins in ns, lanes from top to bottom, and the percentage of its window each GPU worked.

    ``windowed``: that window is what is selected, be the GPU idle at its ends or not.
    """

    edges: NDArray[Any]
    lanes: list[Lane]
    working: list[tuple[str, float]]
    notes: list[str]
    windowed: bool


def read(capture: Capture) -> Timeline:
    """Return the lanes of a capture; raises NotInCapture where there is nothing to put on any."""
    working = _working(capture)
    edges = bins(*_window(capture))
    gpu, streams = gpu_lanes(capture, edges) if working else ([], 0)
    host, threads = host_lanes(capture, edges)
    left_out = [(streams, "streams of less work"), (threads, "threads of less in API calls and NVTX ranges")]
    return Timeline(
        edges,
        [*gpu, *host],
        working,
        [f"not drawn: {count:,} more {what}" for count, what in left_out if count] + _selected(capture),
        capture.view.selection.windowed,
    )


def _selected(capture: Capture) -> list[str]:
    return [f"selected: {selection}"] if (selection := str(capture.view.selection)) else []


def _working(capture: Capture) -> list[tuple[str, float]]:
    """Return each GPU and the percentage of its window in which it worked."""
    if not len(work(capture)):
        return []
    data = find("gpu_time").make(capture).data
    device, process, busy = (
        np.asarray(data[name]).tolist() for name in ("device_id", "process_id", "utilisation_percent")
    )
    whole = [number for number, pid in zip(device, process, strict=True) if pid == MISSING]
    return [
        (f"GPU {number}" if number != MISSING else "The GPU", share)
        for number, pid, share in zip(device, process, busy, strict=True)
        if pid == MISSING or number not in whole
    ]


def _window(capture: Capture) -> tuple[int, int]:
    operations = work(capture)
    if len(operations):
        data = find("gpu_time").make(capture).data
        first, last = int(np.min(data["start_ns"])), int(np.max(data["end_ns"]))  # type: ignore[arg-type]
        calls = operations.call[operations.call >= 0]
        if len(calls) and not capture.view.selection.windowed:
            first = min(first, int(capture.whole.columns("api", "start_ns")["start_ns"][calls].min()))
        return first, last
    spans = [api_spans(capture), nvtx_spans(capture)[0]]
    starts, ends = (np.concatenate([part[which] for part in spans]) for which in (1, 2))
    if not len(starts):
        if capture.view.selection.narrows:
            raise nothing_selected(capture, _NOTHING)
        raise NotInCapture(
            f"{capture.source} holds {_NOTHING}", "none happened, or none were collected (--trace=cuda,nvtx)"
        )
    return int(starts.min()), int(ends.max())


def figure(found: Mapping[str, Timeline]) -> Sheet:
    """Draw the lanes of each capture below one another, each in its own time."""
    lanes = [lane for part in found.values() for lane in part.lanes]
    kinds = {kind for lane in lanes for kind in lane.shares} | {NVTX_RANGE for lane in lanes if lane.ranges}
    heights = [
        len(part.lanes) * _LANE_IN + _AXIS_IN + _LABEL_IN * (len(found) > 1) for part in found.values()
    ]
    notes = [HEIGHTS, *dict.fromkeys(note for part in found.values() for note in part.notes)]
    colors = {kind.label: kind.color for kind in sorted(kinds)}
    drawn = sheet(sum(heights), _title(found), notes, colors)
    grid = drawn.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (label, part) in zip(grid, found.items(), strict=True):
        draw_lanes(axes, part.lanes, part.edges)
        if len(found) > 1:
            axes.set_title(fitted([label], columns_in(WIDTH_IN) // 2)[0], **NAMES)
    return drawn


def _title(found: Mapping[str, Timeline]) -> str:
    """Say how much of their time the GPUs work."""
    working = [busy for part in found.values() for busy in part.working]
    window = duration(max(float(part.edges[-1] - part.edges[0]) for part in found.values()))
    if not working:
        return f"Nothing runs on a GPU in {window}"
    if len(working) == 1:
        [(name, share)] = working
        return f"{name} works {percent(share)} of the time {_said(found, _OF_ONE)}"
    least, most = (percent(pick(share for _, share in working)) for pick in (min, max))
    who = "The GPUs" if len(found) == 1 else f"In {len(found)} captures, GPUs"
    return f"{who} work {least}" + f" to {most}" * (least != most) + f" of the time {_said(found, _OF_ALL)}"


def _said(found: Mapping[str, Timeline], between: str) -> str:
    """Say what time the shares are of: what is selected, or what ``between`` says."""
    windowed = {part.windowed for part in found.values() if part.working}
    return " or ".join("selected" if one else between for one in sorted(windowed))


PLOT = Plot("timeline", read, figure)
