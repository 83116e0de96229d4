"""Compute transfer, waiting and bandwidth of the matched collectives of a job, by kind and message size.

The rank that arrives last waits for nobody, so the shortest kernel of a collective is its transfer.
Bandwidths are those of nccl-tests: bytes of the whole operation per second of transfer, and for the bus
bandwidth times 2(n-1)/n of an all-reduce, (n-1)/n of an all-gather or a reduce-scatter of n ranks. NCCL's
payload has the size of one rank's part of these two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.ranks.collectives import UNKNOWN, Collectives, communicator_ranks, nccl_calls
from nsyswrap.analysis.ranks.job import RankJob

_KERNEL = "Kernel_"
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "AllReduce", "AllGather", "ReduceScatter"
# NCCL reduces signed integers in the kernels of unsigned ones.
_TYPES = {
    **{name: name for name in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")},
    **{f"{sign}{bits}": f"int{bits}" for sign in ("i", "u", "int", "uint") for bits in (8, 32, 64)},
    "half": "f16",
    "float": "f32",
    "double": "f64",
    "bfloat16": "bf16",
}


class CollectiveSum(NamedTuple):
    """Matched collectives of one kind, communicator and message size.

    ``type``, ``communicator``, ``size_bytes`` and ``channels`` are None if unknown, as are the
    times in ns if the collectives are not matched for sure, and the bandwidths in bytes/s if the size or the
    number of ranks is unknown or a rank is missing. ``channels`` is the median number of blocks of a kernel.
    ``waiting_ns`` is that of the rank that waits most.
    """

    collective: str
    type: str | None
    communicator: str | None
    ranks: int
    size_bytes: int | None
    collectives: int
    channels: float | None
    transfer_ns: int | None
    transfer_med_ns: float | None
    waiting_ns: int | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None


def collective_sums(job: RankJob) -> list[CollectiveSum]:
    """Return the matched collectives of a job, those with most transfer and waiting first."""
    sums = [one for group in job.matched.groups for one in _of_group(job, group)]
    return sorted(sums, key=lambda one: -(one.transfer_ns or 0) - (one.waiting_ns or 0))


def named(kernel: str) -> tuple[str, str | None]:
    """Return collective and type of a kernel; only kernels that reduce name their type.

    They do not tell the operation: NCCL names the kernels of all operations after the sum.
    """
    name = kernel.partition("(")[0].partition("<")[0]
    before, is_nccl, rest = name.partition(_KERNEL)
    if not is_nccl or not before.startswith("nccl"):
        return name, None
    collective, *words = rest.split("_")
    if collective not in (ALL_REDUCE, REDUCE_SCATTER):
        return collective, None
    return collective, next((_TYPES[word] for word in words if word in _TYPES), None)


def _of_group(job: RankJob, group: Collectives) -> Iterator[CollectiveSum]:
    collective, kind = named(group.name)
    calls = [nccl_calls(job.members[number].everything) for number in group.ranks]  # by rank, then by kernel
    sizes = np.array(
        [[calls[i][row].size_bytes or -1 for row in rows] for i, rows in enumerate(group.row.tolist())]
    )
    same = np.where((sizes == sizes[0]).all(axis=0), sizes[0], -1)
    first = calls[0][int(group.row[0, 0])].communicator
    complete = _is_complete(job, group, first)
    for size in np.unique(same).tolist():
        chosen = same == size
        durations = (group.end_ns - group.start_ns)[:, chosen]
        transfer, waits = durations.min(axis=0), group.waiting_ns[:, chosen].sum(axis=1)
        is_sure = not job.matched.doubts
        of_all = _bandwidth(collective, len(group.ranks), size, transfer) if is_sure and complete else None
        yield CollectiveSum(
            *(collective, kind, None if first == UNKNOWN else first),
            *(len(group.ranks), size if size > 0 else None, int(chosen.sum())),
            _channels(job, group, chosen),
            int(transfer.sum()) if is_sure else None,
            float(np.median(transfer)) if is_sure else None,
            int(waits.max()) if is_sure else None,
            *(of_all or (None, None)),
        )


def _is_complete(job: RankJob, group: Collectives, communicator: str) -> bool:
    """Return True if the captures have every rank of a communicator, and say so."""
    known = {
        communicator_ranks(job.members[number].everything).get(communicator) for number in group.ranks
    } - {None}
    return known == {len(group.ranks)}


def _bandwidth(
    collective: str, ranks: int, size: int, transfer_ns: NDArray[Any]
) -> tuple[float, float] | None:
    """Return algorithm and bus bandwidth in bytes/s; None if one of them is unknown."""
    seconds = int(transfer_ns.sum()) / 1e9
    parts = {ALL_REDUCE: (1, 2), ALL_GATHER: (ranks, 1), REDUCE_SCATTER: (ranks, 1)}
    if size <= 0 or not seconds or collective not in parts:
        return None
    whole, factor = parts[collective]
    algorithm = size * whole * len(transfer_ns) / seconds
    return algorithm, algorithm * factor * (ranks - 1) / ranks


def _channels(job: RankJob, group: Collectives, chosen: NDArray[np.bool_]) -> float | None:
    """Return the median number of blocks, one for each channel of NCCL; None of other kernels."""
    if _KERNEL not in group.name:
        return None
    blocks = job.members[group.ranks[0]].everything.columns("kernel", "grid_x")["grid_x"]
    known = blocks[group.row[0][chosen]]
    return float(np.median(known)) if len(known) and (known > 0).all() else None
