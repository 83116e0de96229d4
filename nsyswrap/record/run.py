"""One program under nsys: a RunSpec goes in, a run folder with its outcome comes out.

nsys works in private folders; ``status.json`` is written last, when nothing is left to be done.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base import run_folder as folder
from nsyswrap.base.errors import NsyswrapError, OutputError
from nsyswrap.base.files import umask
from nsyswrap.base.folder_lock import locked
from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import (
    EXPORT,
    LOG,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    RUN,
    STATS,
    RunFolder,
    Status,
)
from nsyswrap.base.version import __version__
from nsyswrap.record import exec_program as _launch
from nsyswrap.record import gpus as device
from nsyswrap.record import guard, outcome, second_import
from nsyswrap.record.private_folders import STEM, Private, private_folders
from nsyswrap.record.spec import Callbacks
from nsyswrap.record.supervisor import Ending, Supervisor, signals_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nsyswrap.record.program import Program
    from nsyswrap.record.spec import RunSpec

_LAUNCHER = (sys.executable, "-I", "-S", str(Path(_launch.__file__)))
_FIRST_FREE = 3  # the descriptor after stdin, stdout and stderr
_READ_BYTES = 64
_STARTS = 3  # of an nsys that has not come to start the program


class _Ended(NamedTuple):
    """What nsys did: how it ended, whether it came to start the program, and what it said.

    ``error_number``: why the program could not be executed, else 0. ``starts``: how often nsys was started.
    """

    ending: Ending
    launcher_ran: bool
    error_number: int
    log: str
    starts: int


def command_line(
    spec: RunSpec,
    found: nsys_install.Nsys,
    descriptors: Sequence[int] = (0, 1, 2),
    report: Path | None = None,
) -> list[str]:
    """Return the exact nsys command line. With descriptors 0, 1, 2 it can be typed into a shell."""
    own = ",".join(map(str, descriptors))
    launcher = [*_LAUNCHER, f"{own}/{umask():03o}/{_ignored_signals()}"]
    report = report or spec.output / STEM
    program = [*launcher, *spec.program.argv]
    discard = found.discards_environment and not spec.keep_environment
    return nsys.profile_argv(found.path, spec.options, report, program, discard_environment=discard)


def _ignored_signals() -> str:
    """Return the signals that our caller ignores, but for two that Python itself ignores."""
    numbers = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    return ",".join(str(int(n)) for n in sorted(numbers) if signal.getsignal(n) is signal.SIG_IGN)


def claim_output(program: Program, nsys_path: str | None) -> Path:
    """Make and return a folder for one run of ``program``; not before there is an nsys to run it."""
    nsys_install.find(nsys_path)
    return folder.claim_output(program.name)


def execute(spec: RunSpec, callbacks: Callbacks | None = None) -> Status:
    """Run the program, leave a complete run folder, and return how it ended.

    Raises Unavailable and OutputError before anything is started, and OutputError where the run folder was
    removed meanwhile and cannot be made again.
    """
    callbacks = callbacks or Callbacks()
    found, broken = nsys_install.find(spec.nsys_path)
    for candidate in broken:
        callbacks.broken(candidate)
    run = RunFolder(spec.output.absolute(), spec.share)
    with (
        signals_noted() as received,  # to the end: what has run is written down, and nothing is left
        private_folders(run, outcome.temporary_place(spec.env)) as private,
        _held(run, spec),
    ):
        facts = _facts(spec, found)
        run.create(facts, force=spec.force)
        private.make_work()
        began = time.monotonic()
        with private.guarded():
            ended = _start(spec, found, private, received, callbacks)
            aside = private.gather()
            failure = None if ended.ending.killed else _imported(found, private, facts)
            if spec.discard_rep:
                private.discard_recordings()
            left = guard.recordings(private.temporary)
            seen = outcome.Seen(*ended[:4], failure, private.work, left)
            status = _finished(spec, seen, private, callbacks.finish)
            status = replace(status, message="; ".join(filter(None, (status.message, aside))))
            facts |= {"duration_s": round(time.monotonic() - began, 3), "nsys_starts": ended.starts}
            private.publish()
            return _written_down(run, {**facts, **_device_facts()}, status, ended.log)


@contextmanager
def _held(run: RunFolder, spec: RunSpec) -> Iterator[None]:
    """Make the run folder and hold it: one run at a time writes into it."""
    try:
        run.make()
    except OSError as error:
        raise OutputError(f"cannot write {spec.output}: {error.strerror}") from None
    lock = (
        nullcontext() if spec.is_locked else locked(run.path, "another run", "give another --output, or wait")
    )
    with lock:
        yield


def _start(
    spec: RunSpec,
    found: nsys_install.Nsys,
    private: Private,
    received: list[signal.Signals],
    callbacks: Callbacks,
) -> _Ended:
    """Run nsys, again where it gave up before it started the program."""
    starts = 0
    while True:
        starts += 1
        ending, told = _run(spec, found, private, received, callbacks)
        log = private.said()
        ran, number = told.startswith(_launch.STARTED), int(told.removeprefix(_launch.STARTED) or 0)
        given_up = not (ran or ending.timed_out or received) and nsys.lost_its_agent(log)
        if not given_up or starts == _STARTS:
            return _Ended(ending, ran, number, log, starts)


def _run(
    spec: RunSpec,
    found: nsys_install.Nsys,
    private: Private,
    received: list[signal.Signals],
    callbacks: Callbacks,
) -> tuple[Ending, bytes]:
    """Run nsys once; return how it ended, and what the launcher told."""
    with _descriptors(spec) as own, private.log.open("wb") as log:
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                command_line(spec, found, (*own, writer), private.output / STEM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(spec, private),
                pass_fds=(*own, writer),
                start_new_session=True,  # a Ctrl-C reaches nsys once, through us
            )
            private.tell_pid(process.pid)
            os.close(writer)
            late = f"nsys has not started the program; {outcome.temporary_room(spec.env)}"
            watch = (received, callbacks.progress, callbacks.signal, late)
            supervisor = Supervisor(process, private.token, private.log, reader, *watch)
            ending = supervisor.wait(spec.timeout_s, leave_program=spec.options.program_outlives_nsys)
            return ending, _launcher_report(reader)
        finally:
            os.close(reader)


def _environment(spec: RunSpec, private: Private) -> dict[str, str]:
    """Return the environment of nsys, with what the launcher needs to give the program its own."""
    own = {**os.environ, **spec.env}
    before = {f"{_launch.PREFIX}{name}": f"={own[name]}" if name in own else "" for name in _launch.RESTORED}
    return {**own, **before, "TMPDIR": str(private.temporary), guard.MARK: private.token}


def _finished(spec: RunSpec, seen: outcome.Seen, private: Private, finish: Callable[[Path], None]) -> Status:
    """Judge the run, and have a complete export finished: one that cannot be is removed."""
    status = outcome.judge(spec, seen)
    if nsys.check_export(private.work / EXPORT):
        return status
    try:
        finish(private.work)
    except NsyswrapError as error:
        private.discard_export()
        return outcome.not_redacted(spec, status, error)
    except BaseException:
        private.discard_export()
        raise
    return status


def _imported(found: nsys_install.Nsys, private: Private, facts: dict[str, Any]) -> NsyswrapError | None:
    """Import and export what nsys recorded and failed to; return why that cannot be done either."""
    try:
        environment = {**os.environ, guard.MARK: private.token}
        if second_import.complete(found.path, private.output, environment):
            facts["exported_by"] = "nsyswrap, as nsys failed to"
    except NsyswrapError as error:
        return type(error)(private.named(str(error)), private.named(error.hint))
    return None


@contextmanager
def _descriptors(spec: RunSpec) -> Iterator[tuple[int, int, int]]:
    """Duplicates of our stdin, stdout and stderr that survive until the program has them."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    own: list[int] = []
    kept = {1: PROGRAM_OUTPUT if spec.keep_output else "", 2: PROGRAM_ERRORS if spec.keep_errors else ""}
    try:
        for number in range(3):
            if name := kept.get(number):
                own.append(RunFolder(spec.output, spec.share).open(name))
            else:
                own.append(_duplicate(number))
        yield own[0], own[1], own[2]
    finally:
        for descriptor in own:
            os.close(descriptor)


