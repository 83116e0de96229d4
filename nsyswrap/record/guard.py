"""Ends a run whose nsyswrap was killed: no process of it goes on, and what was recorded stays private.

Started beside nsys as a script of its own, with the run's mark and its two private folders as arguments. Its
stdin is a pipe that only nsyswrap holds: it says the process id of nsys, and ``DONE`` in the end. Where the
pipe closes without that, nsys is told to end the program and write its report, and is killed when it takes
too long. Only the standard library is used: it has to start at once.
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
    from collections.abc import Iterator

MARK = "NSYSWRAP_RUN_MARK"  # names the variable in the environment of every process of a run
DONE = b"done"
LOG = "nsys.log"  # in the temporary folder, what nsys prints
WRITING = b"Generating '"  # nsys says it as soon as it records no more; a signal would stop its import then
RECORDINGS = (".nsys-rep", ".sqlite", ".qdstrm")  # what nsys leaves of a run
_LEFT = "nsys-report-"  # begins the name of what nsys could not bring where it was told to
_WRITE_S = 60  # nsys is killed when it has said nothing for this long
_SETTLE_S = 1  # nsys loses a signal in the first moments after it started the program, or its report
_AGAIN_S = 5  # a second signal sooner than this would cost the report
_QUIET_S = 1  # a process that is being started shows its mark within this
_POLL_S = 0.05
_PARENT, _BEGAN = 1, 19  # fields of /proc/PID/stat, counted from behind the name of the program


class Members:
    """The living processes of a run: those with its mark in their environment, and all that these started.

    A process may clear its environment: it is known as long as what started it lived when it was looked for.
    """

    def __init__(self, token: str) -> None:
        self._mark = f"{MARK}={token}".encode()
        self._known: dict[int, bytes] = {}  # process id -> when it was started

    def living(self) -> list[int]:
        """Return their process ids."""
        stats = {int(path.name): _read(path / "stat").rpartition(b")")[2].split() for path in _processes()}
        alive = {pid: stat for pid, stat in stats.items() if stat and stat[0] != b"Z"}
        found = {pid for pid, began in self._known.items() if pid in alive and alive[pid][_BEGAN] == began}
        found |= {pid for pid in alive if self._mark in _read(Path(f"/proc/{pid}/environ"))}
        while more := {pid for pid, stat in alive.items() if int(stat[_PARENT]) in found} - found:
            found |= more
        self._known = {pid: alive[pid][_BEGAN] for pid in found}
        return sorted(found)


def _processes() -> Iterator[Path]:
    return Path("/proc").glob("[0-9]*")


def kill(pids: list[int]) -> None:
    """End processes; one that is gone already is passed over."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def gather(work: Path, temporary: Path, stem: str) -> None:
    """Move what nsys left in its temporary folder to ``work``/``stem``.*, where it wrote none of that kind.

    A move that fails, on a full disk, leaves it where it is.
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
    """Return what nsys recorded into a private folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in RECORDINGS)


def remove(folder: Path) -> None:
    """Remove a private folder; where recordings are in it these stay."""
    kept = recordings(folder)
    for path in set(folder.glob("*")) - set(kept):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)


def main(token: str, work: Path, temporary: Path, stem: str) -> None:
    """Wait until nsyswrap is done, or gone; then end what is left of the run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lines = sys.stdin.buffer.read().split()
    if DONE in lines:
        return
    _end(token, [int(line) for line in lines], temporary / LOG)
    gather(work, temporary, stem)
    remove(temporary)
    remove(work)


def _end(token: str, nsys: list[int], log: Path) -> None:
    moved = seen = time.monotonic()  # when nsys last said something, and when a process was last seen
    due, said = moved + _SETTLE_S, b""
    members = Members(token)
    while (left := members.living()) or time.monotonic() < seen + _QUIET_S:
        now = time.monotonic()
        seen = now if left else seen
        if (says := _read(log)) != said:
            moved, said = now, says
        if now > moved + _WRITE_S or not set(nsys) & set(left):
            kill(left)
        elif now > due and WRITING not in says:
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
