"""Run one program under nsys: make a run folder from a RunSpec.

nsys works in private folders. ``status.json`` is written last, when the run is complete.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base import paths, run_folder
from nsyswrap.base.errors import NsyswrapError, OutputError
from nsyswrap.base.files import locked, shielded, umask
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys import command, find
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.base.run_folder import (
    CONDITIONS,
    EXPORT,
    LOG,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    RANGE,
    REPORT,
    RUN,
    STATS,
    STATUS,
    RunFolder,
    Status,
)
from nsyswrap.base.version import version_at_once
from nsyswrap.record import exec_program, guard, outcome
from nsyswrap.record.private_folders import STEM, WorkFolders, discard_export, private_folders, take_files
from nsyswrap.record.process_watch import signals_noted
from nsyswrap.record.program import Callbacks, Program, ProgramTime, RunSpec
from nsyswrap.record.supervisor import NsysEnd, Supervisor

if TYPE_CHECKING:
    from nsyswrap.record.conditions.observer import Observer

with lazy_imports():  # most are used when nsys runs or has ended, so the program starts sooner
    from nsyswrap.base import limits, recent_runs, run_facts
    from nsyswrap.record import gpus, hooked
    from nsyswrap.record.conditions import observer

_LAUNCHER = (sys.executable, "-I", "-S", str(Path(exec_program.__file__)))
_FIRST_FREE = 3  # the descriptor after stdin, stdout and stderr
_STARTS = 5  # attempts, if nsys gives up before it starts the program


class _Ended(NamedTuple):
    """How nsys ended, whether its launcher ran, and its output.

    ``error_number`` says why the program could not be executed, or is 0. ``starts`` counts nsys' starts.
    ``observer`` has noted the conditions. ``program_s``: the duration of the program in s,
    None if it is not known.
    """

    ending: NsysEnd
    launcher_ran: bool
    error_number: int
    log: str
    starts: int
    observer: Observer
    program_s: float | None


def command_line(
    spec: RunSpec, nsys: Nsys, descriptors: Sequence[int] = (0, 1, 2), report: Path | None = None
) -> list[str]:
    """Return the exact nsys command line. With descriptors 0, 1 and 2 it can be typed into a shell."""
    report = report or spec.output / STEM
    program = launched(spec.program, descriptors)
    return command.profile_argv(nsys, spec.options, report, program)


def launched(program: Program, descriptors: Sequence[int]) -> list[str]:
    """Return the command that runs a program with these descriptors, our umask and our ignored signals."""
    own = ",".join(map(str, descriptors))
    ignored, blocked = _listed(_ignored_signals()), _listed(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    return [*_LAUNCHER, f"{own}/{umask():03o}/{ignored}/{blocked}", *program.argv]


def _ignored_signals() -> set[int]:
    """Return the signals that our caller ignores, without the two that Python ignores."""
    numbers = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    return {n for n in numbers if signal.getsignal(n) is signal.SIG_IGN}


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(str(int(number)) for number in sorted(numbers))


def claim_output(program: Program, nsys_path: str | None) -> Path:
    """Create and return a folder for one run of ``program``. Raises Unavailable if there is no nsys."""
    find.find_nsys(nsys_path)
    return run_folder.claim_output(program.name)


def execute(spec: RunSpec, callbacks: Callbacks | None = None) -> Status:
    """Run the program, write a complete run folder, and return how the run ended.

    Raises Unavailable or OutputError before anything is started. Raises OutputError later only if the program
    removed the run folder and it cannot be created again.
    """
    callbacks = callbacks or Callbacks()
    paths.check_current()
    limits.check_files()
    nsys, broken = find.find_nsys(spec.options.nsys_path)
    for candidate in broken:
        callbacks.broken(candidate)
    run = RunFolder(spec.output.absolute(), spec.options.share)
    with (
        signals_noted() as received,  # until the end, so that the result is written
        private_folders(run, outcome.temporary_place(spec.options.env)) as private,
        _run_lock(run, spec),
    ):
        facts = facts_of(spec, nsys)
        run.create(facts, force=spec.force)
        if not spec.is_locked:  # a planned run is part of its batch
            recent_runs.note_begun(run.path)
        private.make_work()
        began = time.monotonic()
        with private.guarded():
            ended = _start(spec, nsys, private, received, callbacks)
            renamed = private.gather()
            again = not ended.ending.killed or ended.ending.fault != ""
            failure = reimport(nsys, private, facts, payloads=spec.options.python_lines) if again else None
            ranges = private.split_ranges() if spec.options.capture_range_end else []
            works = ranges or [private.work]
            import_failed = again and not paths.exists(works[0] / REPORT)
            if spec.options.discard_rep:
                private.discard_recordings()
            unmoved = guard.recordings(private.temporary)
            steps = hooked.read(private.notes)
            asked = time.monotonic()
            facts |= {**gpu_facts(), **_observed_facts(ended)}
            evidence = outcome.RunEvidence(
                *ended[:4], failure, works[0], unmoved, steps, import_failed, facts["gpu_error"]
            )
            facts |= steps.facts(spec.options)
            began += time.monotonic() - asked  # the driver can be slow to answer
            with suppress(OutputError):  # the export is read before it is published
                RunFolder(private.work).write(RUN, facts)
            statuses = [
                finished(spec, outcome.judge(spec, replace(evidence, work=work)), work, callbacks.finish)
                for work in works
            ]
            status = next((one for one in statuses if one.outcome != "done"), statuses[0])
            status = replace(status, message="; ".join(filter(None, (status.message, renamed))))
            facts["duration_s"] = round(time.monotonic() - began, 3)
            facts["command"] = list(map(callbacks.without_secrets, facts["command"]))
            for folder, of_range in zip(ranges, statuses, strict=False):
                _publish_range(RunFolder(run.path / folder.name, run.share), folder, facts, of_range)
            private.publish()
            status = write_results(run, facts, status, callbacks.without_secrets(ended.log))
            for name in (RUN, STATUS) if ranges else ():  # a folder of runs, and none itself
                (run.path / name).unlink(missing_ok=True)
            return status


@contextmanager
def _run_lock(run: RunFolder, spec: RunSpec) -> Iterator[None]:
    """Create the run folder and lock it, so that one run at a time writes into it."""
    try:
        run.make()
    except OSError as error:
        raise OutputError(f"cannot write {spec.output}: {error.strerror}", "use another --output") from None
    if spec.is_locked:
        yield
        return
    with locked(run.path, "another run", "use another --output, or wait"):
        yield


def _start(
    spec: RunSpec, nsys: Nsys, private: WorkFolders, received: list[signal.Signals], callbacks: Callbacks
) -> _Ended:
    starts = 0
    while True:
        starts += 1
        ending, report, observed, program_s = _run(spec, nsys, private, received, callbacks)
        log = private.nsys_output()
        ran = report.startswith(exec_program.STARTED)
        number = int(report.partition(b"\n")[2] or 0)
        given_up = not (ran or ending.timed_out or received) and command.lost_its_agent(log)
        if not given_up or starts == _STARTS:
            return _Ended(ending, ran, number, log, starts, observed, program_s)


def _run(
    spec: RunSpec, nsys: Nsys, private: WorkFolders, received: list[signal.Signals], callbacks: Callbacks
) -> tuple[NsysEnd, bytes, Observer, float | None]:
    """Run nsys once; return its end, the launcher's report, the observer, and the program's duration in s."""
    with descriptors(spec) as own, private.log.open("wb") as log, closing(ProgramTime()) as timed:
        argv = command_line(spec, nsys, (*own, timed.writer), private.output / STEM)
        # A signal to nsys while it imports destroys the report. The program sets its own signal mask: it is
        # signalled instead, and nsys then ends by itself.
        with shielded():
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(spec, private),
                pass_fds=(*own, timed.writer),
                start_new_session=True,  # a Ctrl-C reaches the program once, through us
            )
        private.tell_pid(process.pid)
        os.close(timed.writer)
        late = f"nsys has not started the program yet; {outcome.temporary_room(spec.options.env)}"
        with observer.Observer(spec, private.token, private.work / CONDITIONS) as observed:
            hooks = (callbacks.progress, callbacks.signal, late, observed.program_started, observed.stop)
            supervisor = Supervisor(process, private.token, private.log, timed, received, *hooks)
            ending = supervisor.wait(spec.options.timeout_s, leave_program=spec.options.program_outlives_nsys)
        timed.read_rest()
        return ending, timed.report, observed, timed.seconds


def environment(spec: RunSpec, private: WorkFolders) -> dict[str, str]:
    """Return the environment of nsys, with the variables from which the launcher restores the program's."""
    own = {**os.environ, **spec.options.env}
    before = {
        f"{exec_program.PREFIX}{name}": f"={own[name]}" if name in own else ""
        for name in exec_program.RESTORED
    }
    hook = {}
    if spec.options.hooked:  # for the program, not for the Python of nsys
        hook = hooked.variables(spec.options, private.notes)
        hook[f"{exec_program.PREFIX}{hooked.PATH}"] = f"={hooked.python_path(own)}"
    return {**own, **before, **hook, "TMPDIR": str(private.temporary), guard.MARK: private.token}


