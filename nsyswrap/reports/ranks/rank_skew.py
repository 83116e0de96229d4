"""Slowest and fastest rank in each NVTX range and each kernel, by name.

The k-th range of a name on one rank is compared with the k-th on the others. Ranks that wait for each other
have ranges of equal length, so a rank is judged by its own GPU time: of the kernels, copies, memsets and
graphs that any thread of its process launched while the range was open, without communication. Ranges in
which no rank launched any such work are judged by their duration on the CPU.

Kernels are judged by the total time of a name. Communication kernels are left out: they last longest on the
rank that is early, see rank_waiting. A kernel that a rank does not have counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.ranks.collectives import communicates, selected_kernels
from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.analysis.ranks.waiting import late_rank, slowest, steps
from nsyswrap.reports.ranks import RankReport, RankResult
from nsyswrap.reports.table import Column, Schema
from nsyswrap.reports.wording.ranks import waiting_sentence

Row = tuple[object, ...]


RANGE_GPU, RANGE_CPU, KERNEL = "range (GPU)", "range (CPU)", "kernel"

SCHEMA = Schema(
    "rank_skew",
    "Slowest and fastest rank by range and kernel",
    Column(
        "judged",
        "Compared",
        f"{RANGE_GPU}: own GPU time in the range; {RANGE_CPU}: duration of the range; {KERNEL}: "
        "its own GPU time",
    ),
    Column.number("slowest_rank", "Slowest Rank", "rank with the most time"),
    Column("slowest_ns", "Slowest Time", "time of the slowest rank, over all instances"),
    Column.number("fastest_rank", "Fastest Rank", "rank with the least time"),
    Column("fastest_ns", "Fastest Time", "time of the fastest rank, over all instances", 1),
    Column("skew_ns", "Skew", "difference between slowest and fastest rank"),
    Column("skew_percent", "Skew", "skew as a share of the median over the ranks"),
    Column.count("instances", "Instances", "matched ranges, or kernels of the slowest rank", 1),
    Column.count("slowest_in", "Times Slowest", "instances in which that rank was the slowest", 1),
    Column("waiting_ns", "Waiting", "longest wait of a rank in these ranges", 2),
    Column("name", "Name", "NVTX range or kernel", kernels=True),
)


def compute(job: RankJob) -> RankResult:
    """Return a row per range, then one per kernel, each by descending skew."""
    ranges, notes = steps(job)
    of_ranges = [
        (
            RANGE_GPU if step.on_gpu else RANGE_CPU,
            *_judged(
                job, step.ranks, step.judged_ns.sum(axis=1), slowest(step.judged_ns), step.judged_ns.shape[1]
            ),
            int(step.waiting_ns.sum(axis=1).max()),
            step.name,
        )
        for step in ranges
        if step.judged_ns.shape[1]
    ]
    by_skew = SCHEMA.columns.index(next(column for column in SCHEMA.columns if column.name == "skew_ns"))
    rows = [
        row
        for part in (of_ranges, list(_kernels(job)))
        for row in sorted(part, key=lambda row: -int(str(row[by_skew])))
    ]
    return RankResult(rows, notes, waiting_sentence(late_rank(job)))


def _judged(
    job: RankJob, ranks: Sequence[int], total: NDArray[Any], slow: NDArray[Any] | None, instances: int
) -> Row:
    """Return the columns from the slowest rank to ``slowest_in``, of one total per rank."""
    most, least = int(total.argmax()), int(total.argmin())
    skew, middle = int(total[most] - total[least]), float(np.median(total))
    return (
        *(job.name(ranks[most]), int(total[most]), job.name(ranks[least]), int(total[least])),
        *(skew, skew * 100 / middle if middle else None, instances),
        None if slow is None else int((slow == most).sum()),
    )


def _kernels(job: RankJob) -> Iterator[Row]:
    by_rank = [_of(member) for member in job.members]
    for name in dict.fromkeys(name for kernels in by_rank for name in kernels):
        parts = [kernels.get(name, np.empty(0, np.int64)) for kernels in by_rank]
        total = np.array([int(part.sum()) for part in parts])
        as_many = len({len(part) for part in parts}) == 1
        slow = slowest(np.array(parts)) if as_many else None
        ranks = range(len(job.members))
        yield (KERNEL, *_judged(job, ranks, total, slow, len(parts[int(total.argmax())])), None, name)


def _of(member: RankCapture) -> dict[str, NDArray[Any]]:
    """Return the durations of a rank's own kernels by name, in ns, in order of start."""
    capture = member.capture
    if not capture.has("kernel"):
        return {}
    codes, names = name_codes(capture, "kernel")
    own = np.flatnonzero(~communicates(member.everything)[selected_kernels(member)])
    own = own[np.argsort(capture.columns("kernel", "start_ns")["start_ns"][own], kind="stable")]
    order = own[np.argsort(codes[own], kind="stable")]
    ends = np.cumsum(np.bincount(codes[own], minlength=len(names)))[:-1]
    parts = np.split(capture.durations("kernel")[order], ends)
    return {str(name): part for name, part in zip(names, parts, strict=False) if len(part)}


REPORT = RankReport(schema=SCHEMA, needs=(("nvtx", "kernel"),), compute=compute)
