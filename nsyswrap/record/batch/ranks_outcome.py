"""Run, end and judge a run without an nsys of its own: several ranks, or a command with its own nsys.

It is judged by how its launcher or command ended, and by its captures. Its ranks are ended so that their
captures survive: when one fails, at a signal, at the time limit. Slurm signals all processes of a step, nsys
too, and kills them after its KillWait. Both can cost captures. So the stdin of srun is a pipe of ours, which
srun passes on to all ranks. When it closes, each rank makes its own program end, and has the time of any run
to write its report.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, Unavailable, UsageError
from nsyswrap.base.files import RECORDINGS, tail
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import (
    EXPORT,
    FILES,
    NO_GPU_WORK,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    REPORT,
    RUN,
    STATUS,
    RunFolder,
    Status,
    captures_by_rank,
    existing,
    rank_folders,
    read_status,
)
from nsyswrap.base.sqlite import quoted, read_only, tables_of
from nsyswrap.base.version import version, version_at_once
from nsyswrap.record import attached
from nsyswrap.record.batch.executors import SchedulerJob
from nsyswrap.record.batch.launchers import (
    INPUT_VARIABLE,
    KILLED,
    MORE_MEMORY,
    START_VARIABLE,
    RankLaunch,
    first_failure,
    lacked_memory,
)
from nsyswrap.record.batch.task import TaskSpec
from nsyswrap.record.process_watch import signals_noted
from nsyswrap.record.program import Program

STOP_OTHERS_S = 15  # what still runs after the reports were written is killed this long after a SIGTERM
_ASK_S = 1.0  # between two looks at the folders of the ranks
_FULL_ASK_S = 5.0  # the same for a full disk
_MOST_BYTES = 16 << 20  # of what launchers and programs print on stderr, read at a time
_FULL = ("disk_full", "not_redacted")
_FAILED = re.compile(rb"srun: error: \S+: tasks? ([\d,-]+): ")  # behind a progress bar, too
_DIED = {"srun": _FAILED, "torchrun": re.compile(rb"^ +rank +: (\d+) \(local_rank: ", re.MULTILINE)}
_TIMED_OUT, _NO_CAPTURE, _NOT_STARTED = 75, 70, Unavailable.exit_code
_CAPTURES = (".sqlite", ".nsys-rep", ".qdrep")
_OWN_NSYS = "write it into {run_dir}, or omit profiled = false"
_GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "G")
_ERRORS_END = 1 << 20
_REASON = 300  # characters of what mpirun says
# A program that failed ends the others, whose captures may be lost: it is the cause.
_BY_CAUSE = (("not_started",), ("program_failed",), ("disk_full", "not_redacted"), ("nsys_failed",))
_KILLED_CODE = 128 + signal.SIGKILL
_GPU, _CUDA, _OTHER = "gpu", "cuda", "other"
_CUPTI = "CUPTI_ACTIVITY_KIND_"
# Tables of an export -> which kind of events they have.
_TABLES = {
    **{f"{_CUPTI}{name}": _GPU for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")},
    **dict.fromkeys(("NVTX_EVENTS", "OSRT_API", "CUBLAS_EVENTS", "CUDNN_EVENTS"), _OTHER),
}
# Of tables with these prefixes that are not named above.
_PREFIXES = {_CUPTI: _CUDA, **dict.fromkeys(("MPI_", "UCX_", "OPENMP_", "SYSCALL"), _OTHER)}
_DOMAINS = "WHERE eventType NOT IN (33, 75, 76)"  # NVTX's domains and categories are no events
_GRACE_S = 5.0  # for a shared file system to show what other nodes have written
_GRACE_POLL_S = 0.2


def profiled_ranks(spec: TaskSpec) -> tuple[int, ...]:
    """Return the ranks that are to leave a capture."""
    return tuple(range(spec.ntasks)) if spec.profiled_ranks is None else spec.profiled_ranks


def judge(spec: TaskSpec, folder: Path, name: str, ended: attached.CommandEnd) -> Status:
    """Return the outcome of a run of several ranks, or of a command with its own nsys.

    The run is done only if each profiled rank has a capture that is not empty where it should not be.
    ``name`` is the launcher's or the command's.
    """
    lacking = _lacking(spec, folder)
    if ended.timed_out:
        return Status(
            "timed_out", None, None, _TIMED_OUT, f"stopped after {spec.options.timeout_s:g} s{lacking}"
        )
    if ended.signal is not None:
        message = f"stopped by {ended.signal.name}{lacking}"
        return Status("interrupted", None, None, 128 + ended.signal, message)
    failed = _failure(spec, folder, name, ended.code)
    if not (failed or lacking):
        return _judge_content(spec, folder)
    status = failed or _without_capture("", "" if spec.profiled else _OWN_NSYS)
    memory = lacked_memory(_errors(folder).splitlines())
    parts = (status.message, lacking.removeprefix("; "), f"out of memory: {memory}" if memory else "")
    hint = MORE_MEMORY if memory else status.hint
    return replace(status, message="; ".join(filter(None, parts)), hint=hint)


def timed_out(status: Status, limit: str) -> Status:
    """Return the status of a run that SIGTERM stopped, at a time limit. ``limit`` says which."""
    message = status.message.replace(f"stopped by {signal.SIGTERM.name}", limit)
    return replace(status, outcome="timed_out", exit_code=_TIMED_OUT, message=message)


def note_time_limit(folder: Path, status: Status) -> None:
    """Let the statuses of the ranks that were stopped say, as that of their run, which limit it reached."""
    limit = status.message.partition(";")[0]
    _note_stopped(folder, lambda of_rank: timed_out(of_rank, limit))


def note_cause(folder: Path, status: Status) -> None:
    """Let the statuses of ranks that were stopped say which rank failed: it may have no status of its own."""
    _note_stopped(folder, lambda of_rank: replace(of_rank, message=f"{of_rank.message}; {status.message}"))


def _note_stopped(folder: Path, changed: Callable[[Status], Status]) -> None:
    folders = rank_folders(folder)
    for rank, own in _statuses(folder).items():
        if own.outcome == "interrupted":
            with suppress(OutputError):
                existing(folders[rank]).write_status(changed(own))


def _failure(spec: TaskSpec, folder: Path, name: str, code: int) -> Status | None:
    """Return the failure of a rank, or of the launcher or command as a whole. None if all ended well."""
    statuses = _statuses(folder)
    for outcomes in _BY_CAUSE:
        if failed := [rank for rank, status in statuses.items() if status.outcome in outcomes]:
            return _of_rank(folder, failed, statuses)
    if not code:
        return None
    errors = _errors(folder)
    line, code_of_rank = first_failure(errors) if spec.launcher else ("", None)
    why = line or _last(errors)
    message = f"{name} ended with exit code {code}{': ' if why else ''}{why}"
    expected = profiled_ranks(spec) if spec.profiled else ()  # to write a status
    silent = [rank for rank in expected if rank not in statuses]
    if silent and not rank_folders(folder):
        hint = f"see {PROGRAM_ERRORS} in the run folder"
        return Status("not_started", None, None, _NOT_STARTED, f"no rank began: {message}", hint)
    if silent:
        return _without_capture(f"{_listed(silent)} ended without a status; {message}")
    code = code_of_rank or code
    return Status("program_failed", code, None, code, message)


def _statuses(folder: Path) -> dict[int, Status]:
    statuses = {}
    for rank, path in rank_folders(folder).items():
        with suppress(CaptureError):  # it has none, or a damaged one: its process was killed
            statuses[rank] = RunFolder(path).read_status()
    return statuses


def _lacking(spec: TaskSpec, folder: Path) -> str:
    """Return which captures are missing, as the end of a message; empty if none is."""
    if not spec.profiled and (not spec.launcher or spec.profiled_ranks is None):
        return _lacking_of_command(folder)
    try:
        present_ranks = captures_by_rank(folder)
    except UsageError as error:
        return f"; {error.message}"
    complete = {rank for rank, path in present_ranks.items() if not _fault(path)}
    missing = [rank for rank in profiled_ranks(spec) if rank not in complete]
    return f"; no complete capture of {_listed(missing)}" if missing else ""


def _lacking_of_command(folder: Path) -> str:
    """Return what the captures lack that a command wrote itself: those that are read have certain names."""
    try:
        own = [*captures_by_rank(folder).values()]
    except UsageError as error:
        return f"; {error.message}"
    own += [folder / name for name in (EXPORT, REPORT) if paths.exists(folder / name)][:1]
    others = sorted(path.name for path in paths.matching(folder, "*") if path.suffix in _CAPTURES)
    if not own and others:
        return f"; the command left {others[0]}: only {EXPORT}, {REPORT} and captures named by rank are read"
    faults = [f"; {path.name}: {fault}" for path in own if (fault := _fault(path))]
    return faults[0] if faults else "" if own else "; the command left no capture in the run folder"


def _fault(path: Path) -> str:
    """Return why an export is not complete; empty if it is, or for a report."""
    return check_export(path) if path.suffix == ".sqlite" else ""


def with_cause(spec: TaskSpec, folder: Path, status: Status) -> Status:
    """Return the status of one profiled program, with what it said last if it failed.

    If the run is done and its capture has no GPU work, the status says so.
    """
    if status.outcome == "program_failed":
        why = _last(_errors(folder))[:_REASON]
        hint = status.hint or (KILLED if status.program_code == _KILLED_CODE else "")
        return replace(status, message=f"{status.message}{': ' if why else ''}{why}", hint=hint)
    export = folder / EXPORT
    is_whole = status.outcome == "done" and not (status.message or status.exit_code or check_export(export))
    if not is_whole or "cuda" not in spec.options.trace or _GPU in _recorded_kinds(export):
        return status
    return _without_gpu_work(spec, status)


def _without_gpu_work(spec: TaskSpec, status: Status) -> Status:
    if not _has_gpus(spec):
        return replace(status, message="no GPU work was recorded")
    message = "no GPU work was recorded, though the run had GPUs"
    return replace(status, exit_code=NO_GPU_WORK, message=message, hint="`nsyswrap report DIR` says why")


def _of_rank(folder: Path, ranks: list[int], statuses: Mapping[int, Status]) -> Status:
    """Return the status of the rank that ended first: the others fail because of it."""
    folders = rank_folders(folder)
    first = min(ranks, key=lambda rank: _ended_s(folders[rank]))
    others = [rank for rank in ranks if rank != first]
    status = statuses[first]
    also = f"; {_listed(others)} failed too" if others else ""
    # A disk can be full for a rank whose program ended well.
    codes = (statuses[rank].program_code for rank in (first, *others))
    code = next(filter(None, codes), status.program_code)
    return replace(status, program_code=code, message=f"rank {first}: {status.message}{also}")


def _ended_s(folder: Path) -> float:
    facts = paths.status(folder / STATUS)
    return facts.st_mtime if facts else 0.0


def _without_capture(message: str, hint: str = "") -> Status:
    return Status("nsys_failed", None, None, _NO_CAPTURE, message, hint)


def _judge_content(spec: TaskSpec, folder: Path) -> Status:
    """Judge captures that are all there: one is empty if it lacks the GPU work that others have.

    CUDA calls are no work: they are recorded of a program whose kernels nsys lost, too.
    """
    captures = {rank: path for rank, path in captures_by_rank(folder).items() if path.suffix == ".sqlite"}
    single = folder / EXPORT
    if not captures and paths.exists(single):
        captures = {0: single}
    kinds = {rank: _recorded_kinds(path) for rank, path in captures.items()}
    if not kinds:
        return Status("done", 0, None, 0)
    all_kinds = frozenset[str]().union(*kinds.values())
    if all_kinds <= {_CUDA} and _has_gpus(spec):
        what = "GPU work" if all_kinds else "event"
        hint = "check that the program runs under nsys, and what trace records"
        return _without_capture(f"no capture has any {what}, though the run had GPUs", hint)
    empty = [rank for rank, own in kinds.items() if not own and all_kinds]
    if empty:
        return _without_capture(f"the capture of {_listed(empty)} has no event, those of other ranks have")
    idle = [rank for rank, own in kinds.items() if _GPU in all_kinds and _GPU not in own]
    if idle:
        hint = "if these ranks use no GPU, omit them from profiled_ranks"
        return _without_capture(
            f"the capture of {_listed(idle)} has no GPU work, those of other ranks have", hint
        )
    done = Status("done", 0, None, 0)
    return done if _GPU in all_kinds or "cuda" not in spec.options.trace else _without_gpu_work(spec, done)


def _recorded_kinds(path: Path) -> frozenset[str]:
    kinds = set()
    with closing(read_only(path)) as db:
        for name in tables_of(db)[0]:
            of_prefix = (kind for prefix, kind in _PREFIXES.items() if name.startswith(prefix))
            kind = _TABLES.get(name) or next(of_prefix, "")
            where = _DOMAINS if name == "NVTX_EVENTS" else ""
            with suppress(sqlite3.DatabaseError):
                if kind and db.execute(f"SELECT 1 FROM {quoted(name)} {where} LIMIT 1").fetchone():  # noqa: S608 - quoted
                    kinds.add(kind)
    return frozenset(kinds)


def _has_gpus(spec: TaskSpec) -> bool:
    options = [(key, str(value)) for own in spec.settings.values() for key, value in own.items()]
    asked = any(key in _GPU_OPTIONS and (key != "gres" or "gpu" in value) for key, value in options)
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "") not in ("", "NoDevFiles", "-1")
    return "cuda" in spec.options.trace and bool(spec.gpus or asked or given)


def _errors(folder: Path) -> str:
    """Return what a launcher or command printed on stderr; of much the end."""
    try:
        return tail(folder / PROGRAM_ERRORS, _ERRORS_END).decode(errors="replace")
    except OSError:
        return ""


def _last(errors: str) -> str:
    """Return the last line on stderr, which is often the cause. mpirun has its reasons between rules."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    rules = [number for number, line in enumerate(lines) if len(line) > 1 and not line.strip("-")]
    if rules and rules[-1] == len(lines) - 1:
        first = rules[-2] if len(rules) > 1 else -1
        return " ".join(lines[first + 1 : -1])[:_REASON]
    return lines[-1] if lines else ""


