"""How lanes are drawn: every kind of event as high as its part of each bin, long ranges by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import StepPatch

from nsyswrap.base.units import moment
from nsyswrap.render.plots.figure import NAMES, WIDTH_IN, time_axis
from nsyswrap.render.plots.host_lanes import NVTX_RANGE
from nsyswrap.render.plots.lanes import BINS
from nsyswrap.render.plots.lettering import MONO, columns_in, fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from nsyswrap.render.plots.lanes import Kind, Lane

HEIGHTS = (
    f"heights: the part of each 1/{BINS} of the time that was busy, a twentieth of a lane at least; copies "
    "and memsets hang from above, half as high; long NVTX ranges stand for themselves"
)
_HIGH = 0.84  # of a lane; the rest is between them
_LEAST = 0.05  # of that height: so that a short event is seen
_HANGING = 0.5  # copies: a shape of their own, as their colours come close to those of kernels
_LABEL_COLUMNS, _NAME_SIZE, _NAME_LEAST = 27, 6.5, 6


def draw_lanes(axes: Axes, lanes: Sequence[Lane], edges: NDArray[Any]) -> None:
    """Draw lanes, the first on top; ``edges`` are those of their bins, in ns."""
    origin, length = int(edges[0]), int(edges[-1] - edges[0])
    for row, lane in enumerate(reversed(lanes)):
        _draw_shares(axes, row, lane, edges - origin)
        _draw_ranges(axes, row, lane, origin, length)
    labels = [fitted([lane.label], _LABEL_COLUMNS)[0] if lane.label else "" for lane in reversed(lanes)]
    axes.set_yticks([row + _HIGH / 2 for row in range(len(lanes))], labels, **NAMES)
    axes.set(xlim=(0, length), ylim=(_HIGH - 1, len(lanes)))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    time_axis(axes.xaxis, length, f"time since {moment(origin)} of the capture")


def _draw_shares(axes: Axes, row: int, lane: Lane, edges: NDArray[Any]) -> None:
    """Stack the kinds of a lane; where more goes on than the whole bin, as migrations do, they share it."""
    total = sum(lane.shares.values(), np.zeros(len(edges) - 1))
    scale = np.where(total > 0, np.clip(total, _LEAST, 1) / np.where(total > 0, total, 1), 0) * _HIGH
    rising, hanging = np.full(len(total), float(row)), np.full(len(total), row + _HIGH)
    for kind, share in lane.shares.items():
        if kind.hangs:
            base, hanging = hanging, hanging - share * scale * _HANGING
            _step(axes, hanging, base, edges, kind)
        else:
            base, rising = rising, rising + share * scale
            _step(axes, rising, base, edges, kind)


def _step(axes: Axes, top: NDArray[Any], base: NDArray[Any], edges: NDArray[Any], kind: Kind) -> None:
    below: Any = base  # the type says one number
    patch = StepPatch(top, edges, baseline=below, fill=True, color=kind.color, linewidth=0, label=kind.label)
    patch.set_rasterized(True)  # the size of a file does not grow with the events
    axes.add_artist(patch)  # add_patch and stairs look at every corner for the axes' limits


def _draw_ranges(axes: Axes, row: int, lane: Lane, origin: int, length: int) -> None:
    spans = [(part.start_ns - origin, part.end_ns - part.start_ns) for part in lane.ranges]
    axes.broken_barh(
        spans,
        (row, _HIGH),
        facecolor=NVTX_RANGE.color,
        edgecolor="white",
        linewidth=0.5,
        label=NVTX_RANGE.label,
        rasterized=True,
    )
    for part in lane.ranges:
        start, end = max(part.start_ns - origin, 0), min(part.end_ns - origin, length)
        room = columns_in((WIDTH_IN - 2.2) * (end - start) / length, _NAME_SIZE) - 1
        if room >= _NAME_LEAST:
            text = fitted([part.name], room)[0]
            axes.text(
                (start + end) / 2,
                row + _HIGH / 2,
                text,
                ha="center",
                va="center",
                family=MONO,
                fontsize=_NAME_SIZE,
            )
