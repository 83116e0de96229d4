"""A batch: a folder of planned runs. What state each is in is what lies in its folder, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nsyswrap.base.errors import CaptureError, OutputError
from nsyswrap.base.folder_lock import is_lock_file, is_locked
from nsyswrap.base.run_folder import (
    BATCH,
    CLAIM,
    RUNS,
    STATUS,
    Outcome,
    RunFolder,
    Status,
    existing,
    make_folder,
)
from nsyswrap.base.version import __version__
from nsyswrap.record.batch.task import Spec, read_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nsyswrap.base.run_folder import Share

SLURM = "slurm"
NUMBER_WIDTH = 5  # of a run folder's number: they sort, and a job script can find them by it
_LABEL_LENGTH = 80
_SAFE = "=.,+-_"  # beside letters and digits, in the name of a run folder

State = Literal[Outcome, "planned", "running", "lost"]
UNFINISHED: tuple[State, ...] = ("planned", "lost", "interrupted")  # what a batch runs without being asked
ENDED: tuple[State, ...] = (
    "done",
    "program_failed",
    "timed_out",
    "interrupted",
    "nsys_failed",
    "not_redacted",
    "not_started",
)


@dataclass(frozen=True)
class Claim:
    """Who runs a planned run: host, process, Slurm job where it is one. ``began``: seconds of the epoch."""

    host: str
    pid: int
    began: float
    job: str = ""
    """As squeue names it: ``17``, or ``17_3`` for a task of an array."""
    restarts: int = 0

    @staticmethod
    def mine() -> Claim:
        """Return the claim of this process."""
        number = os.environ.get("SLURM_JOB_ID", "")
        array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
        job = f"{array}_{task}" if array and task else number
        restarts = os.environ.get("SLURM_RESTART_COUNT", "")
        return Claim(
            os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
            os.getpid(),
            time.time(),
            job,
            int(restarts) if restarts.isdecimal() else 0,
        )


@dataclass(frozen=True)
class RunState:
    """One run of a batch as its folder tells. ``lost``: it was begun, and nobody is at it any more."""

    number: int
    folder: Path
    state: State
    status: Status | None = None
    claim: Claim | None = None


@dataclass(frozen=True)
class Batch:
    """The folder of a batch, and what batch.json says: run number -> name of its folder under ``runs/``.

    ``left_out``: runs of an earlier plan, which lie there still and are no more part of the batch.
    """

    folder: Path
    name: str
    id: str
    runs: Mapping[int, str]
    left_out: Mapping[int, str] = field(default_factory=dict)

    def run_folder(self, number: int) -> Path:
        """Return the folder of one run."""
        return self.folder / RUNS / self.runs[number]

    def survey(self, known: Mapping[int, RunState] | None = None) -> dict[int, RunState]:
        """Return the state of every run, in order; of those ``known`` to have ended nothing is read again."""
        known = known or {}
        return {
            number: known[number]
            if number in known and known[number].state in ENDED
            else look(self.run_folder(number), number)
            for number in self.runs
        }


def count(states: Iterable[RunState]) -> Counter[State]:
    """Return how many runs are in each state."""
    return Counter(one.state for one in states)


def look(folder: Path, number: int = 0) -> RunState:
    """Return the state of one run: its outcome, once nobody holds it any more, or whether somebody does."""
    run = RunFolder(folder)
    if (folder / STATUS).exists() and not is_locked(folder):
        try:
            status = run.read_status()
        except CaptureError as error:  # a disk that was full
            return RunState(number, folder, "lost", Status("nsys_failed", None, None, 70, str(error)))
        return RunState(number, folder, status.outcome, status, _claim(folder))
    claim = _claim(folder)
    if claim is None:
        return RunState(number, folder, "planned")
    return RunState(number, folder, "running" if is_locked(folder) else "lost", None, claim)


def _claim(folder: Path) -> Claim | None:
    try:
        return Claim(**json.loads((folder / CLAIM).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def open_batch(folder: Path) -> Batch:
    """Read batch.json; raises OutputError where the folder holds no batch."""
    try:
        return _of_facts(folder, json.loads((folder / BATCH).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise OutputError(
            f"{folder} holds no batch: it has no {BATCH}", "give the folder that `nsyswrap batch run` named"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OutputError(f"{folder / BATCH} cannot be read: {error}") from None


def _of_facts(folder: Path, facts: Mapping[str, Any]) -> Batch:
    active = {run["number"]: run["folder"] for run in facts["runs"] if run["active"]}
    others = {run["number"]: run["folder"] for run in facts["runs"] if not run["active"]}
    return Batch(folder, facts["name"], facts["id"], active, others)


def make_batch(folder: Path, name: str, specs: Sequence[Spec], share: Share | None = None) -> Batch:
    """Make the folder of every planned run, or find it: runs planned before keep their folders.

    Runs of an earlier plan that are not in this one stay on disk, and are no more part of the batch. All that
    is in it is as private as ``share`` says.
    """
    make_place(folder, share)
    make_folder(folder / RUNS, share)
    keyed = {spec.key: spec for spec in specs}
    facts = _facts(folder, name, keyed)
    for run in facts["runs"]:
        if run["active"]:
            _write_spec(folder / RUNS / run["folder"], keyed[run["key"]], share)
    existing(folder).write(BATCH, facts)
    return _of_facts(folder, facts)


def foresee_batch(folder: Path, name: str, specs: Sequence[Spec]) -> tuple[Batch, dict[int, Spec]]:
    """Return the batch that ``make_batch`` would make, and its runs by their numbers; nothing is made."""
    if folder.exists():
        _check_place(folder)
    keyed = {spec.key: spec for spec in specs}
    facts = _facts(folder, name, keyed)
    return _of_facts(folder, facts), {
        run["number"]: keyed[run["key"]] for run in facts["runs"] if run["active"]
    }


def _facts(folder: Path, name: str, keyed: Mapping[str, Spec]) -> dict[str, Any]:
    """Return what batch.json is to hold; ``keyed``: the planned runs by their keys."""
    found = _before(folder)
    before = found.get("runs", [])
    numbers = {run["key"]: run["number"] for run in before}
    rows = {run["number"]: {**run, "active": False} for run in before}
    for key, spec in keyed.items():
        number = numbers.setdefault(key, len(numbers) + 1)
        name_of_folder = rows[number]["folder"] if number in rows else folder_name(number, spec.name)
        rows[number] = {"number": number, "folder": name_of_folder, "key": key, "active": True}
    return {
        "nsyswrap": __version__,
        "id": found.get("id") or uuid.uuid4().hex[:12],
        "name": name,
        "runs": [rows[number] for number in sorted(rows)],
    }


def make_place(folder: Path, share: Share | None = None) -> None:
    """Make the folder of a batch; raises OutputError where that cannot be, or something else lies there."""
    try:
        RunFolder(folder, share).make()
        _check_place(folder)
        make_folder(folder, share)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "give another --output") from None


def _check_place(folder: Path) -> None:
    try:
        strangers = {entry.name for entry in folder.iterdir() if not is_lock_file(entry)}
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror}", "give another --output") from None
    if strangers and BATCH not in strangers:
        raise OutputError(f"{folder} is not empty, and holds no batch", "give another --output")


def _before(folder: Path) -> dict[str, Any]:
    """Return what batch.json says of an earlier plan; empty where there was none."""
    if not (folder / BATCH).exists():
        return {}
    open_batch(folder)  # says what is wrong with it
    facts: dict[str, Any] = json.loads((folder / BATCH).read_text(encoding="utf-8"))
    return facts


def folder_name(number: int, label: str) -> str:
    """Return the name of a run folder: its number, and as much of the label as a file name can hold."""
    readable = "".join(c if c.isascii() and (c.isalnum() or c in _SAFE) else "-" for c in label)
    return f"{number:0{NUMBER_WIDTH}}-{readable[:_LABEL_LENGTH]}".rstrip("-.")


def _write_spec(folder: Path, spec: Spec, share: Share | None) -> None:
    try:
        make_folder(folder, share)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from None
    with suppress(OutputError):  # there is none yet, or a damaged one
        if read_spec(folder) == spec:
            return
    spec.write(folder)
