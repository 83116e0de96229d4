"""Run one planned run where its executor sent it: claim its folder, build the program, run it under nsys.

A program that cannot be started (no such file, no compiler, no nsys) is an outcome too: the run folder
records it, and the batch goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from nsyswrap.base import paths
from nsyswrap.base.errors import NsyswrapError, OutputError, Unavailable
from nsyswrap.base.files import locked
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import CLAIM, STATUS, RunFolder, Status, existing, share_of
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.executors import SchedulerJob
from nsyswrap.record.batch.folder import Claim
from nsyswrap.record.batch.task import NAMED_PYTHON_VARIABLE, RUN_DIR, TaskSpec, read_spec
from nsyswrap.record.conditions import file_system_of, is_network, mounts
from nsyswrap.record.launcher_env import detect, rank_facts
from nsyswrap.record.process_watch import signals_noted
from nsyswrap.record.program import Program, RunSpec, execute_bare, resolve

with lazy_imports():  # few runs need these
    from nsyswrap.base.nsys import find
    from nsyswrap.record import gpus, scenarios
    from nsyswrap.record.batch import ranks_outcome

Execute = Callable[[RunSpec, Callable[[], None]], Status]

# A job that its scheduler starts again may find its earlier copy, which still writes its report.
_EARLIER_COPY_S = 300


def carry_out(folder: Path, execute: Execute, *, again: bool = False) -> Status:
    """Run the planned run in this folder, and return how it ended.

    ``execute`` runs a RunSpec under nsys. It calls the function that it gets when a signal arrives. A run
    that is done is not run again, unless ``again``. Raises OutputError if another process runs it.
    """
    spec = read_spec(folder)
    folder = folder.absolute()
    run = existing(folder)
    job = executors.current_job()
    patience_s = _EARLIER_COPY_S if job and job.restarts else 0
    with locked(folder, "another process", "wait, or use `nsyswrap batch cancel`", patience_s):
        if not again and paths.exists(folder / STATUS) and run.read_status().outcome == "done":
            return run.read_status()
        (folder / STATUS).unlink(missing_ok=True)
        claim = claim_of(job)
        run.write(CLAIM, json.dumps(asdict(claim)) + "\n")
        try:
            with _temporary_folder(spec, claim) as temporary:
                try:
                    os.chdir(spec.cwd)
                except OSError as error:
                    message = f"cannot enter {spec.cwd} on {claim.host}: {error.strerror}"
                    raise OutputError(message) from None
                _check_required(spec, claim.host)
                prepared = _prepared(spec, folder, temporary)
                if spec.scenario and spec.variant in scenarios.find_scenario(spec.scenario).alone:
                    return scenarios.run_alone(prepared)
                if spec.launcher or not spec.profiled:
                    filled, program = _filled(spec, folder), prepared.program
                    return _run(
                        folder,
                        lambda on_signal: ranks_outcome.run_launched(filled, folder, program, on_signal, job),
                        job,
                        claim,
                    )
                status = _run(folder, lambda on_signal: execute(prepared, on_signal), job, claim)
                if (checked := ranks_outcome.with_cause(spec, folder, status)) != status:
                    run.write_status(checked)
                return checked
        except NsyswrapError as error:
            status = Status("not_started", None, None, error.exit_code, error.message, error.hint)
            existing(folder).write_status(status)
            return status


def _check_required(spec: TaskSpec, host: str) -> None:
    if not spec.require:
        return
    devices = gpus.query()
    has = {"gpu": ", ".join(sorted(set(devices.names))), "driver": devices.driver}
    if "nsys" in spec.require:
        has["nsys"] = find.find_nsys(spec.options.nsys_path)[0].version
    for key, wanted in spec.require.items():
        if key == "gpu":
            fits = bool(devices.names) and all(wanted.casefold() in name.casefold() for name in devices.names)
        else:
            fits = f"{has[key]}.".startswith(f"{wanted}.")
        if not fits:
            raise Unavailable(
                f"the plan requires {key} = {json.dumps(wanted)}; {host} has {has[key] or f'no {key}'}",
                "change [require], or what chooses the node",
            )


def carry_out_rank(folder: Path, execute: Execute) -> Status:
    """Run one rank of the planned run in this folder, and return how it ended.

    A rank that is not to be profiled becomes the program: then this never returns. Raises Unavailable if the
    launcher does not tell the rank.
    """
    spec = read_spec(folder)
    rank = detect(least=1)
    if rank is None:
        raise Unavailable(f"{spec.launcher} gives this process no rank", "check the launcher of the plan")
    if not (spec.profiled and rank.rank in ranks_outcome.profiled_ranks(spec)):
        ranks_outcome.take_input()
        os.chdir(spec.cwd)
        filled = _filled(spec, folder)
        execute_bare(_resolved(filled), filled.options.env)
    with signals_noted():
        if (end := ranks_outcome.take_input()) is not None:
            ranks_outcome.end_with(end)
        own = RunFolder(folder / rank.folder, share_of(folder))
        own.make()
        try:
            with _temporary_folder(spec, claim_of(executors.current_job())) as temporary:
                os.chdir(spec.cwd)
                prepared = _prepared(spec, folder, temporary)
                prepared = replace(
                    prepared,
                    output=own.path,
                    options=replace(prepared.options, timeout_s=None),  # that of the run ends all ranks
                    rank=rank_facts(rank, spec.profiled_ranks),
                    keep_output=False,
                    keep_errors=False,
                )
                return execute(prepared, lambda: None)
        except NsyswrapError as error:
            status = Status("not_started", None, None, error.exit_code, error.message, error.hint)
            own.write_status(status)
            return status


def claim_of(job: SchedulerJob | None) -> Claim:
    """Return the claim of this process, which may run in the job of a scheduler."""
    began = time.time()
    if job is None:
        return Claim(socket.gethostname(), os.getpid(), began)
    return Claim(job.host, os.getpid(), began, job.id, job.restarts)


def _run(
    folder: Path, execute: Callable[[Callable[[], None]], Status], job: SchedulerJob | None, claim: Claim
) -> Status:
    """Run the program. The outcome is ``timed_out`` if the run or its job reached a time limit."""
    status = _run_in_job(folder, execute, job, claim) if job else execute(lambda: None)
    if status.outcome == "timed_out":
        ranks_outcome.note_time_limit(folder, status)
    if status.outcome == "program_failed":
        ranks_outcome.note_cause(folder, status)
    return status


def _run_in_job(
    folder: Path, execute: Callable[[Callable[[], None]], Status], job: SchedulerJob, claim: Claim
) -> Status:
    """Run the program. A scheduler sends SIGTERM for the time limit of a job and for a cancellation.

    It is asked at once, before it forgets the job. Meanwhile nsys writes its report. The claim notes the
    signal, in case the job is killed before the run has a status.
    """
    answers: list[Future[bool]] = []

    def note(stopped: Literal["interrupted", "timed_out"]) -> None:
        with suppress(OutputError):  # as on a full disk
            existing(folder).write(CLAIM, json.dumps(asdict(replace(claim, stopped=stopped))) + "\n")

    def reached_time_limit() -> bool:
        note("interrupted")
        if is_reached := job.reached_time_limit():
            note("timed_out")
        return is_reached

    with ThreadPoolExecutor(1) as threads:
        status = execute(lambda: answers.append(threads.submit(reached_time_limit)))
    at_limit = [not answer.exception() and answer.result() for answer in answers]
    if status.outcome != "interrupted" or not any(at_limit):
        return status
    timed_out = ranks_outcome.timed_out(status, f"stopped before {job.scheduler}'s time limit")
    existing(folder).write_status(timed_out)
    return timed_out


def _filled(spec: TaskSpec, folder: Path) -> TaskSpec:
    command = tuple(word.replace(RUN_DIR, str(folder)) for word in spec.command)
    env = {name: value.replace(RUN_DIR, str(folder)) for name, value in spec.options.env.items()}
    return replace(spec, command=command, options=replace(spec.options, env=env))


def _resolved(spec: TaskSpec) -> Program:
    """Return the program of a command. The Python that a plan names counts before an active environment."""
    return resolve(
        spec.command,
        module=spec.module,
        arch=spec.options.arch,
        nvcc_words=spec.options.nvcc,
        ours_first=NAMED_PYTHON_VARIABLE in os.environ,
    )


def _prepared(spec: TaskSpec, folder: Path, temporary: Path) -> RunSpec:
    spec = _filled(spec, folder)
    if spec.scenario:
        scenario = scenarios.find_scenario(spec.scenario)
        if lacks := scenario.lacks_for(spec.variant):
            raise Unavailable(f"{scenario.name} {spec.variant} cannot run here: {'; '.join(lacks)}")
        built = scenario.build(spec.arguments)
        kept = scenario.keep_argv(spec.variant, folder)
        argv = (*scenario.variant_argv(spec.variant), *built, *spec.arguments, *kept)
        program = Program(scenario.argv(*argv), scenario.name)
    else:
        program = _resolved(spec)
    env = {**spec.options.env, "TMPDIR": str(temporary)}
    options = replace(spec.options, env=env, share=share_of(folder))
    return RunSpec(program, folder, options, force=True, keep_output=True, keep_errors=True, is_locked=True)


@contextmanager
def _temporary_folder(spec: TaskSpec, claim: Claim) -> Iterator[Path]:
    """Make a folder for temporary files on a disk of this machine, named after the job.

    The folder stays if nsys left a report there that it could not move: its log names the report.
    """
    name = f"nsyswrap-{claim.job or claim.pid}-{claim.restarts}-"
    parent = spec.options.env.get("TMPDIR", "")
    try:
        folder = tempfile.mkdtemp(prefix=name, dir=os.path.expandvars(parent) if parent else local_folder())
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary folder on {claim.host}: {error}", "set TMPDIR in the plan's [env]"
        ) from None
    try:
        yield Path(folder)
    finally:
        if not any(paths.matching(folder, "*/nsys-report-*", paths.ignore)):
            shutil.rmtree(folder, ignore_errors=True)


def local_folder() -> str:
    """Return the first folder that is on no network file system: the job's own, $TMPDIR, /tmp."""
    mounted = mounts()
    variables = [name for executor in executors.by_name().values() for name in executor.temporary_variables]
    folders = [os.environ.get(name, "") for name in (*variables, "TMPDIR")]
    usable = (Path(folder) for folder in folders if os.access(folder, os.W_OK) and paths.is_folder(folder))
    local = (str(folder) for folder in usable if not is_network(file_system_of(folder, mounted)))
    return next(local, "/tmp")  # noqa: S108 - mkdtemp makes a private folder in it
