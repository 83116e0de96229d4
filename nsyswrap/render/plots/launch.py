"""Plot launch latency, and the CPU time of each launch against the GPU time of its kernel.

Latencies are those of ``launch_overhead``: from the start of the API call to the start on the GPU, for
launches into an idle stream. The first launch of each kernel is drawn apart. A point is a launch; launches
that share a spot are one point, which is more opaque.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from nsyswrap.analysis.launch_bound import LaunchCost, judged_launches, launch_cost_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import LAUNCHES
from nsyswrap.render.plots import Plot, notes_of, table_for
from nsyswrap.render.plots.figure import (
    GRAY,
    NAMES,
    WIDTH_IN,
    Sheet,
    columns_in,
    count_axis,
    fitted,
    hue,
    log_axis,
    paint,
    points,
    sheet,
)
from nsyswrap.reports.wording.verdicts import headline

_BODY_IN = 3.3
_BINS_PER_DECADE = 20
_MARGIN = 1.5  # a factor on both sides of an axis
_TICKS = 5  # on half of the width
_MARKERS = {"repeat launches": "o", "first launches": "^"}  # hollow, so that none hides another
_POINTS = "right: a circle is a repeat launch, a triangle a first one; darker where several share a spot"
_LIMITS_WITHOUT_DATA = (1e3, 1e5)  # ns
_SERIES = {f"{kind} launches": style for kind, style in LAUNCHES.items()}
_HEIGHTS = {"repeat": 3, "first": 1}  # of the two histograms
_COUNTED = {"repeat": "number of repeat launches", "first": "first\nlaunches"}  # a low axis has no more room


@dataclass(frozen=True)
class LaunchTimes:
    """Latencies, CPU times of the API calls and GPU times in ns: of repeated, then of first launches."""

    latency_ns: Sequence[NDArray[Any]]
    api_ns: Sequence[NDArray[Any]]
    gpu_ns: Sequence[NDArray[Any]]
    scope: str
    cost: LaunchCost
    notes: Sequence[str]


def compute(capture: Capture) -> LaunchTimes:
    """Return the launches of a capture; raises NotInCapture."""
    table = table_for(capture, "launch_overhead")
    launches = launches_of(capture)
    measurable = launches.uncontended & (launches.latency_ns >= 0)
    scope, view = judged_launches(capture)
    series = (~launches.first, launches.first)
    return LaunchTimes(
        [launches.latency_ns[rows & measurable] for rows in series],
        [launches.api_ns[rows] for rows in series],
        [launches.gpu_ns[rows] for rows in series],
        scope,
        launch_cost_of(view),
        notes_of(table),
    )


def figure(data: Mapping[str, LaunchTimes], program: str = "") -> Sheet:
    """Draw the histograms and points of the captures below one another, on the same axes."""
    notes = dict.fromkeys([_POINTS, *(note for launches in data.values() for note in launches.notes)])
    edges = _edges([times for launches in data.values() for times in launches.latency_ns])
    limits = _call_limits(data.values())
    drawn = sheet(_BODY_IN * len(data), _title(data), notes, _SERIES, program)
    subfigures = drawn.subfigures(len(data), 1, squeeze=False)[:, 0]
    for subfigure, (label, launches) in zip(subfigures, data.items(), strict=True):
        if len(data) > 1:
            subfigure.suptitle(fitted([label], columns_in(WIDTH_IN) // 2)[0], x=0.01, ha="left", **NAMES)
        drawn_kinds = [kind for kind, times in zip(_HEIGHTS, launches.latency_ns, strict=True) if len(times)]
        rows = [[kind, "api"] for kind in drawn_kinds] or [["api"]]
        axes = subfigure.subplot_mosaic(rows, height_ratios=[_HEIGHTS[kind] for kind in drawn_kinds] or [1])
        _latencies({kind: axes[kind] for kind in drawn_kinds}, launches, edges)
        _calls(axes["api"], launches, *limits)
    return drawn


def _title(data: Mapping[str, LaunchTimes]) -> str:
    judged = [launches.cost for launches in data.values() if len(launches.api_ns[0])]
    if len(data) == 1:
        [launches] = data.values()
        return (
            headline(launches.scope, launches.cost)
            if judged
            else f"No repeated launches: {_first_launches_text(launches.api_ns[1])}"
        )
    if not judged:
        return f"No repeated launches in any of {len(data)} captures"
    shares = sorted(100 * cost.weight for cost in judged)
    idle = " to ".join(dict.fromkeys(percent(share) for share in (shares[0], shares[-1])))
    rest = len(data) - len(judged)
    more = f" ({rest} more ha{'s' if rest == 1 else 've'} no repeated launches)" if rest else ""
    captures = counted(len(judged), "captures")
    return f"{captures}: launch latency left the GPU idle for {idle} of the time judged{more}"


def _first_launches_text(api_ns: NDArray[Any]) -> str:
    """Return the number of first launches and the median time of their API calls."""
    typical = duration(float(np.median(api_ns)))
    return (
        f"{len(api_ns):,} first launches, median call {typical}"
        if len(api_ns) > 1
        else f"1 first launch, call {typical}"
    )


def _edges(latencies: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return bin edges in ns, equally spaced on a logarithmic axis, with a margin on both sides."""
    low, high = _limits(latencies)
    first, last = (np.floor(np.log10(end) * _BINS_PER_DECADE) for end in (low, high))
    edges: NDArray[Any] = 10 ** (np.arange(first, last + 2) / _BINS_PER_DECADE)
    return edges


