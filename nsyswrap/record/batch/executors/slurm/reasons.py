"""Why a job waits, by what squeue calls its reason: for things that pass, or for ever."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.record.batch.executors.slurm.commands import Job

# What squeue calls it, what that means, and what to do. Down or reserved nodes read otherwise, and come back.
_FINAL = (
    (
        r"PartitionConfig",
        "no node of the partition has what is asked for",
        "ask for less, or name a partition",
    ),
    (r"PartitionNodeLimit", "the partition gives a job fewer, or more, nodes than that", "set nodes"),
    (r"PartitionTimeLimit", "the partition's longest time is shorter", "set time"),
    (r"BadConstraints", "no node can be what is asked for", "see constraint, gres and nodes"),
    (r"InvalidAccount|AccountNotAllowed", "this account cannot be used here", "set account"),
    (r"InvalidQOS|QOSNotAllowed", "this QOS cannot be used here", "set qos"),
    (r"(Assoc|QOS)\w*(PerJob|PerNode)\w*", "one job may not have that much", "ask for less, or set qos"),
    (r"QOSMin\w+|QOSTimeLimit|MaxMemPerLimit", "one job may not have that", "see qos"),
    (r"DependencyNeverSatisfied", "what it depends on failed", "see dependency"),
    (r"DeadLine", "it cannot end before its deadline", "see deadline and time"),
    (
        r"JobHoldMaxRequeue|launch failed requeued held",
        "it could not be launched on its node",
        "tell the admin",
    ),
)
_WORDS = {
    "Resources": "for nodes to be free",
    "Priority": "behind other jobs",
    "BeginTime": "for their time to begin",
    "None": "to be scheduled",
    "PartitionDown": "for the partition to be up (PartitionDown)",
    "JobHeldUser": "on hold (`scontrol release` lets them start)",
    "JobHeldAdmin": "held by an administrator (JobHeldAdmin)",
    "JobArrayTaskLimit": "for others of the batch to end",
}


def why_never(reason: str) -> tuple[str, str] | None:
    """Return why a job with this reason will never start, and what to do; None where it may."""
    for pattern, meaning, cure in _FINAL:
        if re.fullmatch(pattern, reason):
            return f"{meaning} ({reason})", f"{cure}, in [slurm] of the plan, or with --slurm"
    return None


def in_words(jobs: Iterable[Job]) -> str:
    """Return what the waiting jobs wait for, for a progress line; empty where none waits."""
    counts: dict[str, int] = {}
    for job in jobs:
        if job.state == "PENDING":
            counts[job.reason] = counts.get(job.reason, 0) + len(job.tasks)
    return ", ".join(f"{n} waiting {_WORDS.get(reason, f'({reason})')}" for reason, n in counts.items())
