"""Follow rows over points in time: the runs of each commit, and where a row became slower or faster.

Each point is compared with the point before it, and with the three before it together, whose runs tell
smaller changes from noise. Where the setup differs (another GPU, another driver), the line breaks: points of
different stretches are not compared. The first and the last point of a stretch are compared as well, because
small changes add up. All comparisons of a history share one error rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from statistics import median
from typing import NamedTuple

from nsyswrap.analysis.compare.comparability import obstacles_of
from nsyswrap.analysis.compare.compare import compare, with_one_loop
from nsyswrap.analysis.compare.judgement import judged_ns
from nsyswrap.analysis.compare.model import (
    FEWEST_RUNS,
    Comparison,
    Group,
    Judgement,
    Key,
    Obstacle,
    PairedFigures,
    Side,
    SlowdownLimits,
)
from nsyswrap.analysis.compare.pairing import pair_rows
from nsyswrap.analysis.compare.stored_names import with_one_name
from nsyswrap.analysis.finding import Note
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import without_folders

FOLLOWED: tuple[Group, ...] = ("step", "total", "launch", "module", "kernel", "range")
LIMITS = SlowdownLimits(max_slower=0.02, error_rate=0.01)  # the error rate is of a whole history
_TOGETHER = 3  # points before one
_CHANGED = ("slower", "faster", "clock")


@dataclass(frozen=True)
class Point:
    """The runs of one commit. ``breaks`` say why it is not compared with the point before it."""

    label: str
    side: Side
    breaks: tuple[Obstacle, ...] = ()

    @property
    def started(self) -> str:
        """The start of its first run; empty if a run does not know it."""
        return min(run.setup.started for run in self.side.runs)

    @property
    def is_compared(self) -> bool:
        """True if it has enough runs for verdicts."""
        return len(self.side.runs) >= FEWEST_RUNS


class Change(NamedTuple):
    """A row differs between two points, by their numbers. ``cost_ns`` is the difference of a run."""

    before: int
    since: int
    judgement: Judgement
    cost_ns: float


class _Step(NamedTuple):
    """The comparison of a point with others before it, by their numbers."""

    before: tuple[int, ...]
    since: int
    comparison: Comparison

    @property
    def undecided(self) -> list[Key]:
        return [pair.key for pair in self.comparison.pairs if pair.judgement.outcome == "cannot tell"]


@dataclass(frozen=True)
class Series:
    """A row over the points. ``values_ns`` has the judged time of each run, empty where the row is absent.

    ``total_ns`` is the median total of the runs of each point. ``changes`` are in the order of time.
    ``drift`` compares the ends of a stretch: small changes that add up, none of which was found by itself.
    ``undecided`` counts the neighbors that differ too little, or vary too much, for a verdict.
    """

    key: Key
    values_ns: tuple[tuple[float, ...], ...]
    total_ns: tuple[float, ...]
    changes: tuple[Change, ...] = ()
    drift: Change | None = None
    undecided: int = 0

    @property
    def reported_changes(self) -> tuple[Change, ...]:
        """The changes, or the drift if there are none."""
        return self.changes or ((self.drift,) if self.drift else ())

    @property
    def medians_ns(self) -> tuple[float | None, ...]:
        """The median of the runs of each point, None where the row is absent."""
        return tuple(median(values) if values else None for values in self.values_ns)


@dataclass(frozen=True)
class History:
    """Rows over points, the most changed first within their group. ``remarks`` are for readers.

    ``compared`` counts the points that were compared with the one before.
    """

    points: tuple[Point, ...]
    series: tuple[Series, ...]
    limits: SlowdownLimits
    remarks: tuple[Note, ...] = ()
    compared: int = 0

    def of(self, *groups: Group) -> tuple[Series, ...]:
        """Return the series of some groups."""
        return tuple(series for series in self.series if series.key.group in groups)


def history_of(sides: Sequence[Side], limits: SlowdownLimits = LIMITS) -> History:
    """Return the rows of the sides over time. ``limits.error_rate`` is that of the whole history."""
    ordered, remarks = _in_order(_with_equal_rows(with_one_loop(with_one_name(sides))[0]))
    breaks = [obstacles_of(*pair) for pair in pairwise(ordered)]
    points = tuple(map(Point, _labels(ordered), ordered, [(), *breaks]))
    neighbors, together, ends = _judged(points, limits)
    changes, drifts = _changes([*neighbors, *together]), _changes(ends)
    undecided = Counter(key for step in neighbors for key in step.undecided)
    keys = dict.fromkeys(key for side in ordered for run in side.runs for key in run.rows)
    series = [
        replace(
            _series(key, ordered),
            changes=tuple(changes.get(key, ())),
            drift=None if key in changes else next(iter(drifts.get(key, ())), None),
            undecided=undecided[key],
        )
        for key in keys
        if key.group in FOLLOWED
    ]
    with_times = [one for one in series if any(one.values_ns)]
    reasons = [step.comparison.no_verdicts for step in neighbors if step.comparison.no_verdicts]
    return History(
        points,
        tuple(sorted(with_times, key=_most_changed)),
        limits,
        (*remarks, *_unjudged(points), *(Note("not_judged", {"reason": reason}) for reason in reasons)),
        sum(not step.comparison.no_verdicts for step in neighbors),
    )


def stretches(points: Sequence[Point]) -> list[range]:
    """Return the numbers of the points that can be compared with one another."""
    starts = [0, *(number for number, point in enumerate(points) if number and point.breaks), len(points)]
    return [range(start, end) for start, end in pairwise(starts)]


def _with_equal_rows(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with the modes of a kernel merged everywhere if the runs do not agree on them."""
    runs = [run for side in sides for run in side.runs]
    rows = pair_rows(Side("", tuple(runs)), Side("", ()))
    tables = [{one.key: row for one in rows if (row := one.base[number])} for number in range(len(runs))]
    merged = (replace(run, rows=table) for run, table in zip(runs, tables, strict=True))
    return [replace(side, runs=tuple(islice(merged, len(side.runs)))) for side in sides]


