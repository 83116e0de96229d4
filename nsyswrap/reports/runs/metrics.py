"""The main figures of equal runs as metrics, for programs that watch figures over time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Literal

from nsyswrap.analysis.compare.model import WHOLE_RUN, Key, RowFigures, RunFigures, Side
from nsyswrap.analysis.compare.step_rows import BUSY, PROGRAM
from nsyswrap.analysis.step_budget import BUSY as BUSY_STATES
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import printable
from nsyswrap.base.units import Unit
from nsyswrap.base.version import version

MOST_KERNELS = 20
_LONGEST_LABEL = 120  # characters
_HASH = 8

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricSample:
    """A figure of each run that has it; ``labels`` are pairs of name and value."""

    labels: Labels
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the runs."""
        return float(median(self.values))


@dataclass(frozen=True)
class Family:
    """A metric. ``name`` is without unit. A counter is a sum over a run, a gauge another value."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: Unit
    help: str
    samples: tuple[MetricSample, ...]


@dataclass(frozen=True)
class Metrics:
    """The metrics of equal runs. ``runs`` is their number.

    ``info`` is what is equal in all, ``notes`` are what readers must know.
    """

    runs: int
    info: Labels
    families: tuple[Family, ...]
    notes: tuple[str, ...] = ()


def metrics_of(side: Side) -> Metrics:
    """Return the metrics of equal runs; what was not recorded has none.

    Raises NotInCapture if there is no GPU work, CaptureError for incomplete runs, UsageError for different
    programs or GPUs.
    """
    runs = side.runs
    _check(side)
    kernels = _by_name(runs, "kernel")
    top = sorted(kernels, key=lambda name: -_total(kernels[name]))[:MOST_KERNELS]
    families = [family for family in _families(runs, {name: kernels[name] for name in top}) if family.samples]
    left_out = len(kernels) - len(top)
    more = left_out + max(run.left_out.get("kernel", 0) for run in runs)
    notes = (f"the {len(top)} kernels with most time are included; {more:,} more are not",) if more else ()
    return Metrics(len(runs), _info(runs), tuple(families), notes)


def _families(runs: tuple[RunFigures, ...], kernels: dict[str, list[list[RowFigures]]]) -> Iterator[Family]:
    copies = {name: rows for name, rows in _by_name(runs, "copy").items() if _total(rows)}
    launches = _by_name(runs, "launch")
    yield Family("program_time", "gauge", Unit.NS, "duration of the program", _one(runs, PROGRAM))
    yield Family(
        "gpu_busy",
        "gauge",
        Unit.RATIO,
        "share of the judged part in which the GPU worked; it is the steady steps, or the whole capture",
        _known((), [_busy_share(run) for run in runs]),
    )
    yield Family(
        "gpu_busy_time", "counter", Unit.NS, "time with any operation, summed over the GPUs", _one(runs, BUSY)
    )
    steps = {name: rows for name, rows in _by_name(runs, "step").items() if rows}
    yield Family(
        "step_time", "gauge", Unit.NS, "typical time of a steady step", _of(steps, "steps", _typical)
    )
    sums = (
        (
            "kernels",
            "kernel",
            "kernel",
            kernels,
            "executions of a kernel",
            "sum of the durations of a kernel",
        ),
        (
            "copies",
            "copy",
            "kind",
            copies,
            "copies of a kind",
            "sum of the durations of the copies of a kind",
        ),
    )
    for number, noun, label, by_name, count_help, time_help in sums:
        yield Family(number, "counter", Unit.COUNT, count_help, _of(by_name, label, _count))
        yield Family(f"{noun}_time", "counter", Unit.NS, time_help, _of(by_name, label, _total_ns))
    yield Family("copy_size", "counter", Unit.BYTES, "bytes of the copies", _of(copies, "kind", _bytes))
    yield Family(
        "launch_overhead",
        "gauge",
        Unit.NS,
        "typical time of a launch, by its part: the call itself, from call to start, in the queue",
        _of(launches, "part", _typical),
    )


def _check(side: Side) -> None:
    runs = side.runs
    for what in ("command", "gpus"):
        different = {getattr(run.setup, what) for run in runs} - {()}
        if len(different) > 1:
            first, second = (" ".join(words) for words in sorted(different)[:2])
            raise UsageError(
                f"{side.name}: runs of different {'programs' if what == 'command' else 'GPUs'}: "
                f"{printable(first)} and {printable(second)}",
                "metrics are of equal runs: export each group of its own",
            )
    for run in runs:
        if run.setup.lost_events:
            raise CaptureError(
                f"{run.label}: nsys lost events: counts and times are too low", "profile again"
            )
        if not any(key.group == "budget" for key in run.rows):
            raise NotInCapture(
                f"{run.label}: no GPU work was recorded, nothing to export",
                "nsyswrap report on this run says why",
            )


def _info(runs: tuple[RunFigures, ...]) -> Labels:
    """Return what is known and equal in all runs, and the version of nsyswrap."""
    setups = [run.setup for run in runs]
    facts: dict[str, list[str]] = {
        "gpu": [", ".join(dict.fromkeys(setup.gpus)) for setup in setups],
        "driver": [setup.driver for setup in setups],
        "nsys": [setup.nsys for setup in setups],
        "commit": [setup.commit for setup in setups],
    }
    equal = [
        (name, _label(values[0])) for name, values in facts.items() if values[0] and len(set(values)) == 1
    ]
    return (*equal, ("nsyswrap", version()))


def _by_name(runs: tuple[RunFigures, ...], group: str) -> dict[str, list[list[RowFigures]]]:
    """Return the rows of each name, for each run: those of a kernel with different grids are several."""
    names = dict.fromkeys(key.name for run in runs for key in run.rows if key.group == group)
    rows: dict[str, list[list[RowFigures]]] = {name: [[] for _ in runs] for name in names}
    for number, run in enumerate(runs):
        for key, row in run.rows.items():
            if key.group == group:
                rows[key.name][number].append(row)
    return rows


def _total(rows: Iterable[Iterable[RowFigures]]) -> float:
    return sum(row.total_ns for one in rows for row in one)


def _of(
    by_name: dict[str, list[list[RowFigures]]], label: str, value: Callable[[list[RowFigures]], float | None]
) -> tuple[MetricSample, ...]:
    return tuple(
        sample
        for name, rows in by_name.items()
        for sample in _known(((label, _label(name)),), [value(one) for one in rows])
    )


def _one(runs: tuple[RunFigures, ...], name: str) -> tuple[MetricSample, ...]:
    totals: list[tuple[Key, RowFigures] | None] = [
        next((pair for pair in run.rows.items() if pair[0][:2] == ("total", name)), None) for run in runs
    ]
    return _known((), [pair and pair[1].total_ns for pair in totals])


def _known(labels: Labels, values: list[float | None]) -> tuple[MetricSample, ...]:
    known = tuple(float(value) for value in values if value is not None)
    return (MetricSample(labels, known),) if known else ()


def _busy_share(run: RunFigures) -> float | None:
    budget = {key: row.total_ns for key, row in run.rows.items() if key.group == "budget"}
    steady = {key: ns for key, ns in budget.items() if key.detail != WHOLE_RUN}
    judged = steady or budget
    whole = sum(judged.values())
    return sum(ns for key, ns in judged.items() if key.name in BUSY_STATES) / whole if whole else None


def _count(rows: list[RowFigures]) -> float:
    return float(sum(row.count for row in rows))


def _total_ns(rows: list[RowFigures]) -> float:
    return float(sum(row.total_ns for row in rows))


def _bytes(rows: list[RowFigures]) -> float | None:
    sizes = [row.size_bytes for row in rows]
    return None if None in sizes else float(sum(size or 0 for size in sizes))


def _typical(rows: list[RowFigures]) -> float | None:
    return rows[0].typical_ns if rows else None


def _label(name: str) -> str:
    """Return a name without control characters; the end of a long one is replaced by a hash of the name."""
    text = printable(name)
    if len(text) <= _LONGEST_LABEL:
        return text
    mark = f"...#{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:_HASH]}"
    return text[: _LONGEST_LABEL - len(mark)] + mark