def _listed(ranks: Iterable[int]) -> str:
    numbers = list(ranks)
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def take_input() -> int | None:
    """Return a descriptor of stdin if this rank is to end when it closes. The program gets an empty one."""
    if not os.environ.pop(INPUT_VARIABLE, ""):
        return None
    own = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return own


def end_with(descriptor: int) -> None:
    """Give this process SIGTERM when a descriptor has come to its end."""

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


@dataclass
class StepFailure:
    """Looks whether srun has printed that a task failed, in the file of what it prints on stderr.

    On a full disk that file lacks the line, and the statuses of the ranks say so.
    """

    folder: Path
    _read_bytes: int = 0
    _asked_at: float = field(default_factory=time.monotonic)

    def __call__(self) -> bool:
        """Return True if there is such a line that was not read before, or if a rank lacked disk space."""
        if time.monotonic() > self._asked_at + _FULL_ASK_S:
            self._asked_at = time.monotonic()
            if any(map(_lacked_space, rank_folders(self.folder).values())):
                return True
        try:
            with (self.folder / PROGRAM_ERRORS).open("rb") as file:
                if os.fstat(file.fileno()).st_size <= self._read_bytes:
                    return False
                file.seek(self._read_bytes)
                lines = file.read(_MOST_BYTES)
        except OSError:
            return False
        whole = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
        self._read_bytes += len(lines) if len(lines) == _MOST_BYTES and not whole else whole
        return bool(_FAILED.search(lines))


