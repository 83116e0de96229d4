"""Each rank: how often it was last in a collective, and how long it waited for the others.

The kernel of a collective starts on a rank when that rank arrives, and ends when all have arrived. So waiting
counts as kernel time, and the GPU looks busy. Waiting is the kernel's duration minus the shortest one among
the ranks of that collective, as the last rank waits least. This compares durations and needs no common clock.

Waiting that overlaps with own kernels of the rank, as when DDP overlaps the backward pass, costs no time. The
verdict is about the exposed part, without own kernels.

Collectives are matched by their order: the k-th kernel of a name in a stream with the k-th of other ranks.
All-reduce, all-gather, reduce-scatter and all-to-all are matched. A broadcast or a send does not end on all
ranks together: it is communication without waiting. Communicators are told apart if the export has the
payloads of NCCL (`nsys export --include-json true`). Otherwise all ranks that have collectives of a name
count as one group. The verdict is withheld if the numbers of collectives differ between ranks, or if their
kernels are not at the same time.

Arrival times compare the captures' clocks, aligned on the start of each session; a note says how exactly.
Whatever overlaps a selection counts whole.
"""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.ranks.job import RankJob, lateness_ns, offsets_ns
from nsyswrap.analysis.ranks.waiting import late_rank, waiting
from nsyswrap.reports.ranks import RankReport, RankResult
from nsyswrap.reports.table import Column, Schema
from nsyswrap.reports.wording.ranks import alignment, waiting_sentence

SCHEMA = Schema(
    "rank_waiting",
    "Waiting for other ranks",
    Column.number("rank", "Rank", "the rank"),
    Column.count("collectives", "Collectives", "collectives matched between ranks", 1),
    Column.count("last", "Times Last", "matched collectives in which the rank arrived last"),
    Column("gpu_ns", "GPU Time", "sum of the durations of all its kernels, copies, memsets and graphs", 3),
    Column("own_ns", "Own Work", "part of the GPU time outside communication"),
    Column("communication_ns", "Communication", "time in communication kernels, including waiting"),
    Column(
        "waiting_ns",
        "Waiting",
        "part of the communication spent waiting for the last rank; missing if none is matched",
    ),
    Column("waiting_percent", "Waiting", "waiting as a share of the rank's GPU time"),
    Column("waiting_med_ns", "Median Wait", "median wait in a collective", 1),
    Column("late_med_ns", "Median Delay", "median time from the first rank's arrival to this rank's", 2),
    Column(
        "exposed_ns",
        "Exposed Wait",
        "part of the waiting in which no own kernel of the rank ran on its GPU: this costs time",
    ),
)


def compute(job: RankJob) -> RankResult:
    """Return a row per rank."""
    offsets = offsets_ns(job)
    late = lateness_ns(job, offsets) if offsets is not None else [np.empty(0)] * len(job.members)
    waits = waiting(job)
    parts = _waiting_each(job)
    rows = []
    for number, times in enumerate(job.times):
        communication, own = int(times.communication_ns.sum()), int(times.own_ns.sum())
        waited = int(parts[number].sum()) if len(parts[number]) or not communication else None
        counts = [int(waits.collectives[number]), int(waits.last[number]), own + communication, own]
        percent = waited * 100 / (own + communication) if waited is not None and own + communication else None
        rows.append(
            (
                *(job.name(number), *counts, communication, waited, percent),
                *(float(np.median(part)) if len(part) else None for part in (parts[number], late[number])),
                None if waited is None else waited - int(waits.hidden_ns[number]),
            )
        )
    note = alignment(job, offsets) if len(job.matched) else _nothing(job)
    return RankResult(rows, (note,), waiting_sentence(late_rank(job)))


def _waiting_each(job: RankJob) -> list[np.ndarray]:
    """Return the waiting time of each rank in each of its collectives, in ns."""
    by_rank = [[np.empty(0, np.int64)] for _ in job.members]
    for group in job.matched.groups:
        for number, part in zip(group.ranks, group.waiting_ns, strict=True):
            by_rank[number].append(part)
    return [np.concatenate(parts) for parts in by_rank]


def _nothing(job: RankJob) -> str:
    there = any(times.communication_ns.any() for times in job.times)
    return (
        "no collective could be matched" if there else ("no communication kernels: waiting times are unknown")
    )


REPORT = RankReport(schema=SCHEMA, needs=(("kernel",),), compute=compute)
