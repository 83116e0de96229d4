"""Put the events of a capture into lanes, in display order: GPUs first, then host threads.

A GPU has a lane for each stream, with kernels by kind and copies by direction, and one for unified memory. A
thread has a lane for each nesting level of its NVTX ranges, one for its CUDA API calls, and one for each
other kind of call that was recorded. Events that overlap are moved into sub-lanes, or by their depth.

Perfetto nests the slices of a lane by their times. Slices that cross would be drawn in the wrong place or
not at all. Times are in ns. No slice ends before it starts. Slices that only touch do not overlap. The slices
of a lane are in drawing order: by start, and of equal starts the outer one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, number_texts, order_by_code
from nsyswrap.analysis.arrays.spans import Spans
from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    GpuOperations,
    clipped,
    gpu_operations_of,
    names,
)
from nsyswrap.analysis.names import (
    CLASSES,
    call_classes,
    call_names,
    most_frequent,
    name_codes,
    strip_version,
)
from nsyswrap.analysis.nvtx_ranges import ALL, nested_ranges, range_labels
from nsyswrap.analysis.peaks import kernel_kinds
from nsyswrap.analysis.steps import steps_of
from nsyswrap.analysis.usage import PINNED_MEMORY, gpu_metrics_of, memory_use_of, nvml_curves_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, intersection, union
from nsyswrap.capture.schema import SPANS
from nsyswrap.render.timeline.names import (
    CALLS,
    IDLE,
    KERNELS,
    NO_NAME,
    OTHERS,
    RANGES,
    STEPS,
    Kind,
    gpu_name,
    kind_of,
    process_text,
    stream_names,
    streams_of,
    sublane_suffix,
    thread_names,
)
from nsyswrap.reports.wording.states import CAUSE_NAMES

Ints = NDArray[Any]

_MOST = 8192  # values of a curve; more are joined
_NS_PER_S = 1_000_000_000
BYTES = "bytes"
# Column of the samples: title, unit, and units of the column in it.
_SAMPLED = {
    "sm_mhz": ("SM clock", "MHz", 1),
    "memory_mhz": ("memory clock", "MHz", 1),
    "power_mw": ("power", "W", 1000),
    "temperature_c": ("temperature", "\N{DEGREE SIGN}C", 1),
}
WARM_UP, STEADY, OUTLIER, LEFT_OUT = range(4)
_STEP_KINDS = ("warm-up", "steady step", "outlier step", "other step")


def drawing_order(lane: Ints, lanes: int, rank: Ints, start: Ints, end: Ints) -> Ints:
    """Return the order of slices by lane, in ``range(lanes)``, and in drawing order in each lane.

    Of equal starts the slice of the lower rank is outside, and of equal ranks the longer one.
    """
    order: Ints = order_by_code(lane, lanes)
    of, begins = lane[order], start[order]
    if ((of[1:] == of[:-1]) & (begins[1:] <= begins[:-1])).any():  # rows of nsys mostly come in order
        order = order[np.lexsort((-end[order], rank[order], begins, of))]
    return order


def by_lane(lane: Ints) -> Iterator[slice]:
    """Yield the rows of each lane. The lanes are ascending."""
    cuts = [0, *(np.flatnonzero(lane[1:] != lane[:-1]) + 1).tolist(), len(lane)]
    return map(slice, cuts[:-1], cuts[1:]) if len(lane) else iter(())


def rows_by_lane(lane: Ints, lanes: int, order: Ints | None = None) -> list[Ints]:
    """Return the rows of each lane in ``range(lanes)``: ascending, or in an ``order`` that is by lane."""
    if not lanes:  # np.split returns one part
        return []
    order = order_by_code(lane, lanes) if order is None else order
    return np.split(order, np.cumsum(np.bincount(lane, minlength=lanes))[:-1])


def sublanes(
    rows_of: Iterable[Ints], start: Ints, end: Ints, split: Callable[[Ints, Ints], Ints]
) -> Iterator[tuple[int, int, Ints]]:
    """Yield number, sub-lane and rows of each sub-lane of lanes with these rows, as ``split`` parts them."""
    for number, rows in enumerate(rows_of):
        sublane = split(start[rows], end[rows])
        for one in range(int(sublane.max(initial=-1)) + 1):
            yield number, one, rows[sublane == one] if sublane.any() else rows


def event_places(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the place of each slice's begin and of its end among all 2n events of a lane.

    Slices end from the inside out, and before one begins at the same time.
    """
    numbers = np.arange(len(start))
    if (start[1:] >= end[:-1]).all():
        return 2 * numbers, 2 * numbers + 1
    _, closing, ended = _closing(start, end)
    ends = np.empty_like(numbers)
    ends[closing[0]] = closing[1] + numbers
    return numbers + ended, ends


