"""Find the rank that the others wait for, if it is regularly the same one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job

_BY_CHANCE = 0.05  # among equal ranks: no rank is named if its count is at least this likely
_MATTERS_PERCENT = 5.0  # of a rank's GPU time: no rank is named for less waiting
_LONGER = 1.1  # times the own GPU time of the others: less counts as equal
_MOST = 0.5  # of the wait: a smaller difference in own GPU time is not the whole reason


@dataclass(frozen=True)
class Waiting:
    """Per member: its collectives, how often it was the last, and its waits in ns.

    ``for_ns[waiting, last]`` is the exposed wait: no own kernel of the waiting rank ran. ``hidden_ns`` is
    the rest of each member's wait.
    """

    collectives: NDArray[Any]
    last: NDArray[Any]
    for_ns: NDArray[Any]
    hidden_ns: NDArray[Any]


def waiting(job: Job) -> Waiting:
    """Return how long each rank waited for each other one in the matched collectives.

    A collective without a single last rank counts for no rank.
    """
    ranks = len(job.members)
    result = Waiting(*(np.zeros(shape, np.int64) for shape in (ranks, ranks, (ranks, ranks), ranks)))
    for group in job.matched.groups:
        members, last = np.array(group.ranks), group.last
        result.collectives[members] += group.row.shape[1]
        for mine, member in enumerate(group.ranks):
            result.last[member] += int((last == mine).sum())
            result.for_ns[members, member] += group.exposed_ns[:, last == mine].sum(axis=1)
        result.hidden_ns[members] += group.hidden_ns.sum(axis=1)
    return result


def waiting_verdict(job: Job) -> str:
    """Return a sentence on the rank that the others wait for; empty without matched collectives."""
    if job.matched.doubts:
        return f"cannot tell which rank delays the others: {job.matched.doubts[0]}"
    total = len(job.matched)
    if not total:
        return ""
    result = waiting(job)
    gpu_ns = np.array([int((times.own_ns + times.communication_ns).sum()) for times in job.times])
    waited = result.for_ns.sum(axis=1) * 100 / np.maximum(gpu_ns, 1)
    late = int(result.last.argmax())
    times, of = int(result.last[late]), int(result.collectives[late])
    most = int(result.for_ns[:, late].argmax())
    share = float(result.for_ns[most, late] * 100 / max(int(gpu_ns[most]), 1))
    if share < _MATTERS_PERCENT and waited.max() < _MATTERS_PERCENT:
        return (
            f"no rank delays the others; waiting takes at most {percent(waited.max())} of a rank's GPU time"
            f"{_hidden(result, gpu_ns)}"
        )
    if share < _MATTERS_PERCENT or not regular(times, of, len(job.members)):
        return (
            f"no single rank is regularly last in the {total:,} collectives; waiting takes up to "
            f"{percent(waited.max())} of a rank's GPU time"
        )
    exposed = int(result.for_ns[most, late])
    return (
        f"{job.members[late].label} was last in {times:,} of {of:,} collectives; "
        f"{job.members[most].label} waited {duration(exposed)} for it, {percent(share)} of its GPU time, "
        f"{_reason(job, late, exposed)}{_hidden(result, gpu_ns)}"
    )


def _hidden(result: Waiting, gpu_ns: NDArray[Any]) -> str:
    """Return how much more waiting lies under own kernels, if it is much; otherwise an empty text."""
    under = result.hidden_ns * 100 / np.maximum(gpu_ns, 1)
    if under.max() < _MATTERS_PERCENT:
        return ""
    most = f"up to {percent(under.max())} of that rank's GPU time"
    return f"; waiting under a rank's own kernels is not counted: {most}"


def regular(times: int, of: int, ranks: int) -> bool:
    """Return True if a rank was last in most collectives, and more often than by chance among equal ranks.

    The probability is Chernoff's bound, which is exact if the rank was last in all collectives.
    """
    share, fair = times / of, 1 / ranks
    if share <= 1 / 2 or share <= fair:
        return False
    rest = (1 - share) * math.log((1 - share) / (1 - fair)) if share < 1 else 0.0
    return ranks * math.exp(-of * (share * math.log(share / fair) + rest)) < _BY_CHANCE


def _reason(job: Job, late: int, waited_ns: int) -> str:
    """Return whether the additional own GPU time of the last rank explains the wait, as text."""
    own = [int(times.own_ns.sum()) for times in job.times]
    numbers = [number for number in range(len(own)) if number != late]
    others = float(np.median([own[number] for number in numbers]))
    of = f"of {job.members[numbers[0]].label}" if len(numbers) == 1 else "(median of the others)"
    work = f"{job.members[late].label}'s own GPU work takes {duration(own[late])}"
    comparison = f"{work} against {duration(others)} {of}"
    if own[late] <= _LONGER * others:
        return f"but {comparison}, which points to its host code"
    more = own[late] - others
    explained = "" if more >= _MOST * waited_ns else f"; this explains at most {duration(more)} of the wait"
    return f"because {comparison}{explained}"
