"""Plot the bandwidth of copies by size and direction.

A large marker is a row of ``memcpy_bandwidth``: a direction and size class. It stands at the mean size of its
copies; its bandwidth is total size over total time. No line joins them, because sizes between them were not
measured. Small points are single copies and memsets whose time is their own. A dashed line is the GPU
memory bandwidth for copies inside the GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.analysis.transfers import MEMSET_KIND, TIMED, gpu_memory, per_s, timed, transfers
from nsyswrap.base.records import dataclass
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import MEMSET, copy_color
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import Sheet, axes_of_each, for_title, hue, log_axis, points, sheet

_BODY_IN, _MARKER = 3.9, 9
_MEMSET = "memset"
_MOST_LINES = 24  # more have no room in the legend
# Markers by direction, and how they are drawn by the kind of host memory: the width of the edge, and how
# opaque the fill is. None hides another.
_SHAPES = {
    "Host-to-Device": "^",
    "Device-to-Host": "v",
    "Device-to-Device": "o",
    "Peer-to-Peer": "D",
    _MEMSET: "s",
}
_STYLES = {"Pageable": (1.2, 0.0), "Pinned": (1.2, 0.35), "Managed": (2.6, 0.0)}
_PLAIN = (1.2, 0.15)
_DASHED = "dashed line: limit by GPU memory bandwidth, which copies inside the GPU use twice and memsets once"
_MARKERS = (
    "large marker: all copies of a direction, memory kind and size class, at their mean size; dot: one copy"
)
_COLUMNS = (
    *("operation", "src_kind", "dst_kind", "count", "total_bytes"),
    *("bandwidth_bytes_per_s", "total_ns", "link_bytes_per_s"),
)


@dataclass
class CopyLine:
    """The rows of one direction and kind of host memory.

    ``size_bytes`` are mean sizes of copies. ``link_bytes_per_s`` is the GPU memory bandwidth, or NaN if the
    export lacks it.
    """

    direction: str
    memory: str | None
    size_bytes: list[float] = field(default_factory=list)
    bytes_per_s: list[float] = field(default_factory=list)
    total_ns: list[int] = field(default_factory=list)
    link_bytes_per_s: float = np.nan

    @property
    def label(self) -> str:
        """The direction, and the kind of host memory if it is known."""
        return f"{self.direction}, {self.memory.lower()}" if self.memory else self.direction


@dataclass(frozen=True)
class Copies:
    """The lines, and by direction the size and bandwidth of each copy whose time is its own."""

    lines: list[CopyLine]
    single_copies: dict[str, tuple[NDArray[Any], NDArray[Any]]]
    notes: Sequence[str]


def compute(capture: Capture) -> Copies:
    """Return the bandwidths of copies and memsets in a capture; raises NotInCapture."""
    table = table_for(capture, "memcpy_bandwidth")
    lines: dict[tuple[str, str | None], CopyLine] = {}
    for operation, *memory_kinds, count, size, bandwidth, total, link in zip(
        *(list(table.data[name]) for name in _COLUMNS), strict=True
    ):
        direction = str(operation).removeprefix("[CUDA ").removeprefix("memcpy ").removesuffix("]")
        memory = next((kind for kind in memory_kinds if kind in _STYLES), None)
        line = lines.setdefault((direction, memory), CopyLine(direction, memory))
        line.size_bytes.append(float(size) / float(count))
        line.bytes_per_s.append(float(bandwidth))
        line.total_ns.append(int(total))
        line.link_bytes_per_s = float(link)
    drawn = sorted(lines, key=lambda key: -sum(lines[key].total_ns))[:_MOST_LINES]
    kept = [line for key, line in lines.items() if key in set(drawn)]
    singles = _single_copies(capture, {line.direction for line in kept})
    return Copies(kept, singles, [*notes_of(table), *_left_out(len(lines) - len(kept))])


def _left_out(lines: int) -> list[str]:
    return [f"not drawn: {lines:,} less used kind{'' if lines == 1 else 's'} of copies"] if lines else []


def _single_copies(
    capture: Capture, directions: Collection[str]
) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    every = transfers(capture)
    copies = every.of(timed(every, gpu_memory(capture)) == TIMED)
    labels = {**capture.labels("copy_kind"), MEMSET_KIND: _MEMSET}
    bandwidth = per_s(copies.size_bytes, copies.duration_ns)
    return {
        labels[kind]: (copies.size_bytes[mine], bandwidth[mine])
        for (kind,), mine in rows_by(copies.kind).items()
        if labels.get(kind) in directions
    }


def figure(data: Mapping[str, Copies], program: str = "") -> Sheet:
    """Draw the lines of the captures below one another, on the same axes."""
    links = [line.link_bytes_per_s for part in data.values() for line in part.lines]
    notes = [_MARKERS, *([_DASHED] if np.isfinite(links).any() else [])]
    notes += dict.fromkeys(note for part in data.values() for note in part.notes)
    drawn = sheet(_BODY_IN * len(data), _title(data), notes, program=program)
    for axes, part in axes_of_each(drawn, data, sharex=True, sharey=True):
        _draw(axes, part)
    for axes in drawn.axes:
        log_axis(axes, "x", Unit.BYTES, "copy size")
        log_axis(axes, "y", Unit.BYTES_PER_S, "bandwidth")
    return drawn


def _title(data: Mapping[str, Copies]) -> str:
    rows = [
        (total_ns, label, line.label, bandwidth)
        for label, part in data.items()
        for line in part.lines
        for total_ns, bandwidth in zip(line.total_ns, line.bytes_per_s, strict=True)
    ]
    total_ns, label, line_label, bandwidth = max(rows, key=lambda row: row[0])
    where = (
        f"Most copy time of {len(data)} captures: '{for_title(label)}',"
        if len(data) > 1
        else "Most copy time:"
    )
    at = f" at {human(bandwidth, Unit.BYTES_PER_S)}" if np.isfinite(bandwidth) else ""
    return f"{where} {line_label}, {duration(total_ns)}{at}"


def _draw(axes: Axes, copies: Copies) -> None:
    for direction, (size, bandwidth) in copies.single_copies.items():
        points(axes, (size, bandwidth), _color(direction), "_single", marker=".")
    for line in copies.lines:
        width, alpha = _STYLES.get(line.memory or "", _PLAIN)
        color = _color(line.direction)
        axes.plot(
            line.size_bytes,
            line.bytes_per_s,
            linestyle="none",
            marker=_SHAPES.get(line.direction.removeprefix("Unified "), "h"),
            markersize=_MARKER,
            markerfacecolor=(*to_rgb(color), alpha),
            markeredgecolor=color,
            markeredgewidth=width,
            label=line.label,
        )
        if np.isfinite(line.link_bytes_per_s):
            axes.axhline(line.link_bytes_per_s, color=color, linestyle="--", linewidth=0.8)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _color(direction: str) -> str:
    return hue(MEMSET if direction == _MEMSET else copy_color(direction))


PLOT = Plot("copies", compute, figure)
