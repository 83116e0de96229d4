"""What copies reach: bandwidth by size and direction.

A line joins the rows of ``memcpy_bandwidth``, one for each class of size, at the mean size of its copies:
their bandwidth is that of sums, so it is the mean size over the mean time. Behind it are the copies and
memsets themselves whose time is their own. A dashed line is what the GPU's memory gives to copies inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.transfers import MEMSET_KIND, TIMED, gpu_memory, per_s, timed, transfers
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.render.colors import MEMSET, copy_color
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import (
    NAMES,
    WIDTH_IN,
    columns_in,
    fitted,
    for_title,
    log_axis,
    points,
    sheet,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.plots.figure import Sheet

_BODY_IN = 3.9
_SET = "memset"
# Marker and line by the kind of the host's memory, or else of both ends.
_STYLES = {"Pageable": ("o", ":"), "Pinned": ("s", "-"), "Managed": ("D", "-.")}
_PLAIN = ("^", "-")
_DASHED = "dashed: what the GPU's memory gives, to copies inside it half its bandwidth, to memsets all"
_MARKERS = "large: all copies of a direction, memory and size class, at their mean size; small: single copies"
_COLUMNS = (
    "operation",
    "src_kind",
    "dst_kind",
    "count",
    "total_bytes",
    "bandwidth_bytes_per_s",
    "total_ns",
    "link_bytes_per_s",
)


@dataclass
class Line:
    """The rows of one direction and kind of memory: mean sizes in bytes, bandwidths, times in ns.

    ``link_bytes_per_s`` is what the memory gives; NaN where exports do not say it.
    """

    direction: str
    memory: str | None
    size_bytes: list[float] = field(default_factory=list)
    bytes_per_s: list[float] = field(default_factory=list)
    total_ns: list[int] = field(default_factory=list)
    link_bytes_per_s: float = np.nan

    @property
    def label(self) -> str:
        """The direction, and the host's memory where that is said."""
        return f"{self.direction}, {self.memory.lower()}" if self.memory else self.direction


@dataclass(frozen=True)
class Copies:
    """The lines, and by direction the size and bandwidth of each copy whose time is its own."""

    lines: list[Line]
    single: dict[str, tuple[NDArray[Any], NDArray[Any]]]
    notes: Sequence[str]


def read(capture: Capture) -> Copies:
    """Return what the copies and memsets of a capture reached; raises NotInCapture."""
    table = table_for(capture, "memcpy_bandwidth")
    lines: dict[tuple[str, str | None], Line] = {}
    for operation, *ends, count, size, reached, total, link in zip(
        *(list(table.data[name]) for name in _COLUMNS), strict=True
    ):
        direction = str(operation).removeprefix("[CUDA ").removeprefix("memcpy ").removesuffix("]")
        memory = next((kind for kind in ends if kind in _STYLES), None)
        line = lines.setdefault((direction, memory), Line(direction, memory))
        line.size_bytes.append(float(size) / float(count))
        line.bytes_per_s.append(float(reached))
        line.total_ns.append(int(total))
        line.link_bytes_per_s = float(link)
    return Copies(list(lines.values()), _single(capture), notes_of(table))


def _single(capture: Capture) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    found = transfers(capture)
    found = found.of(timed(found, gpu_memory(capture)) == TIMED)
    labels = {**capture.labels("copy_kind"), MEMSET_KIND: _SET}
    reached = per_s(found.size_bytes, found.duration_ns)
    return {
        labels[kind]: (found.size_bytes[found.kind == kind], reached[found.kind == kind])
        for kind in np.unique(found.kind).tolist()
        if kind in labels
    }


def figure(found: Mapping[str, Copies]) -> Sheet:
    """Draw the lines of each capture below one another, on the same axes."""
    links = [line.link_bytes_per_s for part in found.values() for line in part.lines]
    notes = [_MARKERS, *([_DASHED] if np.isfinite(links).any() else [])]
    notes += dict.fromkeys(note for part in found.values() for note in part.notes)
    drawn = sheet(_BODY_IN * len(found), _title(found), notes)
    grid = drawn.subplots(len(found), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for axes, (label, part) in zip(grid, found.items(), strict=True):
        _draw(axes, part)
        if len(found) > 1:
            axes.set_title(fitted([label], columns_in(WIDTH_IN) // 2)[0], **NAMES)
    for axes in grid:
        log_axis(axes, "x", Unit.BYTES, "size of one copy")
        log_axis(axes, "y", Unit.BYTES_PER_S, "bandwidth")
    return drawn


def _title(found: Mapping[str, Copies]) -> str:
    """Say what takes the most time, and what it reaches."""
    rows = [
        (spent, label, line.label, speed)
        for label, part in found.items()
        for line in part.lines
        for spent, speed in zip(line.total_ns, line.bytes_per_s, strict=True)
    ]
    spent, label, what, speed = max(rows, key=lambda row: row[0])
    where = (
        f"Of {len(found)} captures copying takes longest in {for_title(label)}"
        if len(found) > 1
        else "Most time"
    )
    at = f" at {human(speed, Unit.BYTES_PER_S)}" if np.isfinite(speed) else ""
    return f"{where}: {duration(spent)} {what}{at}"


def _draw(axes: Axes, part: Copies) -> None:
    for direction, (size, reached) in part.single.items():
        points(axes, size, reached, _color(direction), "_single")
    for line in part.lines:
        marker, style = _STYLES.get(line.memory or "", _PLAIN)
        order = np.argsort(line.size_bytes, kind="stable")
        size, reached = (np.asarray(values)[order] for values in (line.size_bytes, line.bytes_per_s))
        color = _color(line.direction)
        axes.plot(size, reached, style, marker=marker, color=color, label=line.label, markeredgecolor="black")
        if np.isfinite(line.link_bytes_per_s):
            axes.axhline(line.link_bytes_per_s, color=color, linestyle="--", linewidth=0.8)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _color(direction: str) -> str:
    return MEMSET if direction == _SET else copy_color(direction)


PLOT = Plot("copies", read, figure)
