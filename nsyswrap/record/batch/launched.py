"""Run a planned run that has no nsys of its own: several ranks, or a command that brings its nsys.

The launcher starts `nsyswrap run-folder --rank` on each node. A profiled rank records into a run folder of
its own, ``rank-N`` in that of the run. Other ranks become the program. What they print goes to the files of
the run, as the launcher merges it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import RECORDINGS
from nsyswrap.base.run_folder import FILES, PROGRAM_ERRORS, PROGRAM_OUTPUT, RUN, existing, rank_folders
from nsyswrap.base.version import version, version_at_once
from nsyswrap.record import attached
from nsyswrap.record.batch.launchers import START_VARIABLE, RankLaunch
from nsyswrap.record.batch.ranks_outcome import (
    StepEnd,
    StepFailure,
    all_ended,
    have_ended,
    judge,
    profiled_ranks,
)
from nsyswrap.record.process_watch import signals_noted

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nsyswrap.base.run_folder import RunFolder, Status
    from nsyswrap.record.batch.executors import SchedulerJob
    from nsyswrap.record.batch.task import TaskSpec
    from nsyswrap.record.program import Program

_GRACE_S = 5.0  # for a shared file system to show what other nodes have written
_GRACE_POLL_S = 0.2


def run(
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
    """Return the content of run.json. Each profiled rank has a run.json of its own."""
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
    """Return a function that stops a launcher or a command when it is first called."""

    def stop(process: subprocess.Popen[bytes], since_s: float) -> None:
        if since_s == 0:
            launch.stop(process) if launch else process.terminate()

    return stop


@contextmanager
def _streams(run_folder: RunFolder) -> Iterator[tuple[int, int]]:
    """Yield descriptors of the files for stdout and stderr."""
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
