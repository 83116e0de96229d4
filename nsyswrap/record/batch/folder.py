"""The folder of a batch and of its planned runs. The files in a run's folder tell the state of the run."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import starmap
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, Unreadable
from nsyswrap.base.files import is_lock_file, is_locked, read_json, typed, why
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import (
    BATCH,
    CLAIM,
    DIGEST,
    EXPORT,
    NO_GPU_WORK,
    REPORT,
    RUN,
    RUNS,
    STATUS,
    Outcome,
    RunFolder,
    Share,
    Status,
    existing,
    make_folder,
    read_status,
)
from nsyswrap.base.version import version

with lazy_imports():  # a run of a batch needs these not
    import resource
    from concurrent import futures

    from nsyswrap.base import run_facts, run_folder

if TYPE_CHECKING:
    from nsyswrap.record.batch.plan.expand import Plan
    from nsyswrap.record.batch.task import TaskSpec

NUMBER_WIDTH = 5  # digits of a run folder's number, for folders to sort and job scripts to find them
_MOST_IN_A_FOLDER = 1000  # run folders: parallel file systems are slow with more
_LABEL_LENGTH = 80
_FIRST_READ, _SLOW_S, _THREADS = 200, 0.001, 16  # runs, seconds for one of them
_REMOVED = "the run was done, but its capture and digest are gone"
# Between two looks at a batch, so that waiting costs next to no CPU time.
_PAUSE_S, _LONGEST_S = 1.0, 15.0
_SLOWER = 20  # a look takes place after each 1/20 of the time that has passed
_CPU_SHARE = 0.008  # of one core, for this process and the commands that it runs
_SETTLED = 5  # a look that costs much waits at most 1/5 of the time that has passed
_SAFE = "=.,+-_"  # allowed in the name of a run folder, beside letters and digits

State = Literal[Outcome, "planned", "running", "lost"]
UNFINISHED: tuple[State, ...] = ("planned", "lost", "interrupted")  # what a batch runs without --retry-failed
ENDED: tuple[State, ...] = (
    "done",
    "program_failed",
    "timed_out",
    "interrupted",
    "nsys_failed",
    "disk_full",
    "not_redacted",
    "not_started",
)
_CUT = "and killed before its report was complete"
_KILLED: dict[str, Status] = {  # by Claim.stopped: the status of a run that was killed before it had one
    "interrupted": Status("interrupted", None, None, 143, f"stopped by SIGTERM, {_CUT}"),
    "timed_out": Status("timed_out", None, None, 75, f"stopped before the time limit of its job, {_CUT}"),
}


@dataclass(frozen=True)
class Claim:
    """The process that runs a planned run. ``began`` is in seconds of the epoch.

    ``stopped`` is how the run ends if its job is killed before it has a status: a scheduler has signaled it.
    """

    host: str
    pid: int
    began: float
    job: str = ""
    """The job of a scheduler, as its commands name it: ``17_3``, or empty."""
    restarts: int = 0
    stopped: Literal["", "interrupted", "timed_out"] = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what is no process: a signal to it would reach others."""
        if self.pid < 1 or self.began < 0:
            raise ValueError(f"process {self.pid}, begun at {self.began}")


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of one run. ``lost``: the run was begun, and its process is gone without an outcome.

    ``path`` is that of its folder. ``claim`` is None for a run that is done: nothing asks who ran it.
    """

    number: int
    path: str | Path  # of 100,000 runs few are needed as a Path
    state: State
    status: Status | None = None
    claim: Claim | None = None

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.path)

    @property
    def lacks_gpu_work(self) -> bool:
        """True if the run is done and had GPUs, but recorded no GPU work."""
        return self.state == "done" and self.status is not None and self.status.exit_code == NO_GPU_WORK


@dataclass(frozen=True)
class Batch:
    """The folder of a batch, and the content of batch.json: run number -> name of its folder in ``runs/``.

    ``left_out`` has the runs of an earlier plan: their folders are still there, but not part of the batch.
    ``numbers`` has the number of each run, these included, by the key of its TaskSpec.
    """

    folder: Path
    name: str
    id: str
    runs: Mapping[int, str]
    left_out: Mapping[int, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)

    def run_folder(self, number: int) -> Path:
        """Return the folder of one run."""
        return self.folder / RUNS / self.runs[number]

    def survey(self, known: Mapping[int, RunState] | None = None) -> dict[int, RunState]:
        """Return the state of every run by its folder. Runs ``known`` to have ended are not read again."""
        ended = {n: state for n, state in (known or {}).items() if state.state in ENDED and n in self.runs}
        runs = self.folder / RUNS
        folders = [(f"{runs}/{name}", number) for number, name in self.runs.items() if number not in ended]
        read = {state.number: state for state in _read_states(folders)}
        return {number: ended.get(number) or read[number] for number in self.runs}


def _read_states(folders: Sequence[tuple[str, int]]) -> Iterator[RunState]:
    """Yield the state of the run in each folder, with its number.

    If the file system takes long to answer, as a shared one does, threads ask it. On a busy machine the CPU
    takes long, and threads would make it busier.
    """
    first, rest = folders[:_FIRST_READ], folders[_FIRST_READ:]
    began, waits = time.monotonic(), _waits()
    yield from starmap(read_state, first)
    is_slow = time.monotonic() - began >= _SLOW_S * len(first) and _waits() - waits >= len(first)
    if not (rest and is_slow):
        yield from starmap(read_state, rest)
        return
    chunks = [rest[at : at + _FIRST_READ] for at in range(0, len(rest), _FIRST_READ)]
    with futures.ThreadPoolExecutor(_THREADS) as threads:
        for states in threads.map(lambda chunk: list(starmap(read_state, chunk)), chunks):
            yield from states


def _waits() -> int:
    """Return how often this thread has waited for something else than a CPU."""
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_nvcsw


def read_state(folder: Path | str, number: int = 0) -> RunState:
    """Return the state of the run in this folder. It has an outcome once no process holds the folder."""
    locked = is_locked(folder)  # first: a run that ends now has a status before it gives up the folder
    if not locked and _exists(folder, STATUS):
        return _with_status(folder, number)
    claim = read_claim(folder)
    if claim is None:
        if not _exists(folder, "."):
            try:
                paths.names(folder)
            except Unreadable as error:
                return _lost(number, folder, error.message)
        return RunState(number, folder, "planned")
    if locked:
        return RunState(number, folder, "running", None, claim)
    killed = _KILLED.get(claim.stopped)
    return RunState(number, folder, killed.outcome if killed else "lost", killed, claim)


def _lost(number: int, folder: Path | str, message: str) -> RunState:
    return RunState(number, folder, "lost", Status("nsys_failed", None, None, 70, message))


def _with_status(folder: Path | str, number: int) -> RunState:
    try:
        status = read_status(folder)
        if status.outcome == "done" and not _has_result(folder):
            return _lost(number, folder, _REMOVED)
    except CaptureError as error:  # the disk was full, or it may not be read
        return _lost(number, folder, error.message)
    claim = None if status.outcome == "done" else read_claim(folder)
    return RunState(number, folder, status.outcome, status, claim)


def _has_result(folder: Path | str) -> bool:
    """Return True if a run has a capture or a digest, or ran without nsys on purpose."""
    if any(_exists(folder, name) for name in (DIGEST, EXPORT, REPORT)):
        return True
    if run_folder.rank_folders(Path(folder)):
        return True
    try:
        run = read_json(f"{folder}/{RUN}")
    except (OSError, ValueError):
        return True  # an earlier version wrote none
    return not (isinstance(run, dict) and run.get("nsys"))


def _exists(folder: Path | str, name: str) -> bool:
    """Return True if there is such a file, in half the time that a Path takes: of 100,000 runs it counts."""
    return os.access(f"{folder}/{name}", os.F_OK)


def read_claim(folder: Path | str) -> Claim | None:
    """Return the process that began the run in this folder; None if none did."""
    try:
        return typed(Claim, read_json(f"{folder}/{CLAIM}"))
    except (OSError, ValueError):
        return None


def open_batch(folder: Path) -> Batch:
    """Read batch.json. Raises OutputError if the folder holds no batch, and Unreadable."""
    if not paths.exists(folder / BATCH):
        raise OutputError(
            f"{folder} is not a batch folder: {BATCH} is missing",
            "give the folder that `nsyswrap batch run` printed",
        )
    try:
        facts = run_facts.read_batch(folder)
    except PermissionError as error:
        raise paths.unreadable(folder / BATCH, error) from None
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{folder / BATCH} cannot be read: {why(error)}",
            f"remove {folder / BATCH}, or use another --output and run the plan again",
        ) from None
    runs = {run.number: run.folder for run in facts.runs if run.active}
    left_out = {run.number: run.folder for run in facts.runs if not run.active}
    return Batch(folder, facts.name, facts.id, runs, left_out, {run.key: run.number for run in facts.runs})


def make_batch(folder: Path, plan: Plan) -> Batch:
    """Make the folder of the batch and of every planned run. Runs planned before keep their folders.

    Runs of an earlier plan that are not in this one stay on disk, but are not part of the batch.
    """
    make_place(folder, plan.share)
    make_folder(folder / RUNS, plan.share)
    batch, specs = _planned(folder, plan)
    made = {folder / RUNS}
    keys = {number: key for key, number in batch.numbers.items()}
    for number, spec in specs.items():
        run_folder = batch.run_folder(number)
        with paths.writing(run_folder):
            if run_folder.parent not in made:
                make_folder(run_folder.parent, plan.share)
                made.add(run_folder.parent)
            make_folder(run_folder, plan.share)
        if not spec.is_in(run_folder, keys[number]):
            spec.write(run_folder)
    names = {**batch.runs, **batch.left_out}
    rows = [
        {"number": number, "folder": names[number], "key": key, "active": number in batch.runs}
        for key, number in sorted(batch.numbers.items(), key=itemgetter(1))
    ]
    facts = {"nsyswrap": version(), "id": batch.id, "name": batch.name, "runs": rows}
    existing(folder).write(BATCH, facts)
    return batch


def foresee_batch(folder: Path, plan: Plan) -> tuple[Batch, dict[int, TaskSpec]]:
    """Return the batch that ``make_batch`` would make, and its runs by number. Write nothing."""
    if paths.is_taken(folder):
        _check_place(folder)
    return _planned(folder, plan)


def _planned(folder: Path, plan: Plan) -> tuple[Batch, dict[int, TaskSpec]]:
    with paths.writing(folder, "use another --output"):
        is_new = not paths.exists(folder / BATCH)
        before = Batch(folder, plan.name, uuid.uuid4().hex[:12], {}) if is_new else open_batch(folder)
    numbers = dict(before.numbers)
    specs = {numbers.setdefault(spec.key, len(numbers) + 1): spec for spec in plan.specs}
    names = {**before.runs, **before.left_out}
    spread = len(numbers) > _MOST_IN_A_FOLDER
    runs = {
        number: names.get(number) or folder_name(number, specs[number].name, spread=spread)
        for number in sorted(specs)
    }
    left_out = {number: names[number] for number in sorted(names) if number not in specs}
    batch = Batch(folder, plan.name, before.id, runs, left_out, numbers)
    return batch, {number: specs[number] for number in runs}


def make_place(folder: Path, share: Share | None = None) -> None:
    """Make the folder of a batch. Raises OutputError if that fails or the folder holds something else."""
    with paths.writing(folder, "use another --output"):
        RunFolder(folder, share).make()
        _check_place(folder)
        make_folder(folder, share)


def _check_place(folder: Path) -> None:
    with paths.writing(folder, "use another --output"):
        entries = {name for name in paths.names(folder) if not is_lock_file(folder / name)}
    if entries and BATCH not in entries:
        raise OutputError(f"{folder} is not empty and is not a batch folder", "use another --output")


def folder_name(number: int, label: str, *, spread: bool = False) -> str:
    """Return the name of a run folder: its number and the beginning of its label, as safe characters.

    With ``spread`` it lies in a folder for each thousand, which is the number without the last three digits.
    """
    readable = "".join(c if c.isascii() and (c.isalnum() or c in _SAFE) else "-" for c in label)
    digits = f"{number:0{NUMBER_WIDTH}}"
    return (f"{digits[:-3]}/" if spread else "") + f"{digits}-{readable[:_LABEL_LENGTH]}".rstrip("-.")


def without_gpu_work(states: Iterable[RunState], most: int | None) -> str:
    """Return why a batch ends early: ``most`` of these runs are done, none with GPU work. Else empty."""
    done = [state for state in states if state.state == "done"]
    lacks = all(state.lacks_gpu_work for state in done)
    return (
        f"the first {len(done):,} runs recorded no GPU work" if most and len(done) >= most and lacks else ""
    )


class Pause:
    """Gives the pauses between two looks at a batch in one loop, from its begin."""

    def __init__(self) -> None:
        self._began, self._cpu_s = time.monotonic(), _cpu_s()

    def seconds(self) -> float:
        """Return how long to sleep now: long if the last look took much CPU time."""
        passed_s, before_s = time.monotonic() - self._began, self._cpu_s
        self._cpu_s = _cpu_s()
        for_cost_s = min((self._cpu_s - before_s) / _CPU_SHARE, passed_s / _SETTLED)
        return max(_PAUSE_S, min(_LONGEST_S, passed_s / _SLOWER), for_cost_s)


def _cpu_s() -> float:
    return sum(os.times()[:4])