def finished(spec: RunSpec, status: Status, work: Path, finish: Callable[[Path], None]) -> Status:
    """Call ``finish`` on a complete export and return the status. If that fails, the export is removed."""
    if command.check_export(work / EXPORT):
        return status
    try:
        finish(work)
    except NsyswrapError as error:
        discard_export(work)
        return outcome.not_redacted(spec, status, error)
    except BaseException:
        discard_export(work)
        raise
    return status


def _publish_range(run: RunFolder, work: Path, facts: dict[str, Any], status: Status) -> None:
    with paths.writing(run.path):
        run.make()
    take_files(work, run)
    own = {name: fact for name, fact in facts.items() if name != "duration_s"}  # of all ranges together
    run.write(RUN, {**own, "range": int(work.name.removeprefix(RANGE))})
    run.write_status(status)
    recent_runs.note_begun(run.path)


def reimport(
    nsys: Nsys, private: WorkFolders, facts: dict[str, Any], *, payloads: bool = False
) -> NsyswrapError | None:
    """Import and export a recording if nsys failed to; return the error if this fails too.

    With ``payloads`` it is exported once more, with those of NVTX events, which nsys itself leaves out.
    """
    try:
        environment = {**os.environ, guard.MARK: private.token}
        with shielded():
            if command.complete_export(nsys.path, private.output, environment):
                facts["exported_by"] = "nsyswrap, after nsys failed"
            report, target = private.output / REPORT, private.output / EXPORT
            if payloads and paths.exists(report):
                with suppress(NsyswrapError):  # an older nsys cannot export them
                    command.export(nsys.path, report, target, environment, payloads=True)
    except NsyswrapError as error:
        return type(error)(private.with_final_paths(error.message), private.with_final_paths(error.hint))
    return None


