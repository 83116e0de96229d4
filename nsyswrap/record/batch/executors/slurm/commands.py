"""Run Slurm's commands (sbatch, squeue, scontrol, scancel, sacct) and read what they print.

This includes the tasks of a job array as Slurm writes them, and squeue's reasons why a job waits: some pass,
some never do.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_tool import PrintedTooMuch, fault_of, run_tool
from nsyswrap.record.batch.executors.slurm.script import MARGIN_VARIABLE

_TIMEOUT_S = 60
_MOST_BYTES = 512 << 20  # of 100,000 jobs scontrol prints 100 MB
_SUBMIT_TIMEOUT_S = 30  # sbatch itself waits for minutes while slurmctld's job table is full
_SIGNALED_TIMEOUT_S = 10  # between a signal and the end of the job
_ASKED, _AGAIN_S = 3, 1.0  # then Slurm is asked so often, if it is too busy to answer
_OWN_JOB = ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "JOB_ID")
_EARLY_S = 60  # Slurm's signal before the time limit may come this much early
_END_VARIABLE = "SLURM_JOB_END_TIME"  # in seconds of the epoch; set since Slurm 23.02
_FORMAT = "%F|%K|%T|%r|%o"  # the command is last: its path can have several lines
_ROW = re.compile(r"^(\d+)\|([^|\n]*)\|([A-Z_]+)\|([^|\n]*)\|", re.MULTILINE)
_MARK = re.compile(r" (nsyswrap:\S+)\s*$")
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
_JOB_VARIABLES = ("SLURM_", "SLURMD_")  # set if this process runs in a job itself
_FILTER_VARIABLES = ("SQUEUE_", "SCANCEL_", "SACCT_")  # they make Slurm's commands leave jobs out
_FACT = re.compile(r"(ArrayJobId|ArrayTaskId|JobState|Reason)=(\S+)")
_LINE = re.compile(r"([^=\s]+)\s*= (.*)")
_WHOLE_LISTS = {"SLURM_BITSTR_LEN": "0"}  # else squeue cuts the list of an array's tasks
_MOST_LISTED = 6  # jobs by their ids
_FULL = "temporarily unable to accept job"
_TRIAL_TIMEOUT_S = 20
# What sbatch says of options that are wrong at any time, and of those that no node can meet now.
_INVALID = re.compile(r"(?i)invalid|unrecognized|ambiguous|requires an argument|not (allowed|permitted)")
_NOT_THE_OPTIONS = re.compile(r"(?i)test-only|credential|authenticat|user id")
_IMPOSSIBLE = "Requested node configuration is not available"
_UP = re.compile(r"idle|mixed|allocated|completing")
_DENIED = re.compile(r"(?i)denied|not permitted")
_AT_LIMIT = re.compile(r"job submit limit|SubmitJob")  # AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit
_PRESENT = re.compile(r"PENDING|RUNNING|COMPLETING|REQUEUED|SUSPENDED|RESIZING")  # accounting may be late
_NOT_THERE = "run this on a node that has Slurm's commands, or use --executor local"
_SILENT = "check Slurm with `scontrol ping`; queued jobs continue, and the same command waits for them"

# Reasons that never pass: squeue's name, its meaning, and what to do. Down or reserved nodes come back.
_FINAL = (
    (
        r"PartitionConfig",
        "no node of the partition has the requested resources",
        "request less, or set partition",
    ),
    (r"PartitionNodeLimit", "the number of nodes is outside the partition's limits", "set nodes"),
    (r"PartitionTimeLimit", "the time exceeds the partition's limit", "set time"),
    (r"BadConstraints", "no node satisfies the request", "check constraint, gres and nodes"),
    (r"InvalidAccount|AccountNotAllowed", "this account cannot be used here", "set account"),
    (r"InvalidQOS|QOSNotAllowed", "this QOS cannot be used here", "set qos"),
    (
        r"(Assoc|QOS)\w*(PerJob|PerNode)\w*",
        "the request exceeds the limit of one job",
        "request less, or set qos",
    ),
    (r"QOSMin\w+|QOSTimeLimit|MaxMemPerLimit", "the request is outside the limits of one job", "check qos"),
    (r"DependencyNeverSatisfied", "a job that it depends on failed", "check dependency"),
    (r"DeadLine", "the job cannot end before its deadline", "check deadline and time"),
    (
        r"JobHoldMaxRequeue|launch failed requeued held",
        "the job could not be launched on its node",
        "set exclude to avoid the node",
    ),
)
_WAITING = {
    "Resources": "for free nodes",
    "Priority": "for jobs of higher priority",
    "BeginTime": "for their begin time",
    "None": "to be scheduled",
    "PartitionDown": "for the partition to be up (PartitionDown)",
    "JobHeldUser": "for `scontrol release` (JobHeldUser)",
    "JobHeldAdmin": "for release by an administrator (JobHeldAdmin)",
    "JobArrayTaskLimit": "for other runs of the batch to end",
    "Dependency": "for earlier jobs to end",
}

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


class QueueFull(Unavailable):
    """Slurm accepts no more jobs now."""


class TooMany(Unavailable):
    """Slurm limits how many jobs a user or an account can have in the queue."""


@dataclass(frozen=True)
class QueuedJob:
    """A line of squeue: a job, a task of an array, or the tasks of an array that wait together.

    ``id`` is the array's. A job that is no array has no ``tasks``. ``mark`` is the argument of its script if
    nsyswrap submitted it, or empty.
    """

    id: str
    tasks: tuple[int, ...]
    state: str
    reason: str
    mark: str


@dataclass(frozen=True)
class ClusterLimits:
    """Limits of a cluster: the first index that an array cannot have, and the number of jobs of all users."""

    array_size: int
    jobs: int


def sbatch_command(script: Path, mark: str, tasks: str = "", dependency: str = "") -> list[str]:
    """Return the command that submits a script: as an array with these tasks (``1-4,7%2``), or as one job.

    Logs go beside the script. ``mark`` is the argument of the script, by which squeue finds the job: comments
    are left to the site. ``dependency`` is as sbatch's.
    """
    # These are not lines of the script, which cannot hold every path.
    logs = f"{str(script.parent).replace('%', '%%')}/{'%A_%a' if tasks else f'{script.stem}-%j'}.log"
    own = [f"--chdir={script.parent}", f"--output={logs}"]
    own += [f"--array={tasks}"] if tasks else []
    own += [f"--dependency={dependency}"] if dependency else []
    return ["sbatch", "--parsable", *own, str(script), mark]


def submit(command: Sequence[str]) -> str:
    """Run a command of ``sbatch_command``. Return the id of the job.

    Raises QueueFull if Slurm may accept it later, TooMany if it may accept fewer tasks, else Unavailable with
    Slurm's message.
    """
    try:
        done = _run(command, _SUBMIT_TIMEOUT_S, without=_JOB_VARIABLES)
    except subprocess.TimeoutExpired as late:
        if _FULL in str(late.stderr):  # these are bytes, despite text=True
            raise QueueFull("Slurm accepts no more jobs now", retryable=True) from None
        raise Unavailable("sbatch did not answer", _SILENT, retryable=True) from None
    if done.returncode:
        if _AT_LIMIT.search(done.stderr):
            raise TooMany(
                "Slurm takes no more jobs of this user or account now (MaxSubmitJobs)",
                "wait until other jobs have ended, or set account or qos in [slurm]",
                retryable=True,
            )
        script = next(word for word in command if word.endswith(".sh"))
        raise Unavailable(
            f"Slurm refused the jobs: {_last_line(done.stderr)}",
            f"change [slurm] in the plan or --slurm; job script: {script}",
        )
    return done.stdout.strip().partition(";")[0]  # 17;cluster


def refusal(script: str) -> str | None:
    """Return why Slurm refuses a job script, empty if it takes it; None if that cannot be told.

    Nothing is submitted. Some nodes that are down can make possible options look impossible.
    """
    try:
        done = _run(["sbatch", "--test-only"], _TRIAL_TIMEOUT_S, without=_JOB_VARIABLES, text=script)
    except (Unavailable, subprocess.TimeoutExpired):
        return None
    if not done.returncode:
        return ""
    message = _last_line(done.stderr).removeprefix("allocation failure: ")
    if _IMPOSSIBLE in message and _all_nodes_are_up():
        return message
    is_clear = _INVALID.search(message) and not _NOT_THE_OPTIONS.search(done.stderr)
    return message if is_clear else None


def _all_nodes_are_up() -> bool:
    try:
        states = _ask("sinfo", "--noheader", "--Node", "--format=%T").split()
    except Unavailable:
        return False
    return all(_UP.fullmatch(state) for state in states)


def jobs(*owners: int) -> list[QueuedJob]:
    """Return all jobs of this user, and of other ``owners`` by their ids, that wait or run.

    Raises Unavailable if Slurm does not answer.
    """
    users = ",".join(map(str, {os.getuid(), *filter(_is_known, owners)}))
    output = _ask("squeue", "--all", "--noheader", f"--user={users}", f"--format={_FORMAT}")
    rows = list(_ROW.finditer(output))
    ends = [*(row.start() for row in rows[1:]), len(output)]
    marks = [_MARK.search(output, row.end(), end) for row, end in zip(rows, ends, strict=False)]
    return [
        QueuedJob(row[1], indexes(row[2]), row[3], row[4], mark[1] if mark else "")
        for row, mark in zip(rows, marks, strict=True)
    ]


def _is_known(user: int) -> bool:
    """Return True if this machine knows a user: squeue refuses others."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def limits() -> ClusterLimits:
    """Return the limits in the cluster's configuration. Raises Unavailable if Slurm does not answer."""
    config = dict(_LINE.findall(_ask("scontrol", "show", "config")))
    return ClusterLimits(int(config.get("MaxArraySize", 1001)), int(config.get("MaxJobCount", 10_000)))