def _lacked_space(folder: Path) -> bool:
    try:
        return read_status(folder).outcome in _FULL
    except CaptureError:  # it still runs
        return False


@dataclass
class StepEnd:
    """Ends the ranks of a step. ``has_reports`` tells whether all profiled ranks have ended."""

    launch: RankLaunch
    has_reports: Callable[[], bool]
    _asked_at: float = 0.0
    _signalled_at: float | None = field(default=None)

    def __call__(self, process: subprocess.Popen[bytes], since_s: float) -> None:
        """Do what is due ``since_s`` seconds after the end was requested. To be called often."""
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
        elif self._signalled_at is not None:
            if since_s > self._signalled_at + STOP_OTHERS_S:
                process.terminate()  # srun then kills its tasks
        elif since_s > self._asked_at + _ASK_S:
            self._asked_at = since_s
            if self.has_reports():  # what is left are ranks that nobody profiles
                self._signalled_at = since_s
                self.launch.stop(process)


def all_ended(folder: Path, launcher: str) -> bool:
    """Return True if each rank that began in the folder of a run has a status, or died without one."""
    folders = rank_folders(folder)
    if have_ended(folders):
        return True
    with suppress(OSError):
        errors = tail(folder / PROGRAM_ERRORS, _MOST_BYTES)
        died = {rank for match in _DIED[launcher].finditer(errors) for rank in _numbers(match[1].decode())}
        return have_ended({rank: path for rank, path in folders.items() if rank not in died})
    return False


