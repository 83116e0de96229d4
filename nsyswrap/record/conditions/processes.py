"""The processes that have a CUDA context on the GPUs of a run: their names, and which belong to the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import Unreadable
from nsyswrap.base.run_facts import GpuProcess
from nsyswrap.record import guard, proc

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST_NAMESPACE = 0xEFFFFFFC  # inode of the machine's own namespace of process ids (PROC_PID_INIT_INO)


class Processes:
    """Notes the processes of several GPUs. ``token`` is the mark of the run's own processes."""

    def __init__(self, token: str) -> None:
        self._mark = f"{guard.MARK}={token}".encode()
        self._known: dict[int, GpuProcess] = {}
        self._of_gpu: dict[int, dict[int, None]] = {}  # position of a GPU -> its process ids, in order

    def note(self, listed: Sequence[Sequence[int]], *, before_program: bool) -> None:
        """Note the process ids of each GPU. ``before_program``: the program has not started."""
        for position, pids in enumerate(listed):
            self._of_gpu.setdefault(position, {}).update(dict.fromkeys(pids))
        new = {pid for pids in listed for pid in pids if self._in_run(pid) is None}
        for pid in new:
            known = self._known.get(pid, GpuProcess(pid, began_before=before_program))
            is_visible = _is_visible(pid)
            name, in_run = (proc.name(pid), self._has_mark(pid)) if is_visible else ("", None)
            self._known[pid] = GpuProcess(pid, name, in_run, known.began_before)

    def of_gpu(self, position: int) -> tuple[GpuProcess, ...]:
        """Return the processes noted for the GPU of this position."""
        return tuple(self._known[pid] for pid in tuple(self._of_gpu.get(position, ())) if pid in self._known)

    def _in_run(self, pid: int) -> bool | None:
        return self._known[pid].in_run if pid in self._known else None

    def _has_mark(self, pid: int) -> bool | None:
        """Return True if the process or an ancestor has the mark; None if it ended meanwhile.

        ``guard.Members`` knows the same of all processes. Reading all of ``/proc`` takes too long here.
        """
        while pid:
            if self._mark in proc.environment(pid):
                return True
            if not (stat := proc.stat(pid)):
                return None
            pid = int(stat[proc.PARENT])
        return False


def _is_visible(pid: int) -> bool:
    """Return True if a process id of NVML is that of a living process here.

    In a container some drivers return ids of the machine, which can be those of other processes here.
    """
    is_alive = proc.stat(pid)[:1] not in ([], ["Z"])
    try:
        namespace = paths.status("/proc/self/ns/pid")
    except Unreadable:
        return False
    in_container = namespace is None or namespace.st_ino != _FIRST_NAMESPACE
    return is_alive and (not in_container or _has_gpu_open(pid))


def _has_gpu_open(pid: int) -> bool:
    folder = f"/proc/{pid}/fd"
    return any(proc.link(f"{folder}/{number}").startswith("/dev/nvidia") for number in proc.names(folder))