def _in_order(sides: Sequence[Side]) -> tuple[list[Side], list[Note]]:
    """Return the sides by the start of their runs, or as given if that is not known."""
    starts = [min((run.setup.started for run in side.runs), default="") for side in sides]
    if all(starts):
        return [sides[i] for i in sorted(range(len(sides)), key=starts.__getitem__)], []
    return list(sides), [Note("order_not_known", {})]


def _labels(sides: Sequence[Side]) -> list[str]:
    """Return the commit of each side, or its name if the runs have none or several."""
    commits = [{run.setup.commit for run in side.runs} for side in sides]
    labels = [min(found) if len(found) == 1 else "" for found in commits]
    return [
        f"{label} ({without_folders(side.name)})"
        if labels.count(label) > 1 and label
        else label or without_folders(side.name)
        for label, side in zip(labels, sides, strict=True)
    ]


def _judged(points: Sequence[Point], limits: SlowdownLimits) -> tuple[list[_Step], list[_Step], list[_Step]]:
    """Compare each point with the one before, with several before, and the ends of each stretch."""
    judged = [[i for i in stretch if points[i].is_compared] for stretch in stretches(points)]
    neighbors = [((before,), since) for stretch in judged for before, since in pairwise(stretch)]
    together = [
        (tuple(stretch[max(i - _TOGETHER, 0) : i]), stretch[i])
        for stretch in judged
        for i in range(2, len(stretch))
    ]
    ends = [((stretch[0],), stretch[-1]) for stretch in judged if len(stretch) > len(("first", "last"))]
    number = len(neighbors) + len(together) + len(ends)
    each = replace(limits, error_rate=limits.error_rate / max(number, 1))

    def step(before: tuple[int, ...], since: int) -> _Step:
        base = Side("", tuple(run for i in before for run in points[i].side.runs))
        return _Step(before, since, compare(base, points[since].side, each))

    return (
        [step(*pair) for pair in neighbors],
        [step(*pair) for pair in together],
        [step(*pair) for pair in ends],
    )


def _changes(steps: Iterable[_Step]) -> dict[Key, list[Change]]:
    """Return the changes of each row in the order of time. One among the points before hides the next."""
    changes: dict[Key, list[Change]] = {}
    for step in sorted(steps, key=lambda step: (step.since, len(step.before))):
        for pair in step.comparison.pairs:
            found = {change.since for change in changes.get(pair.key, ())}
            if pair.judgement.outcome in _CHANGED and not found & {*step.before[1:], step.since}:
                change = Change(step.before[-1], step.since, pair.judgement, pair.cost_ns)
                changes.setdefault(pair.key, []).append(change)
    return changes


def _series(key: Key, sides: Sequence[Side]) -> Series:
    rows = [tuple(row for run in side.runs if (row := run.rows.get(key))) for side in sides]
    points = [PairedFigures(key, found, ()) for found in rows]
    values = [tuple(ns for row in one.base if row and (ns := judged_ns(one, row))) for one in points]
    totals = [median([row.total_ns for row in found] or [0.0]) for found in rows]
    return Series(key, tuple(values), tuple(totals))


def _most_changed(series: Series) -> tuple[int, float, float]:
    """Order by what a change costs in a run, then by the time of a run."""
    place = FOLLOWED.index(series.key.group)
    cost = max((abs(change.cost_ns) for change in series.reported_changes), default=0.0)
    return place, -cost, -max(series.total_ns)


def _unjudged(points: Sequence[Point]) -> Iterator[Note]:
    few = [point.label for point in points if not point.is_compared]
    if few:
        yield Note("drawn_alone", {"fewest": FEWEST_RUNS, "labels": few})