def _numbers(ranges: str) -> Iterator[int]:
    """Yield the numbers of ``0,3-5``."""
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def have_ended(folders: dict[int, Path]) -> bool:
    """Return True if the run folders of ranks have a status. Listing them makes NFS fetch new entries."""
    return all(STATUS in paths.names(folder) for folder in folders.values())


# The run. The launcher starts `nsyswrap run-folder --rank` on each node. A profiled rank records into a run
# folder of its own, ``rank-N`` in that of the run. Other ranks become the program. What they print goes to
# the files of the run, as the launcher merges it.


def run_launched(
    spec: TaskSpec, folder: Path, program: Program, on_signal: Callable[[], None], job: SchedulerJob | None
) -> Status:
    """Run the launcher or the command, write run.json and the status of the run, and return the status.

    Raises Unavailable if the launcher is missing.
    """
    launch = _launch(spec, folder, job) if spec.launcher else None
    argv = launch.argv if launch else list(program.argv)
    run_folder = existing(folder)
    facts = _facts(spec, program, launch)
    run_folder.create(facts, force=True)
    _remove_captures(folder)
    began = time.monotonic()
    environment = {
        **os.environ,
        **(launch.variables if launch else {}),
        **spec.options.env,
        **(job.launch_variables if job else {}),
    }
    with signals_noted() as received:
        with _streams(run_folder) as streams:
            command = attached.AttachedCommand(
                argv, environment, streams, spec.options.timeout_s, _stop(launch), ends_all=bool(launch)
            )
            if launch and launch.is_step:
                end = StepEnd(launch, lambda: all_ended(folder, launch.launcher))
                failure = StepFailure(folder)
                command = replace(command, stop=end, has_failed=failure, has_input=True)
            ended = attached.run(command, received, on_signal)
        _await_files(spec, folder)
        status = judge(spec, folder, spec.launcher or program.name, ended)
        facts["duration_s"] = round(time.monotonic() - began, 3)
        facts["nsyswrap"] = version()
        try:
            run_folder.write(RUN, facts)
        except OutputError as error:
            status = replace(status, message="; ".join(filter(None, (status.message, error.message))))
        run_folder.write_status(status)
    return status


