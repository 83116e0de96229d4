"""A script that ends a run whose nsyswrap was killed, so that no process goes on and nothing leaks.

It runs beside nsys. Its arguments are the run's mark and its two private folders. Its stdin is a pipe that
only nsyswrap holds; nsyswrap writes the process id of nsys and, at the end, ``DONE``. If the pipe closes
without ``DONE``, the script makes nsys end the program and write its report. It kills what does not end in
time. It imports the standard library only, so that it starts at once.

The kernel signals nsys as well when nsyswrap dies. A fork of the script takes over if the script is killed,
too: a program that ignores signals ends all the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

MARK = "NSYSWRAP_RUN_MARK"  # the variable that every process of a run has in its environment
DONE = b"done"
LOG = "nsys.log"  # in the temporary folder: the output of nsys
WRITING = b"Generating '"  # nsys prints it when the recording ends; a signal would then stop its import
RECORDINGS = (".nsys-rep", ".sqlite", ".qdstrm")  # the files that nsys makes of a run
_LEFT = "nsys-report-"  # prefix of files that nsys could not move to their place
_WRITE_S = 60  # nsys is killed if it prints nothing for this long
_SETTLE_S = 1  # nsys loses a signal that comes right after the start of the program or of its report
_AGAIN_S = 5  # a second signal sooner than this would destroy the report
_STOP_PROGRAM_S = 15  # a program that ignores its signal is killed after this, so that nsys can write
_QUIET_S = 1  # a new process has its mark within this time
_ORPHAN_S = 0.2  # the kernel closes the files of a process just before it looks for another parent
_POLL_S = 0.05
_PARENT, _BEGAN = 1, 19  # fields of /proc/PID/stat, counted after the program's name


def bound_to_us(argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv``, which gets SIGTERM when this process dies, even by SIGKILL."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("bound.py")), str(os.getpid()), *argv]


class Members:
    """The living processes of a run: those with its mark in their environment, and their descendants.

    A process that clears its environment is recognized if its parent lived at one of the calls.
    """

    def __init__(self, token: str) -> None:
        self._mark = f"{MARK}={token}".encode()
        self._known: dict[int, bytes] = {}  # process id -> start time

    def living(self) -> list[int]:
        """Return the process ids."""
        stats = {int(path.name): _read(path / "stat").rpartition(b")")[2].split() for path in _processes()}
        alive = {pid: stat for pid, stat in stats.items() if stat and stat[0] != b"Z"}
        members = {pid for pid, began in self._known.items() if pid in alive and alive[pid][_BEGAN] == began}
        members |= {pid for pid in alive if self._mark in _read(Path(f"/proc/{pid}/environ"))}
        while more := {pid for pid, stat in alive.items() if int(stat[_PARENT]) in members} - members:
            members |= more
        self._known = {pid: alive[pid][_BEGAN] for pid in members}
        return sorted(members)


def _processes() -> Iterator[Path]:
    return Path("/proc").glob("[0-9]*")


def kill(pids: list[int]) -> None:
    """Kill processes; one that has ended already is ignored."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_program(pid: int, nsys: Collection[int]) -> bool:
    """Return True if a process of a run is neither ``nsys`` nor one of its helpers, by its executable.

    False for one that has ended since it was listed: at the program's end nsys may take no signal.
    """
    try:
        executable = Path(f"/proc/{pid}/exe").readlink().name
    except PermissionError:  # of another user: nsys and its helpers are our own
        return True
    except OSError:
        return False
    return pid not in nsys and not executable.startswith(("nsys", "QdstrmImporter"))


def gather(work: Path, temporary: Path, stem: str) -> None:
    """Move the recordings in nsys' temporary folder to ``work``/``stem``.*, unless there is one of that kind.

    A file stays where it is if the move fails, as on a full disk.
    """
    for left in sorted(temporary.glob(f"{_LEFT}*"), key=lambda path: path.stat().st_mtime, reverse=True):
        target = work / f"{stem}{left.suffix}"
        if left.suffix in RECORDINGS and not target.exists():
            left.chmod(0o600)
            try:
                shutil.move(left, target)
            except OSError:
                with suppress(OSError):
                    target.unlink(missing_ok=True)


def recordings(folder: Path) -> list[Path]:
    """Return the recordings of nsys in a private folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in RECORDINGS)


def remove(folder: Path) -> None:
    """Remove a private folder, except for recordings in it."""
    kept = recordings(folder)
    for path in set(folder.glob("*")) - set(kept):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)


def main(token: str, work: Path, temporary: Path, stem: str) -> None:
    """Wait until nsyswrap is done or gone; if it is gone, end the run and clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nsyswrap = os.getppid()
    reader, writer = os.pipe()
    fork = os.fork()
    if fork:
        os.close(reader)
        words = _until_closed(0, writer)
    else:
        os.setsid()
        os.close(writer)
        words = _until_closed(reader)
        if DONE not in words.split():  # the other was killed
            words += _until_closed(0)
    if DONE not in words.split():
        time.sleep(_ORPHAN_S)
        wait_s = _SETTLE_S if os.getppid() == nsyswrap else _AGAIN_S  # if it died, nsys has its signal
        _end(token, [int(word) for word in words.split()], temporary / LOG, wait_s)
        gather(work, temporary, stem)
        remove(temporary)
        remove(work)
    if fork:
        _tell(writer, DONE)
        os.close(writer)
        os.waitpid(fork, 0)


def _until_closed(descriptor: int, copy: int | None = None) -> bytes:
    """Read until the other end is closed. Write each part to ``copy`` as it comes."""
    words = b""
    while part := os.read(descriptor, 512):
        words += part
        if copy is not None:
            _tell(copy, part)
    return words


def _tell(descriptor: int, words: bytes) -> None:
    with suppress(BrokenPipeError):
        os.write(descriptor, words)


def _end(token: str, nsys: list[int], log: Path, wait_s: float) -> None:
    """End the run, with a signal to nsys after ``wait_s`` unless the program has ended by then."""
    began = time.monotonic()
    printed_at = alive_at = began  # the last output of nsys, and the last time a process was alive
    due, printed = printed_at + wait_s, b""
    members = Members(token)
    while (left := members.living()) or time.monotonic() < alive_at + _QUIET_S:
        now = time.monotonic()
        alive_at = now if left else alive_at
        programs = [pid for pid in left if is_program(pid, nsys)]
        if (output := _read(log)) != printed:
            printed_at, printed = now, output
        if now > printed_at + _WRITE_S or not set(nsys) & set(left):
            kill(left)
        elif now > began + _STOP_PROGRAM_S:
            kill(programs)
        elif now > due and WRITING not in output and programs:
            for pid in nsys:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)
            due = now + _AGAIN_S
        time.sleep(_POLL_S)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
