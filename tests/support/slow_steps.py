"""The steps of each process, found once more: one call and one range at a time."""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from statistics import quantiles
from typing import NamedTuple

from raw_events import PROCESS, TABLES, Call, Events, Operation
from tiny_export import GRAPH, KERNEL, MEMCPY

from nsyswrap.analysis.names import call_class


class Work(NamedTuple):
    """A call that starts GPU work or waits for it, by start; ``does`` says which, ``gpu`` how long."""

    call: Call
    does: Hashable
    works: bool
    first: bool
    gpu: int
    before: int  # time since the end of all earlier ones


class SlowSteps(NamedTuple):
    """Steps of one process: start, end and mark ("steady", "outlier", "warm-up", "left out") of each.

    ``host`` has the time of each on the host, and from the end of that until the GPU work is done.
    """

    process: int
    label: str
    times: list[tuple[int, int]]
    marks: list[str]
    least: int
    varies: bool = True
    host: Sequence[tuple[int, int]] = ()
    differs: Sequence[bool] = ()

    @property
    def steady(self) -> list[int]:
        """The numbers of the steps of the steady part: three or more of similar times, or all two."""
        numbers = [i for i, mark in enumerate(self.marks) if mark in ("steady", "outlier")]
        if len(numbers) < self.least:
            return []
        lasting = [self.times[i][1] - self.times[i][0] for i in numbers]
        low, _, high = quantiles(lasting, n=4, method="inclusive")
        if high <= 5 * low or not self.varies:
            return numbers
        usual = [self.times[i][1] - self.times[i][0] for i in numbers if not self.differs[i]]
        low, _, high = quantiles(usual, n=4, method="inclusive")
        return numbers if high > 5 * low and _in_turn(lasting) else []


class Found(NamedTuple):
    """Occurrences of what repeats: starts, ends, and whether each launches something else than most."""

    label: str
    starts: list[int]
    ends: list[int]
    differs: list[bool]
    first_uses: list[bool]
    single: bool = False
    is_range: bool = False


def slow_steps(events: Events) -> list[SlowSteps]:
    processes = sorted({one.process for one in events.operations if one.call})
    every = []
    for process in processes:
        works = _works(events, process)
        found = _repeated_range(events, works) or _up_to_updates(works, _repeated_sequence(works))
        every.append(_steps(events, process, found) if found else SlowSteps(process, "", [], [], 3))
    return every


def _works(events: Events, process: int) -> list[Work]:
    does: dict[Call, Hashable] = {}
    lasting: Counter[Call] = Counter()
    kernels: set[Call] = set()
    for one in events.operations:
        if one.call is None:
            continue
        lasting[one.call] += one.end - one.start
        launch = TABLES[one.table] == KERNEL or one.graph is not None
        if launch and one.call not in kernels:
            kernels.add(one.call)
            does[one.call] = ("launch", one.name if one.graph is None else None, one.graph)
        elif one.call not in kernels:
            does[one.call] = (TABLES[one.table], one.copy_kind if TABLES[one.table] == MEMCPY else None)
    works, seen, reached = [], set(), None
    for call in sorted(events.calls, key=lambda call: (call.start, call.row)):
        waits = call_class(call.name) == "synchronise"
        if call.thread & PROCESS != process or not (call in does or waits):
            continue
        what = does.get(call, ("wait", call.name))
        first = call in kernels and what not in seen
        seen.add(what)
        kind = what[:2] if call in kernels else what  # type: ignore[index]
        before = call.start - (reached if reached is not None else call.start)
        reached = max(call.end, call.end if reached is None else reached)
        works.append(Work(call, kind, call in does, first, lasting[call], before))
    return works


class _Loop(NamedTuple):
    """A name on one thread and its outermost ranges, with the GPU time launched in them."""

    label: str
    spans: list[tuple[int, int]]
    own: int


