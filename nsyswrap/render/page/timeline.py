"""Make what the page's script draws: lanes, kept events with their details, and bins of all events.

A small capture keeps all events. A large one keeps all events of some windows of time, and the longest of
each lane. A bin says how much of it is taken, and what begins in it. The picture opens where a reader should
look. All times are in ns after ``origin``, the first time of the picture.

What ``script_data`` returns is read by static/columns.js, events.js and bins.js:

- ``packed`` has all columns, then the texts as JSON; ``columns`` lists name, length, bytes a value, base, and
  1 for a column of differences. First come the lowest bytes of all values, then the next ones.
- Events lie lane by lane, in each by start; lane i has ``lanes[i].kept`` of them. ``look`` is a position in
  ``looks``, the pairs of a position in ``series`` and one in ``names``; ``call`` is one among these events.
- ``cells`` lists level, lane, series and number of bins: so many of ``at``, ``share`` and ``begun`` belong
  to it, one list after the other. Only lanes that lack events have bins. ``levels`` are the finest; the
  script makes coarser ones of them, each of half as many bins.
- ``times`` and ``values`` have the points of ``curves``, one curve after the other.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys, largest_first
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, MEMCPY, MEMSET, gpu_operations_of
from nsyswrap.analysis.judged_process import main_steps
from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.analysis.range_tree.tree import call_paths
from nsyswrap.analysis.steps import Steps
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.base.units import Unit, human
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import NOTHING, IntervalSet, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.render.page.html import clipped, plain
from nsyswrap.render.timeline.lanes import Curve, Lane
from nsyswrap.render.timeline.names import CALLS, IDLE, KERNELS, RANGES, Kind, name_of, style_of

_GAPS = 8  # the longest GPU gaps
_OUTLIERS = 4  # the longest outlier steps
_PLACES = 3  # the longest intervals of a finding
_LEAST_AROUND_NS = 20_000  # on each side of a spot
_STEPS_TRIED = 1_000
# Lanes of each family that are seen at first, if they fit; fewer lanes than so many are all seen.
_UNFOLDED = {KERNELS: 3, IDLE: 2, CALLS: 2, RANGES: 2}
_MOST_UNFOLDED = 8
_UNFOLDED_HEIGHT, _LANE, _GROUP = 244, 22, 20  # pixels, as in rows.js
_EDGE = 0.005  # of the time with GPU work: what lies apart by itself at either end


class InitialView(NamedTuple):
    """What the timeline shows when it opens, times in ns.

    ``opens`` is the time that is seen first, and ``why`` names it. ``gpu`` is the time with nearly all GPU
    work; None without any. ``findings`` has the longest interval of each finding by its name. ``spots`` are
    times whose events matter, best first.
    """

    opens: tuple[int, int]
    why: str
    gpu: tuple[int, int] | None
    findings: dict[str, tuple[int, int]]
    spots: list[tuple[int, int]]


def focus(capture: Capture, findings: Sequence[Finding], ends: tuple[int, int]) -> InitialView:
    """Return the focus of a timeline from ``ends[0]`` to ``ends[1]``."""
    gpu = _gpu_work(capture)
    steady = main_steps(capture)
    places: dict[str, tuple[int, int]] = {
        one.kind: _longest(one, 1)[0] for one in findings if len(one.evidence.start)
    }
    top = next(iter(places.values()), None)
    if capture.view.selection.windowed:
        opens, why = (capture.window.start_ns, capture.window.end_ns), "selected part"
    elif steady is not None:
        first = findings[0].evidence if findings else NOTHING
        opens, places_in = _opening_step(steady, first)
        why = "the chosen step"
        if len(places_in):
            places[findings[0].kind] = places_in[0]
    elif top is not None:
        opens, why = _around(*top, share=2), "largest finding"
    else:
        opens, why = gpu or ends, "GPU work" if gpu else "all"
    opens = (max(opens[0], ends[0]), min(opens[1], ends[1]))
    spots = _spots(capture, findings, steady) if gpu else []
    return InitialView(opens if opens[1] > opens[0] else ends, why, gpu, places, spots)


def _opening_step(steady: Steps, evidence: IntervalSet) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Return the median step, and the longest interval of a finding in it.

    If there is none in it, the step is the usual one with the longest interval.
    """
    numbers = np.flatnonzero(steady.steady & ~steady.outlier)
    length = steady.duration_ns[numbers]
    middle = int(numbers[np.argsort(length, kind="stable")[(len(numbers) - 1) // 2]])
    for step in (middle, *numbers.tolist()[:_STEPS_TRIED]):
        ends = int(steady.start_ns[step]), int(steady.end_ns[step])
        inside = np.minimum(evidence.end, ends[1]) - np.maximum(evidence.start, ends[0])
        inside = np.where(2 * inside >= evidence.end - evidence.start, inside, 0)  # at least half of it
        if (inside > 0).any():
            most = int(np.argmax(inside))
            return ends, [(int(evidence.start[most]), int(evidence.end[most]))]
    return (int(steady.start_ns[middle]), int(steady.end_ns[middle])), []


def quiet_lanes(lanes: Sequence[Lane], opens: tuple[int, int]) -> list[bool]:
    """Mark the lanes that are folded at first, so that a timeline fits a screen.

    Those stay that have most time in what is seen first: a lane of each family, then more in turn.
    """
    if len(lanes) <= _MOST_UNFOLDED and sum(_heights(lanes, range(len(lanes)))) <= _UNFOLDED_HEIGHT:
        return [False] * len(lanes)
    time = [_time_in(lane, *opens) for lane in lanes]
    families = {family: _by_worth(lanes, time, family) for family in _UNFOLDED}
    turns = range(max(_UNFOLDED.values()))
    wanted = [
        families[family][turn]
        for turn in turns
        for family, most in _UNFOLDED.items()
        if turn < min(most, len(families[family]))
    ]
    shown: list[int] = []
    for i in wanted:
        if sum(_heights(lanes, sorted([*shown, i]))) <= _UNFOLDED_HEIGHT:
            shown.append(i)
    return [bool(shown) and i not in shown for i in range(len(lanes))]


def _by_worth(lanes: Sequence[Lane], time: Sequence[int], family: str) -> list[int]:
    """Return the lanes of a family with time in what is seen, the best first; ranges are of one thread."""
    mine = [i for i, lane in enumerate(lanes) if lane.family == family and time[i]]
    if family == RANGES and mine:
        owner = lanes[max(mine, key=lambda i: (lanes[i].level == 0, time[i]))].owner
        return [i for i in mine if lanes[i].owner == owner]
    first: dict[str, int] = {}  # of each GPU or thread its best lane, then all others
    for i in sorted(mine, key=lambda i: -time[i]):
        first.setdefault(lanes[i].group, i)
    return [*first.values(), *(i for i in sorted(mine, key=lambda i: -time[i]) if i not in first.values())]


def _heights(lanes: Sequence[Lane], indexes: Iterable[int]) -> Iterator[int]:
    group = None
    for i in indexes:
        yield _LANE + (_GROUP if lanes[i].group != group else 0)
        group = lanes[i].group


def _time_in(lane: Lane, start_ns: int, end_ns: int) -> int:
    part = lane.meeting(start_ns, end_ns)
    start, end = np.maximum(lane.start_ns[part], start_ns), np.minimum(lane.end_ns[part], end_ns)
    return int(np.maximum(end - start, 0).sum()) + bool(len(start))


def lane_of(lanes: Sequence[Lane], start_ns: int, end_ns: int) -> int:
    """Return the position of the lane with the event that is most like a part of time; -1 if none is in it.

    NVTX ranges are not what costs time.
    """
    best, found = 0.0, -1
    for i, lane in enumerate(lanes):
        part = lane.meeting(start_ns, end_ns)
        start, end = lane.start_ns[part], lane.end_ns[part]
        if lane.family == RANGES or not len(start):
            continue
        common = np.minimum(end, end_ns) - np.maximum(start, start_ns)
        both = np.maximum(end, end_ns) - np.minimum(start, start_ns)
        alike = float((common / np.maximum(both, 1)).max())
        if alike > best:
            best, found = alike, i
    return found


def _gpu_work(capture: Capture) -> tuple[int, int] | None:
    """Return the time in which all but the outermost parts of the GPU work ran."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return None
    start, end = operations.start_ns, np.maximum.accumulate(operations.end_ns)
    work = np.cumsum(operations.end_ns - operations.start_ns)
    first = int(np.searchsorted(work, _EDGE * work[-1], "right"))
    last = int(np.searchsorted(work, (1 - _EDGE) * work[-1]))
    return int(start[min(first, len(start) - 1)]), int(end[min(last, len(end) - 1)])


@per_capture
def longest_gaps(capture: Capture) -> list[tuple[int, int]]:
    """Return the longest GPU gaps, the longest first."""
    gaps = gaps_of(capture)
    return [(int(gaps.start_ns[i]), int(gaps.end_ns[i])) for i in gaps.longest(_GAPS)]


def _around(start: int, end: int, share: float = 0.25) -> tuple[int, int]:
    more = max(int(share * (end - start)), _LEAST_AROUND_NS)
    return start - more, end + more


def _longest(finding: Finding, most: int) -> list[tuple[int, int]]:
    cover = finding.evidence
    order = largest_first(cover.end - cover.start, most)
    return list(zip(cover.start[order].tolist(), cover.end[order].tolist(), strict=True))


def _spots(capture: Capture, findings: Sequence[Finding], steady: Steps | None) -> list[tuple[int, int]]:
    spots: list[tuple[int, int]] = []
    if steady is not None:
        numbers = np.flatnonzero(steady.steady & ~steady.outlier)
        length = steady.duration_ns
        typical = numbers[np.argsort(length[numbers], kind="stable")][len(numbers) // 2 :][:1]
        outliers = np.flatnonzero(steady.outlier)
        outliers = outliers[np.argsort(-length[outliers], kind="stable")][:_OUTLIERS]
        rows = [*typical.tolist(), *outliers.tolist()]
        spots += [(int(steady.start_ns[i]), int(steady.end_ns[i])) for i in rows]
    for finding in findings:
        spots += [_around(*place) for place in _longest(finding, _PLACES)]
    for place in longest_gaps(capture):  # their ends: nothing runs in between
        spots += [_around(end, end) for end in place]
    if not steady and not findings:
        middle = sum(_gpu_work(capture) or (0, 0)) // 2
        spots.insert(0, _around(middle, middle))
    return spots


Spot = tuple[int, int]  # start and end in ns
_LONGEST = 0.1  # of all kept events: the longest of each lane
_SLIGHTLY = 16  # a window does not grow by less than this part of its length
_LARGEST = 0.1  # of all kept events: those around one spot at most
PER_MILLE = 1000
_FINEST_NS = 20_000
_MOST_BINS = 1 << 17  # of a level


class KeptEvents:
    """The events of each lane that are kept, and the windows in which all are; nothing is left out of them.

    ``rows`` are the positions of the kept events of each lane, ascending.
    """

    def __init__(self, lanes: Sequence[Lane], spots: Sequence[Spot], limit: int) -> None:
        """Keep about ``limit`` events of all lanes: all of them, or those around the spots, best first."""
        self._lanes, self._limit = lanes, limit
        self.whole = sum(map(len, lanes)) <= limit
        if self.whole:
            self.windows: list[Spot] = []
            self.rows = [np.arange(len(lane)) for lane in lanes]
            return
        chosen = self._chosen(spots)
        self.windows = list(zip(chosen.start.tolist(), chosen.end.tolist(), strict=True))
        longest = max(int(_LONGEST * limit) // max(len(lanes), 1), 10)
        kept = [self._kept(lane, longest) for lane in lanes]
        calls = np.concatenate([lane.call[marks] for lane, marks in zip(lanes, kept, strict=True)])
        made = [lane for lane in lanes if lane.family == CALLS]
        launched = np.zeros(max(int(part.max()) for part in (calls, *(lane.row for lane in made))) + 2, bool)
        launched[calls] = True
        launched[-1] = False  # what no call launched
        self.rows = [
            np.flatnonzero(marks | launched[lane.row] if lane.family == CALLS else marks)
            for lane, marks in zip(lanes, kept, strict=True)
        ]

    def _count(self, start: int, end: int) -> int:
        found = [lane.meeting(start, end) for lane in self._lanes]
        return sum(places.stop - places.start for places in found)

    def _chosen(self, spots: Sequence[Spot]) -> IntervalSet:
        """Return the windows around the spots that fit; the first grows until nothing more fits."""
        most = int((1 - 2 * _LONGEST) * self._limit)
        found: list[Spot] = []
        left = most
        for start, end in spots:
            window = self._shrunk(start, end, int(_LARGEST * self._limit))
            count = self._count(*window)
            if count <= left:
                found.append(window)
                left -= count
        if found:
            (start, end), size = found[0], self._count(*found[0])
            first = min(int(lane.start_ns[0]) for lane in self._lanes)
            part = 2  # of its length, by which it grows at both ends
            while part <= _SLIGHTLY and (more := (end - start) // part):
                wider = self._count(start - more, end + more)
                if wider - size > left:
                    part *= 2
                    continue
                if start < first and wider == size:
                    break
                start, end = start - more, end + more
            found[0] = (start, end)
        times = np.array(found, np.int64).reshape(-1, 2)
        return union(times[:, 0], times[:, 1])

    def _shrunk(self, start: int, end: int, most: int) -> Spot:
        """Return a window around the middle of a spot that meets at most about so many events."""
        while self._count(start, end) > most and end - start > 1000:  # noqa: PLR2004 - a microsecond
            quarter = (end - start) // 4
            start, end = start + quarter, end - quarter
        return start, end

    def _kept(self, lane: Lane, longest: int) -> NDArray[np.bool_]:
        marks = np.full(len(lane), len(lane) <= longest)
        if len(lane) > longest:
            marks[np.argpartition(lane.start_ns - lane.end_ns, longest)[:longest]] = True
        for start, end in self.windows:
            places = lane.meeting(start, end)
            marks[places] |= lane.end_ns[places] > start
        return marks


class Level(NamedTuple):
    """Bins of equal width: ``bins`` of them, each ``width_ns`` long, from ``start_ns``."""

    start_ns: int
    width_ns: int
    bins: int

    @property
    def end_ns(self) -> int:
        """The end of the last bin."""
        return self.start_ns + self.width_ns * self.bins


class Density(NamedTuple):
    """The bins that hold something, one entry for each series and bin.

    ``taken_ns`` is the event time inside the bin, summed. ``begun`` counts the events that start in the bin.
    """

    series: NDArray[Any]
    bin: NDArray[Any]
    taken_ns: NDArray[Any]
    begun: NDArray[Any]


def level(first_ns: int, last_ns: int, bins: int) -> Level:
    """Return at most ``bins`` bins of whole ns that cover the time from ``first_ns`` to ``last_ns``."""
    length = max(last_ns - first_ns, 1)
    width = -(-length // bins)
    return Level(first_ns, width, -(-length // width))


def density(start: NDArray[Any], end: NDArray[Any], series: NDArray[Any], count: int, of: Level) -> Density:
    """Return the density of events of ``count`` series. Times outside the level are cut off."""
    begun = (start >= of.start_ns) & (start < of.end_ns)
    start, end = (np.clip(times, of.start_ns, of.end_ns) - of.start_ns for times in (start, end))
    size = of.bins + 1  # the last bin is for events that end with the level
    first, last = start // of.width_ns, end // of.width_ns
    key = series * np.int64(size) + first
    # As if all of an event were in the bin that it starts in. A float sum is exact up to 104 days.
    taken = np.bincount(key, end - start, count * size)
    over = np.flatnonzero(first != last)
    if len(over):
        left, right = key[over], key[over] + (last - first)[over]
        moved = end[over] % of.width_ns, (first[over] + 1) * of.width_ns - end[over]
        taken += np.bincount(np.concatenate((right, left)), np.concatenate(moved), count * size)
        long = right > left + 1
        edges, ones = np.concatenate((left[long] + 1, right[long])), np.ones(np.count_nonzero(long))
        if len(edges):  # the bins in between
            between = np.bincount(edges, np.concatenate((ones, -ones)), count * size)
            taken += np.cumsum(between, out=between) * of.width_ns
    begins = np.bincount(key[begun], minlength=count * size)
    cell = np.flatnonzero((taken > 0) | (begins > 0))
    cell = cell[cell % size < of.bins]
    return Density(*np.divmod(cell, size), taken[cell].astype(np.int64), begins[cell])


def lane_density(lane: Lane, of: Level) -> Density:
    """Return the density of a lane. ``series`` are positions in its ``kinds``, ascending."""
    meeting = lane.meeting(of.start_ns, of.end_ns)
    number = np.zeros(len(lane.kinds), np.int32)
    number[lane.present] = np.arange(len(lane.present))
    spans = (lane.start_ns[meeting], lane.end_ns[meeting])
    found = density(*spans, number[lane.series[meeting]], len(lane.present), of)
    return found._replace(series=np.array(lane.present)[found.series])


def finest(lanes: Sequence[Lane], span: tuple[int, int], cells: float) -> tuple[Level, float]:
    """Return bins for a part of time: about so many filled ones of all lanes and series, none too fine.

    Returns also about how many are filled: as many as if the events began at random.
    """
    counts: list[NDArray[Any]] = []
    times: list[NDArray[Any]] = []
    for lane in lanes:
        meeting = lane.meeting(*span)
        series = lane.series[meeting]
        counts.append(np.bincount(series))
        times.append(np.bincount(series, lane.end_ns[meeting] - lane.start_ns[meeting]))
    count, time = np.concatenate(counts), np.concatenate(times)
    length, width = max(span[1] - span[0], 1), max(_FINEST_NS, (span[1] - span[0]) // _MOST_BINS)

    def filled() -> float:
        bins = length / width
        return float(-bins * np.expm1(-(count + time / width) / bins).sum())

    while filled() > cells and width < length:
        width += width // 4
    return level(*span, -(-length // width)), filled()


_SHAPE = tuple(f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz")
_MEMORY = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")
_FIELDS = {
    KERNEL: (*_SHAPE, *_MEMORY),
    MEMCPY: ("src_kind", "dst_kind", "bytes"),
    MEMSET: ("bytes",),
    GRAPH: (),
}


class EventDetails(NamedTuple):
    """One entry per event: codes of ``shapes`` and ``paths``, bytes, and correlation ids; 0 is none."""

    shape: NDArray[Any]
    path: NDArray[Any]
    bytes: NDArray[Any]
    correlation: NDArray[Any]
    shapes: list[str]
    paths: list[str]


def facts_of(capture: Capture, lanes: Sequence[Lane], kept: Sequence[NDArray[Any]]) -> EventDetails:
    """Return the facts of the kept events of all lanes, lane by lane."""
    whole = capture.whole
    count = sum(map(len, kept))
    gpu, calls, launched = (np.full(count, -1) for _ in range(3))
    first = 0
    for lane, rows in zip(lanes, kept, strict=True):
        place = slice(first, first + len(rows))
        first += len(rows)
        if lane.family == KERNELS:
            gpu[place], launched[place] = lane.row[rows], lane.call[rows]
        elif lane.family == CALLS:
            calls[place] = launched[place] = lane.row[rows]
    shape, path, size, correlation = np.zeros((4, count), np.int64)
    facts = EventDetails(shape, path, size, correlation, [""], [""])
    _of_operations(capture, facts, gpu)
    _of_calls(capture, facts, calls, launched)
    if whole.has("nvtx") and whole.has("api") and (launched >= 0).any():
        code, paths = call_paths(whole, launched)
        facts.path[:] = np.where((code == MISSING) | (launched < 0), 0, code + 1)
        facts.paths.extend(paths)
    facts.correlation[facts.correlation == MISSING] = 0
    return facts


def _of_operations(capture: Capture, facts: EventDetails, gpu: NDArray[Any]) -> None:
    """Fill in shape, bytes and correlation of the GPU operations at these positions; -1 is none."""
    places = np.flatnonzero(gpu >= 0)
    if not len(places):
        return
    operations = gpu_operations_of(capture)
    for number, kind in enumerate(KINDS):
        mine = places[operations.kind[gpu[places]] == number]
        rows = operations.row[gpu[mine]]
        if not len(mine):
            continue
        facts.correlation[mine], *found = _at(capture, kind, rows, "correlation_id", *_FIELDS[kind])
        if kind in (MEMCPY, MEMSET):
            size = found.pop()
            facts.bytes[mine] = np.where(size == MISSING, 0, size)
        if found:
            code, keys = group_keys(*found)
            values = zip(*(key.tolist() for key in keys), strict=True)
            labels = capture.labels("mem_kind")
            texts = [_shape_text(*key) if kind == KERNEL else _ends_text(labels, key) for key in values]
            facts.shape[mine] = code + len(facts.shapes)
            facts.shapes.extend(texts)


def _of_calls(capture: Capture, facts: EventDetails, calls: NDArray[Any], launched: NDArray[Any]) -> None:
    """Fill in the correlation of the API calls at these positions; -1 is none.

    A call has the id of what it launched, so that only the others are read.
    """
    operations = np.flatnonzero((calls < 0) & (launched >= 0))
    of_call = np.full(max(int(launched.max(initial=-1)), 0) + 1, MISSING)
    of_call[launched[operations]] = facts.correlation[operations]
    mine = np.flatnonzero(calls >= 0)
    facts.correlation[mine] = of_call[calls[mine]]
    others = mine[facts.correlation[mine] == MISSING]
    if len(others):
        facts.correlation[others] = _at(capture, "api", calls[others], "correlation_id")[0]


def _at(capture: Capture, kind: str, rows: NDArray[Any], *fields: str) -> list[NDArray[Any]]:
    used, codes = distinct(rows)
    return [values[codes] for values in capture.whole.at(kind, used, *fields).values()]


def _shape_text(*numbers: int) -> str:
    grid, block = (" \N{MULTIPLICATION SIGN} ".join(map(str, numbers[i : i + 3])) for i in (0, 3))
    registers, static, dynamic = numbers[6:]
    parts = [f"grid {grid}", f"block {block}"]
    if registers != MISSING:
        parts.append(f"{registers} registers per thread")
    if MISSING not in (static, dynamic):
        parts.append(f"{human(static + dynamic, Unit.BYTES)} shared memory")
    return ", ".join(parts)


def _ends_text(labels: Mapping[int, str], kinds: tuple[int, ...]) -> str:
    if MISSING in kinds:
        return ""
    source, target = (labels.get(kind, "?") for kind in kinds)
    return f"{source} to {target} memory"


_MARGIN = 20  # of the time with fine bins, at each end
_NAME_LENGTH, _LONGEST_NAME = 300, 4_000  # characters of a readable and of a full name
_NO_CALL, _CALL_NOT_KEPT = -1, -2
_TENTHS = 10
_RAW = -15  # window bits of zlib: without header, as the browser's "deflate-raw" reads it
_ASCENDING = frozenset(("start", "call", "correlation", "at", "times"))


@dataclass(frozen=True)
class Picture:
    """The lanes of a picture, which of their events are kept, and its first and last time in ns."""

    lanes: Sequence[Lane]
    kept: KeptEvents
    ends: tuple[int, int]
    focus: InitialView
    curves: Sequence[Curve] = ()

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of events in all lanes, each once."""
        return list(dict.fromkeys(lane.kinds[i] for lane in self.lanes for i in lane.present))

    def series(self, lane: Lane) -> NDArray[Any]:
        """Return the position in ``kinds`` of each of a lane's own kinds; -1 if it has none of it."""
        number = {kind: i for i, kind in enumerate(self.kinds)}
        return np.array([number.get(kind, -1) for kind in lane.kinds], np.int64)

    @cached_property
    def crowded(self) -> list[int]:
        """The lanes that do not keep all their events."""
        rows = self.kept.rows
        return [i for i, lane in enumerate(self.lanes) if len(rows[i]) < len(lane)]


class FilledBins(NamedTuple):
    """Filled bins in order of level, lane, series and place, and what they belong to."""

    columns: dict[str, NDArray[Any]]
    parts: list[list[int]]  # level, lane, series, number of bins


def script_data(capture: Capture, picture: Picture, most_cells: int) -> dict[str, Any]:
    """Return what the script draws; about ``most_cells`` bins for all lanes and series together."""
    first, last = picture.ends
    events, texts = _events(capture, picture)
    levels = _levels(picture, most_cells)
    cells = _cells(picture, levels)
    quiet = quiet_lanes(picture.lanes, picture.focus.opens)
    near = [(max(start, first) - first, min(end, last) - first) for start, end in picture.kept.windows]
    opens, gpu = (
        [end - first for end in span] if span else None for span in (picture.focus.opens, picture.focus.gpu)
    )
    return {
        "origin": first,
        "length": max(last - first, 1),
        "opens": opens,
        "why": picture.focus.why,
        "gpu": gpu,
        "detail": near,
        "series": [_series(kind) for kind in picture.kinds],
        "lanes": [
            {
                "group": plain(lane.group),
                "title": plain(lane.title),
                "family": lane.family,
                "level": lane.level,
                "quiet": quiet[i],
                "kept": len(picture.kept.rows[i]),
                "count": len(lane),
            }
            for i, lane in enumerate(picture.lanes)
        ],
        "levels": [[of.start_ns - first, of.width_ns, of.bins] for of in levels],
        "cells": cells.parts,
        "findings": {
            name: [start - first, end - first, lane_of(picture.lanes, start, end)]
            for name, (start, end) in picture.focus.findings.items()
        },
        "source": plain(capture.source.name),
        "curves": [
            [plain(text) for text in (curve.group, curve.title, curve.unit, curve.joined)]
            + [len(curve.values), _parts(curve)]
            for curve in picture.curves
        ],
        **pack({**events, **cells.columns, **_curves(picture)}, texts, _ASCENDING),
    }


def _curves(picture: Picture) -> dict[str, NDArray[Any]]:
    empty = np.empty(0, np.int64)
    times = np.concatenate([empty, *(curve.times_ns for curve in picture.curves)])
    values = [np.round(curve.values * _parts(curve)).astype(np.int64) for curve in picture.curves]
    return {"times": times - picture.ends[0], "values": np.concatenate([empty, *values])}


def _parts(curve: Curve) -> int:
    """Return how many parts of its unit a curve is written in: 1, or 10 where values are no integers."""
    return 1 if (curve.values == np.round(curve.values)).all() else _TENTHS


def _series(kind: Kind) -> dict[str, Any]:
    style = style_of(kind)
    return {"family": kind[0], "name": plain(name_of(kind)), "hue": style.hue, "texture": style.texture}


def _levels(picture: Picture, most_cells: int) -> list[Level]:
    """Return bins of the whole time, and finer ones of the time of GPU work and of what is looked at first.

    Each part has half of the bins that are left, or fewer where those are the finest; the whole has the rest.
    """
    lanes = [picture.lanes[i] for i in picture.crowded]
    first, last = picture.ends
    spans = [picture.ends]
    for start, end in filter(None, (picture.focus.gpu, picture.focus.opens)):
        margin = (end - start) // _MARGIN
        part = max(start - margin, first), min(end + margin, last)
        if 2 * (part[1] - part[0]) <= spans[-1][1] - spans[-1][0]:
            spans.append(part)
    found: list[Level] = []
    left = float(most_cells)
    while spans and lanes:
        fine, filled = finest(lanes, spans.pop(), left / 2 if spans else left)
        found.insert(0, fine)
        left -= filled
    return found


def _cells(picture: Picture, levels: Sequence[Level]) -> FilledBins:
    """Return the bins of all levels that hold something, for each crowded lane and series.

    ``at`` are the bins, ``share`` is the taken part in per mille, ``begun`` counts the events that start in a
    bin.
    """
    parts: list[list[int]] = []
    columns: dict[str, list[NDArray[Any]]] = {"at": [], "share": [], "begun": []}
    for number, of in enumerate(levels):
        for i in picture.crowded:
            found = lane_density(picture.lanes[i], of)
            share = np.minimum(-(-found.taken_ns * PER_MILLE // of.width_ns), PER_MILLE)
            series, counts = picture.series(picture.lanes[i]), np.bincount(found.series)
            parts += [[number, i, int(series[kind]), int(counts[kind])] for kind in np.flatnonzero(counts)]
            for name, values in (("at", found.bin), ("share", share), ("begun", found.begun)):
                columns[name].append(values)
    empty = np.empty(0, np.int64)
    return FilledBins({name: np.concatenate([empty, *each]) for name, each in columns.items()}, parts)


def _events(capture: Capture, picture: Picture) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the kept events, lane by lane, and their texts.

    ``call`` is the position of the call that launched an event: -1 if no call was recorded, -2 if it was not
    kept. ``look`` numbers the pairs of series and name.
    """
    rows = picture.kept.rows

    def column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part[mine] for part, mine in zip(parts, rows, strict=True)]).astype(np.int64)

    start, end, row, call = (
        column([getattr(lane, field) for lane in picture.lanes])
        for field in ("start_ns", "end_ns", "row", "call")
    )
    of_series = [
        picture.series(lane)[lane.series[mine]] for lane, mine in zip(picture.lanes, rows, strict=True)
    ]
    series = np.concatenate(of_series)
    name, names = _names(picture)
    codes, looks = _pairs(series, name)
    is_call = np.repeat([lane.family == CALLS for lane in picture.lanes], [len(mine) for mine in rows])
    facts = facts_of(capture, picture.lanes, rows)
    texts = {
        **names,
        "looks": looks,
        "shapes": [plain(text) for text in facts.shapes],
        "paths": [clipped(plain(text), _NAME_LENGTH) for text in facts.paths],
    }
    return {
        "start": start - picture.ends[0],
        "duration": end - start,
        "look": codes,
        "call": _positions(row, call, is_call),
        "shape": facts.shape,
        "path": facts.path,
        "bytes": facts.bytes,
        "correlation": facts.correlation,
    }, texts


def _pairs(series: NDArray[Any], name: NDArray[Any]) -> tuple[NDArray[Any], list[list[int]]]:
    most = int(name.max(initial=0)) + 1
    known, codes = distinct(series * most + name)
    return codes, [[int(pair) // most, int(pair) % most] for pair in known.tolist()]


def _positions(row: NDArray[Any], call: NDArray[Any], is_call: NDArray[Any]) -> NDArray[Any]:
    """Return the position among the kept events of the call that launched each of them."""
    place = np.full(int(max(row[is_call].max(initial=-1), call.max(initial=-1))) + 2, _CALL_NOT_KEPT)
    place[row[is_call]] = np.flatnonzero(is_call)
    place[-1] = _NO_CALL
    found: NDArray[Any] = place[call]
    return found


def _names(picture: Picture) -> tuple[NDArray[Any], dict[str, list[str]]]:
    """Return for each kept event the number of its name, the readable names, and the full ones."""
    numbers: dict[str, int] = {}
    parts = [np.empty(0, np.int64)]
    for lane, rows in zip(picture.lanes, picture.kept.rows, strict=True):
        used, codes = distinct(lane.name[rows])
        known = [numbers.setdefault(lane.names[code], len(numbers)) for code in used.tolist()]
        parts.append(np.array(known, np.int64)[codes])
    kernels = {text for lane in picture.lanes if lane.family == KERNELS for text in lane.names}
    readable = distinct_names({*numbers, *kernels})  # as in the table of all kernels, also of those not kept
    return np.concatenate(parts), {
        "names": [clipped(plain(readable[text]), _NAME_LENGTH) for text in numbers],
        "full": [clipped(plain(text), _LONGEST_NAME) for text in numbers],
    }


def pack(columns: Mapping[str, NDArray[Any]], texts: object, ascending: frozenset[str]) -> dict[str, Any]:
    """Return the columns and a JSON value of texts as one compressed text, and what unpacks them.

    The n-th bytes of all values of a column lie together, so that the zeros of small values take no room.
    ``ascending`` names the columns that are written as differences. Values are at most 2^53 apart.
    """
    described, parts = [], []
    for name, values in columns.items():
        numbers = (
            np.diff(values.astype(np.int64), prepend=0) if name in ascending else values.astype(np.int64)
        )
        base = int(numbers.min(initial=0))
        numbers = numbers - base
        size = (int(numbers.max(initial=0)).bit_length() + 7) // 8
        described.append([name, len(values), size, base, int(name in ascending)])
        parts.append(numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes())
    text = json.dumps(texts, separators=(",", ":"), allow_nan=False).encode()
    # In columns of bytes only repeats of one byte are worth looking for, which takes a tenth of the time.
    runs, words = (
        zlib.compressobj(wbits=_RAW, strategy=how) for how in (zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY)
    )
    compressed = [
        *map(runs.compress, parts),
        runs.flush(zlib.Z_FULL_FLUSH),
        words.compress(text),
        words.flush(),
    ]
    return {"columns": described, "packed": base64.b64encode(b"".join(compressed)).decode()}
