"""Every NVTX range of several ranks, one by one: the k-th of a name on each, slowest and fastest rank.

A rank is judged by its own GPU time in the range. Where no rank launched any GPU work of its own in ranges of
that name, the duration of the range counts. rank_skew adds these times up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.analysis.ranks.waiting import RankedRanges, steps
from nsyswrap.reports.ranks import RankReport, RankResult
from nsyswrap.reports.ranks.rank_skew import RANGE_CPU, RANGE_GPU
from nsyswrap.reports.table import Column, Schema

SCHEMA = Schema(
    "rank_steps",
    "Slowest and fastest rank in each range instance",
    Column("range", "Range", "name of the NVTX range"),
    Column.number("occurrence", "Instance", "number of the instance of this name, from 0"),
    Column(
        "judged", "Compared", f"{RANGE_GPU}: own GPU time in the range; {RANGE_CPU}: duration of the range"
    ),
    Column.number("slowest_rank", "Slowest Rank", "rank with the most time, the first of equals"),
    Column("slowest_ns", "Slowest Time", "time of the slowest rank"),
    Column.number("fastest_rank", "Fastest Rank", "rank with the least time, the first of equals"),
    Column("fastest_ns", "Fastest Time", "time of the fastest rank"),
    Column("skew_ns", "Skew", "difference between slowest and fastest rank"),
    Column("skew_percent", "Skew", "skew as a share of the median over the ranks", 1),
    Column("range_med_ns", "Range Med", "median duration of the range over the ranks", 2),
    Column("waiting_ns", "Waiting", "longest wait of a rank for others in the range", 1),
)


def compute(job: RankJob) -> RankResult:
    """Return a row per range name and occurrence."""
    every_step, notes = steps(job)
    return RankResult([row for step in every_step for row in _rows(job, step)], notes)


def _rows(job: RankJob, step: RankedRanges) -> Iterator[tuple[object, ...]]:
    times = step.judged_ns
    if not times.shape[1]:
        return
    judged = RANGE_GPU if step.on_gpu else RANGE_CPU
    middle, medians = np.median(times, axis=0), np.median(step.range_ns, axis=0)
    for k, (most, least) in enumerate(zip(times.argmax(axis=0), times.argmin(axis=0), strict=True)):
        skew = int(times[most, k] - times[least, k])
        yield (
            *(step.name, k, judged, job.name(step.ranks[most]), int(times[most, k])),
            *(job.name(step.ranks[least]), int(times[least, k]), skew),
            *(skew * 100 / float(middle[k]) if middle[k] else None, float(medians[k])),
            int(step.waiting_ns[:, k].max()),
        )


REPORT = RankReport(schema=SCHEMA, needs=(("nvtx",),), compute=compute)