def _closing(start: Ints, end: Ints) -> tuple[bool, tuple[Ints, Ints], Ints]:
    """Return whether all slices nest, and what is needed to order their begins and ends.

    That is the slices by end with the number of those that have begun before, and for each slice the number
    of those that have ended before it begins.
    """
    numbers = np.arange(len(start))
    begun = np.maximum(numbers + 1, np.searchsorted(start, end, "left"))
    order = numbers[::-1][np.argsort(begun[::-1], kind="stable")]  # of one gap the innermost first
    ended = np.cumsum(np.bincount(begun, minlength=len(start) + 1))[:-1]
    # Where all nest, the ends ascend, and as many slices are open after the end of one as before its begin.
    ascending = bool((end[order][1:] >= end[order][:-1]).all())
    nests = ascending and bool((begun[order] - numbers - 1 == (numbers - ended)[order]).all())
    return nests, (order, begun[order]), ended


def nested(start: Ints, end: Ints) -> Ints:
    """Return for each slice of a lane a sub-lane in which all slices nest; 0 is the lane itself."""
    sublane = np.zeros(len(start), np.int64)
    if (start[1:] >= end[:-1]).all() or _closing(start, end)[0]:
        return sublane
    stacks: list[list[int]] = []  # of end times, one for each sub-lane
    rows = np.flatnonzero(crossing(start, end))  # all others fit the lane
    for row, begins, until in zip(rows.tolist(), start[rows].tolist(), end[rows].tolist(), strict=True):
        fitting = (number for number, stack in enumerate(stacks) if _fits_inside(stack, begins, until))
        sublane[row] = number = next(fitting, len(stacks))
        if number == len(stacks):
            stacks.append([])
        stacks[number].append(until)
    return sublane


def crossing(start: Ints, end: Ints) -> Ints:
    """Return a mask of the slices that overlap another slice of their lane without nesting."""
    numbers = np.arange(len(start))
    long = np.flatnonzero(end > start)  # a slice of no length crosses no other
    first, last = start[long], end[long]
    closing = np.lexsort((-numbers[: len(long)], last))
    opens = np.arange(len(long)) + np.searchsorted(last[closing], first, "right")
    closes = np.empty_like(opens)
    closes[closing] = np.arange(len(long)) + np.searchsorted(first, last[closing], "left")
    # A slice crosses no other if the same slices are open at its start and at its end. Each slice gets a
    # random number, and the XOR of the open ones' numbers is compared. Different sets have equal XORs with a
    # probability of 2^-63.
    mark = np.random.default_rng(0).integers(0, 2**63, len(long))
    opened = np.zeros(2 * len(long), np.int64)
    opened[opens], opened[closes] = mark, mark
    opened = np.bitwise_xor.accumulate(opened) if len(long) else opened
    crosses = np.zeros(len(start), dtype=bool)
    crosses[long] = (opened[opens] ^ mark) != opened[closes]
    return crosses


def _fits_inside(stack: list[int], start: int, end: int) -> bool:
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]


