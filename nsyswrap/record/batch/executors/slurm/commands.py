"""Everything that knows Slurm's commands and words: sbatch, squeue, scontrol, scancel, sacct.

That includes the tasks of a job array as Slurm writes them, and squeue's reasons for a job that waits: some
pass, some never do.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.batch.executors.slurm.script import MARGIN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


_PATIENCE_S = 60
_SUBMIT_PATIENCE_S = 30  # sbatch itself waits for minutes where slurmctld's job table is full
_SOON_S = 10  # for what is asked between a signal and the end of the job
_EARLY_S = 60  # Slurm's signal before the time limit may come this much early
_END_VARIABLE = "SLURM_JOB_END_TIME"  # in seconds of the epoch; set since Slurm 23.02
_FORMAT = "%F|%K|%T|%r|%k"  # last the comment: others wrote what they liked, lines too
_FIELDS = 5
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
_OF_A_JOB = ("SLURM_", "SLURMD_")  # variables of a job that this may run in
_FILTERS = ("SQUEUE_", "SCANCEL_", "SACCT_")  # variables by which Slurm's commands leave something out
_FACT = re.compile(r"(ArrayJobId|ArrayTaskId|JobState|Reason)=(\S+)")
_LINE = re.compile(r"([^=\s]+)\s*= (.*)")
_WHOLE_LISTS = {"SLURM_BITSTR_LEN": "0"}  # of the tasks of an array, else cut short
_FULL = "temporarily unable to accept job"
_NOT_THERE = "run this where Slurm's commands are, on a login node; or take --executor local"
_SILENT = "is Slurm up (`scontrol ping`)? What is in its queue goes on; the same command attaches to it"

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

_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class QueueFull(Unavailable):
    """Slurm takes no more jobs now."""


@dataclass(frozen=True)
class Job:
    """A line of squeue: one job, one task of an array, or those tasks of an array that wait together.

    ``id`` is that of the array. A job that is none has no ``tasks``.
    """

    id: str
    tasks: tuple[int, ...]
    state: str
    reason: str
    comment: str


@dataclass(frozen=True)
class Limits:
    """What one cluster can hold: the first index that an array cannot have, and jobs in all."""

    array_size: int
    jobs: int


def submit(script: Path, comment: str, tasks: str) -> str:
    """Submit an array with these tasks (``1-4,7%2``); return its id. Its logs go beside the script.

    Raises QueueFull where it could be taken later, else Unavailable with Slurm's words.
    """
    # On the command line, as the lines of a script cannot hold every path.
    logs = str(script.parent).replace("%", "%%") + "/%A_%a.log"
    own = [f"--chdir={script.parent}", f"--output={logs}", f"--comment={comment}", f"--array={tasks}"]
    try:
        said = _run(["sbatch", "--parsable", *own, str(script)], _SUBMIT_PATIENCE_S, without=_OF_A_JOB)
    except subprocess.TimeoutExpired as late:
        if _FULL in str(late.stderr):  # bytes, whatever was asked for
            raise QueueFull("Slurm has no room for more jobs now") from None
        raise Unavailable("sbatch does not answer", _SILENT) from None
    if said.returncode:
        raise Unavailable(
            f"Slurm refused the jobs: {_last_line(said.stderr)}",
            f"change [slurm] in the plan, or --slurm; the script is {script}",
        )
    return said.stdout.strip().partition(";")[0]  # 17;cluster


def jobs() -> list[Job]:
    """Return all jobs of this user that wait or run; raises Unavailable where Slurm does not answer."""
    said = _ask("squeue", "--all", "--noheader", f"--user={os.getuid()}", f"--format={_FORMAT}")
    rows = [line.split("|", _FIELDS - 1) for line in said.splitlines()]
    return [
        Job(number, indexes(tasks), state, reason, comment)
        for number, tasks, state, reason, comment in (row for row in rows if len(row) == _FIELDS)
    ]


def limits() -> Limits:
    """Return what the cluster's configuration allows."""
    found = dict(_LINE.findall(_ask("scontrol", "show", "config")))
    return Limits(int(found.get("MaxArraySize", 1001)), int(found.get("MaxJobCount", 10_000)))


def cancel(ids: Sequence[str], *, waiting_only: bool = False) -> None:
    """End jobs, or keep those from starting that wait. That some have ended meanwhile is no error."""
    if ids:
        _run(["scancel", *(["--state=PENDING"] if waiting_only else []), *ids])


