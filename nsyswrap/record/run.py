"""One program under nsys: a RunSpec goes in, a run folder with its outcome comes out."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base import run_folder as folder
from nsyswrap.base.errors import NsyswrapError, OutputError
from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import (
    LOG,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    REPORT,
    RUN,
    STATS,
    RunFolder,
    Status,
)
from nsyswrap.base.version import __version__
from nsyswrap.record import exec_program as _launch
from nsyswrap.record import gpus as device
from nsyswrap.record import outcome, second_import
from nsyswrap.record.supervisor import Ending, Supervisor, signals_noted

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator, Sequence

    from nsyswrap.record.program import Program
    from nsyswrap.record.spec import RunSpec

_LAUNCHER = (sys.executable, "-I", "-S", str(Path(_launch.__file__)))
_FIRST_FREE = 3  # the descriptor after stdin, stdout and stderr
_READ_BYTES = 64
_STARTS = 3  # of an nsys that has not come to start the program


@dataclass(frozen=True)
class _Started:
    """What the launcher told: whether it ran at all, and the error number where the program could not."""

    launcher_ran: bool
    error_number: int


def command_line(spec: RunSpec, nsys_path: str, descriptors: Sequence[int] = (0, 1, 2)) -> list[str]:
    """Return the exact nsys command line. With descriptors 0, 1, 2 it can be typed into a shell."""
    launcher = [*_LAUNCHER, ",".join(map(str, descriptors))]
    report = spec.output / Path(REPORT).stem
    return nsys.profile_argv(nsys_path, spec.options, report, [*launcher, *spec.program.argv])


def claim_output(program: Program, nsys_path: str | None) -> Path:
    """Make and return a folder for one run of ``program``; not before there is an nsys to run it."""
    nsys_install.find(nsys_path)
    return folder.claim_output(program.name)


def execute(
    spec: RunSpec,
    on_progress: Callable[[str], None] = lambda _: None,
    on_broken: Callable[[nsys_install.Nsys], None] = lambda _: None,
    on_signal: Callable[[], None] = lambda: None,
) -> Status:
    """Run the program, leave a complete run folder, and return how it ended.

    ``on_progress`` gets what nsys does after the program's end; ``on_broken`` an unusable nsys that was
    passed over; ``on_signal`` is called as soon as a signal has come that ends the run. Raises Unavailable
    and OutputError before anything is started.
    """
    found, broken = nsys_install.find(spec.nsys_path)
    for candidate in broken:
        on_broken(candidate)
    run = RunFolder(spec.output)
    run.create(force=spec.force)
    facts = _facts(spec, found)
    run.write(RUN, facts)
    began = time.monotonic()
    with signals_noted() as received:  # to the end: what has run to its end is written down
        starts = 0
        while starts < _STARTS:
            starts += 1
            ending, started = _run(spec, found.path, received, on_progress, on_signal)
            log = _divide_log(run)
            if started.launcher_ran or ending.timed_out or received or not nsys.lost_its_agent(log):
                break
        second = None
        if not ending.killed:
            try:
                with _writable(spec.output) as output:
                    if second_import.complete(found.path, output):
                        facts["exported_by"] = "nsyswrap, as nsys failed to"
            except NsyswrapError as error:
                second = error
        facts |= {"duration_s": round(time.monotonic() - began, 3), "nsys_starts": starts, **_device_facts()}
        seen = outcome.Seen(ending, started.launcher_ran, started.error_number, log, second)
        return _written_down(run, facts, outcome.judge(spec, seen))


def _run(
    spec: RunSpec,
    nsys_path: str,
    received: list[signal.Signals],
    on_progress: Callable[[str], None],
    on_signal: Callable[[], None],
) -> tuple[Ending, _Started]:
    token = uuid.uuid4().hex
    environment = {**os.environ, **spec.env, Supervisor.MARK: token}
    log_path = spec.output / LOG
    with _descriptors(spec) as own, log_path.open("wb") as log, _writable(spec.output) as output:
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                command_line(replace(spec, output=output), nsys_path, (*own, writer)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(*own, writer),
                start_new_session=True,  # a Ctrl-C reaches nsys once, through us
            )
            os.close(writer)
            late = f"nsys has not started the program; {outcome.temporary_room(spec.env)}"
            supervisor = Supervisor(process, token, log_path, reader, received, on_progress, on_signal, late)
            ending = supervisor.wait(spec.timeout_s, leave_program=spec.options.program_outlives_nsys)
            return ending, _launcher_report(reader)
        finally:
            os.close(reader)


@contextmanager
def _writable(output: Path) -> Iterator[Path]:
    """Give nsys a path to the folder that it can write to: it trips over some characters."""
    if not nsys.trips_over(output):
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as place:
        link = Path(place) / "run"
        link.symlink_to(output.absolute(), target_is_directory=True)
        yield link


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
                own.append(os.open(spec.output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
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


def _launcher_report(reader: int) -> _Started:
    os.set_blocking(reader, False)
    try:
        said = os.read(reader, _READ_BYTES)
    except BlockingIOError:  # somebody still holds the other end, and the launcher said nothing
        said = b""
    number = said.removeprefix(_launch.STARTED)
    return _Started(said.startswith(_launch.STARTED), int(number or 0))


def _divide_log(run: RunFolder) -> str:
    """Keep nsys' own tables apart from its chatter; return the chatter."""
    text = (run.path / LOG).read_bytes().decode(errors="replace")
    log, tables = nsys.split_log(text)
    with suppress(OutputError):  # no room for it: nsys' own log stays as it is
        run.write(LOG, log)
        if tables:
            run.write(STATS, tables)
    return log


def _written_down(run: RunFolder, facts: dict[str, Any], status: Status) -> Status:
    """Write how the run ended; where there is no room for that, say so in the Status returned."""
    lost: list[OutputError] = []
    for write in (partial(run.write, RUN, facts), partial(run.write_status, status)):
        try:
            write()
        except OutputError as error:
            lost.append(error)
    if not lost:
        return status
    message = "; ".join(filter(None, (status.message, *map(str, lost))))
    return replace(status, exit_code=status.exit_code or OutputError.exit_code, message=message)


def _facts(spec: RunSpec, found: nsys_install.Nsys) -> dict[str, Any]:
    """What run.json holds. Of the environment only the names that were set: values can be secrets."""
    return {
        "nsyswrap": __version__,
        "command": list(spec.program.argv),
        "cwd": str(Path.cwd()),
        "host": socket.gethostname(),
        "env_set": sorted(spec.env),
        "nsys": {"path": found.path, "version": found.version, **asdict(spec.options)},
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