def disjoint(start: Ints, end: Ints) -> Ints:
    """Return for each slice of a lane a sub-lane in which no slices overlap; 0 is the lane itself."""
    overlaps = np.zeros(len(start), dtype=bool)
    reached = np.maximum.accumulate(end)
    overlaps[1:] = start[1:] < reached[:-1]
    numbers = np.arange(len(start))
    place = numbers - np.maximum.accumulate(np.where(overlaps, 0, numbers))  # among slices that are joined
    sublane = place & 1  # where no three overlap
    many = np.flatnonzero(start[2:] < reached[:-2]) + 2
    if not len(many):
        return sublane
    group = np.cumsum(~overlaps)
    crowded = np.zeros(group[-1] + 1, dtype=bool)
    crowded[group[many]] = True
    busy: list[tuple[int, int]] = []  # end and number of each used sub-lane, as a heap
    free: list[int] = []  # a heap, too
    meets = crowded[group]
    numbered: list[int] = []
    for begins, until in zip(start[meets].tolist(), end[meets].tolist(), strict=True):
        while busy and busy[0][0] <= begins:
            heappush(free, heappop(busy)[1])
        numbered.append(heappop(free) if free else len(busy))
        heappush(busy, (until, numbered[-1]))
    sublane[meets] = numbered
    return sublane


def few_disjoint(start: Ints, end: Ints, most: int = 4) -> Ints:
    """Return sub-lanes as ``disjoint`` does. The last of at most ``most`` keeps what fits nowhere else."""
    return np.minimum(disjoint(start, end), most - 1)