def _repeated_range(events: Events, works: list[Work]) -> Found | None:
    launches = [work for work in works if work.works]
    launching = Counter(work.call.thread for work in launches)
    threads = {thread for thread, count in launching.items() if count >= 0.1 * launching.total()}
    own = sorted(
        (one for one in events.ranges if one.thread in threads and not one.domain),
        key=lambda one: (one.start, -one.end),
    )
    named: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for one in own:
        spans = named.setdefault(
            (one.thread, _label(one.name, [o.name for o in own if o.thread == one.thread])), []
        )
        if not spans or one.start >= max(end for _, end in spans):
            spans.append((one.start, one.end))
    loops = [
        _Loop(label, spans, sum(_launched(launches, *span) for span in spans))
        for (_, label), spans in named.items()
    ]
    loops = [loop for loop in loops if _repeats(loop, launches)]
    roots = [one for one in loops if not any(_inside(one, other) for other in loops)]
    chosen = [loop for root in roots for loop in _levels(root, loops, launches)]
    if not chosen:
        return None
    chosen.sort(key=lambda one: -one.own)
    alike = [one for one in chosen if abs(len(one.spans) - len(chosen[0].spans)) <= 1]
    return _range_occurrences(min(alike, key=lambda one: one.spans[0]), works)


def _label(name: str, names: list[str]) -> str:
    """Return the name with ``*`` for its number, if the numbers of such names rise by one step."""
    pattern = re.sub(r"\d+", "*", name)
    alike = [other for other in names if re.sub(r"\d+", "*", other) == pattern]
    numbers = [int("".join(re.findall(r"\d+", other)) or 0) for other in alike]
    rises = {later - earlier for earlier, later in pairwise(numbers)}
    return pattern if len(rises) == 1 and min(rises) > 0 else name


def _launched(launches: list[Work], start: int, end: int) -> int:
    return sum(work.gpu for work in launches if start <= work.call.start < end)


def _repeats(loop: _Loop, launches: list[Work]) -> bool:
    first, last = loop.spans[0][0], loop.spans[-1][1]
    total = sum(work.gpu for work in launches)
    if len(loop.spans) < 3:
        return len(loop.spans) == 2 and loop.own >= 0.8 * total
    inside = sum(first <= work.call.start < last for work in launches)
    begin, end = launches[0].call.start, launches[-1].call.start
    time = max(min(last, end) - max(first, begin), 0) / max(end - begin, 1)
    gpu = _launched(launches, first, last) / max(total, 1)
    gpu *= len(loop.spans) >= 10
    return inside > 0 and max(inside / len(launches), time, gpu) >= 0.25


def _inside(one: _Loop, other: _Loop) -> bool:
    """Whether nine of ten ranges of the one lie in ranges of the other, which are longer."""
    lengths = [statistics.mean(end - start for start, end in loop.spans) for loop in (one, other)]
    held = [any(a <= start and end <= b for a, b in other.spans) for start, end in one.spans]
    return lengths[0] < lengths[1] and statistics.mean(held) >= 0.9


def _levels(outer: _Loop, loops: list[_Loop], launches: list[Work]) -> list[_Loop]:
    """Return what is a loop: the outer one, or what repeats in it three times and more, and alone."""
    often = [
        one
        for one in loops
        if _inside(one, outer)
        and statistics.median(sum(a <= start < b for start, _ in one.spans) for a, b in outer.spans) >= 3
    ]
    inner = [one for one in often if not any(_inside(one, other) for other in often)]
    if len(inner) != 1 or len(outer.spans) >= 10:
        return [outer]
    edges = [*(start for start, _ in outer.spans), outer.spans[-1][1]]
    everything = _launched(launches, edges[0], edges[-1])
    phases = 0
    for start, end in outer.spans:
        held = [span for span in inner[0].spans if start <= span[0] < end]
        phases += _launched(launches, held[0][0], held[-1][1]) if held else 0
    return [outer] if everything - phases >= 0.1 * everything else _levels(inner[0], loops, launches)


def _range_occurrences(loop: _Loop, works: list[Work]) -> Found:
    starts = [start for start, _ in loop.spans]
    ends = [*starts[1:], loop.spans[-1][1]]
    spans = zip(starts, ends, strict=True)
    first_uses = [
        any(work.first and start <= work.call.start < end for work in works) for start, end in spans
    ]
    return Found(f"'{loop.label}'", starts, ends, [False] * len(starts), first_uses, is_range=True)