def why_ended(ids: Sequence[str]) -> dict[str, str]:
    """Return why jobs are no more, of those of which Slurm tells it: ``17_3`` -> NODE_FAIL, OUT_OF_MEMORY ...

    Accounting remembers, where there is any; slurmctld does for some minutes.
    """
    if not ids:
        return {}
    wanted = f"--jobs={','.join(ids)}"
    try:
        said = _run(["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State", wanted])
    except (Unavailable, subprocess.TimeoutExpired):
        return _remembered(ids)
    rows = dict(line.split("|", 1) for line in said.stdout.splitlines() if "|" in line)
    return rows if said.returncode == 0 and rows else _remembered(ids)


def _remembered(ids: Sequence[str]) -> dict[str, str]:
    found = {}
    for array in sorted({one.partition("_")[0] for one in ids}):
        try:
            lines = _ask("scontrol", "--oneliner", "show", "job", array).splitlines()
        except Unavailable:
            continue
        for facts in (dict(_FACT.findall(line)) for line in lines):
            job = f"{facts.get('ArrayJobId')}_{facts.get('ArrayTaskId')}"
            reason = facts.get("Reason", "None")
            found[job] = facts.get("JobState", "") + ("" if reason == "None" else f", {reason}")
    return {one: found[one] for one in ids if one in found}


def ended_by_time_limit() -> bool:
    """Whether the job that this process is in has come to its time limit: asked when SIGTERM has come.

    A job that is cancelled gets the same signal, and is not. False where Slurm does not answer soon.
    """
    margin_s = int(os.environ.get(MARGIN_VARIABLE, "0"))
    asked = ["squeue", "--noheader", f"--jobs={os.environ.get('SLURM_JOB_ID', '')}", "--format=%T|%L|%r"]
    try:
        said = _run(asked, _SOON_S)
        if said.returncode:  # a busy slurmctld: once more
            time.sleep(1)
            said = _run(asked, _SOON_S)
        state, left, reason = said.stdout.strip().split("|")
    except Unavailable:  # in a container
        end_s = os.environ.get(_END_VARIABLE, "")
        return end_s.isdecimal() and time.time() >= int(end_s) - margin_s - _EARLY_S
    except (subprocess.TimeoutExpired, ValueError):
        return False
    if state == "RUNNING":
        left_s = _seconds(left)
        return left_s is not None and left_s <= margin_s + _EARLY_S
    return state == "TIMEOUT" or reason == "TimeLimit"


def _seconds(left: str) -> int | None:
    """Return the time left that squeue shows as ``[days-][hours:]minutes:seconds``; None: no limit."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", left)
    if not found:
        return None
    days, hours, minutes, rest = (int(one or 0) for one in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _ask(*command: str) -> str:
    """Return what a command prints; raises Unavailable where it fails."""
    try:
        said = _run(command)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} does not answer", _SILENT) from None
    if said.returncode:
        raise Unavailable(f"{command[0]} says: {_last_line(said.stderr)}", _SILENT)
    return said.stdout


def _run(
    command: Sequence[str], patience_s: float = _PATIENCE_S, *, without: tuple[str, ...] = _FILTERS
) -> subprocess.CompletedProcess[str]:
    """Run a command; variables that begin ``without`` are taken away from it."""
    environment = {
        name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(without)
    }
    try:
        return subprocess.run(
            command,
            env={**environment, **_WHOLE_LISTS},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=patience_s,
        )
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not on PATH", _NOT_THERE) from None


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith('Try "')]  # Try "sbatch --help" for more ...
    return told[-1].removeprefix("sbatch: ").removeprefix("error: ") if told else "nothing"


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


def indexes(text: str) -> tuple[int, ...]:
    """Return the tasks that Slurm writes as ``7`` or ``1,3-5,10-20:5%2``."""
    found: list[int] = []
    for part in text.partition("%")[0].strip("[]").split(","):
        bounds = _SPAN.fullmatch(part)
        if bounds:
            first, last, step = (int(one) if one else 0 for one in bounds.groups())
            found += range(first, (last or first) + 1, step or 1)
    return tuple(found)


def as_text(tasks: Iterable[int]) -> str:
    """Return tasks as sbatch takes them: ``1-4,7``."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def array(tasks: Iterable[int], max_running: int | None) -> str:
    """Return what ``--array`` takes: tasks, and how many of them run at a time: ``1-4,7%2``."""
    return as_text(tasks) + (f"%{max_running}" if max_running else "")
