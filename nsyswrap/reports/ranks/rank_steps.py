"""Every NVTX range of several ranks, one by one: the k-th of a name on each, slowest and fastest rank.

What is judged is a rank's own GPU time in the range, or the range's duration where no rank launched anything
of its own in ranges of that name: as in rank_skew, which adds these up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.ranks.steps import steps
from nsyswrap.base.units import Unit
from nsyswrap.reports.ranks import RankReport, with_rank_names
from nsyswrap.reports.ranks.rank_skew import RANGE_CPU, RANGE_GPU
from nsyswrap.reports.table import Column, Schema, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.analysis.ranks.steps import Steps

SCHEMA = Schema(
    name="rank_steps",
    title="Slowest and fastest rank in each step",
    columns=(
        Column("range", "Range", Unit.TEXT, "name of the NVTX range"),
        Column("occurrence", "Nth", Unit.NUMBER, "which of this name, from 0"),
        Column("judged", "Judged", Unit.TEXT, f"{RANGE_GPU}: own GPU time in it; {RANGE_CPU}: its duration"),
        Column("slowest_rank", "Slowest", Unit.NUMBER, "rank with the most time; of equals the first"),
        Column("slowest_ns", "Time", Unit.NS, "its time"),
        Column("fastest_rank", "Fastest", Unit.NUMBER, "rank with the least time; of equals the first"),
        Column("fastest_ns", "Time", Unit.NS, "its time"),
        Column("skew_ns", "Skew", Unit.NS, "difference of the two"),
        Column(
            "skew_percent", "Skew", Unit.PERCENT, "that as share of the median over the ranks", drop_order=1
        ),
        Column(
            "range_med_ns", "Range Med", Unit.NS, "median duration of the range over the ranks", drop_order=2
        ),
        Column(
            "waiting_ns", "Waiting", Unit.NS, "the most that a rank waited for others in it", drop_order=1
        ),
    ),
)


def table(job: Job) -> Table:
    """Return a row per range name and occurrence."""
    every_step, notes = steps(job)
    made = table_of(with_rank_names(SCHEMA, job), [row for step in every_step for row in _rows(job, step)])
    return replace(made, notes=(*job.notes, *notes), selection=job.selection)


def _rows(job: Job, step: Steps) -> Iterator[tuple[object, ...]]:
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


REPORT = RankReport(schema=SCHEMA, needs=(("nvtx",),), compute=table)