def _up_to_updates(works: list[Work], sequence: Found | None) -> Found | None:
    """Return steps that end with an update of an optimizer, if these come more often than the sequence."""
    updates = [i for i, work in enumerate(works) if _updates(work)]
    apart = [later - earlier for earlier, later in pairwise(updates)]
    if not apart or max(apart) < 20:
        return sequence
    if any(max(apart) / 10 < gap <= max(apart) / 4 for gap in apart):
        return sequence
    last = [i for i, gap in zip(updates, [*apart, max(apart)], strict=True) if gap > max(apart) / 4]
    begins = [next((j for j in range(i + 1, len(works)) if works[j].works), len(works) - 1) for i in last]
    edges = [*begins[:-1], last[-1] + 1]
    inside = sum(work.gpu for work in works[edges[0] : edges[-1]])
    if len(edges) <= 3 or inside < sum(work.gpu for work in works) / 10:
        return sequence
    count, many = len(edges) - 1, len(sequence.starts) if sequence else 0
    several = 10 <= many <= count // 2 + 1 and not _are_alike([works[i:j] for i, j in pairwise(edges)])
    if sequence and (several or count <= many <= count + 2):
        return sequence
    starts = [works[i].call.start for i in edges[:-1]]
    ends = [*starts[1:], works[edges[-1] - 1].call.end]
    first_uses = [any(work.first for work in works[i:j]) for i, j in pairwise(edges)]
    return Found("optimizer step", starts, ends, [False] * count, first_uses)


def _are_alike(steps: list[list[Work]]) -> bool:
    """Return True if all steps but one, or two of a hundred, share nine tenths of the calls of the usual."""
    held = [Counter(work.does for work in step) for step in steps]
    most, _ = Counter(frozenset(one.items()) for one in held).most_common(1)[0]
    usual = Counter(dict(most))
    shared = [(one & usual).total() / max(one.total(), usual.total()) for one in held]
    return sum(share < 0.9 for share in shared) <= max(1, len(steps) / 50)


def _updates(work: Work) -> bool:
    name = work.does[1] if isinstance(work.does, tuple) else None
    return isinstance(name, str) and bool(
        re.search("multi_tensor_apply|adam|sgd(?!emm)|lamb_|adagrad", name, re.IGNORECASE)
    )


class _Anchor(NamedTuple):
    positions: list[int]
    length: int
    equal: list[bool]
    gap: float
    cover: float


def _repeated_sequence(works: list[Work]) -> Found | None:
    for run in (1, 2, 8):  # calls in a row, if no single one will do
        if anchors := _anchors(works, run):
            return _sequence_occurrences(works, _begins(anchors))
    return None


def _anchors(works: list[Work], run: int) -> list[_Anchor]:
    anchors = []
    pause = 20 * statistics.median(work.before for work in works) if works else 0
    runs = [tuple(work.does for work in works[i : i + run]) for i in range(len(works) - run + 1)]
    total = max(sum(work.gpu for work in works), 1)
    lasting = max(works[-1].call.start - works[0].call.start, 1) if works else 1
    for paused, does in dict.fromkeys((paused, does) for paused in (False, True) for does in runs):
        named = [i for i, one in enumerate(runs) if one == does]
        positions = [i for i in named if i == 0 or works[i].before > pause] if paused else named
        if len(positions) < (3 if run == 1 else 10):
            continue
        spans = list(pairwise(positions))
        held = [frozenset(Counter(work.does for work in works[i:j]).items()) for i, j in spans]
        usual, times = Counter(held).most_common(1)[0]
        equal = [one == usual for one in held]
        start, end = spans[equal.index(True)]
        inside = [span for span, same in zip(spans, equal, strict=True) if same]
        gpu = _held([sum(work.gpu for work in works[i:j]) for i, j in inside]) / total
        time = _held([works[j].call.start - works[i].call.start for i, j in inside]) / lasting
        all_gpu = sum(work.gpu for i, j in inside for work in works[i:j])
        since = sum(work.gpu for work in works[positions[0] :])
        much = len(positions) >= 10 and all_gpu >= max(0.25 * since, 0.1 * total, 1)
        often = times * (end - start) >= 0.25 * len(works) and (run == 1 or gpu + time >= 0.1)
        launches = any(isinstance(work.does, tuple) and work.does[0] == "launch" for work in works[start:end])
        if times >= 2 and times >= 0.6 * len(held) and (much or often) and launches:
            gap = statistics.median(works[i].before for i in positions[1:])
            anchors.append(_Anchor(positions, end - start, equal, gap, (gpu + time) * (1 + 1 / times)))
    return anchors


def _held(times: list[int]) -> float:
    """Return the sum of times of which none counts for more than the median."""
    return sum(min(one, statistics.median(times)) for one in times)


