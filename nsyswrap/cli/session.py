"""``nsyswrap session``: keep a server running under nsys, and record parts of its run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import OPTIONS, RECORDING, RecordingOptions, check_trace
from nsyswrap.base.text import quoted
from nsyswrap.base.units import duration
from nsyswrap.cli.help import CommandGroup, option
from nsyswrap.cli.options import output_option
from nsyswrap.cli.output import (
    note,
    note_broken,
    note_renamed,
    progress_line,
    say,
    summary_text,
    terminal_layout,
)
from nsyswrap.cli.profile import show_run
from nsyswrap.cli.recording import RecordingCommand, code_option, module_option, table_options, variables

if TYPE_CHECKING:
    from nsyswrap.api import Run
    from nsyswrap.record.session import Session

with lazy_imports():
    from nsyswrap.api import runs
    from nsyswrap.record import attached, guard, process_watch, readiness, session
    from nsyswrap.record import program as record_program
    from nsyswrap.record import run as record_run

# The options of recording that nsys takes when it starts the program. The others say when to record.
_OPTIONS = (
    *("env", "trace", "um_faults", "memory", "follow_forks", "graphs", "modules"),
    *("nsys_path", "extra", "keep_environment", "discard_rep"),
)
_SESSION = "Session"
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_session_option = option(_SESSION, "--session PID|DIR", "Choose one of several.", name="wanted")


def _seconds(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if not match or not float(match[1]):
        raise UsageError(f"invalid --for {value!r}: expected a duration, for example 5s, 500ms or 2m")
    return float(match[1]) * _SECONDS[match[2]]


@click.group(
    cls=CommandGroup,
    examples=("nsyswrap session launch -- python3 server.py", "nsyswrap session record --for 5s"),
)
def command() -> None:
    """Record parts of a server's run, without a restart.

    Nothing is recorded until `session record`, in another shell. The server goes on.
    """


@command.command(
    "launch",
    cls=RecordingCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "nsyswrap session launch -o served -- python3 server.py",
        "nsyswrap session launch --when-ready 8000 --load ./load -- ./server 8000",
    ),
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGS]...")
@code_option
@module_option
@output_option("Use this folder.", group=_SESSION, show_default="nsyswrap-runs/<name>")
@option(_SESSION, "--load COMMAND", "Record while this shell command runs, then end.")
@option(_SESSION, "--when-ready WHERE", "Wait for a URL, a port or a text (regex) before --load.")
@table_options({name: OPTIONS[name] for name in _OPTIONS}, RecordingOptions)
def launch(
    program: tuple[str, ...],
    output: Path | None,
    *,
    module: bool,
    load: str | None,
    when_ready: str | None,
    **options: Any,
) -> None:
    """Start a program under nsys, without recording.

    The exit code is that of the program; with --load, that of the recording.
    """
    if (load is None) != (when_ready is None):
        raise UsageError("--when-ready and --load need each other", "give both, or neither")
    ready = readiness.parse(when_ready) if when_ready is not None else None
    recording = RecordingOptions(**{**options, "env": variables(options["env"])})
    check_trace(recording.trace, recording.nsys_path)
    resolved = record_program.resolve(program, module=module)
    if resolved.warning:
        note(f"nsyswrap: {resolved.warning}")
    folder = output or record_run.claim_output(resolved, recording.nsys_path)
    spec = record_program.RunSpec(resolved, folder, recording)
    callbacks = record_program.Callbacks(broken=note_broken, progress=lambda text: note(f"nsyswrap: {text}"))
    if load is None or ready is None:
        sys.exit(session.launch(spec, callbacks, session.Hooks(_note_begun)))
    loaded = _Load(load, ready)
    hooks = session.Hooks(loaded.begin, loaded.is_over, loaded.end, ready.reads)
    code = session.launch(spec, callbacks, hooks)
    sys.exit(loaded.show(resolved.name, code))


def _note_begun(begun: Session) -> None:
    note(f"nsyswrap: {begun.label} runs as process {begun.program}; nothing is recorded yet")
    note(f"record      {session.command_of(begun, 'record', '--for', '5s')}")
    note(f"stop        {session.command_of(begun, 'stop')}")


class _Load:
    """Waits in a thread until the program is ready, then records it while a shell command runs."""

    def __init__(self, load: str, ready: readiness.Readiness) -> None:
        self._ready = ready
        self._load = load
        self._load_code = 0
        self._load_s = 0.0
        self._run: Run | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._carry_out, daemon=True)
        self._session: Session

    def begin(self, begun: Session) -> None:
        self._session = begun
        self._thread.start()

    def end(self) -> None:
        if self._thread.ident:
            self._thread.join()

    def is_over(self) -> bool:
        return self._run is not None or self._error is not None

    def show(self, label: str, code: int) -> int:
        """Print what was recorded; return the exit code. ``code`` is that of the program."""
        if self._error:
            raise self._error
        if self._run is None:
            note(f"nsyswrap: {label} ended with exit code {code} before it was ready")
            return code or 1
        _show(self._run)
        ended = f"ended with exit code {self._load_code} after" if self._load_code else "took"
        note(f"nsyswrap: the command of --load {ended} {duration(self._load_s * 1e9)}")
        return self._run.status.exit_code or code or self._load_code

    def _carry_out(self) -> None:
        try:
            if self._ready.wait(lambda: session.has_ended(self._session)):
                self._record()
        except Exception as error:  # noqa: BLE001 - raised again in the main thread
            self._error = error

    def _record(self) -> None:
        processes: list[subprocess.Popen[bytes]] = []
        token = uuid.uuid4().hex
        environment = {**os.environ, guard.MARK: token}

        with attached.guarded(token) as note_pid:

            def has_ended(seconds: float) -> bool:
                self._load_s = seconds
                if not processes:
                    processes.append(subprocess.Popen(["/bin/sh", "-c", self._load], env=environment))
                    note_pid(b"%d" % processes[0].pid)
                return processes[0].poll() is not None

            run = runs.record_session(self._session, "", has_ended, _callbacks())
            for process in processes:
                code = _end(process, guard.RunProcesses(token))
                self._load_code = 128 - code if code < 0 else code
        self._run = run


def _end(process: subprocess.Popen[bytes], members: guard.RunProcesses) -> int:
    """End the command of --load if the program has ended before it, but leave it some time to notice."""
    watch = process_watch.ProcessWatch(process, members, (), process_watch.LEAVE_S)
    watch.stop = lambda number: guard.signal_all(members.living(), number)
    watch.patience_s = process_watch.LEAVE_S
    watch.wait()
    if watch.timed_out:
        watch.drain(0)
    return process.returncode


@command.command(
    "record", examples=("nsyswrap session record --for 5s", "nsyswrap session record --for 500ms warm")
)
@click.argument("name", required=False, metavar="[NAME]")
@option(
    RECORDING, "--for TIME", "Record so long; without it until Ctrl-C.", name="seconds", callback=_seconds
)
@_session_option
def record(name: str | None, *, seconds: float | None, wanted: str | None) -> None:
    """Record a running program for a while, and show what the GPU did.

    NAME is the run folder in that of the session, by default recording-1, recording-2, ...
    """
    if name and ("/" in name or name.startswith((".", "-"))):
        raise UsageError(f"invalid NAME {name!r}: expected the name of a folder", "for example warm")
    running = session.choose(wanted)
    if seconds is None:
        note("nsyswrap: recording until Ctrl-C")
    limit = float("inf") if seconds is None else seconds
    run = runs.record_session(running, name or "", lambda passed: passed >= limit, _callbacks())
    _show(run)
    stopped_as_meant = seconds is None and run.status.outcome == "interrupted"
    sys.exit(0 if stopped_as_meant else run.status.exit_code)


def _callbacks() -> record_program.Callbacks:
    return record_program.Callbacks(progress=progress_line(), renamed=note_renamed)


def _show(run: Run) -> None:
    show_run(run, lambda: say(summary_text(run.capture, terminal_layout()), styled=True))


@command.command("list", examples=("nsyswrap session list",))
def list_sessions() -> None:
    """List the sessions of this user that are running."""
    running = session.sessions()
    if not running:
        note("nsyswrap: no session is running")
        return
    rows = [("Process", "Program", "Runs for", "State", "Folder")]
    for one in running:
        state = "recording" if one.is_recording else "waiting" if one.is_here else f"on {one.host}"
        rows.append(
            (str(one.program), quoted(one.label), _for(time.time() - one.started), state, quoted(one.folder))
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    say("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))


def _for(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


@command.command("stop", examples=("nsyswrap session stop",))
@_session_option
def stop(*, wanted: str | None) -> None:
    """End the program of a session with SIGTERM."""
    running = session.choose(wanted)
    session.stop(running)
    note(f"nsyswrap: {running.label} has ended; its recordings are in {shlex.quote(running.folder)}/")