def _duplicate(number: int) -> int:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    except OSError:  # closed by whoever started us
        with Path(os.devnull).open("r+b") as nothing:
            return fcntl.fcntl(nothing, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)


def _launcher_report(reader: int) -> bytes:
    os.set_blocking(reader, False)
    try:
        return os.read(reader, _READ_BYTES)
    except BlockingIOError:  # somebody still holds the other end, and the launcher said nothing
        return b""


def _written_down(run: RunFolder, facts: dict[str, Any], status: Status, text: str) -> Status:
    """Write what nsys said, what ran, and last how the run ended; where there is no room for that, say so."""
    log, tables = nsys.split_log(text)
    with suppress(OutputError):
        run.write(LOG, log)
        if tables:
            run.write(STATS, tables)
    try:
        run.write(RUN, facts)
    except OutputError as error:
        status = replace(status, message="; ".join(filter(None, (status.message, str(error)))))
    try:
        run.write_status(status)
    except OutputError as error:
        message = "; ".join(filter(None, (status.message, str(error))))
        return replace(status, exit_code=status.exit_code or error.exit_code, message=message)
    return status


def _facts(spec: RunSpec, found: nsys_install.Nsys) -> dict[str, Any]:
    """Return what run.json holds. Of the environment only the names that were set: values can be secrets."""
    return {
        "nsyswrap": __version__,
        "command": list(spec.program.argv),
        "cwd": str(Path.cwd()),
        "host": socket.gethostname(),
        "env_set": sorted(spec.env),
        "nsys": {"path": found.path, "version": found.version, **asdict(spec.options.without_values())},
        "timeout_s": spec.timeout_s,
        **({"rank": dict(spec.rank)} if spec.rank else {}),
        "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def _device_facts() -> dict[str, Any]:
    """GPU and driver, asked after the run: asking before would change what it measures."""
    devices = device.query()
    return {
        "gpus": list(devices.names),
        "driver": devices.driver,
        "cuda": devices.cuda,
        "gpu_error": devices.error,
    }
