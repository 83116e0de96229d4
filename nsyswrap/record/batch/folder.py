"""The folder of a batch and of its planned runs. The files in a run's folder tell the state of the run."""

from __future__ import annotations

import json
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
from nsyswrap.record.batch.task import TaskSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nsyswrap.base.run_folder import Share

NUMBER_WIDTH = 5  # digits of a run folder's number, for folders to sort and job scripts to find them
_LABEL_LENGTH = 80
_SAFE = "=.,+-_"  # allowed in the name of a run folder, beside letters and digits

State = Literal[Outcome, "planned", "running", "lost"]
UNFINISHED: tuple[State, ...] = ("planned", "lost", "interrupted")  # what a batch runs without --retry-failed
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
    """The process that runs a planned run. ``began`` is in seconds of the epoch."""

    host: str
    pid: int
    began: float
    job: str = ""
    """The job of a scheduler, as its commands name it: ``17_3``, or empty."""
    restarts: int = 0


@dataclass(frozen=True)
class RunState:
    """The state of one run. ``lost``: the run was begun, and its process is gone without an outcome."""

    number: int
    folder: Path
    state: State
    status: Status | None = None
    claim: Claim | None = None


@dataclass(frozen=True)
class Batch:
    """The folder of a batch, and the content of batch.json: run number -> name of its folder in ``runs/``.

    ``left_out`` has the runs of an earlier plan: their folders are still there, but not part of the batch.
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
        """Return the state of every run by its folder. Runs ``known`` to have ended are not read again."""
        known = known or {}
        return {
            number: known[number]
            if number in known and known[number].state in ENDED
            else read_state(self.run_folder(number), number)
            for number in self.runs
        }


def count(states: Iterable[RunState]) -> Counter[State]:
    """Return how many runs are in each state."""
    return Counter(one.state for one in states)


def read_state(folder: Path, number: int = 0) -> RunState:
    """Return the state of the run in this folder. It has an outcome once no process holds the folder."""
    run = RunFolder(folder)
    if (folder / STATUS).exists() and not is_locked(folder):
        try:
            status = run.read_status()
        except CaptureError as error:  # the disk was full
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
    """Read batch.json. Raises OutputError if the folder holds no batch."""
    try:
        return _from_json(folder, json.loads((folder / BATCH).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise OutputError(
            f"{folder} holds no batch: it has no {BATCH}", "give the folder that `nsyswrap batch run` named"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OutputError(f"{folder / BATCH} cannot be read: {error}") from None


def _from_json(folder: Path, facts: Mapping[str, Any]) -> Batch:
    active = {run["number"]: run["folder"] for run in facts["runs"] if run["active"]}
    others = {run["number"]: run["folder"] for run in facts["runs"] if not run["active"]}
    return Batch(folder, facts["name"], facts["id"], active, others)


def make_batch(folder: Path, name: str, specs: Sequence[TaskSpec], share: Share | None = None) -> Batch:
    """Make the folder of the batch and of every planned run. Runs planned before keep their folders.

    Runs of an earlier plan that are not in this one stay on disk, but are not part of the batch. ``share``
    says who else may read the folders.
    """
    make_place(folder, share)
    make_folder(folder / RUNS, share)
    keyed = {spec.key: spec for spec in specs}
    facts = _planned(folder, name, keyed)
    for run in facts["runs"]:
        if run["active"]:
            _write_spec(folder / RUNS / run["folder"], keyed[run["key"]], share)
    existing(folder).write(BATCH, facts)
    return _from_json(folder, facts)


def foresee_batch(folder: Path, name: str, specs: Sequence[TaskSpec]) -> tuple[Batch, dict[int, TaskSpec]]:
    """Return the batch that ``make_batch`` would make, and its runs by number. Write nothing."""
    if folder.exists():
        _check_place(folder)
    keyed = {spec.key: spec for spec in specs}
    facts = _planned(folder, name, keyed)
    return _from_json(folder, facts), {
        run["number"]: keyed[run["key"]] for run in facts["runs"] if run["active"]
    }


def _planned(folder: Path, name: str, keyed: Mapping[str, TaskSpec]) -> dict[str, Any]:
    """Return the new content of batch.json. ``keyed`` has the planned runs by their keys."""
    before = _read_before(folder)
    runs = before.get("runs", [])
    numbers = {run["key"]: run["number"] for run in runs}
    rows = {run["number"]: {**run, "active": False} for run in runs}
    for key, spec in keyed.items():
        number = numbers.setdefault(key, len(numbers) + 1)
        name_of_folder = rows[number]["folder"] if number in rows else folder_name(number, spec.name)
        rows[number] = {"number": number, "folder": name_of_folder, "key": key, "active": True}
    return {
        "nsyswrap": __version__,
        "id": before.get("id") or uuid.uuid4().hex[:12],
        "name": name,
        "runs": [rows[number] for number in sorted(rows)],
    }


def make_place(folder: Path, share: Share | None = None) -> None:
    """Make the folder of a batch. Raises OutputError if that fails or the folder holds something else."""
    try:
        RunFolder(folder, share).make()
        _check_place(folder)
        make_folder(folder, share)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", "give another --output") from None


def _check_place(folder: Path) -> None:
    try:
        entries = {entry.name for entry in folder.iterdir() if not is_lock_file(entry)}
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror}", "give another --output") from None
    if entries and BATCH not in entries:
        raise OutputError(f"{folder} is not empty, and holds no batch", "give another --output")


def _read_before(folder: Path) -> dict[str, Any]:
    """Return the content of batch.json, or an empty table if there was no plan before."""
    if not (folder / BATCH).exists():
        return {}
    open_batch(folder)  # raises OutputError if it is damaged
    facts: dict[str, Any] = json.loads((folder / BATCH).read_text(encoding="utf-8"))
    return facts


def folder_name(number: int, label: str) -> str:
    """Return the name of a run folder: its number and the beginning of its label, as safe characters."""
    readable = "".join(c if c.isascii() and (c.isalnum() or c in _SAFE) else "-" for c in label)
    return f"{number:0{NUMBER_WIDTH}}-{readable[:_LABEL_LENGTH]}".rstrip("-.")


def _write_spec(folder: Path, spec: TaskSpec, share: Share | None) -> None:
    try:
        make_folder(folder, share)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from None
    with suppress(OutputError):  # there is none, or it is damaged
        if read_spec(folder) == spec:
            return
    spec.write(folder)
