"""End the ranks of a run so that their captures survive: when one fails, at a signal, at the time limit.

Slurm signals all processes of a step, nsys too, and kills them after its KillWait. Both can cost captures.
So the stdin of srun is a pipe of ours, which srun passes on to all ranks. When it closes, each rank makes its
own program end, and has the time of any run to write its report.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import tail
from nsyswrap.base.run_folder import PROGRAM_ERRORS, STATUS, rank_folders, read_status
from nsyswrap.record.batch.launchers import INPUT_VARIABLE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nsyswrap.record.batch.launchers import Launch

STOP_OTHERS_S = 15  # what still runs after the reports were written is killed this long after a SIGTERM
_ASK_S = 1.0  # between two looks at the folders of the ranks
_FULL_ASK_S = 5.0  # the same for a full disk
_MOST_BYTES = 16 << 20  # of what launchers and programs print on stderr, read at a time
_FULL = ("disk_full", "not_redacted")
_FAILED = re.compile(rb"srun: error: \S+: tasks? ([\d,-]+): ")  # behind a progress bar, too
_DIED = {"srun": _FAILED, "torchrun": re.compile(rb"^ +rank +: (\d+) \(local_rank: ", re.MULTILINE)}


def take_input() -> int | None:
    """Return a descriptor of stdin if this rank is to end when it closes. The program gets an empty one."""
    if not os.environ.pop(INPUT_VARIABLE, ""):
        return None
    own = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return own


def end_with(descriptor: int) -> None:
    """Give this process SIGTERM when a descriptor has come to its end."""

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


@dataclass
class Failure:
    """Looks whether srun has printed that a task failed, in the file of what it prints on stderr.

    On a full disk that file lacks the line, and the statuses of the ranks say so.
    """

    folder: Path
    _read_bytes: int = 0
    _asked_at: float = field(default_factory=time.monotonic)

    def __call__(self) -> bool:
        """Return True if there is such a line that was not read before, or if a rank lacked disk space."""
        if time.monotonic() > self._asked_at + _FULL_ASK_S:
            self._asked_at = time.monotonic()
            if any(map(_lacked_space, rank_folders(self.folder).values())):
                return True
        try:
            with (self.folder / PROGRAM_ERRORS).open("rb") as file:
                if os.fstat(file.fileno()).st_size <= self._read_bytes:
                    return False
                file.seek(self._read_bytes)
                lines = file.read(_MOST_BYTES)
        except OSError:
            return False
        whole = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
        self._read_bytes += len(lines) if len(lines) == _MOST_BYTES and not whole else whole
        return bool(_FAILED.search(lines))


def _lacked_space(folder: Path) -> bool:
    try:
        return read_status(folder).outcome in _FULL
    except CaptureError:  # it still runs
        return False


@dataclass
class StepEnd:
    """Ends the ranks of a step. ``has_reports`` tells whether all profiled ranks have ended."""

    launch: Launch
    has_reports: Callable[[], bool]
    _asked_at: float = 0.0
    _signalled_at: float | None = field(default=None)

    def __call__(self, process: subprocess.Popen[bytes], since_s: float) -> None:
        """Do what is due ``since_s`` seconds after the end was requested. To be called often."""
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
        elif self._signalled_at is not None:
            if since_s > self._signalled_at + STOP_OTHERS_S:
                process.terminate()  # srun then kills its tasks
        elif since_s > self._asked_at + _ASK_S:
            self._asked_at = since_s
            if self.has_reports():  # what is left are ranks that nobody profiles
                self._signalled_at = since_s
                self.launch.stop(process)


def all_ended(folder: Path, launcher: str) -> bool:
    """Return True if each rank that began in the folder of a run has a status, or died without one."""
    folders = rank_folders(folder)
    if have_ended(folders):
        return True
    with suppress(OSError):
        errors = tail(folder / PROGRAM_ERRORS, _MOST_BYTES)
        died = {rank for match in _DIED[launcher].finditer(errors) for rank in _numbers(match[1].decode())}
        return have_ended({rank: path for rank, path in folders.items() if rank not in died})
    return False


def _numbers(ranges: str) -> Iterator[int]:
    """Yield the numbers of ``0,3-5``."""
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def have_ended(folders: dict[int, Path]) -> bool:
    """Return True if the run folders of ranks have a status. Listing them makes NFS fetch new entries."""
    return all(STATUS in paths.names(folder) for folder in folders.values())
