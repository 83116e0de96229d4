"""The sentences on ranks: which of them the others wait for, which are missing, how well clocks agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import Numbers
from nsyswrap.analysis.ranks.job import RankJob, ends_apart_ns
from nsyswrap.analysis.ranks.members import RankLocation, hosts, listed
from nsyswrap.analysis.ranks.waiting import MATTERS_PERCENT
from nsyswrap.base.units import duration
from nsyswrap.reports.wording.notes import note_text
from nsyswrap.reports.wording.numbers import filled

_LONGER = 1.1  # times the own GPU time of the others: less counts as equal
_MOST = 0.5  # of the wait: a smaller difference in own GPU time is not the whole reason
_SENTENCES = {
    "doubtful": "cannot tell which rank delays the others: {doubt}",
    "no waiting": (
        "no rank delays the others; waiting takes at most {most_percent} of a rank's GPU time{hidden}"
    ),
    "no single rank": (
        "no single rank is regularly last in the {collectives} collectives; waiting takes up to "
        "{most_percent} of a rank's GPU time"
    ),
    "one rank": (
        "{late} was last in {last_times} of {last_of} collectives; {waits} waited {exposed_ns} for it, "
        "{exposed_percent} of its GPU time, {reason}{hidden}"
    ),
}


def waiting_sentence(numbers: Numbers) -> str:
    """Return a sentence on what ``late_rank`` found; empty if that is nothing."""
    if not numbers:
        return ""
    doubt = note_text(numbers.get("doubt", ""))
    more = {"hidden": _hidden(numbers), "reason": _reason(numbers), "doubt": doubt}
    return filled(_SENTENCES[numbers["outcome"]], {**numbers, **more})


def missing_ranks(present: Sequence[RankLocation]) -> str:
    """Return a note on missing ranks and the cause; empty if none is missing or the world size is unknown."""
    size = max((place.world_size or 0 for place in present), default=0)
    gone = set(range(size)) - {place.number for place in present}
    bare = gone & {rank for place in present for rank in place.left_out}
    parts = [f"{listed(gone - bare)} missing"] if gone - bare else []
    parts += [f"{listed(bare)} not profiled (--ranks)"] if bare else []
    return f"{len(present)} of {size} ranks are present: {', '.join(parts)}" if parts else ""


def alignment(job: RankJob, offsets: NDArray[Any] | None) -> str:
    """Return a note on how far the ends of matched collectives are apart; empty without collectives."""
    if offsets is None:
        return (
            "no arrival times: some captures lack the start of their session (waiting times do not need it)"
        )
    apart = ends_apart_ns(job, offsets)
    if not len(apart):
        return ""
    names = hosts(job.members)
    where = f" on {len(names)} hosts with different clocks" if len(names) > 1 else ""
    distance = f"{duration(np.median(apart))} apart (median; at most {duration(apart.max())})"
    return (
        f"clocks aligned by session start{where}; ends of a collective: {distance}; arrival times have "
        "this accuracy, waiting times do not depend on it"
    )


def is_host_late(numbers: Numbers) -> bool:
    """Return True if the last rank has hardly more work or communication of its own than the others."""
    communicates = "unmatched_ns" in numbers and numbers["unmatched_ns"] >= _MOST * numbers["exposed_ns"]
    return "own_ns" in numbers and not _has_more_work(numbers) and not communicates


def _has_more_work(numbers: Numbers) -> bool:
    return bool(numbers["own_ns"] > _LONGER * numbers["others_ns"])


def _hidden(numbers: Numbers) -> str:
    """Return how much more waiting lies under own kernels, if it is much; otherwise an empty text."""
    if numbers.get("hidden_percent", 0.0) < MATTERS_PERCENT:
        return ""
    most = (
        "; waiting under a rank's own kernels is not counted: up to {hidden_percent} of that rank's GPU time"
    )
    return filled(most, numbers)


def _reason(numbers: Numbers) -> str:
    """Return whether the additional own GPU time of the last rank explains the wait."""
    if "own_ns" not in numbers:
        return ""
    of = f"of {numbers['other']}" if numbers["other"] else "(median of the others)"
    work = "{late}'s own GPU work takes {own_ns} against {others_ns}"
    comparison = f"{filled(work, numbers)} {of}"
    if is_host_late(numbers):
        return f"but {comparison}, which points to its host code"
    if not _has_more_work(numbers):
        other = "{late} was {unmatched_ns} longer in other communication, where it may have waited itself"
        return f"but {comparison}; {filled(other, numbers)}"
    more = numbers["own_ns"] - numbers["others_ns"]
    if more >= _MOST * numbers["exposed_ns"]:
        return f"because {comparison}"
    return f"because {comparison}; this explains at most {duration(more)} of the wait"
