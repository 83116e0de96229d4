"""Watch which processes of a run use CUDA, and which of these were forked without an exec.

nsys does not record a process that was forked only, unless it is told to. A CUDA context opens and maps
``/dev/nvidia-uvm``. NVML opens it, too, but does not map it. A forked process inherits open files, so only
those count that its parent does not have.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.base.run_facts import GpuUser
from nsyswrap.record import launcher_env, proc
from nsyswrap.record.guard import MARK

DEVICE = "/dev/nvidia-uvm"
INTERVAL_S = 0.5  # a shorter-lived process can be missed
_MOST_CPU = 0.01  # of a core; for many processes with many files the interval is longer
_UNSETTLED = -1  # as the number of open files: look again
# Addresses in /proc/PID/stat that a fork inherits. An exec chooses them anew, unless randomization is off.
_ADDRESSES = (23, 25, 45)  # start of the code, of the stack, of the arguments

Image = tuple[str, ...]


@dataclass
class _Process:
    """A process of the run. ``images`` are those seen so far; a parent's are kept as long as its children.

    So many ``examinations`` of it are due, as its open files were others at the last look.
    ``inherited`` are the descriptors of the device that a fork has from its parent, which can end first.
    """

    parent_pid: int
    parent: _Process | None
    open_files: int | frozenset[str] = 0
    examinations: int = 0
    images: set[Image] = field(default_factory=set)
    inherited: set[str] = field(default_factory=set)


class GpuUsers:
    """The processes of one run that used CUDA so far. ``token`` is the run's mark in their environment."""

    def __init__(self, token: str, device: str = DEVICE) -> None:
        self._mark = f"{MARK}={token}".encode()
        self._device = device
        self._others: set[int] = set()  # processes that are not of the run
        self._members: dict[int, _Process] = {}
        self._users: dict[int, GpuUser] = {}
        self._newest = b""
        self._due = 0.0

    @property
    def users(self) -> list[GpuUser]:
        """The processes, by process id."""
        return [user for _, user in sorted(self._users.items())]

    def update(self) -> None:
        """Update the users from the processes of the run; does nothing if called too soon.

        It takes 0.2 % of a core for 20 processes with 40 open files, 0.3 % before Linux 6.2. A process is
        read again if it has opened or closed files since, as CUDA does when it starts, and once more: a file
        that it closes can make up for one that it opens. So is one that has the device open but not mapped.
        """
        if time.monotonic() < self._due:
            return
        began_s = time.thread_time()
        self._sort_in_new()
        for pid in self._members.keys() - self._users.keys():
            process, open_files = self._members[pid], _open_files(pid)
            if open_files != process.open_files:
                process.open_files, process.examinations = open_files, 2
            if process.examinations:
                process.examinations -= 1
                self._examine(pid, process)
        cost_s = time.thread_time() - began_s
        self._due = time.monotonic() + max(INTERVAL_S, cost_s / _MOST_CPU)

    def _sort_in_new(self) -> None:
        """Note of each new process whether it belongs to the run: by its parent, or by the mark."""
        newest = proc.contents("/proc/loadavg").rpartition(b" ")[2]  # the last process id that was given
        if newest and newest == self._newest:
            return
        self._newest = newest
        alive = {int(name) for name in proc.names("/proc") if name.isdigit()}
        self._others &= alive
        self._members = {pid: process for pid, process in self._members.items() if pid in alive}
        for pid in sorted(alive - self._others - self._members.keys()):
            parent = int((proc.stat(pid) or ["", "0"])[proc.PARENT])
            if parent in self._members or self._mark in proc.environment(pid):
                self._members[pid] = _Process(parent, self._members.get(parent))
            else:
                self._others.add(pid)

    def _examine(self, pid: int, process: _Process) -> None:
        """Note a process that has mapped the device, unless it inherited all of its descriptors."""
        image = _image(pid)
        process.images.add(image)
        opened = self._opened(pid)
        if not opened or (image and Path(image[0]).name.startswith("nsys")):
            return
        seen = (process.parent.images | {_image(process.parent_pid)} if process.parent else set()) - {()}
        forked = image in seen if image and seen else None
        if forked:
            process.inherited |= opened & self._opened(process.parent_pid)
            opened -= process.inherited
        if opened and f" {self._device}\n".encode() not in proc.contents(f"/proc/{pid}/maps"):
            process.open_files = _UNSETTLED  # CUDA maps it later
        elif opened:
            name = proc.name(pid)
            variables = os.fsdecode(proc.environment(pid)).split("\0")
            rank = launcher_env.detect(dict(text.split("=", 1) for text in variables if "=" in text))
            self._users[pid] = GpuUser(pid, name, process.parent_pid, forked, rank.rank if rank else None)

    def _opened(self, pid: int) -> set[str]:
        folder = f"/proc/{pid}/fd"
        return {number for number in proc.names(folder) if proc.link(f"{folder}/{number}") == self._device}


def _image(pid: int) -> Image:
    """Return what a process has in common with a fork of it; empty if this is not readable."""
    stat = proc.stat(pid)
    image = (proc.link(f"/proc/{pid}/exe"), *(stat[at] for at in _ADDRESSES if stat))
    return image if stat and image[0] and "0" not in image else ()


def _open_files(pid: int) -> int | frozenset[str]:
    """Return the number of open files, which Linux 6.2 or newer tells at once, else their descriptors."""
    folder = f"/proc/{pid}/fd"
    try:
        return os.stat(folder).st_size or frozenset(proc.names(folder))  # noqa: PTH116 - twice as fast
    except OSError:
        return 0
