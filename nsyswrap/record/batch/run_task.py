"""Carrying out one planned run where it was sent: claim its folder, prepare the program, keep its output.

What keeps the program from starting (no such file, nothing to compile with, no nsys) is an outcome like any
other: it is written down, and the batch goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from nsyswrap.base.errors import NsyswrapError, OutputError, Unavailable
from nsyswrap.base.folder_lock import locked
from nsyswrap.base.run_folder import CLAIM, STATUS, Status, existing, share_of
from nsyswrap.record import scenarios as scenario
from nsyswrap.record.batch.executors.slurm import commands as queue
from nsyswrap.record.batch.folder import Claim
from nsyswrap.record.batch.task import read_spec
from nsyswrap.record.program import Program, resolve
from nsyswrap.record.spec import RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsyswrap.record.batch.task import Spec

# File systems that several machines share: no place for nsys' temporary files.
_SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "fuse.", "9p", "afs", "panfs", "wekafs")
_TEMPORARY = ("SLURM_TMPDIR", "TMPDIR")
_TIMED_OUT = 75


def carry_out(
    folder: Path, execute: Callable[[RunSpec, Callable[[], None]], Status], *, again: bool = False
) -> Status:
    """Run what the folder's spec.json says, and return how it ended.

    ``execute`` runs a RunSpec under nsys, and calls the function it gets as soon as a signal has come. A run
    that is done is left as it is, unless ``again``. Raises OutputError where another process is at it.
    """
    spec = read_spec(folder)
    folder = folder.absolute()
    run = existing(folder)
    with locked(folder, "another process", "wait for it, or end it with `nsyswrap batch cancel`"):
        if not again and (folder / STATUS).exists() and run.read_status().outcome == "done":
            return run.read_status()
        (folder / STATUS).unlink(missing_ok=True)
        run.write(CLAIM, json.dumps(asdict(Claim.mine())) + "\n")
        try:
            with _temporary_folder(spec) as temporary:
                _enter(spec.cwd)
                return _run(spec, _prepared(spec, folder, temporary), execute)
        except NsyswrapError as error:
            run = existing(folder)
            status = Status("not_started", None, None, error.exit_code, str(error), error.hint)
            run.write_status(status)
            return status


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        host = Claim.mine().host
        raise OutputError(f"{cwd} cannot be entered on {host}: {error.strerror}", "") from None


def _run(spec: Spec, prepared: RunSpec, execute: Callable[[RunSpec, Callable[[], None]], Status]) -> Status:
    if spec.scenario and spec.variant in scenario.find(spec.scenario).alone:
        return scenario.run_alone(prepared)
    limit = _TimeLimit()
    return limit.judge(prepared.output, execute(prepared, limit.ask))


def _prepared(spec: Spec, folder: Path, temporary: Path) -> RunSpec:
    """Find or build the program, outside the measured run."""
    if spec.scenario:
        found = scenario.find(spec.scenario)
        if lacks := found.lacks_for(spec.variant):
            raise Unavailable(f"{found.name} {spec.variant} cannot run here: {'; '.join(lacks)}")
        built = found.build(spec.arguments)
        argv = (*found.variant_argv(spec.variant), *built, *spec.arguments)
        program = Program(found.argv(*argv), found.name)
    else:
        program = resolve(spec.command, module=spec.module, arch=spec.arch)
    return RunSpec(
        program,
        folder,
        spec.nsys,
        spec.nsys_path,
        {**spec.env, "TMPDIR": str(temporary)},
        spec.timeout_s,
        force=True,
        keep_output=True,
        keep_errors=True,
        keep_environment=spec.keep_environment,
        discard_rep=spec.discard_rep,
        share=share_of(folder),
        is_locked=True,
    )


class _TimeLimit:
    """Tells a run that Slurm ended at its time limit from one that was cancelled: both get SIGTERM."""

    def __init__(self) -> None:
        self._reached = False
        self._asking: Thread | None = None

    def ask(self) -> None:
        """Ask Slurm at once, as it will know less later; nsys writes its report meanwhile."""
        if os.environ.get("SLURM_JOB_ID"):
            self._asking = Thread(target=self._ask)
            self._asking.start()

    def _ask(self) -> None:
        self._reached = queue.ended_by_time_limit()

    def judge(self, folder: Path, status: Status) -> Status:
        """Return how the run ended, the time limit told apart, and write that down."""
        if self._asking:
            self._asking.join()
        if not self._reached or status.outcome != "interrupted":
            return status
        message = status.message.replace("stopped by SIGTERM", "stopped before Slurm's time limit")
        told = replace(status, outcome="timed_out", exit_code=_TIMED_OUT, message=message)
        existing(folder).write_status(told)
        return told


@contextmanager
def _temporary_folder(spec: Spec) -> Iterator[Path]:
    """Make a folder for temporary files on this machine's own disk, called after job and task.

    What nsys could not bring home stays there: its log says so.
    """
    claim = Claim.mine()
    name = f"nsyswrap-{claim.job or claim.pid}-{claim.restarts}-"
    asked = spec.env.get("TMPDIR", "")
    try:
        made = Path(tempfile.mkdtemp(prefix=name, dir=os.path.expandvars(asked) if asked else local_folder()))
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary folder on {claim.host}: {error}", "set TMPDIR in the plan's [env]"
        ) from None
    try:
        yield made
    finally:
        if not any(made.glob("*/nsys-report-*")):
            shutil.rmtree(made, ignore_errors=True)


def local_folder() -> str:
    """Return the first of $SLURM_TMPDIR, $TMPDIR and the system's that lies on no shared file system."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [place for name in _TEMPORARY if (place := os.environ.get(name)) and Path(place).is_dir()]
    return next((place for place in places if not is_shared(Path(place), mounts)), "/tmp")  # noqa: S108


def is_shared(place: Path, mounts: list[list[str]]) -> bool:
    """Whether a folder lies on a file system of several machines; ``mounts``: the lines of /proc/mounts."""
    real = str(place.resolve())
    above = [
        (len(point), kind)
        for _, point, kind, *_ in mounts
        if (real + "/").startswith(point.rstrip("/") + "/")
    ]
    return max(above, default=(0, ""))[1].startswith(_SHARED)
