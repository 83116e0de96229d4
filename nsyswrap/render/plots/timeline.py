"""Plot a timeline: a lane for each GPU stream above lanes for each host thread.

The lanes are those of ``render.timeline``. The height of a kind of event is its part of each bin of time: at
most BINS values, however many events there are. Sub-lanes of a stream are drawn as one, and so are a thread's
calls of other kinds left out. Long NVTX ranges are drawn one by one. The window is
that of ``gpu_time``, extended back to the API call of the first operation. Without GPU work the window covers
all host events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

from nsyswrap.analysis.answer import JudgedSteps, judged_steps
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.judged_process import main_steps
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.units import duration, moment, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import overlap, union
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.colors import Style
from nsyswrap.render.plots import Plot, nothing_selected
from nsyswrap.render.plots.figure import (
    MONO,
    WIDTH_IN,
    Sheet,
    axes_of_each,
    columns_in,
    fitted,
    named_rows,
    paint,
    sheet,
    time_axis,
)
from nsyswrap.render.timeline import lanes as model
from nsyswrap.render.timeline import names
from nsyswrap.render.timeline.names import (
    CALLS,
    COPIES,
    KERNELS,
    NO_NAME,
    RANGES,
    gpu_name,
    name_of,
    style_of,
)
from nsyswrap.reports import find_report
from nsyswrap.reports.figures import step_figures
from nsyswrap.reports.table import Values, read_ahead
from nsyswrap.reports.wording.checks import why_absent

BINS = 600  # each about a pixel on a screen

MOST_STREAMS = 16
MOST_THREADS, MOST_LEVELS = 6, 3
_FAMILIES = (KERNELS, COPIES, CALLS, RANGES)  # in the order of the legend
_SINGLE = 4  # bins; a longer NVTX range is drawn by itself


class LegendKind(NamedTuple):
    """A kind of event, sorted as in the legend. A kind that ``hangs`` is drawn from the lane's upper edge."""

    order: int
    label: str
    color: Style
    hangs: bool = False


def _kind(kind: names.Kind) -> LegendKind:
    family, _ = kind
    name = name_of(kind)
    complete = family not in (KERNELS, CALLS) or name == "CUDA graph" or name.endswith(" products")
    label = name if complete else f"{name} {family}"
    return LegendKind(_FAMILIES.index(family), label, style_of(kind), hangs=family == COPIES)


NVTX_RANGE = _kind((RANGES, "range"))


class Range(NamedTuple):
    """An NVTX range that is drawn by itself; times in ns."""

    start_ns: int
    end_ns: int
    name: str | None


@dataclass(frozen=True)
class PlotLane:
    """One row of the timeline: for each kind the part of each bin that it takes, and single ranges."""

    label: str
    shares: dict[LegendKind, NDArray[Any]]
    ranges: list[Range] = field(default_factory=list)


def bins(start_ns: int, end_ns: int) -> NDArray[Any]:
    """Return the BINS + 1 bin edges of a window in ns. A window shorter than BINS ns has fewer."""
    return np.unique(np.linspace(start_ns, max(end_ns, start_ns + 1), BINS + 1).round().astype(np.int64))


def gpu_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[PlotLane], int]:
    """Return a lane for each of the busiest streams, and the number of streams without a lane."""
    streams: list[list[model.Lane]] = []
    for lane in model.streams(capture):
        if lane.level == 0:
            streams.append([])
        streams[-1].append(lane)
    kept = _busiest([_time(parts) for parts in streams], MOST_STREAMS)
    lanes = [
        PlotLane(f"{gpu_name(capture, parts[0].device, model=False)} {parts[0].title}", _shares(parts, edges))
        for parts in (streams[i] for i in kept)
    ]
    return lanes, len(streams) - len(kept)


def host_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[PlotLane], int]:
    """Return the lanes of the busiest threads, and the number of threads without a lane.

    The NVTX lanes of a thread are above its API lane.
    """
    drawn = [lane for lane in model.threads(capture) if lane.family in (CALLS, RANGES)]
    threads = [list(parts) for _, parts in groupby(drawn, lambda lane: lane.owner)]
    kept = _busiest([_time(parts) for parts in threads], MOST_THREADS)
    lanes = [lane for i in kept for part in threads[i] for lane in _host_lane(part, edges)]
    return lanes, len(threads) - len(kept)