def outermost(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Mark the spans of depth 0; see ``levels``."""
    marks = np.ones(len(start), dtype=bool)
    marks[1:] = np.maximum.accumulate(_until(start, end))[:-1] <= start[1:]
    return marks


def levels(start: Ints, end: Ints) -> Ints:
    """Return for each span the number of spans that are open when it starts, if all spans nest.

    Spans are sorted by start. Of equal starts the longest is first. If some cross, the depths are such that
    no two spans of a depth overlap.
    """
    if crossing(start, end).any():
        return disjoint(start, _until(start, end))
    ends = np.sort(_until(start, end))
    depth: Ints = np.arange(len(start)) - np.searchsorted(ends, start, "right")
    return depth


def _until(start: Ints, end: Ints) -> Ints:
    until: Ints = np.maximum(end, start + 1)  # an empty span is still open at its start
    return until


# Calls besides those of CUDA: kind of event and title of the lane. Calls of the first kinds make the others.
OTHER_CALLS = {
    "openmp": "OpenMP",
    "openacc": "OpenACC",
    "mpi_collective": "MPI collectives",
    "mpi_p2p": "MPI sends and receives",
    "mpi_start_wait": "MPI starts and waits",
    "mpi_other": "other MPI calls",
    "osrt": "OS calls",
    "overhead": "profiler overhead",
    "cuda_overhead": "overhead in CUDA",
}
_OVERHEAD = ("overhead", "cuda_overhead")  # without a lane on threads that do nothing else: those of nsys

_MOST_DIRECTIONS = 16  # of copies; nsys has fewer
_LEVELS = 12  # of nested NVTX ranges; deeper ranges have no lane


@dataclass(eq=False)
class Lane:
    """The events of one lane in order of start; times in ns.

    ``family`` is KERNELS for a lane of a GPU, else that of its events. ``owner`` is the global thread id, or
    the global process id of a stream, ``device`` the number of the GPU. ``level`` counts the lanes of one
    stream, or of a thread's ranges. ``series`` is each event's position in ``kinds``, ``name`` that in
    ``names``. ``row`` is its position among all GPU operations, API calls or, for ranges, NVTX events; -1 in
    other lanes. ``call`` is the position of the API call that launched the event, or -1. ``selected`` are the
    NVTX ranges that events are clipped to, if there are several. All but the times are int32 or smaller, as a
    page holds the lanes of all events at once.
    """

    family: str
    owner: int
    group: str
    title: str
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    kinds: Sequence[Kind]
    name: NDArray[Any]
    names: Sequence[str]
    series: NDArray[Any] = field(default_factory=lambda: np.array(0, np.int32))
    row: NDArray[Any] = field(default_factory=lambda: np.array(-1, np.int32))
    call: NDArray[Any] = field(default_factory=lambda: np.array(-1, np.int32))
    selected: IntervalSet | None = None
    level: int = 0
    device: int = MISSING

    def __post_init__(self) -> None:
        """Make each column as long as the lane; what is the same for all events takes no memory."""
        self.name = _smallest(self.name, len(self.names))
        self.series = _smallest(self.series, len(self.kinds))
        self.series, self.row, self.call = (
            np.broadcast_to(values, len(self)) for values in (self.series, self.row, self.call)
        )

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)

    @cached_property
    def present(self) -> list[int]:
        """The positions in ``kinds`` that the events have, ascending."""
        return np.flatnonzero(np.bincount(self.series)).tolist()

    @cached_property
    def disjoint(self) -> bool:
        """True if no event begins before the one in front of it ends."""
        return bool((self.start_ns[1:] >= self.end_ns[:-1]).all())

    @cached_property
    def reach_ns(self) -> NDArray[Any]:
        """The latest end of the events up to each one, in ns."""
        end = self.end_ns
        return end if self.disjoint or (end[1:] >= end[:-1]).all() else np.maximum.accumulate(end)

    def meeting(self, start_ns: int, end_ns: int) -> slice:
        """Return the positions from the first to the last event that is in a part of time."""
        first = self.reach_ns.searchsorted(start_ns, "right")
        return slice(int(first), int(self.start_ns.searchsorted(end_ns)))

    @property
    def busy_ns(self) -> int:
        """The selected time in which at least one event went on, in ns."""
        if self.selected is None and self.disjoint:
            return int(np.maximum(self.end_ns - self.start_ns, 0).sum())
        busy = union(self.start_ns, self.end_ns)
        return busy.length if self.selected is None else intersection(busy, self.selected).length


def _smallest(codes: NDArray[Any], count: int) -> NDArray[Any]:
    return codes.astype(np.min_scalar_type(count), copy=False)


def _name_texts(names: Sequence[str | None]) -> list[str]:
    return [NO_NAME if name is None else name for name in names]


def streams(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each stream; operations that overlap are in lanes below one another."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return
    series, kinds = _series(capture, operations)
    name = names(capture, operations)
    texts = _name_texts(name.texts)
    stream, every = streams_of(operations)
    titles, rows_of = stream_names(every), rows_by_lane(stream, len(every))
    for number, level, rows in sublanes(rows_of, operations.start_ns, operations.end_ns, few_disjoint):
        place = every[number]
        yield Lane(
            family=KERNELS,
            owner=place.global_pid,
            group=gpu_name(capture, place.device),
            title=titles[number] + sublane_suffix(level),
            start_ns=operations.start_ns[rows],
            end_ns=operations.end_ns[rows],
            series=series[rows],
            kinds=kinds,
            name=name.codes[rows],
            names=texts,
            row=rows.astype(np.int32),
            call=operations.call[rows].astype(np.int32),
            selected=_selected(capture, capture.window.of_process(place.global_pid)),
            level=level,
            device=place.device,
        )


def _selected(capture: Capture, ranges: IntervalSet) -> IntervalSet | None:
    return ranges if clipped(capture) and capture.window.several else None


def _series(capture: Capture, operations: GpuOperations) -> tuple[NDArray[Any], list[Kind]]:
    """Return the code of each operation's kind, and the kinds: kernels by theirs, copies by direction."""
    every_kind: list[Kind] = []
    every_code = np.zeros(len(operations), np.int32)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            codes, kinds = _kinds(capture, kind, operations.row[mine])
            every_code[mine] = codes + len(every_kind)
            every_kind += kinds
    return every_code, every_kind


def _kinds(capture: Capture, kind: str, rows: NDArray[Any]) -> tuple[NDArray[Any], list[Kind]]:
    if kind in (MEMSET, GRAPH):
        return np.zeros(len(rows), np.int64), [kind_of(kind)]
    if kind == KERNEL:
        codes, classes = kernel_kinds(capture.whole)
        return codes[rows], [kind_of(kind, name) for name in classes]
    labels = capture.labels("copy_kind")
    ids, codes = distinct(capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows])
    directions = [labels.get(i, f"copy kind {i}") for i in ids.tolist()]
    codes, directions = most_frequent(codes, directions, _MOST_DIRECTIONS, "other copies")
    return codes, [kind_of(kind, direction) for direction in directions]


