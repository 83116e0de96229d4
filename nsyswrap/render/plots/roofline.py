"""Plot the floating-point operations of kernels per second by those for each byte, under the GPU's roofs.

A marker is a row of ``kernel_efficiency``: a kernel with one grid and block. Its area is by its time, its
shape by its class. The slope is the peak bandwidth of GPU memory, a level line is the peak of a type. A
kernel left of where they meet is bound by memory, the others by computing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, human, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import kernel_color
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import GRAY, Sheet, axes_of_each, for_title, hue, log_axis, sheet

_BODY_IN, _LEAST_AREA, _MOST_AREA = 3.9, 12.0, 500.0  # of a marker, in square points
_MOST_ROOFS, _LEGEND_AREA = 6, 40.0
_SHAPES = {"gemm": "o", "convolution": "s", "attention": "^"}
_MARKERS = "marker: a kernel with one grid and block, its area by time; lines: peaks of this GPU"


@dataclass(frozen=True)
class RooflineKernels:
    """The kernels with known operations and bytes, an entry each, and the peaks by type."""

    names: Sequence[str]
    classes: Sequence[str]
    intensity: NDArray[Any]
    flop_per_s: NDArray[Any]
    peak_percent: NDArray[Any]
    total_ns: NDArray[Any]
    bytes_per_s: float
    roofs: Mapping[str, float]
    notes: Sequence[str]


def compute(capture: Capture) -> RooflineKernels:
    """Return the kernels of a capture; raises NotInCapture without any of known operations."""
    table = table_for(capture, "kernel_efficiency")
    columns = ("intensity", "flop_per_s", "bytes_per_s", "peak_percent", "bandwidth_percent", "total_ns")
    data = {name: np.asarray(table.data[name], float) for name in columns}
    kept = np.flatnonzero((data["intensity"] > 0) & (data["flop_per_s"] > 0))
    if not len(kept):
        raise NotInCapture(
            "no kernels whose floating-point operations and bytes are known",
            "record the shapes of PyTorch's operations with nsyswrap profile --modules",
            source=capture.source,
            holds=True,
        )
    names, classes, types = (list(table.data[name]) for name in ("name", "class", "type"))
    peaks, bandwidth = (
        100
        * np.divide(
            data[f"{rate}_per_s"], data[share], out=np.full(len(table), np.nan), where=data[share] > 0
        )
        for rate, share in (("flop", "peak_percent"), ("bytes", "bandwidth_percent"))
    )
    roofs: dict[float, set[str]] = {}
    for i in kept[np.isfinite(peaks[kept])].tolist():
        roofs.setdefault(float(f"{peaks[i]:.4g}"), set()).add(str(types[i] or "f16"))
    known = bandwidth[np.isfinite(bandwidth)]
    drawn = data["total_ns"][kept].sum() / max(data["total_ns"].sum(), 1)
    return RooflineKernels(
        [names[i] for i in kept.tolist()],
        [classes[i] for i in kept.tolist()],
        data["intensity"][kept],
        data["flop_per_s"][kept],
        data["peak_percent"][kept],
        data["total_ns"][kept],
        float(known[0]) if len(known) else np.nan,
        {", ".join(sorted(kinds)): peak for peak, kinds in list(roofs.items())[:_MOST_ROOFS]},
        [*notes_of(table), f"drawn: {counted(len(kept), 'kernels')}, {percent(100 * drawn)} of kernel time"],
    )


def figure(data: Mapping[str, RooflineKernels], program: str = "") -> Sheet:
    """Draw the kernels of each capture below one another, on the same axes."""
    notes = [_MARKERS, *dict.fromkeys(note for part in data.values() for note in part.notes)]
    drawn = sheet(_BODY_IN * len(data), _title(data), notes, program=program)
    for axes, part in axes_of_each(drawn, data, sharex=True, sharey=True):
        _draw(axes, part)
    for axes in drawn.axes:
        log_axis(axes, "x", Unit.NUMBER, "FLOPs for each byte")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        log_axis(axes, "y", Unit.FLOP_PER_S, "FLOPs in a second")
    return drawn


def _title(data: Mapping[str, RooflineKernels]) -> str:
    part = max(data.values(), key=lambda one: float(one.total_ns.max()))
    longest = int(part.total_ns.argmax())
    of_peak = part.peak_percent[longest]
    share = f", {of_peak:.0f} % of the peak" if np.isfinite(of_peak) else ""
    rate = human(float(part.flop_per_s[longest]), Unit.FLOP_PER_S)
    where = f"The most time in {len(data)} captures: " if len(data) > 1 else ""
    return f"{where}{for_title(part.names[longest], part.names)} reaches {rate}{share}"


def _draw(axes: Axes, kernels: RooflineKernels) -> None:
    area = np.maximum(_MOST_AREA * kernels.total_ns / kernels.total_ns.max(), _LEAST_AREA)
    for kind in sorted(set(kernels.classes)):
        rows, color = np.array(kernels.classes) == kind, hue(kernel_color(kind))
        axes.scatter(
            kernels.intensity[rows],
            kernels.flop_per_s[rows],
            area[rows],
            facecolors=(*to_rgb(color), 0.35),
            edgecolors=color,
            linewidths=0.9,
            marker=_SHAPES.get(kind, "D"),
            label=kind,
        )
    roofs = [*kernels.roofs.values()]
    left, right = kernels.intensity.min() / 4, kernels.intensity.max() * 4
    if np.isfinite(kernels.bytes_per_s):
        if roofs:
            right = max(right, 4 * max(roofs) / kernels.bytes_per_s)
        end = max(roofs) / kernels.bytes_per_s if roofs else right
        left = min(left, end / 4)
        axes.plot([left, end], np.array([left, end]) * kernels.bytes_per_s, color=GRAY, linewidth=1)
    for kind, peak in kernels.roofs.items():
        begin = peak / kernels.bytes_per_s if np.isfinite(kernels.bytes_per_s) else left
        axes.plot([begin, right], [peak, peak], color=GRAY, linewidth=1)
        text = f"{kind} {human(peak, Unit.FLOP_PER_S)}"
        axes.text(right, peak, text, ha="right", va="bottom", color=GRAY, fontsize=7)
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    for handle in filter(None, legend.legend_handles):
        handle.set(sizes=[_LEGEND_AREA])


PLOT = Plot("roofline", compute, figure, if_possible=True)