def _begins(anchors: list[_Anchor]) -> _Anchor:
    """Return the longest period that holds 80 % of what shorter ones hold, and 20 % of what any holds."""
    anchors = [one for one in anchors if len(one.positions) >= 10] or anchors
    anchors = [one for one in anchors if one.cover >= 0.2 * max(other.cover for other in anchors)]
    anchors = [
        one
        for one in anchors
        if all(
            one.cover >= 0.8 * other.cover
            for other in anchors
            if len(other.positions) > len(one.positions) + 1
        )
    ]
    fewest = min(len(one.positions) for one in anchors)
    period = [one for one in anchors if len(one.positions) <= fewest + 1]
    return max(period, key=lambda one: (sum(one.equal), one.gap))


def _sequence_occurrences(works: list[Work], anchor: _Anchor) -> Found:
    positions, equal = anchor.positions, anchor.equal
    begin = positions[equal.index(True)]
    while 2 * (positions[1] - positions[0]) < anchor.length:
        positions, equal = positions[1:], equal[1:]
    while 2 * (positions[-1] - positions[-2]) < anchor.length:
        positions, equal = positions[:-1], equal[:-1]
    usual = works[begin : begin + anchor.length]
    starts = [works[i].call.start for i in positions]
    count = sum(work.works for work in usual)
    graph = any(work.works and work.does == ("launch", None) for work in usual)
    label = f"a sequence of {count:,} GPU operations" if count > 1 else "one GPU operation"
    label, single = ("one CUDA graph", False) if count == 1 and graph else (label, count == 1)
    edges = [*positions, positions[-1] + anchor.length]
    first_uses = [any(work.first for work in works[i:j]) for i, j in pairwise(edges)]
    last, differs = works[positions[-1] :][: anchor.length], [not same for same in equal]
    if Counter(work.does for work in last) == Counter(work.does for work in usual):
        differs.append(False)
    else:  # cut off by the end of the program: the one before it is the last
        last = works[positions[-2] : positions[-1]]
        starts.pop()
    ends = [*starts[1:], max(work.call.end for work in last)]
    return Found(label, starts, ends, differs[: len(starts)], first_uses[: len(starts)], single)


def _steps(events: Events, process: int, found: Found) -> SlowSteps:
    times, complete = _times(events, process, found)
    spans = zip(found.starts, found.ends, complete, strict=True)
    host = [(end - start, done - end) for start, end, done in spans]
    lasting = [end - start for start, end in times]
    count, half = len(times), len(times) // 2
    usual = _usual(lasting, range(half, count)) if count else []
    any_load = _loads_any(events, process, found)
    if sum(any_load[half:]) > 0.25 * (count - half):
        any_load = [False] * count
    loads = [
        loading or (first and i == 0) or ((first or any_load[i]) and lasting[i] > 1.1 * usual[i])
        for i, (loading, first) in enumerate(
            zip(_loads(events, process, found), found.first_uses, strict=True)
        )
    ]
    long = [lasting[i] > 1.5 * usual[i] for i in range(count)]
    leading = 0 if sum(long[half:]) > 0.25 * (count - half) else 10
    unusual = [found.differs[i] or loads[i] or (i < leading and long[i]) for i in range(count)]
    warm_up = 0
    for number in range(half):
        if unusual[number]:
            if number > warm_up + 1:
                break
            warm_up = number + 1
    later = loads[warm_up:]
    if warm_up >= half or (later and sum(later) > 0.25 * len(later)):
        warm_up = min(int(loads[0]), warm_up)
    if found.is_range and count <= 3:
        warm_up = 0
    steady = _longest_run(lasting, found.differs, warm_up)
    usual = _usual(lasting, steady) if steady else []
    outliers = {i for i in steady if lasting[i] > 1.5 * usual[i] and not found.single}
    if len(outliers) > 0.25 * len(steady) or count < 3:
        outliers = set()
    mark: Callable[[int], str] = lambda i: (  # noqa: E731
        "warm-up" if i < warm_up else "outlier" if i in outliers else "steady" if i in steady else "left out"
    )
    least = 2 if found.is_range and count == 2 else 3
    marks = [mark(i) for i in range(count)]
    varies = not _is_trend([lasting[i] for i in steady])
    return SlowSteps(process, found.label, times, marks, least, varies, host, found.differs)