def cancel(ids: Sequence[str], *, waiting_only: bool = False) -> None:
    """Cancel jobs, or only those that wait. Jobs that have ended meanwhile are no error.

    Raises Unavailable if this user may not.
    """
    done = _run(["scancel", *(["--state=PENDING"] if waiting_only else []), *ids]) if ids else None
    if done and done.returncode and _DENIED.search(done.stderr):
        raise Unavailable(
            f"scancel failed: {_last_line(done.stderr)}", "ask the owner of the jobs to cancel them"
        )


def end_step(name: str) -> bool:
    """Send SIGTERM to all processes of the steps with this name in the job of this process.

    To srun itself SIGTERM means to kill its tasks. Return False if no step was found.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    command = ["squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i|%j"]
    try:
        rows = _run(command, _SIGNALED_TIMEOUT_S).stdout.splitlines()
        steps = [step for step, _, own in (row.strip().partition("|") for row in rows) if own == name]
        scancel = ["scancel", "--signal=TERM", *steps]
        return bool(steps) and _run(scancel, _SIGNALED_TIMEOUT_S).returncode == 0
    except (Unavailable, subprocess.TimeoutExpired):
        return False


def why_ended(ids: Sequence[str]) -> dict[str, str]:
    """Return why jobs have ended, where Slurm knows: ``17_3`` -> NODE_FAIL, OUT_OF_MEMORY ...

    Accounting remembers all jobs, if the cluster has any. slurmctld remembers them for some minutes.
    """
    if not ids:
        return {}
    wanted = f"--jobs={','.join(ids)}"
    try:
        done = _run(["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State", wanted])
    except (Unavailable, subprocess.TimeoutExpired):
        return _remembered(ids)
    rows = dict(line.split("|", 1) for line in done.stdout.splitlines() if "|" in line)
    ended = {job: state for job, state in rows.items() if job in ids and not _PRESENT.match(state)}
    return {**_remembered([job for job in ids if job not in ended]), **ended}


def _remembered(ids: Sequence[str]) -> dict[str, str]:
    reasons = {}
    for array in sorted({one.partition("_")[0] for one in ids}):
        try:
            lines = _ask("scontrol", "--oneliner", "show", "job", array).splitlines()
        except Unavailable:
            continue
        for facts in (dict(_FACT.findall(line)) for line in lines):
            job = f"{facts.get('ArrayJobId')}_{facts.get('ArrayTaskId')}"
            reason = facts.get("Reason", "None")
            if not _PRESENT.match(facts.get("JobState", "")):
                reasons[job] = facts.get("JobState", "") + ("" if reason == "None" else f", {reason}")
    return {one: reasons[one] for one in ids if one in reasons}


def ended_by_time_limit() -> bool:
    """Return True if the job of this process has come to its time limit, asked after a SIGTERM.

    A job that is cancelled before gets the same signal. False if Slurm does not answer in time.
    """
    margin_s = int(os.environ.get(MARGIN_VARIABLE, "0"))
    array, task, job = (os.environ.get(f"SLURM_{name}", "") for name in _OWN_JOB)
    own = f"{array}_{task}" if array and task else job  # the id of one task is also that of the array
    command = ["squeue", "--noheader", f"--jobs={own}", "--format=%T|%L|%r"]
    for _ in range(_ASKED):  # slurmctld can be busy
        try:
            state, left, reason = _run(command, _SIGNALED_TIMEOUT_S).stdout.strip().split("|")
        except Unavailable:  # a container without squeue
            break
        except (subprocess.TimeoutExpired, ValueError):
            time.sleep(_AGAIN_S)
            continue
        if state == "RUNNING":
            left_s = _seconds(left)
            return left_s is not None and left_s <= margin_s + _EARLY_S
        return state == "TIMEOUT" or reason == "TimeLimit"
    end_s = os.environ.get(_END_VARIABLE, "")
    return end_s.isdecimal() and time.time() >= int(end_s) - margin_s - _EARLY_S


def _seconds(left: str) -> int | None:
    """Return the seconds of ``[days-][hours:]minutes:seconds``, or None if squeue shows no limit."""
    time_left = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", left)
    if not time_left:
        return None
    days, hours, minutes, rest = (int(one or 0) for one in time_left.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _ask(*command: str) -> str:
    try:
        done = _run(command)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not answer", _SILENT, retryable=True) from None
    if done.returncode:
        raise Unavailable(f"{command[0]} failed: {_last_line(done.stderr)}", _SILENT)
    return done.stdout


def _run(
    command: Sequence[str],
    timeout_s: float = _TIMEOUT_S,
    *,
    without: tuple[str, ...] = _FILTER_VARIABLES,
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command without the environment variables that begin with ``without``. It reads ``text``."""
    environment = {
        name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(without)
    }
    try:
        return run_tool(command, timeout_s, env={**environment, **_WHOLE_LISTS}, text=text, most=_MOST_BYTES)
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} not found on PATH", _NOT_THERE) from None
    except (OSError, PrintedTooMuch) as error:
        raise Unavailable(f"{command[0]} {fault_of(error)}", _NOT_THERE) from None


