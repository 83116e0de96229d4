"""Find the rank that the others wait for, if it is regularly the same one.

The NVTX ranges of several ranks are matched by name and occurrence, with the GPU time of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.judged_process import main_steps
from nsyswrap.analysis.nvtx_ranges import ALL, own_texts
from nsyswrap.analysis.range_texts import of_an_operation
from nsyswrap.analysis.ranks.collectives import UNKNOWN, Collectives, communicator_ranks, nccl_calls
from nsyswrap.analysis.ranks.job import GpuTimes, RankJob
from nsyswrap.analysis.steps import Steps as JudgedSteps
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.stream import one_of

_LIBRARY = regex(r"nccl[A-Z]")  # NCCL marks its own calls
_FEWEST_RANKS = 2
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


@dataclass(frozen=True)
class RankedRanges:
    """The ranges of one name: arrays with one row per member in ``ranks``, one column per occurrence; in ns.

    ``own_ns`` and ``waiting_ns`` cover the operations that any thread of the process launched during the
    range, on any device: PyTorch's autograd launches the backward pass from its own threads.
    """

    name: str
    ranks: tuple[int, ...]
    range_ns: NDArray[Any]
    own_ns: NDArray[Any]
    waiting_ns: NDArray[Any]

    @property
    def on_gpu(self) -> bool:
        """Whether a rank launched its own GPU work in these ranges."""
        return bool(self.own_ns.any())

    @property
    def judged_ns(self) -> NDArray[Any]:
        """The time that tells slow ranks from fast ones, in ns.

        Ranges last equally long on ranks that wait for each other, so own GPU time counts if there is any.
        """
        return self.own_ns if self.on_gpu else self.range_ns


def steps(job: RankJob) -> tuple[list[RankedRanges], list[Note]]:
    """Return the ranges that several ranks have, by first appearance, and notes on unmatched ones."""
    by_member = [_of(member.capture, times) for member, times in zip(job.members, job.all_times, strict=True)]
    matched: list[RankedRanges] = []
    alone, uneven = 0, []
    for name in dict.fromkeys(name for ranges in by_member for name in ranges):
        having = tuple(number for number, ranges in enumerate(by_member) if name in ranges)
        counts = [by_member[number][name].shape[1] for number in having]
        if len(having) < _FEWEST_RANKS:
            alone += 1
            continue
        if len(set(counts)) > 1:
            uneven.append(name)
        cut = np.array([by_member[number][name][:, : min(counts)] for number in having])
        matched.append(RankedRanges(name, having, cut[:, 0], cut[:, 1], cut[:, 2]))
    notes = [Note("names_alone", {"names": alone})] if alone else []
    return matched, [*notes, *([Note("names_uneven", {"names": uneven})] if uneven else [])]


def _same_steps(job: RankJob) -> list[JudgedSteps]:
    """Return the steps that are judged on each rank; none if a rank has none, or others than the first."""
    of_member = [main_steps(member.everything) for member in job.members]
    found = [one for one in of_member if one is not None and len(one.host_start_ns) == len(one)]
    same = len({one.loop or one.label for one in found}) == 1 and len(found) == len(job.members)
    return found if same else []


def judged_steps(job: RankJob) -> RankedRanges | None:
    """Return the steps that are judged on each rank, matched by number; None if they differ.

    ``range_ns`` is the duration of the steps. The other times are of operations launched in their windows.
    """
    found = _same_steps(job)
    if not found:
        return None
    count = min(map(len, found))
    parts = []
    for one, times in zip(found, job.all_times, strict=True):
        start = one.host_start_ns[:count]
        inside = _launched_inside(start, start + one.host_ns[:count], times)
        parts.append([one.duration_ns[:count], *inside])
    durations, own, waiting = (np.array(column) for column in zip(*parts, strict=True))
    return RankedRanges(found[0].label.name, tuple(range(len(found))), durations, own, waiting)


def step_times(job: RankJob) -> tuple[int, NDArray[Any], NDArray[Any]] | None:
    """Return the number of the median step of the first rank, and its starts and ends on each rank in ns."""
    found = _same_steps(job)
    if not found:
        return None
    first, count = found[0], min(map(len, found))
    usual = np.flatnonzero(first.steady[:count] & ~first.outlier[:count])
    if not len(usual):
        return None
    order = np.argsort(first.duration_ns[usual], kind="stable")
    at = int(usual[order[(len(usual) - 1) // 2]])
    starts, ends = (np.array([getattr(one, end)[at] for one in found]) for end in ("start_ns", "end_ns"))
    return first.first + at, starts, ends


def slowest(times: NDArray[Any]) -> NDArray[Any]:
    """Return the row with the longest time of each column; -1 if several are equally long."""
    longest = times == times.max(axis=0)
    return np.where(longest.sum(axis=0) == 1, longest.argmax(axis=0), -1)


def _of(capture: Capture, times: GpuTimes) -> Mapping[str, NDArray[Any]]:
    """Return for each name the range, own and waiting times of its ranges by start, in ns: three rows."""
    if not capture.has("nvtx"):
        return {}
    events = capture.columns("nvtx", "start_ns", "end_ns", "event_type")
    rows = np.flatnonzero(one_of(events["event_type"], ALL) & (events["end_ns"] != MISSING))
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    codes, names = own_texts(capture, rows)
    start, end = events["start_ns"][rows], events["end_ns"][rows]
    columns = np.array([end - start, *_launched_inside(start, end, times)])
    order = np.argsort(codes, kind="stable")
    parts = np.split(columns[:, order], np.cumsum(np.bincount(codes, minlength=len(names)))[:-1], axis=1)
    return {
        name: part
        for name, part in zip(names, parts, strict=False)
        if name and not _LIBRARY.match(name) and not of_an_operation(name)
    }


def _launched_inside(start: NDArray[Any], end: NDArray[Any], times: GpuTimes) -> list[NDArray[Any]]:
    """Return own and waiting time of the operations launched in each range, in ns."""
    order = np.argsort(times.launched_ns, kind="stable")
    launched = times.launched_ns[order]
    first, last = (np.searchsorted(launched, ends, "left") for ends in (start, end))
    running = (np.concatenate(([0], np.cumsum(part[order]))) for part in (times.own_ns, times.waiting_ns))
    return [sums[last] - sums[first] for sums in running]


_BY_CHANCE = 0.05  # among equal ranks: no rank is named if its count is at least this likely
MATTERS_PERCENT = 5.0  # of a rank's GPU time: no rank is named for less waiting


@dataclass(frozen=True)
class RankWaits:
    """Per member: its collectives, how often it was the last, and its waits in ns.

    ``for_ns[waiting, last]`` is the exposed wait: no own kernel of the waiting rank ran. ``hidden_ns`` is
    the rest of each member's wait.
    """

    collectives: NDArray[Any]
    last: NDArray[Any]
    for_ns: NDArray[Any]
    hidden_ns: NDArray[Any]


def waiting(job: RankJob) -> RankWaits:
    """Return how long each rank waited for each other one in the matched collectives.

    A collective without a single last rank counts for no rank.
    """
    ranks = len(job.members)
    result = RankWaits(*(np.zeros(shape, np.int64) for shape in (ranks, ranks, (ranks, ranks), ranks)))
    for group in job.matched.groups:
        members, last = np.array(group.ranks), group.last
        result.collectives[members] += group.row.shape[1]
        for mine, member in enumerate(group.ranks):
            result.last[member] += int((last == mine).sum())
            result.for_ns[members, member] += group.exposed_ns[:, last == mine].sum(axis=1)
        result.hidden_ns[members] += group.hidden_ns.sum(axis=1)
    return result


def late_rank(job: RankJob, *, is_late: bool = False) -> dict[str, Any]:
    """Return the rank that the others wait for, as plain values by name; empty without matched collectives.

    ``is_late`` means that the rank that is last most often is known to be late, so the outcome names it.

    ``outcome`` is "doubtful" (``doubt`` says why), "no waiting", "no single rank", or "one rank". The last
    has the rank that is late, how often it was the last, the rank that waited most for it, and the own GPU
    time of the late rank beside the median of the others. ``other`` is the only other rank, else empty.
    ``unmatched_ns`` is how much longer than that median it was in communication that is not matched, if so.
    """
    if job.matched.doubts:
        return {"outcome": "doubtful", "doubt": job.matched.doubts[0]}
    if not len(job.matched):
        return {}
    result = waiting(job)
    gpu_ns = np.array([int((times.own_ns + times.communication_ns).sum()) for times in job.times])
    waited = result.for_ns.sum(axis=1) * 100 / np.maximum(gpu_ns, 1)
    hidden = result.hidden_ns * 100 / np.maximum(gpu_ns, 1)
    numbers = {"most_percent": float(waited.max()), "hidden_percent": float(hidden.max())}
    late = int(result.last.argmax())
    times, of = int(result.last[late]), int(result.collectives[late])
    most = int(result.for_ns[:, late].argmax())
    share = float(result.for_ns[most, late] * 100 / max(int(gpu_ns[most]), 1))
    matters = share >= MATTERS_PERCENT
    if not is_late and not matters and waited.max() < MATTERS_PERCENT:
        return {"outcome": "no waiting", **numbers}
    if not is_late and not (matters and regular(times, of, len(job.members))):
        return {"outcome": "no single rank", "collectives": len(job.matched), **numbers}
    return {
        "outcome": "one rank",
        "late": job.members[late].label,
        "last_times": times,
        "last_of": of,
        "waits": job.members[most].label,
        "exposed_ns": int(result.for_ns[most, late]),
        "exposed_percent": share,
        **_own_times(job, late),
        **numbers,
    }


def _own_times(job: RankJob, late: int) -> dict[str, Any]:
    own = np.array([int(times.own_ns.sum()) for times in job.times])
    unmatched = np.array([int(times.communication_ns.sum()) for times in job.times])
    for group in job.matched.groups:
        unmatched[list(group.ranks)] -= (group.end_ns - group.start_ns).sum(axis=1)
    others = np.arange(len(own)) != late
    more = int(unmatched[late] - np.median(unmatched[others]))
    return {
        "own_ns": int(own[late]),
        "others_ns": float(np.median(own[others])),
        "other": job.members[int(others.argmax())].label if len(own) == _FEWEST_RANKS else "",
        **({"unmatched_ns": more} if more > 0 else {}),
    }


def regular(times: int, of: int, ranks: int) -> bool:
    """Return True if a rank was last in most collectives, and more often than by chance among equal ranks.

    The probability is Chernoff's bound, which is exact if the rank was last in all collectives.
    """
    share, fair = times / of, 1 / ranks
    if share <= 1 / 2 or share <= fair:
        return False
    rest = (1 - share) * math.log((1 - share) / (1 - fair)) if share < 1 else 0.0
    return ranks * math.exp(-of * (share * math.log(share / fair) + rest)) < _BY_CHANCE


# Transfer, waiting and bandwidth of the matched collectives of a job, by kind and message size.
#
# The rank that arrives last waits for nobody, so the shortest kernel of a collective is its transfer.
# Bandwidths are those of nccl-tests: bytes of the whole operation per second of transfer, and for the bus
# bandwidth times 2(n-1)/n of an all-reduce, (n-1)/n of an all-gather or a reduce-scatter of n ranks. NCCL's
# payload has the size of one rank's part of these two.


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
    # Whether the captures have every rank of the communicator, and say so.
    known = {communicator_ranks(job.members[number].everything).get(first) for number in group.ranks} - {None}
    complete = known == {len(group.ranks)}
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