def _loads(events: Events, process: int, found: Found) -> list[bool]:
    """Return whether each occurrence loads for a tenth of the usual one."""
    spans = list(zip(found.starts, found.ends, strict=True))
    usual = statistics.median(end - start for start, end in spans)
    loading = [
        (start, end)
        for thread, start, end, doing in events.doing
        if doing == "load" and thread & PROCESS == process
    ]
    covered = [
        len({ns for a, b in loading for ns in range(max(a, start), min(b, end))}) for start, end in spans
    ]
    return [ns > 0.1 * usual for ns in covered]


def _loads_any(events: Events, process: int, found: Found) -> list[bool]:
    """Return whether each occurrence loads a module or a library."""
    spans = zip(found.starts, found.ends, strict=True)
    names = ("cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuLinkComplete")
    times = [
        call.start
        for call in events.calls
        if call.thread & PROCESS == process and call.name.startswith(names)
    ]
    return [any(start <= at < end for at in times) for start, end in spans]


def _in_turn(lasting: Sequence[int]) -> bool:
    """Return whether as many steps in a row, two to eight, take nearly the same time wherever they begin."""
    for count in range(2, min(8, len(lasting) // 3) + 1):
        sums = [sum(lasting[i : i + count]) for i in range(len(lasting) - count + 1)]
        low, _, high = quantiles(sums, n=4, method="inclusive")
        if high <= 1.25 * low:
            return True
    return False


def _usual(lasting: Sequence[int], among: Sequence[int]) -> list[float]:
    """Return the median, or that of the 21 steps around each one if steps grow or shrink."""
    if not _is_trend([lasting[i] for i in (range(len(lasting)) if isinstance(among, range) else among)]):
        return [statistics.median(lasting[i] for i in among)] * len(lasting)
    around = [lasting[0]] * 10 + list(lasting) + [lasting[-1]] * 10
    return [statistics.median(around[i : i + 21]) for i in range(len(lasting))]


def _is_trend(lasting: Sequence[int]) -> bool:
    if len(lasting) < 12:
        return False
    quarter = len(lasting) // 4
    ends = [statistics.median(part) for part in (lasting[:quarter], lasting[-quarter:])]
    by_time = sorted(range(len(lasting)), key=lambda i: lasting[i])
    rank = [by_time.index(i) for i in range(len(lasting))]
    return max(ends) >= 1.2 * min(ends) and abs(statistics.correlation(rank, range(len(rank)))) >= 0.9


def _times(events: Events, process: int, found: Found) -> tuple[list[tuple[int, int]], list[int]]:
    """Return when each step begins and ends, and when its work is complete and the host begins the next."""
    mine = [one for one in events.operations if one.call and one.process == process]
    launched = [
        [one for one in mine if one.call and start <= one.call.start < end]
        for start, end in zip(found.starts, found.ends, strict=True)
    ]

    def often(operations: list[list[Operation]]) -> set[tuple[int, ...]]:
        in_steps = Counter(stream for each in operations for stream in {one.stream for one in each})
        return {stream for stream, steps in in_steps.items() if steps >= 0.5 * len(operations)}

    kernels = [[one for one in each if TABLES[one.table] in (KERNEL, GRAPH)] for each in launched]
    main = often(kernels) or often(launched) or {one.stream for each in launched for one in each}
    earlier = [
        one.end for one in mine if one.call and one.call.start < found.starts[0] and one.stream in main
    ]
    edges, complete = [max([found.starts[0], *earlier])], []
    for end, each in zip(found.ends, launched, strict=True):
        complete.append(max([end, *(one.end for one in each if one.stream in main)]))
        edges.append(max(edges[-1], complete[-1]))
    return list(pairwise(edges)), complete


def _longest_run(durations: Sequence[int], differs: Sequence[bool], warm_up: int) -> list[int]:
    after = list(range(warm_up, len(durations)))
    if not after:
        return []
    middle = statistics.median(durations[i] for i in after)
    breaks = [i for i in after if differs[i] and durations[i] > 20 * middle]
    if not 1 <= len(breaks) <= 2:
        return after
    runs: list[list[int]] = [[]]
    for i in after:
        if i in breaks:
            runs.append([])
        else:
            runs[-1].append(i)
    return max(reversed(runs), key=len)
