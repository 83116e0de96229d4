"""Collectives of several ranks by kind and message size: transfer and waiting apart, and bandwidth.

The shortest kernel of a collective among its ranks is the transfer, as the last rank waits for nobody. If
ranks are missing, it may hold waiting for these. Collective and type are read from the kernel name, channels
from its number of blocks. Reduction, algorithm and protocol are not shown: every kernel of NCCL that reduces
is named after the sum and RING_LL or TREE_LL, whatever ran.

Message sizes and communicators are in the payloads of NCCL's NVTX ranges. nsys leaves them out of an export
by default: `nsys export --type sqlite --include-blobs true` keeps them. Communicators are in them from NCCL
2.26 on. Collectives between ncclGroupStart and ncclGroupEnd have neither. A size is that of the call: of an
all-gather or a reduce-scatter the part of one rank.

Bandwidths are those of nccl-tests, over the time of the transfer. Algorithm bandwidth is the size of the
whole operation per second. Bus bandwidth is 2(n-1)/n of it for an all-reduce, (n-1)/n for an all-gather or a
reduce-scatter. They are unknown unless the creation of the communicator was recorded and all of its ranks
are there. Collectives are matched as in rank_waiting, and times are unknown if it gives no verdict.
"""

from __future__ import annotations

from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.analysis.ranks.waiting import collective_sums
from nsyswrap.reports.ranks import RankReport, RankResult
from nsyswrap.reports.table import Column, Schema

_HOW = "nsys export --type sqlite --include-blobs true REPORT.nsys-rep"

SCHEMA = Schema(
    "rank_collectives",
    "Collectives by kind and size",
    Column("collective", "Collective", "collective, else the name of the kernel"),
    Column("type", "Type", "data type, integers with or without sign; missing if unknown"),
    Column("communicator", "Communicator", "id of the communicator; missing if unknown", 2),
    Column.count("ranks", "Ranks", "ranks whose kernels were matched"),
    Column("size_bytes", "Size", "message size of a call; missing if unknown"),
    Column("count", "Count", "matched collectives"),
    Column.number("channels", "Channels", "median blocks of a kernel of NCCL, one a channel", 3),
    Column("transfer_ns", "Transfer", "shortest kernel of each collective, summed"),
    Column("transfer_med_ns", "Transfer Med", "median over the collectives", 1),
    Column("waiting_ns", "Waiting", "time of the rank that waits most for others"),
    Column(
        "algorithm_bytes_per_s",
        "Algorithm Bandwidth",
        "bytes of the whole operation per second of transfer; missing if unknown",
        2,
    ),
    Column(
        "bus_bytes_per_s",
        "Bus Bandwidth",
        "algorithm bandwidth as the links see it, by the factor of nccl-tests; missing if unknown",
    ),
)


def compute(job: RankJob) -> RankResult:
    """Return a row for each kind, communicator and size."""
    sums = collective_sums(job)
    notes = []
    if any(one.communicator is None for one in sums):
        notes.append(f"message sizes need the payloads of NCCL 2.26 or newer: {_HOW}")
    elif any(one.bus_bytes_per_s is None for one in sums):
        notes.append(
            "bandwidth needs all ranks of a communicator, the recording of its creation, and one size on all"
        )
    return RankResult([tuple(one) for one in sums], notes)


REPORT = RankReport(schema=SCHEMA, needs=(("kernel",),), compute=compute)
