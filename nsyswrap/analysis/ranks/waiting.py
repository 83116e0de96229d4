"""Who holds the others up, in a sentence; nobody where it is now this rank, now that one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job

_BY_CHANCE = 0.05  # what is as likely as this among equal ranks names nobody
_MATTERS_PERCENT = 5.0  # of a rank's GPU time, which it has to wait before anybody is named
_LONGER = 1.1  # own GPU time, times that of the others, from which on it is more
_MOST = 0.5  # of the wait, which the difference has to be to be the reason


@dataclass(frozen=True)
class Waiting:
    """How often each rank was the last, and how long each waited for each: ``for_ns[waiting, last]``."""

    collectives: NDArray[Any]
    last: NDArray[Any]
    for_ns: NDArray[Any]


def waiting(job: Job) -> Waiting:
    """Return who waited for whom in the matched collectives; one without a single last rank is nobody's."""
    ranks = len(job.members)
    found = Waiting(*(np.zeros(shape, np.int64) for shape in (ranks, ranks, (ranks, ranks))))
    for group in job.matched.groups:
        members, last = np.array(group.ranks), group.last
        found.collectives[members] += group.row.shape[1]
        for mine, member in enumerate(group.ranks):
            found.last[member] += int((last == mine).sum())
            found.for_ns[members, member] += group.waiting_ns[:, last == mine].sum(axis=1)
    return found


def waiting_verdict(job: Job) -> str:
    """Return the sentence; empty where no collective could be matched."""
    total = len(job.matched)
    if not total:
        return ""
    found = waiting(job)
    gpu_ns = np.array([int((times.own_ns + times.communication_ns).sum()) for times in job.times])
    waited = found.for_ns.sum(axis=1) * 100 / np.maximum(gpu_ns, 1)
    late = int(found.last.argmax())
    times, of = int(found.last[late]), int(found.collectives[late])
    most = int(found.for_ns[:, late].argmax())
    share = float(found.for_ns[most, late] * 100 / max(int(gpu_ns[most]), 1))
    if share < _MATTERS_PERCENT and waited.max() < _MATTERS_PERCENT:
        return (
            f"no rank holds the others up: waiting takes at most {percent(waited.max())} of a rank's GPU time"
        )
    if share < _MATTERS_PERCENT or not regular(times, of, len(job.members)):
        return (
            f"no rank is regularly the last of {total:,} collectives, the ranks take turns; "
            f"waiting takes up to {percent(waited.max())} of a rank's GPU time"
        )
    waited_for = f"{job.members[most].label} waited {duration(found.for_ns[most, late])} for it"
    return (
        f"{job.members[late].label} was last in {times:,} of {of:,} collectives; {waited_for}, "
        f"{percent(share)} of its GPU time; {_reason(job, late, int(found.for_ns[most, late]))}"
    )


def regular(times: int, of: int, ranks: int) -> bool:
    """Whether one of several equal ranks would hardly be last so often: in most, and not by chance.

    The chance is Chernoff's bound, exact where it was last in all.
    """
    share, fair = times / of, 1 / ranks
    if share <= 1 / 2 or share <= fair:
        return False
    rest = (1 - share) * math.log((1 - share) / (1 - fair)) if share < 1 else 0.0
    return ranks * math.exp(-of * (share * math.log(share / fair) + rest)) < _BY_CHANCE


def _reason(job: Job, late: int, waited_ns: int) -> str:
    """Say whether what the last rank has to do more on its GPU is what the other waited for."""
    own = [int(times.own_ns.sum()) for times in job.times]
    others = float(np.median([ns for number, ns in enumerate(own) if number != late]))
    said = (
        f"its own work on the GPU takes {duration(own[late])}, that of the others {duration(others)} (median)"
    )
    if own[late] <= _LONGER * others:
        return f"{said}: no more, which points to its CPU"
    more = own[late] - others
    return f"{said}: " + (
        "that is why" if more >= _MOST * waited_ns else f"at most {duration(more)} of that wait"
    )
