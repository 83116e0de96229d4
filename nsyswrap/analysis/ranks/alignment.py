"""One time axis for the captures of several ranks, and how far it can be believed.

Every session says when it began, in ns of UTC. Times of different captures are as comparable as these: on
several hosts as well as their clocks agree. The ends of a matched collective, which are one moment, tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.ranks.members import hosts
from nsyswrap.base.units import duration
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job


def offsets_ns(job: Job) -> NDArray[Any] | None:
    """Return what to add to each rank's times for one zero of all; None where a start is not said."""
    epochs: dict[str, int | None] = {}
    for member in job.members:
        path = member.capture.path
        if str(path) not in epochs:
            said = Export(path).select(schema.SESSION_START, "utcEpochNs")
            epochs[str(path)] = said[0][0] if said else None
    found = [epochs[str(member.capture.path)] for member in job.members]
    known = [epoch for epoch in found if epoch is not None]
    if len(known) < len(found):
        return None
    return np.array([epoch - min(known) for epoch in known])


def lateness_ns(job: Job, offsets: NDArray[Any]) -> list[NDArray[Any]]:
    """Return, for each rank, how much later than the first it came to each of its collectives."""
    found: list[list[NDArray[Any]]] = [[np.empty(0, np.int64)] for _ in job.members]
    for group in job.matched.groups:
        starts = group.start_ns + offsets[list(group.ranks)][:, None]
        for number, late in zip(group.ranks, starts - starts.min(axis=0), strict=True):
            found[number].append(late)
    return [np.concatenate(parts) for parts in found]


def note(job: Job, offsets: NDArray[Any] | None) -> str:
    """Say how far the ends of matched collectives lie apart; empty without any."""
    if offsets is None:
        return (
            "not every capture says when its session began: no arrival times (waiting needs no common clock)"
        )
    spreads = [np.empty(0, np.int64)]
    for group in job.matched.groups:
        ends = group.end_ns + offsets[list(group.ranks)][:, None]
        spreads.append(ends.max(axis=0) - ends.min(axis=0))
    apart = np.concatenate(spreads)
    if not len(apart):
        return ""
    found = hosts(job.members)
    where = f", on {len(found)} hosts, whose clocks differ" if len(found) > 1 else ""
    lie = f"{duration(np.median(apart))} apart (median; at most {duration(apart.max())})"
    return (
        f"aligned on the sessions' epochs{where}: the ends of a collective lie {lie}; arrival times are "
        "known as well as that, waiting needs no common clock"
    )