def _last_line(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith('Try "')]  # Try "sbatch --help" for more ...
    return messages[-1].removeprefix("sbatch: ").removeprefix("error: ") if messages else "no error message"


def why_never(reason: str) -> tuple[str, str] | None:
    """Return why a job with this reason will never start, and what to do. None if it may start."""
    for pattern, meaning, advice in _FINAL:
        if re.fullmatch(pattern, reason):
            return f"{meaning} ({reason})", f"{advice} in [slurm] of the plan or with --slurm"
    return None


def job_list(ids: Iterable[str]) -> str:
    """Return the ids of jobs, each once: ``job 17``, ``jobs 17, 18`` or ``40 jobs from 17 to 56``."""
    different = sorted(set(ids), key=lambda one: (len(one), one))
    if len(different) > _MOST_LISTED:
        return f"{len(different):,} jobs from {different[0]} to {different[-1]}"
    return f"job{'' if len(different) == 1 else 's'} {', '.join(different)}"


def in_words(jobs: Iterable[QueuedJob]) -> str:
    """Return what the waiting jobs wait for, for a progress line. Empty if none waits."""
    counts: dict[str, int] = {}
    for job in jobs:
        if job.state == "PENDING":
            counts[job.reason] = counts.get(job.reason, 0) + len(job.tasks)
    return ", ".join(f"{n} waiting {_WAITING.get(reason, f'({reason})')}" for reason, n in counts.items())


def indexes(text: str) -> tuple[int, ...]:
    """Return the indexes of tasks that Slurm writes as ``7`` or ``1,3-5,10-20:5%2``."""
    return tuple(chain.from_iterable(spans(text)))


def spans(text: str) -> Iterator[range]:
    """Yield the spans of tasks that Slurm writes with commas."""
    for part in text.partition("%")[0].strip("[]").split(","):
        if bounds := _SPAN.fullmatch(part):
            first, last, step = (int(one) if one else 0 for one in bounds.groups())
            yield range(first, (last or first) + 1, step or 1)


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
    """Return the value of sbatch's ``--array``, with how many tasks may run at a time: ``1-4,7%2``."""
    return as_text(tasks) + (f"%{max_running}" if max_running else "")
