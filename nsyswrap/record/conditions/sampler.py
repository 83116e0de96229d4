"""Sample the clocks, power and temperature of the GPUs while a program runs, and note their processes.

A call of NVML can hang, so ``Sampler.run`` belongs in a thread that is not waited for. Samples are written
line by line into a private file: a run of days needs no memory for them, and those before a hang are kept.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base.run_facts import COLUMNS, INTERVAL_S, Gpu
from nsyswrap.record.conditions import nvml
from nsyswrap.record.conditions.processes import Processes
from nsyswrap.record.conditions.visible_gpus import visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TextIO

_QUERY_S = 1.0  # time between two queries of the processes
_MOST_CPU = 0.01  # of a core; where reading takes more, samples are further apart
_JUDGED = 3  # readings: the fastest of the last ones counts, as the first can be slow, or one by chance


class Sampler:
    """Samples the GPUs that a program with ``environment`` sees, into ``file``.

    ``token`` is the mark of the run's processes.
    """

    def __init__(self, environment: Mapping[str, str], token: str, file: Path) -> None:
        self._environment, self._file = environment, file
        self._gpus: list[Gpu] = []
        self._devices: list[nvml.Device] = []
        self._rows: list[int] = []
        self._processes = Processes(token)
        self._program_started = self._queried = False
        self._stopped = threading.Event()

    def program_started(self) -> None:
        """Note that the program runs: a process that is first seen from now on did not begin before it."""
        self._program_started = True

    def stop(self) -> None:
        """Request that ``run`` ends. No sample is written afterwards."""
        self._stopped.set()

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs with the samples in the file and the processes noted so far."""
        written = os.access(self._file, os.F_OK)  # the program may have removed it
        return tuple(
            replace(gpu, samples=rows if written else 0, processes=self._processes.of_gpu(position))
            for position, (gpu, rows) in enumerate(zip(self._gpus, self._rows, strict=False))
        )

    def run(self) -> None:
        """Sample until ``stop`` is called. If samples cannot be written, the file is removed."""
        library = nvml.load()
        if library is None:
            return
        if self._find_gpus(library):
            try:
                with self._file.open("w", buffering=1, encoding="ascii") as file:
                    file.write(_line(*COLUMNS))
                    self._sample(file)
            except OSError:  # a full disk: the last line may be incomplete
                with suppress(OSError):
                    self._file.unlink()
            self._note_processes()
        library.close()

    def _find_gpus(self, library: nvml.Nvml) -> bool:
        """Note the GPUs that the program sees; return False if it sees none."""
        devices = library.devices()
        known = [device.describe(index) for index, device in devices.items()]
        seen = visible(self._environment, known, library.parent_of_mig)
        self._devices = [list(devices.values())[position] for position in seen]
        self._rows = [0] * len(seen)
        self._gpus = [known[position] for position in seen]
        return bool(seen)

    def _sample(self, file: TextIO) -> None:
        query_at = due = time.monotonic()
        costs_s: deque[float] = deque(maxlen=_JUDGED)
        while not self._stopped.wait(due - time.monotonic()):
            cpu_s = time.thread_time()
            if due >= query_at:
                self._note_processes()
                query_at = due + _QUERY_S
            for position in range(len(self._devices)):
                self._write_row(position, file)
            costs_s.append(time.thread_time() - cpu_s)
            slow_s = min(costs_s) / _MOST_CPU if len(costs_s) == _JUDGED else 0.0
            due = max(due + max(INTERVAL_S, slow_s), time.monotonic())

    def _write_row(self, position: int, file: TextIO) -> None:
        time_ns, sample = time.time_ns(), self._devices[position].sample()
        if not self._stopped.is_set():
            file.write(_line(time_ns, position, *sample))
            self._rows[position] += 1

    def _note_processes(self) -> None:
        listed = [device.process_ids() for device in self._devices]
        self._processes.note(listed, before_program=not (self._queried or self._program_started))
        self._queried = True


def _line(*cells: int | str | None) -> str:
    return ",".join("" if cell is None else str(cell) for cell in cells) + "\n"