def threads(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each thread: its NVTX ranges, its API calls, and other calls."""
    kinds = [kind for kind in ("nvtx", "api", *OTHER_CALLS) if capture.has(kind)]
    owners = [distinct(capture.columns(kind, "global_tid")["global_tid"])[0] for kind in kinds]
    names = thread_names(capture, ascending(np.concatenate(owners)).tolist()) if owners else {}
    lanes = [*_ranges(capture, names)] if capture.has("nvtx") else []
    lanes += _calls(capture, names) if capture.has("api") else ()
    for kind in OTHER_CALLS:
        if capture.has(kind):
            known = {lane.owner for lane in lanes}
            found = _other_calls(capture, kind, names)
            lanes += (lane for lane in found if kind not in _OVERHEAD or lane.owner in known)
    yield from sorted(lanes, key=lambda lane: lane.owner)


def ranges_left_out(capture: Capture, lanes: Iterable[Lane]) -> int:
    """Return the number of NVTX ranges without a lane: nested too deep, or ended on another thread."""
    if not capture.has("nvtx"):
        return 0
    every = int(np.isin(capture.columns("nvtx", "event_type")["event_type"], ALL).sum())
    return every - sum(len(lane) for lane in lanes if lane.family == RANGES)


def _calls(capture: Capture, owners: dict[int, str]) -> Iterator[Lane]:
    fields = capture.columns("api", "global_tid", *SPANS)
    row = (capture.columns("api", "row")["row"] - 1).astype(np.int32)
    called = call_names(capture)
    codes, names = number_texts(np.arange(len(called.texts)), list(map(strip_version, called.texts)))
    codes = codes.astype(np.int32)[called.codes]
    events = _Events(Spans(*fields.values()), codes, _name_texts(names), row, call_classes(capture))
    marks = np.zeros(capture.whole.count("api"), dtype=bool)  # calls that launched a selected operation
    calls = gpu_operations_of(capture).call
    marks[calls[calls >= 0]] = True
    launching = marks[row]
    for thread, every in events.by_thread():
        mine = every[events.outermost(every) | launching[every]]
        kinds = [(CALLS, kind) for kind in CLASSES]
        yield events.lane(capture, mine, (CALLS, thread, owners[thread], "CUDA API"), kinds)


def _other_calls(capture: Capture, kind: str, owners: dict[int, str]) -> Iterator[Lane]:
    fields = capture.columns(kind, "global_tid", *SPANS)
    timed = np.flatnonzero((fields["end_ns"] != MISSING) & (fields["end_ns"] >= fields["start_ns"]))
    codes, names = name_codes(capture, kind)
    spans = Spans(*(values[timed] for values in fields.values()))
    events = _Events(spans, codes[timed], _name_texts(names))
    title = OTHER_CALLS[kind]
    for thread, every in events.by_thread():
        mine = every[events.outermost(every)]
        yield events.lane(capture, mine, (OTHERS, thread, owners[thread], title), [(OTHERS, title)])


def _ranges(capture: Capture, owners: dict[int, str]) -> Iterator[Lane]:
    """Yield a lane for each nesting level of each thread's ranges. Outermost ranges are at level 0."""
    ranges = nested_ranges(capture)
    known = np.flatnonzero(ranges.spans.end != MISSING)
    if not len(known):
        return
    row = (ranges.row[known] - 1).astype(np.int32)
    name, names = range_labels(capture.whole, row)
    spans = Spans(*(part[known] for part in ranges.spans))
    events = _Events(spans, name, _name_texts(names), row)
    for thread, every in events.by_thread():
        for _, depth, mine in islice(sublanes([every], spans.start, spans.end, levels), _LEVELS):
            place = (RANGES, thread, owners[thread], f"NVTX level {depth + 1}" if depth else "NVTX")
            yield events.lane(capture, mine, place, [(RANGES, "range")], depth)


@dataclass(frozen=True)
class _Events:
    """Events of threads: their threads and times in ns, names, rows and series."""

    spans: Spans
    name: NDArray[Any]
    names: Sequence[str]
    row: NDArray[Any] | None = None
    series: NDArray[Any] | None = None

    def by_thread(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield each thread and the positions of its events by start; of equal starts the longest first."""
        known, number = distinct(self.spans.thread)
        for thread, rows in zip(known.tolist(), rows_by_lane(number, len(known)), strict=True):
            start = self.spans.start[rows]
            in_order = (start[1:] > start[:-1]).all()  # as nsys writes calls, mostly
            yield thread, rows if in_order else rows[np.lexsort((-self.spans.end[rows], start))]

    def outermost(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark those of these events of a thread that are in no other one."""
        return outermost(self.spans.start[rows], self.spans.end[rows])

    def lane(
        self,
        capture: Capture,
        rows: NDArray[Any],
        location: tuple[str, int, str, str],
        kinds: Sequence[Kind],
        level: int = 0,
    ) -> Lane:
        """Return the lane of these events; ``location`` is its family, its thread, and where it stands."""
        columns = {name: getattr(self, name) for name in ("name", "row", "series")}
        return Lane(
            *location,
            self.spans.start[rows],
            self.spans.end[rows],
            kinds,
            names=self.names,
            **{name: values[rows].astype(np.int32) for name, values in columns.items() if values is not None},
            selected=_selected(capture, capture.window.of_thread(location[1])),
            level=level,
        )


# Curves below the lanes (memory, samples, GPU metrics), and lanes of steps and of causes of idle time.


class Curve(NamedTuple):
    """A curve: values in order of time, each from its time on, in ns on the clock of the capture.

    ``joined`` says what a value is of several that it can stand for; empty if each stands for itself.
    """

    group: str
    title: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[Any]
    joined: str = ""


def curves(capture: Capture) -> Iterator[Curve]:
    """Yield the curves of the selected time; none that were not recorded, or that do not change in it."""
    for curve, join in (*_memory(capture), *_samples(capture), *_plugin(capture), *_metrics(capture)):
        part = _selected_curve(capture, curve)
        if len(part.values) and part.values.min() < part.values.max():
            yield _joined(part, *join)


_Join = tuple["Callable[..., NDArray[Any]]", str]
_HIGHEST: _Join = (lambda values, first, _: np.maximum.reduceat(values, first), "highest")
_MEAN: _Join = (lambda values, first, count: np.add.reduceat(values, first) / count, "mean")


def _memory(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    every = memory_use_of(capture)
    several = len({use.global_pid for use in every}) > 1
    for use in every:
        on_host = use.memory_kind == PINNED_MEMORY
        title = use.memory_kind if on_host else f"GPU {use.device} {use.memory_kind.removeprefix('GPU ')}"
        title += f", process {process_text(use.global_pid)}" if several else ""
        last = max(_last_ns(capture.whole), int(use.times_ns[-1]) + 1)  # what is not freed stays allocated
        times, values = np.append(use.times_ns, last), np.append(use.bytes, use.bytes[-1])
        yield Curve("allocated memory", title, BYTES, times, values), _HIGHEST


def _last_ns(capture: Capture) -> int:
    """Return the end of the recording, or of the last GPU operation if the export does not have it."""
    return max(capture.info.duration_ns or 0, int(gpu_operations_of(capture).end_ns.max(initial=0)))


def _samples(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    run = run_conditions_of(capture)
    for gpu in run.gpus if run else ():
        times_ns = np.round(gpu.seconds * _NS_PER_S).astype(np.int64)
        for column, (name, unit, factor) in _SAMPLED.items():
            values = gpu.samples[column]
            known = np.flatnonzero(~np.isnan(values))
            whole = np.round(values[known] / factor).astype(np.int64)
            title = f"GPU {gpu.gpu.index} {name}"
            yield Curve("clocks and power", title, unit, times_ns[known], whole), _MEAN


def _plugin(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    every = nvml_curves_of(capture.whole)
    several = len({curve.source for curve in every}) > 1
    for curve in every:
        title = f"{curve.name}, source {curve.source}" if several else curve.name
        yield Curve("nsys' NVML plugin", title, curve.unit, curve.times_ns, curve.values), _MEAN


def _metrics(capture: Capture) -> Iterator[tuple[Curve, _Join]]:
    for metric in gpu_metrics_of(capture.whole):
        group = f"GPU {metric.gpu} metrics"
        yield Curve(group, metric.name, metric.unit, metric.times_ns, metric.values), _MEAN


def _selected_curve(capture: Capture, curve: Curve) -> Curve:
    """Return the part of a curve in the selected time, with the values that hold when it begins and ends."""
    if not capture.view.selection.windowed:
        return curve
    start, end = capture.window.start_ns, capture.window.end_ns
    first = max(int(np.searchsorted(curve.times_ns, start, "right")) - 1, 0)
    last = int(np.searchsorted(curve.times_ns, end, "right"))
    times, values = np.maximum(curve.times_ns[first:last], start), curve.values[first:last]
    if 0 < last < len(curve.times_ns) and times[-1] < end:
        times, values = np.append(times, end), np.append(values, values[-1])
    return curve._replace(times_ns=times, values=values)


def _joined(curve: Curve, join: Callable[..., NDArray[Any]], statistic: str) -> Curve:
    """Return a curve with a value for each of _MOST equal parts of the time, if it has more than that.

    Through the parts after it that have no value, the last value of a part holds.
    """
    times = curve.times_ns
    if len(times) <= _MOST:
        return curve
    width = -(-int(times[-1] - times[0] + 1) // _MOST)
    part = (times - times[0]) // width
    first = np.flatnonzero(np.diff(part, prepend=-1))
    count = np.diff(np.append(first, len(part)))
    before = np.flatnonzero(np.diff(part[first]) > 1)  # parts without a value follow
    quiet_ns = times[0] + (part[first[before]] + 1) * width
    held = curve.values[first[before + 1] - 1]
    return curve._replace(
        times_ns=np.insert(times[first], before + 1, quiet_ns),
        values=np.insert(join(curve.values, first, count), before + 1, held),
        joined=f"{statistic} of {duration(width)}",
    )


def steps(capture: Capture) -> Iterator[Lane]:
    """Yield the steps of each process with GPU work, and those of its other loops; none without any."""
    if not len(gpu_operations_of(capture)):
        return
    found = [one for judged in steps_of(capture) for one in (judged, *judged.others) if len(one)]
    several = len({one.global_pid for one in found}) > 1
    selection = capture.view.selection
    for one in found:
        kind = np.full(len(one), LEFT_OUT, np.int32)
        kind[one.steady] = STEADY
        kind[one.outlier] = OUTLIER
        kind[: one.warm_up] = WARM_UP
        number = np.arange(len(one), dtype=np.int32)
        if selection.windowed:
            first, last = capture.window.start_ns, capture.window.end_ns
            number = number[(one.end_ns > first) & (one.start_ns < last)]
        if len(number):
            title = one.label.short or "steps"
            if several:
                title = f"process {process_text(one.global_pid)}: {title}"
            place = (STEPS, one.global_pid, "steps", title)
            kinds = [(STEPS, text) for text in _STEP_KINDS]
            names = [f"step {one.first + i}" for i in range(len(one))]
            start, end = one.start_ns[number], one.end_ns[number]
            if clipped(capture):
                first, last = capture.window.start_ns, capture.window.end_ns
                start, end = np.clip(start, first, last), np.clip(end, first, last)
            yield Lane(*place, start, end, kinds, number, names, kind[number])


def idle(capture: Capture) -> Iterator[Lane]:
    """Yield the idle time of each process on each GPU, a part for each cause."""
    if not len(gpu_operations_of(capture)):
        return
    gaps = gaps_of(capture)
    gap = gaps.segments.gap
    several = len({process for process, *_ in gaps.owners}) > 1
    first = 0
    for process, device, last in gaps.owners:
        rows = slice(*np.searchsorted(gap, (first, last)))
        first = last
        start, end, cause = (part[rows] for part in gaps.segments[1:])
        if not (end > start).all():
            start, end, cause = (part[end > start] for part in (start, end, cause))
        if not len(start):
            continue
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end, cause = start[order], end[order], cause[order]
        title = f"idle, process {process_text(process)}" if several else "idle, by cause"
        causes = cause.astype(np.int32)
        kinds, names = [(IDLE, name) for name in CAUSES], [CAUSE_NAMES[name] for name in CAUSES]
        place = (IDLE, process, gpu_name(capture, device), title)
        yield Lane(*place, start, end, kinds, causes, names, causes, device=device)