def _launch(spec: TaskSpec, folder: Path, job: SchedulerJob | None) -> RankLaunch:
    started = os.environ.get(START_VARIABLE)
    python = tuple(map(str, json.loads(started))) if started else ()
    rank = [*(python or [sys.executable]), "-m", "nsyswrap", "run-folder", "--rank", str(folder)]
    name = f"nsyswrap-{uuid.uuid4().hex[:12]}"
    launch = RankLaunch(spec.launcher, spec.ntasks, rank, name, python, options=spec.launcher_options)
    return replace(launch, nodes=job.nodes, end_step=job.end_step) if job else launch


def _facts(spec: TaskSpec, program: Program, launch: RankLaunch | None) -> dict[str, Any]:
    ranks = {
        "launcher": spec.launcher,
        "ntasks": spec.ntasks,
        "profiled": list(profiled_ranks(spec)) if spec.profiled else None,
    }
    return {
        "nsyswrap": version_at_once(),
        "command": list(program.argv),
        "cwd": spec.cwd,
        "host": socket.gethostname(),
        "env_set": sorted(spec.options.env),
        "timeout_s": spec.options.timeout_s,
        **({"launch": {**ranks, "nodes": launch.nodes, "command": launch.argv}} if launch else {}),
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def _stop(launch: RankLaunch | None) -> Callable[[subprocess.Popen[bytes], float], None]:
    def stop(process: subprocess.Popen[bytes], since_s: float) -> None:
        if since_s == 0:
            launch.stop(process) if launch else process.terminate()

    return stop


@contextmanager
def _streams(run_folder: RunFolder) -> Iterator[tuple[int, int]]:
    own = [run_folder.open(name) for name in (PROGRAM_OUTPUT, PROGRAM_ERRORS)]
    try:
        yield own[0], own[1]
    finally:
        for descriptor in own:
            os.close(descriptor)


def _remove_captures(folder: Path) -> None:
    """Remove what an earlier attempt at this run recorded: it would be taken for that of this one."""
    for path in rank_folders(folder).values():
        for name in FILES:
            (path / name).unlink(missing_ok=True)
        with suppress(OSError):  # the program wrote other files into it
            path.rmdir()
    for path in paths.matching(folder, "*"):
        if path.suffix in (*RECORDINGS, ".sqlite") and not paths.is_folder(path, follow=False):
            path.unlink()


def _await_files(spec: TaskSpec, folder: Path) -> None:
    """Wait until the statuses of the ranks are visible here: other nodes wrote them."""
    wanted = profiled_ranks(spec) if spec.launcher and spec.profiled else ()
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        present = rank_folders(folder)  # lists the folder, which makes NFS fetch new entries
        began = [rank for rank in wanted if rank in present]
        if have_ended({rank: present[rank] for rank in began}):
            return
        time.sleep(_GRACE_POLL_S)
