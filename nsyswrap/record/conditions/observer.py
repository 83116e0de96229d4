"""Note the conditions of one run, in threads beside it: nothing here delays its program.

The clocks, power and temperature of its GPUs are sampled, and the processes noted that have a CUDA context on
them: their names, and which belong to the run. A call of NVML can hang, so ``Sampler.run`` belongs in a
thread that is not waited for. Samples are written line by line into a private file: a run of days needs no
memory for them, and those before a hang are kept.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar

from nsyswrap.base import paths, run_tool
from nsyswrap.base.errors import Unreadable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_facts import COLUMNS, INTERVAL_S, Conditions, Gpu, GpuProcess
from nsyswrap.base.run_folder import is_python
from nsyswrap.base.version import version, version_at_once
from nsyswrap.record import guard, proc
from nsyswrap.record.conditions import LIMIT_S, describe_host, load_average, nvml, versions

with lazy_imports():  # used when the program has ended
    from nsyswrap.record import peaks

if TYPE_CHECKING:
    from typing_extensions import Self

    from nsyswrap.record.program import Program, RunSpec

T = TypeVar("T")
HANG_S = 0.5  # after a run, a thread that hangs in the driver or on a disk is waited for this long
_QUERY_S = 1.0  # time between two queries of the processes
_MOST_CPU = 0.01  # of a core; where reading takes more, samples are further apart
_JUDGED = 3  # readings: the fastest of the last ones counts, as the first can be slow, or one by chance
_FIRST_NAMESPACE = 0xEFFFFFFC  # inode of the machine's own namespace of process ids (PROC_PID_INIT_INO)


class Observer:
    """Notes the conditions of the run in its ``with`` block; GPU samples go into the file ``samples``.

    ``token`` marks the run's processes.
    """

    def __init__(self, spec: RunSpec, token: str, samples: Path) -> None:
        environment = {**os.environ, **spec.options.env}
        argv, folder = spec.program.argv, folder_of(spec.program)
        self._load = load_average()
        self._sampler = Sampler(environment, token, samples)
        self._sampling = _Background(self._sampler.run, None)
        self._git = _Background(lambda: run_tool.git_state(folder, environment), None)
        self._versions = _Background[dict[str, str]](lambda: versions(argv, environment), {})
        self._version = _Background(version, version_at_once())

    def __enter__(self) -> Self:
        """Start sampling, and begin to read the commit, while nsys starts."""
        self._sampling.start()
        self._git.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling, if nsys has not said before that the program has ended."""
        self.stop()

    def program_started(self) -> None:
        """Note that the program has started."""
        self._sampler.program_started()

    def stop(self) -> None:
        """Stop sampling: the program has ended. Query the versions, which would have disturbed it."""
        self._sampler.stop()
        self._versions.start()
        self._version.start()

    def version(self) -> str:
        """Return the version of nsyswrap after the run."""
        return self._version.result(run_tool.GIT_LIMIT_S)

    def conditions(self) -> Conditions:
        """Return the conditions after the run."""
        self._sampling.result(HANG_S)
        return Conditions(
            self._sampler.gpus(),
            describe_host(self._load),
            self._versions.result(LIMIT_S),
            self._git.result(HANG_S),
        )


def folder_of(program: Program) -> Path:
    """Return the folder of a program's script or .cu file; the current folder for any other program."""
    if program.folder:
        return program.folder
    words = [word for word in program.argv[1:] if not word.startswith("-")]
    if is_python(program.argv[0]) and words and words[0].endswith(".py"):
        return Path(words[0]).parent
    return Path()


class _Background(Generic[T]):
    """Calls a function in a thread that the end of this process does not wait for."""

    def __init__(self, call: Callable[[], T], default: T) -> None:
        self._call, self._result = call, default
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        with suppress(RuntimeError):  # the limit of threads is reached, or it was started before
            self._thread.start()

    def result(self, patience_s: float) -> T:
        """Return the result; the default if the function does not return within ``patience_s`` seconds."""
        if self._thread.is_alive():
            self._thread.join(patience_s)
        return self._result

    def _work(self) -> None:
        self._result = self._call()


