"""A program that stays running under nsys, and recordings of parts of its run.

``launch`` starts the program with `nsys launch` and waits for its end. While it runs, a file in the user's
state folder has what ``record`` needs in another process: the session of nsys and its TMPDIR, by which nsys
finds it. Each recording is a run folder in the folder of the session. The program is not stopped for it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

from nsyswrap.base import paths, recent_runs
from nsyswrap.base.errors import NsyswrapError, OutputError, Unavailable, UsageError
from nsyswrap.base.files import (
    is_locked,
    json_of,
    locked,
    open_private,
    shielded,
    small_file,
    typed,
    user_folder,
)
from nsyswrap.base.nsys import command, find
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import CONDITIONS, EXPORT, RUN, RunFolder, Status, free_space_note, is_full
from nsyswrap.record import gpu_users, guard, outcome, proc, run
from nsyswrap.record.conditions import observer
from nsyswrap.record.private_folders import STEM, WorkFolders, private_folders
from nsyswrap.record.process_watch import POLL_S, ProcessWatch, signals_noted
from nsyswrap.record.program import Callbacks, Program, ProgramTime, RunSpec
from nsyswrap.record.supervisor import STOP_IN_JOB_S

_BEGAN = 19  # position of the start time in /proc/PID/stat
_PIPE_BYTES = 1 << 16
_PIPE_S = 1
_ANSWER_S = 60  # nsys begins a recording within this time
_WRITE_S = guard.STOP_NSYS_S  # nsys writes a recording within this time
# It ends the recording when its stdin closes, also because we were killed. The guard must not end it.
_STOPPER = 'trap "" TERM; read _; exec "$0" stop --session="$1"'
_FRESH_S, _STALE_S = 60, 600  # a session renews the time of its file so often; an older one is not alive
_NSYS_FAILED = 70
_ALONE = "nsys has ended, as if it was killed; {} goes on, but cannot be recorded any more"
_STOPPED = "{} was stopped by {}; the exit code is {}"  # so does `session stop`
_GONE = ("nsys of this session has ended, as if it was killed", "end the program, and launch it again")
_NUL = b"\\u0000"  # in JSON; no name of the system has it
_NO_SESSION = "no active sessions"
_BUSY = "Configuring is not allowed"  # nsys records already


@dataclass(frozen=True)
class Session:
    """A running program under nsys.

    ``pid`` is the process that waits for it and ``began`` the start time of that, in ticks of the kernel.
    ``program`` is the process id of the program, ``name`` that of nsys' session, ``temporary`` nsys' TMPDIR,
    ``token`` the mark of all its processes, and ``started`` a time in seconds of the epoch. ``options`` has
    no values of environment variables.
    """

    folder: str
    cwd: str
    host: str
    pid: int
    began: int
    program: int
    command: list[str]
    label: str
    nsys: str
    version: str
    name: str
    temporary: str
    token: str
    started: float
    options: RecordingOptions

    @property
    def is_here(self) -> bool:
        """True if it runs on this machine."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """True if its process still waits for the program. On another machine this is not known."""
        stat = proc.stat(self.pid) if self.is_here else []
        return not self.is_here or (stat[_BEGAN : _BEGAN + 1] == [str(self.began)] and stat[0] != "Z")

    @property
    def is_recording(self) -> bool:
        """True while a recording is made."""
        return is_locked(Path(self.folder))

    def spec(self, output: Path) -> RunSpec:
        """Return the run that a recording of the program is."""
        return RunSpec(Program(tuple(self.command), self.label), output, self.options)

    def environment(self) -> dict[str, str]:
        """Return the environment of the program, whose values must not be in a recording.

        A program that changes its title can overwrite its own: nsys and its nsyswrap have it, too.
        """
        pids = (self.pid, *guard.RunProcesses(self.token).living(), self.program)
        words = b"\0".join(map(proc.environment, pids)).decode("utf-8", "surrogateescape").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)


def sessions() -> list[Session]:
    """Return the sessions of this user that are alive, the newest first."""
    folder = _state_folder()
    found = [_read(path) for path in paths.matching(folder, "*.json", paths.ignore)] if folder else []
    return sorted((one for one in found if one), key=lambda one: one.started, reverse=True)


def choose(wanted: str | None) -> Session:
    """Return the session of a folder or process id, or the only one. Raises UsageError."""
    alive = sessions()
    if wanted is not None:
        real = os.path.realpath(wanted)
        alive = [one for one in alive if wanted in (str(one.program), str(one.pid)) or one.folder == real]
    # One of another machine may have ended: its file stays if the machine went down.
    alive = [one for one in alive if one.is_here] or alive
    if not alive:
        what = "no session" if wanted is None else f"no session {wanted}"
        raise UsageError(f"{what} is running", "begin one: nsyswrap session launch -- PROGRAM")
    if len(alive) > 1:
        some = ", ".join(f"{one.program} ({one.label})" for one in alive)
        raise UsageError(f"{len(alive)} sessions are running: {some}", "name one with --session PID")
    if not alive[0].is_here:
        raise Unavailable(f"the session runs on {alive[0].host}", f"use this command on {alive[0].host}")
    return alive[0]


@dataclass(frozen=True)
class Hooks:
    """Functions that ``launch`` calls. ``on_start`` gets the session.

    Once ``is_over`` the program is ended with SIGTERM. ``on_end`` is called after its end, while nsys' files
    are still there. ``reads`` gets what the program prints, too.
    """

    on_start: Callable[[Session], None]
    is_over: Callable[[], bool] = lambda: False
    on_end: Callable[[], None] = lambda: None
    reads: Callable[[bytes], None] | None = None


def launch(spec: RunSpec, callbacks: Callbacks, hooks: Hooks) -> int:
    """Run a program in a session of nsys until it ends.

    Return its exit code, 128 and our signal, or 0 if ``hooks.is_over`` ended it. Raises Unavailable or
    OutputError before the program starts, and Unavailable if nsys does not start it.
    """
    nsys, broken = find.find_nsys(spec.options.nsys_path)
    for candidate in broken:
        callbacks.broken(candidate)
    folder = RunFolder(spec.output.absolute())
    try:
        folder.make()
    except OSError as error:
        raise OutputError(f"cannot write {spec.output}: {error.strerror}") from None
    with (
        signals_noted() as received,
        private_folders(folder, outcome.temporary_place(spec.options.env)) as private,
        private.guarded(),
        run.descriptors(spec) as streams,
        _copied(streams, hooks.reads) as own,
        private.log.open("wb") as log,
        closing(ProgramTime()) as timed,
        _registered(_session(spec, nsys, private)) as register,
    ):
        private.notes.mkdir()
        name = _name(private.token)
        words = run.launched(spec.program, (*own, timed.writer))
        with shielded():
            process = subprocess.Popen(
                command.launch_argv(nsys.path, spec.options, name, words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=run.environment(spec, private),
                pass_fds=(*own, timed.writer),
                start_new_session=True,  # a Ctrl-C reaches the program once, through us
            )
        private.tell_pid(process.pid)
        for descriptor in (timed.writer, *set(own).difference(streams)):
            os.close(descriptor)
        watch = _watch(process, timed, private.token, received, hooks.is_over)
        watch.on_poll = _once(lambda: timed.pid, lambda pid: hooks.on_start(register(pid)), watch.on_poll)
        watch.wait()
        if not timed.has_started:  # it can have ended before that was noted
            timed.pause(0)
        if timed.pid is not None and watch.since_s < 0 and _runs(timed.pid):
            callbacks.progress(_ALONE.format(spec.program.name))
            _wait_for(timed.pid, watch)
            process.returncode = _NSYS_FAILED
        # While a recording is written, nsys must not be killed.
        leave_s = 0 if watch.since_s >= 0 else STOP_IN_JOB_S
        watch.drain(leave_s, lambda left: is_locked(folder.path) and not all(map(_is_program, left)))
        hooks.on_end()
        if timed.pid is None:
            raise _not_started(spec, private.nsys_output())
        if received:
            callbacks.progress(_STOPPED.format(spec.program.name, received[0].name, 128 + received[0]))
        return 128 + received[0] if received else _code(process.returncode, stopped=watch.since_s >= 0)


def _wait_for(program: int, watch: ProcessWatch) -> None:
    """Wait for a program that runs without nsys. A signal stops it, as it would stop nsys."""
    while _runs(program):
        if watch.received and watch.since_s < 0:
            watch.since_s = 0
            watch.stop(watch.received[0])
        time.sleep(POLL_S)


@contextmanager
def _copied(
    streams: tuple[int, int, int], reads: Callable[[bytes], None] | None
) -> Iterator[tuple[int, ...]]:
    """Yield descriptors for the program whose output goes to ``streams`` and to ``reads``.

    Those that are not of ``streams`` are to be closed when the program has them.
    """
    if reads is None:
        yield streams
        return

    def copy(reader: int, target: int) -> None:
        while part := os.read(reader, _PIPE_BYTES):
            reads(part)
            with suppress(OSError):  # nobody reads our output
                os.write(target, part)
        os.close(reader)

    pipes = [os.pipe() for _ in streams[1:]]
    threads = [
        threading.Thread(target=copy, args=(reader, target), daemon=True)
        for (reader, _), target in zip(pipes, streams[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    yield streams[0], *(writer for _, writer in pipes)
    for thread in threads:
        thread.join(_PIPE_S)  # a process that outlives the program can hold the other end


def _code(code: int, *, stopped: bool) -> int:
    return 0 if stopped else 128 - code if code < 0 else code


def _name(token: str) -> str:
    return f"nsyswrap-{token[:12]}"


def _session(spec: RunSpec, nsys: find.Nsys, private: WorkFolders) -> Session:
    """Return the session, without the process id of the program, which has not started."""
    return Session(
        folder=os.path.realpath(spec.output),
        cwd=str(Path.cwd()),
        host=socket.gethostname(),
        pid=os.getpid(),
        began=int(proc.stat(os.getpid())[_BEGAN]),
        program=0,
        command=list(spec.program.argv),
        label=spec.program.name,
        nsys=nsys.path,
        version=nsys.version,
        name=_name(private.token),
        temporary=str(private.temporary),
        token=private.token,
        started=time.time(),
        options=replace(spec.options.without_values(), env=dict.fromkeys(spec.options.env, "")),
    )


def _watch(
    process: subprocess.Popen[bytes],
    timed: ProgramTime,
    token: str,
    received: list[signal.Signals],
    is_over: Callable[[], bool],
) -> ProcessWatch:
    """Return what waits for `nsys launch`. A signal of ours ends the program alone: nsys then writes.

    A stopped program goes on, to end. What ignores the signal is killed.
    """
    members = guard.RunProcesses(token)

    def stop(number: int) -> None:
        programs = [pid for pid in members.living() if guard.is_program(pid, [process.pid])]
        guard.signal_all(programs, signal.SIGTERM if number is signal.SIGHUP else number)
        guard.signal_all(programs, signal.SIGCONT)

    def enforce() -> None:
        if watch.since_s > guard.STOP_PROGRAM_S:
            stop(signal.SIGKILL)

    watch = ProcessWatch(process, members, received, None, stop, enforce)
    watch.pause, watch.patience_s, watch.has_failed = timed.pause, _WRITE_S, is_over
    return watch


def _once(
    value: Callable[[], int | None], act: Callable[[int], None], always: Callable[[], None]
) -> Callable[[], None]:
    """Return a callback that acts on a value when there is one, and never again, and calls ``always``."""
    done: list[int] = []

    def poll() -> None:
        if not done and (pid := value()) is not None:
            done.append(pid)
            act(pid)
        always()

    return poll


def _not_started(spec: RunSpec, log: str) -> NsyswrapError:
    fault, cure = command.fault(log)
    reason = fault or command.quoted(log) or "nsys ended without a message"
    return Unavailable(f"nsys did not start {spec.program.name}: {reason}", cure)


def _state_folder() -> Path | None:
    base = user_folder("XDG_STATE_HOME", ".local/state")
    return base and base / "sessions"


@contextmanager
def _registered(session: Session) -> Iterator[Callable[[int], Session]]:
    """Yield a function that writes the file of the session, once its program runs. It is removed at the end.

    Raises OutputError if there is no folder for it.
    """
    folder = _state_folder()
    if folder is None:
        raise OutputError("no folder for sessions: the home folder is unknown", "set HOME or XDG_STATE_HOME")
    path = folder / f"{session.token}.json"

    def register(program: int) -> Session:
        running = replace(session, program=program)
        with paths.writing(path), os.fdopen(open_private(path, 0o600), "w") as file:
            json.dump(asdict(running), file)
        return running

    with paths.writing(path):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ended = threading.Event()

    def stay_fresh() -> None:
        while not ended.wait(_FRESH_S):
            with suppress(OSError):
                os.utime(path)

    threading.Thread(target=stay_fresh, daemon=True).start()
    try:
        yield register
    finally:
        ended.set()
        path.unlink(missing_ok=True)


def _read(path: Path) -> Session | None:
    """Return the session of a file; None if it has ended. The file of a killed process is removed.

    That of another machine which is not fresh is passed over: the machine went down, or has no network.

    A file of another user, or one that we did not write, is not trusted: we signal its process.
    """
    try:
        facts = paths.status(path, follow=False)
        content = small_file(path)
        if not facts or facts.st_uid != os.geteuid() or not S_ISREG(facts.st_mode) or _NUL in content:
            return None
        session = typed(Session, json_of(content))
    except (OSError, ValueError, NsyswrapError):
        return None
    if not session.is_alive:
        path.unlink(missing_ok=True)
        return None
    is_stale = not session.is_here and time.time() - facts.st_mtime > _STALE_S
    return None if is_stale else session


def record(
    session: Session, name: str, is_enough: Callable[[float], bool], callbacks: Callbacks
) -> tuple[Path, Status]:
    """Record the program until ``is_enough`` of the seconds since the begin; return the run folder.

    A signal ends the recording, and so does the end of the program, which goes on otherwise. Raises
    OutputError if the folder is taken, or if another recording is under way.
    """
    folder = Path(session.folder)
    with locked(folder, "another recording", "wait until it has ended"):
        if name and paths.is_filled(folder / name):
            raise OutputError(f"{folder / name} exists and is not empty", "use another NAME, or none")
        output = recent_runs.short_path(folder / (name or _free_name(folder)), Path.cwd())
        spec, place = session.spec(output), RunFolder(output.absolute())
        with signals_noted() as received, private_folders(place, outcome.temporary_place({})) as private:
            facts = {**run.facts_of(spec, find.Nsys(session.nsys, session.version)), "cwd": session.cwd}
            place.create(facts)
            recent_runs.note_begun(place.path)
            private.make_work()
            with private.guarded():
                began = time.monotonic()
                recording = _Recording(session, spec, private, received)
                try:
                    status = recording.make(is_enough, callbacks.progress)
                except NsyswrapError as error:
                    status = Status("nsys_failed", None, None, _NSYS_FAILED, error.message, error.hint)
                if spec.options.discard_rep:
                    private.discard_recordings()
                with suppress(OutputError):  # the export is read before it is published
                    RunFolder(private.work).write(RUN, facts)
                status = run.finished(spec, status, private.work, callbacks.finish)
                private.publish()
                facts |= {**run.gpu_facts(), **recording.facts()}
                facts["duration_s"] = round(time.monotonic() - began, 3)
                facts["command"] = list(map(callbacks.without_secrets, facts["command"]))
                log = callbacks.without_secrets(private.nsys_output())
                return output, run.write_results(place, facts, status, log)


def _free_name(folder: Path) -> str:
    return next(name for n in range(1, 1_000_000) if not paths.is_taken(folder / (name := f"recording-{n}")))


@dataclass
class _Recording:
    """One recording of a program. ``received`` collects our signals."""

    session: Session
    spec: RunSpec
    private: WorkFolders
    received: list[signal.Signals]
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._users = gpu_users.GpuUsers(self.session.token)
        self._observer = observer.Observer(self.spec, self.session.token, self.private.work / CONDITIONS)

    def make(self, is_enough: Callable[[float], bool], progress: Callable[[str], None]) -> Status:
        """Record, wait for the export, and return how it ended. Raises NsyswrapError if it cannot begin."""
        with self._observer:
            with self._recorded():
                began, message = time.monotonic(), ""
                self._observer.program_started()
                while not (self.received or is_enough(self._seconds) or has_ended(self.session)):
                    self._users.update()
                    if message != (now := f"recording: {self._seconds:.0f} s"):
                        progress(message := now)
                    time.sleep(POLL_S)
                    self._seconds = time.monotonic() - began
                self._observer.stop()
                progress("nsys: writing the recording")
            lack = self._wait_for_export()
            progress("")
        return self._failure(lack) if lack else self._ending()

    def facts(self) -> dict[str, Any]:
        return {
            "nsyswrap": self._observer.version(),
            "recorded_s": round(self._seconds, 6),
            "conditions": asdict(self._observer.conditions()),
            "gpu_processes": list(map(asdict, self._users.users)),
        }

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        session, private = self.session, self.private
        environment = {**os.environ, "TMPDIR": session.temporary, guard.MARK: private.token}
        with private.log.open("wb") as log:
            apart: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT, "env": environment}
            apart["start_new_session"] = True
            stop_command = ["/bin/sh", "-c", _STOPPER, session.nsys, session.name]
            start_command = command.start_argv(session.nsys, session.name, private.output / STEM)
            with shielded():  # both have sessions of their own: a Ctrl-C reaches us alone
                stopper = subprocess.Popen(stop_command, stdin=subprocess.PIPE, **apart)
                start = subprocess.Popen(start_command, stdin=subprocess.DEVNULL, **apart)
            try:
                if start.wait(_ANSWER_S):
                    stopper.kill()
                    raise _not_begun(private.nsys_output())
                yield
            except subprocess.TimeoutExpired:
                start.kill()
                raise Unavailable(f"nsys does not answer in {_ANSWER_S} s", "try again") from None
            finally:
                try:
                    stopper.communicate(timeout=_WRITE_S)
                except subprocess.TimeoutExpired:
                    stopper.kill()
                    stopper.wait()
                    raise Unavailable(f"`nsys stop` has not ended in {_WRITE_S} s", _GONE[1]) from None

    def _wait_for_export(self) -> str:
        """Wait for the export; return what it lacks. After the end of the program `nsys launch` writes it."""
        export, nsys = self.private.work / EXPORT, guard.RunProcesses(self.session.token)
        deadline = time.monotonic() + _WRITE_S
        while (lack := command.check_export(export)) and time.monotonic() < deadline:
            if not has_ended(self.session) or not nsys.living():
                break
            time.sleep(POLL_S)
        if lack:
            guard.gather(self.private.work, Path(self.session.temporary), STEM)
            try:
                command.complete_export(self.session.nsys, self.private.output)
            except OutputError:
                return command.DISK_FULL[0]
            except NsyswrapError as error:
                return self.private.with_final_paths(error.message)
            lack = command.check_export(export)
        return lack

    def _failure(self, lack: str) -> Status:
        log, output = self.private.nsys_output(), self.spec.output
        fault, cure = _GONE if _NO_SESSION in log else command.fault(log)
        if lack == command.DISK_FULL[0] or is_full(output) or is_full(Path(self.session.temporary)):
            fault, cure = command.DISK_FULL
        message = f"nsys wrote no complete recording: {fault or lack}"
        if fault == command.DISK_FULL[0]:
            hint = f"{cure} ({free_space_note(output)})"
            return Status("disk_full", None, None, OutputError.exit_code, message, hint)
        return Status("nsys_failed", None, None, _NSYS_FAILED, message, cure)

    def _ending(self) -> Status:
        label = self.session.label
        if self.received:
            words = f"stopped by {self.received[0].name} after {self._seconds:.1f} s; {label} goes on"
            return Status("interrupted", None, 0, 128 + self.received[0], words)
        if has_ended(self.session):
            return Status(
                "done", None, 0, 0, f"{label} ended {self._seconds:.1f} s after the recording began"
            )
        return Status("done", None, 0, 0)


def _not_begun(log: str) -> NsyswrapError:
    if _BUSY in log:
        return OutputError("nsys records already", "wait until that has ended", retryable=True)
    fault, cure = command.fault(log)
    return Unavailable(f"nsys does not record: {fault or command.quoted(log) or 'no message'}", cure)


def has_ended(session: Session) -> bool:
    """Return True if the program and the processes that it left running have ended."""
    members = guard.RunProcesses(session.token)
    return not _runs(session.program) and not any(map(_is_program, members.living()))


def _is_program(pid: int) -> bool:
    return guard.is_program(pid, ())


def _runs(pid: int) -> bool:
    """Return False for a process that has ended, also if nobody has waited for it."""
    return proc.stat(pid)[:1] not in ([], ["Z"])


def stop(session: Session) -> None:
    """End the program with SIGTERM, and wait until its session has ended. Raises Unavailable if it stays."""
    guard.signal_all([session.pid], signal.SIGTERM)
    deadline = time.monotonic() + _WRITE_S
    while session.is_alive:
        if time.monotonic() > deadline:
            raise Unavailable(f"{session.label} does not end", f"kill -9 {session.pid}, if it must")
        time.sleep(POLL_S)


def command_of(session: Session, *words: str) -> str:
    """Return a command line of ours for this session."""
    several = [] if len(sessions()) == 1 else ["--session", str(session.program)]
    return shlex.join(["nsyswrap", "session", *words, *several])
