"""What launching costs, by kernel: first launches, repeats, latency and waits.

A launch is one API call that started kernels. A graph launch counts once, with all its nodes. A runtime call
and the driver call below it count once. First launches can load their kernel, so all other columns are about
the repeats alone. Latency is that of launches into an idle stream. In a busy stream a launch waits for
earlier work (dependency), then for its own start (queue).

All selected launches count, including those of the start-up. The sentence below the table is about the steady
part. CUDA graphs or fusion could save the launch latency of repeat launches, and the host code and other CUDA
calls between them. A launch after a wait cannot be saved. --advice counts the same time, with three
differences. It leaves out outlier steps and long host code, which are findings of their own. Idle time of
several devices counts once. Of several processes the largest figure counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, Statistics, grouped
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import READS
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit, human
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.stream import in_blocks, narrow
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema, Values
from nsyswrap.reports.wording.verdicts import launch_verdict

ALL = "[all launches]"


class _Repeats(NamedTuple):
    """Times of repeat launches in ns; ``latency`` is that of the launches that ``timed`` marks."""

    api: NDArray[Any]
    queue: NDArray[Any]
    dependency: NDArray[Any]
    kernel: NDArray[Any]
    timed: NDArray[Any]
    latency: NDArray[Any]


def compute(capture: Capture) -> Result:
    """Return a row for all launches, and one per kernel name. All graphs have one name."""
    launches = launches_of(capture)
    repeats = _repeats(launches)
    by_name = _figures(launches, repeats, launches.name, len(launches.names))
    used = np.flatnonzero(by_name["launches"])
    figures = {field: values[used] for field, values in by_name.items()}
    return _result(capture, repeats, by_name["api_med_ns"], used, figures)


def compute_first(capture: Capture, rows: int) -> Result:
    """Return so many of the first rows: most figures of the other names are not computed."""
    launches = launches_of(capture)
    first, count = launches.first, len(launches.names)
    if rows > count:
        return compute(capture)
    repeats = _repeats(launches)
    api = grouped(launches.name[~first], repeats.api, count)
    first_api = grouped(launches.name[first], launches.narrow_api_ns[first], count)
    order = np.lexsort((~_total(first_api), ~_total(api)))
    order = order[(api.count + first_api.count)[order] > 0]
    used, others = np.sort(order[: max(rows - 1, 0)]), order[max(rows - 1, 0) :].tolist()
    place = np.full(count, -1)
    place[used] = np.arange(len(used))
    codes = place.take(launches.name)
    mine = np.flatnonzero(codes >= 0)
    chosen = launches.of(mine)
    figures = _figures(chosen, _repeats(chosen), codes[mine], len(used))
    made = _result(capture, repeats, api.med, used, figures)
    return replace(made, left_out=len(others), other_names=[launches.names[code] for code in others])


def _result(
    capture: Capture,
    repeats: _Repeats,
    medians: NDArray[Any],
    used: NDArray[Any],
    figures: dict[str, NDArray[Any]],
) -> Result:
    """Return a row for all launches, and these rows by name.

    ``medians`` are those of the API calls of each name in ns. ``used`` has the names of the rows.
    """
    launches = launches_of(capture)
    first = launches.first
    every = _figures(launches, repeats, np.zeros(len(launches), np.int8), 1)
    # A first launch costs what its call took above the median repeat of its name, or of all names without.
    usual = np.where(np.isnan(medians), every["api_med_ns"], medians)
    cost = launches.narrow_api_ns[first] - usual[launches.name[first]]
    every["first_cost_ns"] = _sum(np.zeros(len(cost), np.int8), cost, 1)
    figures["first_cost_ns"] = _sum(launches.name[first], cost, len(medians))[used]
    filled = slice(None) if len(launches) else slice(1, None)
    data: dict[str, Values] = {
        field: np.concatenate([every[field], values])[filled] for field, values in figures.items()
    }
    data["name"] = [ALL, *(launches.names[code] for code in used)][filled]
    return Result(data, tuple(_notes(capture, launches)))


def _repeats(launches: Launches) -> _Repeats:
    """Return the times of the repeats among launches, made block by block."""

    def times(block: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        again = launches.of(block["rows"])
        return {
            "api": again.narrow_api_ns,
            "queue": narrow(again.queue_ns),
            "dependency": narrow(again.dependency_ns),
            "kernel": again.narrow_gpu_ns,
            "timed": again.uncontended & (again.narrow_latency_ns >= 0),
            "latency": again.narrow_latency_ns,
        }

    columns = in_blocks({"rows": np.flatnonzero(~launches.first)}, times)
    latency = columns.pop("latency")[np.flatnonzero(columns["timed"])]
    return _Repeats(**columns, latency=latency)


def _figures(
    launches: Launches, repeats: _Repeats, codes: NDArray[Any], groups: int
) -> dict[str, NDArray[Any]]:
    """Return the columns of figures for each group. Figures of no launch are missing."""
    first, again = np.flatnonzero(launches.first), codes[~launches.first]
    of_firsts, of_repeats, of_timed = (
        GroupBy(part, groups) for part in (codes[first], again, again[repeats.timed])
    )
    firsts = of_firsts.of(launches.narrow_api_ns[first])
    api, latency = of_repeats.of(repeats.api), of_timed.of(repeats.latency)
    spreads = {
        **_spread("api", api, of_repeats, repeats.api),
        **_spread("latency", latency, of_timed, repeats.latency),
    }
    queue, dependency, kernel = (of_repeats.of(values) for values in repeats[1:4])
    return {
        "launches": firsts.count + api.count,
        "first_launches": firsts.count,
        "repeat_launches": api.count,
        "first_api_ns": _total(firsts),
        "api_total_ns": _total(api),
        "uncontended": latency.count,
        **spreads,
        "queue_total_ns": _total(queue),
        "queue_med_ns": queue.med,
        "dependency_total_ns": _total(dependency),
        "dependency_med_ns": dependency.med,
        "kernel_total_ns": _total(kernel),
        "kernel_med_ns": kernel.med,
        "api_per_kernel": api.total / np.where(kernel.total > 0, kernel.total, np.nan),
    }


def _total(statistics: Statistics) -> NDArray[Any]:
    return np.where(statistics.count == 0, MISSING, statistics.total)


def _sum(codes: NDArray[Any], values: NDArray[Any], groups: int) -> NDArray[Any]:
    """Return the sum of each group, NaN in a group without values."""
    filled = np.bincount(codes, minlength=groups) > 0
    return np.where(filled, np.bincount(codes, values, minlength=groups), np.nan)


def _spread(
    prefix: str, statistics: Statistics, groups: GroupBy, values: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    return {
        f"{prefix}_avg_ns": statistics.avg,
        f"{prefix}_med_ns": statistics.med,
        f"{prefix}_p95_ns": groups.quantile(values, 0.95),
        f"{prefix}_p99_ns": groups.quantile(values, 0.99),
    }


def _notes(capture: Capture, launches: Launches) -> Iterator[Note | str]:
    """Yield what no figure includes: kernels without their call, and negative latencies."""
    yield from operation_notes(capture)
    operations = gpu_operations_of(capture)
    lost = int(np.count_nonzero(operations.computes & (operations.call < 0)))
    if lost:
        yield f"kernels and graphs without a recorded launch call: {lost:,}; not included"
    before = launches.of(np.flatnonzero(launches.narrow_latency_ns < 0))
    early = -before.latency_ns[~before.first & before.uncontended]
    if len(early):
        yield (
            f"repeat launches that start on the GPU before their call: {len(early):,}, by up to "
            f"{human(int(early.max()), Unit.NS)}; the clocks disagree, and latencies exclude these "
            "launches"
        )


def _spread_columns(prefix: str, header: str, of: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{prefix}_{short}_ns", f"{header} {short.title()}", f"{text} of {of}", drop_order)
        for short, text, drop_order in (
            ("avg", "arithmetic mean", 8),
            ("med", "median", 0),
            ("p95", "95th percentile", 6),
            ("p99", "99th percentile", 7),
        )
    )


SCHEMA = Schema(
    "launch_overhead",
    "Launch overhead",
    Column.count("launches", "Launches", "API calls that launched a kernel or a graph", 1),
    Column.count(
        "first_launches",
        "First Launches",
        "first launches: the first of a kernel or a graph in its process",
        1,
    ),
    Column.count(
        "repeat_launches", "Repeats", "all other launches; medians, percentiles and totals are of these"
    ),
    Column("first_api_ns", "First API", "CPU time in the calls of first launches", 1),
    Column(
        "first_cost_ns",
        "First Cost",
        "CPU time of first launches above the median repeat; of the same kernel, or of all kernels if it "
        "has none",
        2,
    ),
    Column("api_total_ns", "API Total", "CPU time in the calls of repeat launches", 3),
    *_spread_columns("api", "API", "CPU time in one call"),
    Column.count(
        "uncontended",
        "Uncontended",
        "repeat launches into a stream that had been idle since before the call; latencies are of these",
        5,
    ),
    *_spread_columns(
        "latency",
        "Latency",
        "the time from the call's start to the GPU's start, of uncontended repeat launches, "
        "including any wait for another stream",
    ),
    Column("queue_total_ns", "Queue Total", "sum of the queue waits", 9),
    Column(
        "queue_med_ns",
        "Queue Med",
        "median wait for the GPU's start, after the call returned and the stream was idle",
        4,
    ),
    Column("dependency_total_ns", "Dep Total", "sum of the dependency waits", 9),
    Column(
        "dependency_med_ns",
        "Dep Med",
        "median wait for earlier work in the stream, after the call returned",
        4,
    ),
    Column("kernel_total_ns", "Kernel Time", "GPU time of the work of repeat launches", 9),
    Column("kernel_med_ns", "Kernel Med", "median GPU time of the work of one repeat launch"),
    Column(
        "api_per_kernel", "API/Kernel", "API Total / Kernel Time, both of repeat launches", unit=Unit.RATIO
    ),
    Column("name", "Name", "kernel name; all graphs are one entry, with recorded nodes or not", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel", "graph"), ("api",)),
    compute=compute,
    order=(Order("api_total_ns", descending=True), Order("first_api_ns", descending=True)),
    qualifiers=KERNEL_NAMES,
    reads=READS,
    conclude=lambda capture, _: launch_verdict(capture),
    compute_top=compute_first,
    judges_steps=True,
)