def _limits(times: Sequence[NDArray[Any]]) -> tuple[float, float]:
    """Return the limits of a logarithmic axis of all times, with a margin on both sides. 0 ns counts as 1."""
    every = np.maximum(np.concatenate(times), 1)
    return (every.min() / _MARGIN, every.max() * _MARGIN) if len(every) else _LIMITS_WITHOUT_DATA


def _call_limits(parts: Iterable[LaunchTimes]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the limits of GPU and API times. Both begin alike, so that the line of equal times is seen."""
    gpu, api = (
        _limits(list(chain(*times))) for times in zip(*((p.gpu_ns, p.api_ns) for p in parts), strict=True)
    )
    least = min(gpu[0], api[0])
    return (least, gpu[1]), (least, api[1])


def _latencies(axes_by_kind: Mapping[str, Axes], launches: LaunchTimes, edges: NDArray[Any]) -> None:
    for (kind, style), times in zip(LAUNCHES.items(), launches.latency_ns, strict=True):
        if kind not in axes_by_kind:
            continue
        axes = axes_by_kind[kind]
        counts, _ = np.histogram(np.maximum(times, 1), edges)
        axes.stairs(counts, edges, fill=True, label=f"{kind} launches", **paint(style))
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, max(int(counts.max()), 1) * 1.05))
        log_axis(axes, "x", Unit.NS, "launch latency: call to GPU start", _TICKS)
        label = _COUNTED[kind] if len(axes_by_kind) > 1 else f"number of {kind} launches"
        count_axis(axes.yaxis, label, 4 if kind == "repeat" or len(axes_by_kind) == 1 else 2)
    if len(axes_by_kind) > 1:
        axes_by_kind["repeat"].set_xlabel("")
        axes_by_kind["repeat"].tick_params(labelbottom=False)
    if "repeat" in axes_by_kind:
        times = launches.latency_ns[0]
        median = float(np.median(times))
        axes_by_kind["repeat"].axvline(median, color="black", linewidth=0.8)
        title = f"{len(times):,} into an idle stream, median {duration(median)}"
        axes_by_kind["repeat"].set_title(title)


def _calls(
    axes: Axes, launches: LaunchTimes, gpu_limits: tuple[float, float], api_limits: tuple[float, float]
) -> None:
    for api, gpu, (label, style) in zip(launches.api_ns, launches.gpu_ns, _SERIES.items(), strict=True):
        points(axes, (gpu, api), hue(style), label, marker=_MARKERS[label])
    axes.axline((1, 1), (10, 10), color=GRAY, linewidth=0.8, linestyle="--")
    axes.set(xlim=gpu_limits, ylim=api_limits)
    axes.set_title("above the line: call longer than GPU work")
    log_axis(axes, "x", Unit.NS, "GPU time of the launched work", _TICKS)
    log_axis(axes, "y", Unit.NS, "CPU time of the launch call")


PLOT = Plot("launch", compute, figure)