def host_times(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end of all CUDA API calls and NVTX ranges that have a lane, in ns."""
    drawn = [lane for lane in model.threads(capture) if lane.family in (CALLS, RANGES)]
    none = np.empty(0, np.int64)
    start, end = ([none, *(getattr(lane, name) for lane in drawn)] for name in ("start_ns", "end_ns"))
    return np.concatenate(start), np.concatenate(end)


def _time(lanes: Sequence[model.Lane]) -> int:
    return sum(int((lane.end_ns - lane.start_ns).sum()) for lane in lanes)


def _busiest(time_ns: Sequence[int], most: int) -> list[int]:
    return sorted(np.argsort(-np.array(time_ns), kind="stable")[:most].tolist())


def _host_lane(lane: model.Lane, edges: NDArray[Any]) -> Iterator[PlotLane]:
    """Yield the lane of calls or of one level of ranges if it has something in the bins."""
    if lane.family == CALLS:
        if taken := _shares([lane], edges):
            yield PlotLane(f"{lane.group} API", taken)
        return
    if lane.level >= MOST_LEVELS:
        return
    long = (
        (lane.end_ns - lane.start_ns >= _SINGLE * np.diff(edges).max())
        & (lane.end_ns > edges[0])
        & (lane.start_ns < edges[-1])
    )
    taken = _shares([lane], edges, ~long)
    single = np.flatnonzero(long).tolist()
    names = [lane.names[lane.name[i]].removeprefix(":") for i in single]
    spans = zip(lane.start_ns[long].tolist(), lane.end_ns[long].tolist(), names, strict=True)
    ranges = [Range(*span) for span in spans]
    if taken or ranges:
        yield PlotLane("" if lane.level else f"{lane.group} NVTX", taken, ranges)


def _shares(
    lanes: Sequence[model.Lane], edges: NDArray[Any], which: NDArray[Any] | slice = slice(None)
) -> dict[LegendKind, NDArray[Any]]:
    """Return for each kind the part of every bin in which at least one of its events was open.

    The lanes have the same kinds. Events outside all bins are left out.
    """
    start, end, series = (
        np.concatenate([getattr(lane, name)[which] for lane in lanes])
        for name in ("start_ns", "end_ns", "series")
    )
    share_of: dict[LegendKind, NDArray[Any]] = {}
    for number in np.flatnonzero(np.bincount(series)).tolist():
        mine = series == number
        cover = union(start[mine], end[mine])
        taken = overlap(cover.start, cover.end, edges[:-1], edges[1:])
        if taken.any():
            kind = _kind(lanes[0].kinds[number])
            share_of[kind] = share_of.get(kind, 0) + taken / np.diff(edges)
    return share_of


HEIGHTS = (
    f"height: busy share of each 1/{BINS} of the time, at least a twentieth of a lane; upper half: "
    "copies and memsets"
)
_ONE_CLOCK = "the captures share one clock, aligned by the starts of their recordings"
_RANGES = "; long NVTX ranges are drawn one by one"
_HEIGHT = 0.84  # of a lane; the rest is the space between lanes
_LEAST = 0.05  # of that height, so that a short event is visible
_HANGING = 0.5  # of that height, for copies: their colors are close to those of kernels
_LABEL_COLUMNS, _NAME_SIZE, _NAME_LEAST = 40, 6.5, 12

_LANE_IN, _AXIS_IN, _LABEL_IN, _MARGIN_IN = 0.27, 0.75, 0.2, 0.4
_OF_ALL, _SELECTED = "from first to last operation", "selected"
_MOST_STEPS = 6  # in the picture
_MOST_PARTS = 2  # in the title
_NOTHING = "no GPU work, no CUDA API calls and no NVTX ranges"


class PlotWindow(NamedTuple):
    """The time that axes show: its start on the clock of the capture and its length, in ns.

    ``ahead_ns`` is what the axis counts beside the time of the capture, and ``clock`` whose time it is.
    """

    start_ns: int
    length_ns: int
    ahead_ns: int = 0
    clock: str = "the capture"


def draw_lanes(
    axes: Axes, lanes: Sequence[PlotLane], edges: NDArray[Any], window: PlotWindow | None = None
) -> None:
    """Draw lanes, the first on top. ``edges`` are the edges of their bins in ns; the window is theirs."""
    window = window or PlotWindow(int(edges[0]), int(edges[-1] - edges[0]))
    origin, length = window.start_ns, window.length_ns
    labels = [fitted([lane.label], _LABEL_COLUMNS)[0] if lane.label else "" for lane in reversed(lanes)]
    columns = columns_in(WIDTH_IN) - max(map(len, labels), default=0)
    width_in = WIDTH_IN * columns / columns_in(WIDTH_IN) - _MARGIN_IN
    for row, lane in enumerate(reversed(lanes)):
        _draw_shares(axes, row, lane, edges - origin)
        _draw_ranges(axes, row, lane, (origin, length), width_in)
    named_rows(axes, [row + _HEIGHT / 2 for row in range(len(lanes))], labels)
    axes.set(xlim=(0, length), ylim=(_HEIGHT - 1, len(lanes)))
    round_to, origin = 10 ** len(str(length)), origin + window.ahead_ns
    mark = origin // round_to * round_to  # so that ticks are round times
    time_axis(axes.xaxis, length, _after(mark, window.clock), origin - mark)


def _after(mark: int, clock: str) -> str:
    """Return what the time axis counts from; ``mark`` is a round time."""
    text = moment(mark).removesuffix(" s").rstrip("0").rstrip(".")
    return f"time after {text} s of {clock}" if mark else f"time of {clock}"


def _draw_shares(axes: Axes, row: int, lane: PlotLane, edges: NDArray[Any]) -> None:
    """Stack the kinds of a lane. If they take more than a bin together, as migrations do, scale them down."""
    total = sum(lane.shares.values(), np.zeros(len(edges) - 1))
    scale = np.where(total > 0, np.clip(total, _LEAST, 1) / np.where(total > 0, total, 1), 0) * _HEIGHT
    rising, hanging = np.full(len(total), float(row)), np.full(len(total), row + _HEIGHT)
    for kind, share in lane.shares.items():
        if kind.hangs:
            base, hanging = hanging, hanging - share * scale * _HANGING
            _step(axes, hanging, base, edges, kind)
        else:
            base, rising = rising, rising + share * scale
            _step(axes, rising, base, edges, kind)


def _step(axes: Axes, top: NDArray[Any], base: NDArray[Any], edges: NDArray[Any], kind: LegendKind) -> None:
    below: Any = base  # an array is valid, but matplotlib's type hint allows only a number
    patch = StepPatch(top, edges, baseline=below, fill=True, label=kind.label, **paint(kind.color))
    patch.set_rasterized(True)  # so that the file size does not grow with the number of events
    axes.add_artist(patch)  # add_patch and stairs are slow: they update the limits with every corner


def _draw_ranges(axes: Axes, row: int, lane: PlotLane, window: tuple[int, int], width_in: float) -> None:
    """Draw single ranges, with names in those that have room. The window is its start and length in ns."""
    origin, length = window
    spans = [(part.start_ns - origin, part.end_ns - part.start_ns) for part in lane.ranges]
    style = {**paint(NVTX_RANGE.color), "linewidth": 0.5, "label": NVTX_RANGE.label}
    axes.broken_barh(spans, (row, _HEIGHT), **style, rasterized=True)
    for part in lane.ranges:
        start, end = max(part.start_ns - origin, 0), min(part.end_ns - origin, length)
        room = columns_in(width_in * (end - start) / length, _NAME_SIZE) - 1
        if room >= min(len(part.name or NO_NAME), _NAME_LEAST):
            place = (start + end) / 2, row + _HEIGHT / 2, fitted([part.name], room)[0]
            axes.text(*place, ha="center", va="center", family=MONO, fontsize=_NAME_SIZE)


@dataclass(frozen=True)
class Timeline:
    """The bin edges in ns, the lanes from top to bottom, and the busy percentage of each GPU by name.

    ``scope`` says what time the percentages are of; the end of a sentence. ``steps`` are those that are
    judged, of which some are drawn. ``started_ns`` is time 0 of the capture since 1970, None if unknown.
    """

    edges: NDArray[Any]
    lanes: list[PlotLane]
    busy_percent: list[tuple[str, float]]
    notes: list[str]
    scope: str
    steps: JudgedSteps | None
    started_ns: int | None = None


def compute(capture: Capture) -> Timeline:
    """Return the timeline of the steady part of a capture; of all of it if there is none, or a selection.

    Raises NotInCapture if the capture has no events to draw.
    """
    whole, steps, (capture, scope) = capture, judged_steps(capture), _focus(capture)
    usage = _usage(capture)
    busy_percent = _busy_percent(capture, usage)
    edges = bins(*_window(capture, usage))
    gpu, streams = gpu_lanes(capture, edges) if busy_percent else ([], 0)
    host, threads = host_lanes(capture, edges)
    left_out = [(streams, "stream"), (threads, "thread")]
    not_drawn = [
        f"{count:,} less busy {noun}{'' if count == 1 else 's'}" for count, noun in left_out if count
    ]
    notes = [*_steps_note(steps), *(f"not drawn: {text}" for text in not_drawn)]
    notes += [f"selected: {whole.selected}"] if whole.selected else []
    return Timeline(edges, [*gpu, *host], busy_percent, notes, scope, steps, capture.started_ns)


def _focus(capture: Capture) -> tuple[Capture, str]:
    """Return the view that is drawn, and what it is: the steps around the median one, if there are steps."""
    if capture.view.selection.windowed:
        return capture, _SELECTED
    steps = main_steps(capture)
    if steps is None:
        return capture, _OF_ALL
    numbers = np.flatnonzero(steps.steady)
    durations = steps.duration_ns[numbers]
    median = int(np.argmin(np.abs(durations - np.sort(durations)[(len(numbers) - 1) // 2])))
    first = max(min(median - _MOST_STEPS // 2, len(numbers) - _MOST_STEPS), 0)
    drawn = numbers[first : first + _MOST_STEPS]
    start, end = int(steps.start_ns[drawn[0]]), int(steps.end_ns[drawn[-1]])
    selection = replace(capture.view.selection, start_ns=start, end_ns=end, clip=True)
    which = f"steps {steps.first + drawn[0]} to {steps.first + drawn[-1]}"
    of = f" of {len(numbers):,} steady ones" if len(drawn) < len(numbers) else ", the steady part"
    view = capture.viewed(selection=selection)
    return (view, f"in {which}{of}") if len(gpu_operations_of(view)) else (capture, _OF_ALL)


def _steps_note(steps: JudgedSteps | None) -> list[str]:
    if steps is None:
        return []
    mean, median = duration(steps.mean_ns), duration(steps.median_ns)
    return [f"steady steps: {steps.count:,} x {steps.label.short}, mean {mean}, median {median}"]


def _usage(capture: Capture) -> Mapping[str, Values]:
    """Return the columns of ``gpu_time``; none without GPU work. All that is drawn is read in one pass."""
    report = find_report("gpu_time")
    if report.lacks(capture):
        return {}
    read_ahead(capture, [replace(report, reads={**report.reads, "api": (*report.reads["api"], *SPANS)})])
    return report.make(capture).data if len(gpu_operations_of(capture)) else {}


def _busy_percent(capture: Capture, usage: Mapping[str, Values]) -> list[tuple[str, float]]:
    """Return the name of each GPU and the percentage of its window in which it was busy."""
    if not usage:
        return []
    device, process, busy = (
        np.asarray(usage[name]).tolist() for name in ("device_id", "process_id", "utilisation_percent")
    )
    whole = [number for number, pid in zip(device, process, strict=True) if pid == MISSING]
    return [
        (gpu_name(capture, number, model=False), share)
        for number, pid, share in zip(device, process, busy, strict=True)
        if pid == MISSING or number not in whole
    ]


def _window(capture: Capture, usage: Mapping[str, Values]) -> tuple[int, int]:
    if usage:
        first, last = int(np.min(usage["start_ns"])), int(np.max(usage["end_ns"]))  # type: ignore[arg-type]
        operations = gpu_operations_of(capture)
        calls = operations.call[operations.call >= 0]
        if len(calls) and not capture.view.selection.windowed:
            first = min(first, int(capture.whole.columns("api", "start_ns")["start_ns"][calls].min()))
        return first, last
    starts, ends = host_times(capture)
    if not len(starts):
        if capture.view.selection.narrows:
            raise nothing_selected(capture, _NOTHING)
        raise NotInCapture(_NOTHING, why_absent([capture], ["api"]), source=capture.source, holds=True)
    return int(starts.min()), int(ends.max())


def figure(data: Mapping[str, Timeline], program: str = "") -> Sheet:
    """Draw the timelines of the captures below one another: on one clock if they share time, as ranks do."""
    lanes = [lane for part in data.values() for lane in part.lanes]
    kinds = {kind for lane in lanes for kind in lane.shares} | {NVTX_RANGE for lane in lanes if lane.ranges}
    heights = [len(part.lanes) * _LANE_IN + _AXIS_IN + _LABEL_IN * (len(data) > 1) for part in data.values()]
    heights_text = HEIGHTS + (_RANGES if any(lane.ranges for lane in lanes) else "")
    windows = _one_clock(list(data.values()))
    notes = [heights_text, *([_ONE_CLOCK] if windows else [])]
    notes += dict.fromkeys(note for part in data.values() for note in part.notes)
    colors = {kind.label: kind.color for kind in sorted(kinds)}
    drawn = sheet(sum(heights), _title(data), notes, colors, program)
    drawn.figures = {
        f"{label}.{key}" if len(data) > 1 else key: value
        for label, part in data.items()
        if part.steps is not None
        for key, value in step_figures(part.steps).items()
    }
    every = axes_of_each(drawn, data, height_ratios=heights)
    for (axes, part), window in zip_longest(every, windows):
        draw_lanes(axes, part.lanes, part.edges, window)
    return drawn


def _one_clock(parts: Sequence[Timeline]) -> list[PlotWindow]:
    """Return a window for each of several captures, all of the same time; none without time in common."""
    starts = [part.started_ns for part in parts if part.started_ns is not None]
    if len(starts) < max(len(parts), 2):
        return []
    ahead = [start - min(starts) for start in starts]
    ends = [
        (int(part.edges[0]) + by, int(part.edges[-1]) + by) for part, by in zip(parts, ahead, strict=True)
    ]
    if max(start for start, _ in ends) >= min(end for _, end in ends):
        return []
    first, last = min(start for start, _ in ends), max(end for _, end in ends)
    return [PlotWindow(first - by, last - first, by, "the first capture") for by in ahead]


def _title(data: Mapping[str, Timeline]) -> str:
    busy_percent = [gpu for part in data.values() for gpu in part.busy_percent]
    length = duration(max(float(part.edges[-1] - part.edges[0]) for part in data.values()))
    if not busy_percent:
        return f"No GPU work in {length}"
    if len(busy_percent) == 1:
        [(name, share)] = busy_percent
        return f"{name} busy {percent(share)} of the time {_part_text(data)}"
    least, most = (percent(pick(share for _, share in busy_percent)) for pick in (min, max))
    gpus = "GPUs" if len(data) == 1 else f"GPUs of {len(data)} captures"
    share_text = f"{least} to {most}" if least != most else least
    return f"{gpus} busy {share_text} of the time {_part_text(data)}"


def _part_text(data: Mapping[str, Timeline]) -> str:
    scopes = dict.fromkeys(one.scope for one in data.values() if one.busy_percent)
    return " or ".join(scopes) if len(scopes) <= _MOST_PARTS else "drawn"


PLOT = Plot("timeline", compute, figure)