@contextmanager
def descriptors(spec: RunSpec) -> Iterator[tuple[int, int, int]]:
    """Yield duplicates of our stdin, stdout and stderr for the program."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    own: list[int] = []
    kept = {1: PROGRAM_OUTPUT if spec.keep_output else "", 2: PROGRAM_ERRORS if spec.keep_errors else ""}
    try:
        for number in range(3):
            name = kept.get(number)
            own.append(RunFolder(spec.output, spec.options.share).open(name) if name else _duplicate(number))
        yield own[0], own[1], own[2]
    finally:
        for descriptor in own:
            os.close(descriptor)


def _duplicate(number: int) -> int:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    except OSError:  # closed by our caller
        with Path(os.devnull).open("r+b") as nothing:
            return fcntl.fcntl(nothing, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)


def write_results(run: RunFolder, facts: dict[str, Any], status: Status, text: str) -> Status:
    """Write nsys' output, run.json and at last the status; return the status, with errors of writing."""
    log, tables = command.split_log(text)
    with suppress(OutputError):
        run.write(LOG, log)
        if tables:
            run.write(STATS, tables)
    try:
        run.write(RUN, facts)
    except OutputError as error:
        status = replace(status, message="; ".join(filter(None, (status.message, error.message))))
    try:
        run.write_status(status)
    except OutputError as error:
        message = "; ".join(filter(None, (status.message, error.message)))
        return replace(status, exit_code=status.exit_code or error.exit_code, message=message)
    return status


def facts_of(spec: RunSpec, nsys: Nsys) -> dict[str, Any]:
    """Return the content of run.json. Of ``--env`` it has the names only: values can be secrets."""
    options = spec.options
    return {
        "nsyswrap": version_at_once(),
        "command": list(spec.program.argv),
        "cwd": str(Path.cwd()),
        "host": socket.gethostname(),
        "env_set": sorted(spec.options.env),
        "nsys": {
            "path": nsys.path,
            "version": nsys.version,
            **options.without_values().of_nsys,
            "capture_range": options.recorded_range,
        },
        "timeout_s": spec.options.timeout_s,
        **({"rank": dict(spec.rank)} if spec.rank else {}),
        **({"repeat": dict(spec.repeat)} if spec.repeat else {}),
        **({"bare": asdict(spec.bare)} if spec.bare else {}),
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def _observed_facts(ended: _Ended) -> dict[str, Any]:
    """Return what was noted beside the run, for run.json. Afterwards no sample of a GPU is written."""
    return {
        "nsyswrap": ended.observer.version(),
        "nsys_starts": ended.starts,
        "program_s": ended.program_s,
        "conditions": asdict(ended.observer.conditions()),
        run_facts.GPU_PROCESSES: list(map(asdict, ended.ending.gpu_users)),
    }


def gpu_facts() -> dict[str, Any]:
    """Return GPUs and driver for run.json. A query before the run would affect its measurements."""
    devices = gpus.query()
    return {
        "gpus": list(devices.names),
        "driver": devices.driver,
        "cuda": devices.cuda,
        "gpu_error": devices.error,
    }