class Sampler:
    """Samples the GPUs that a program with ``environment`` sees, into ``file``.

    ``token`` is the mark of the run's processes.
    """

    def __init__(self, environment: Mapping[str, str], token: str, file: Path) -> None:
        self._environment, self._file = environment, file
        self._gpus: list[Gpu] = []
        self._driver = ""
        self._devices: list[nvml.Device] = []
        self._rows: list[int] = []
        self._joules: list[float | None] = []
        self._processes = Processes(token)
        self._program_started = self._queried = False
        self._stopped = threading.Event()
        self._stopped_at = 0.0

    def program_started(self) -> None:
        """Note that the program runs: a process that is first seen from now on did not begin before it."""
        self._program_started = True

    def stop(self) -> None:
        """Request that ``run`` ends. No sample is written afterwards."""
        self._stopped_at = time.monotonic()
        self._stopped.set()

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs with the samples in the file and the processes noted so far."""
        written = os.access(self._file, os.F_OK)  # the program may have removed it
        return tuple(
            replace(
                gpu,
                samples=rows if written else 0,
                joules=joules,
                processes=self._processes.of_gpu(position),
                peaks=peaks.stored(gpu.name, self._driver),
            )
            for position, (gpu, rows, joules) in enumerate(
                zip(self._gpus, self._rows, self._joules, strict=False)
            )
        )

    def run(self) -> None:
        """Sample until ``stop`` is called. If samples cannot be written, the file is removed."""
        library = nvml.load()
        if library is None:
            return
        devices, self._driver = library.devices(), library.driver
        known = [device.describe(index) for index, device in devices.items()]
        seen = nvml.visible(self._environment, known, library.parent_of_mig)
        self._devices = [list(devices.values())[position] for position in seen]
        self._rows, self._joules = [0] * len(seen), [None] * len(seen)
        self._gpus = [known[position] for position in seen]
        if seen:
            before = [device.joules() for device in self._devices]
            try:
                with self._file.open("w", buffering=1, encoding="ascii") as file:
                    file.write(_line(*COLUMNS))
                    self._sample(file)
            except OSError:  # a full disk: the last line may be incomplete
                with suppress(OSError):
                    self._file.unlink()
            self._note_processes()
            after = [device.joules() for device in self._devices]
            if time.monotonic() < self._stopped_at + HANG_S:  # nobody waits for later answers
                self._joules = [
                    last - first if first is not None and last is not None and last >= first else None
                    for first, last in zip(before, after, strict=True)
                ]
        library.close()

    def _sample(self, file: TextIO) -> None:
        query_at = due = time.monotonic()
        costs_s: deque[float] = deque(maxlen=_JUDGED)
        while not self._stopped.wait(due - time.monotonic()):
            cpu_s = time.thread_time()
            if due >= query_at:
                self._note_processes()
                query_at = due + _QUERY_S
            for position in range(len(self._devices)):
                time_ns, sample = time.time_ns(), self._devices[position].sample()
                if not self._stopped.is_set():
                    file.write(_line(time_ns, position, *sample))
                    self._rows[position] += 1
            costs_s.append(time.thread_time() - cpu_s)
            slow_s = min(costs_s) / _MOST_CPU if len(costs_s) == _JUDGED else 0.0
            due = max(due + max(INTERVAL_S, slow_s), time.monotonic())

    def _note_processes(self) -> None:
        listed = [device.process_ids() for device in self._devices]
        self._processes.note(listed, before_program=not (self._queried or self._program_started))
        self._queried = True


def _line(*cells: int | str | None) -> str:
    return ",".join("" if cell is None else str(cell) for cell in cells) + "\n"


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
