"""A fake of NVIDIA's management library, for machines without a GPU.

It has the functions that nsyswrap calls, with the arguments of the C library. It shows what nsyswrap makes of
the library's answers. It cannot show that a driver answers like this: tests with the mark ``gpu`` do.
"""

import csv
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base.run_facts import COLUMNS
from nsyswrap.record.conditions import nvml

OK, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TOO_SMALL = 0, 3, 4, 6, 7
_MIG = 1000  # the handle of a MIG device is that of its GPU and this


@dataclass
class FakeGpu:
    """What the fake answers for one GPU. A value None: not supported."""

    uuid: str = "GPU-11111111-2222"
    name: str = "Fake H200"
    sm_mhz: int | None = 1980
    memory_mhz: int | None = 3201
    power_mw: int | None = 80_500
    temperature_c: int | None = 30
    reasons: int | None = 0x4
    energy_mj: int | None = 5_000
    mig: int | None = 0
    bus: int = 0x1B
    forbidden: bool = False
    processes: list[int] = field(default_factory=list)
    migs: tuple[str, ...] = ()

    def numbers(self) -> dict[str, tuple[int | None, ...]]:
        """What each function writes; the first of two is the setting now."""
        return {
            "nvmlDeviceGetClockInfo 1": (self.sm_mhz,),
            "nvmlDeviceGetClockInfo 2": (self.memory_mhz,),
            "nvmlDeviceGetMaxClockInfo 1": (2000,),
            "nvmlDeviceGetPowerUsage": (self.power_mw,),
            "nvmlDeviceGetEnforcedPowerLimit": (700_000,),
            "nvmlDeviceGetTotalEnergyConsumption": (self.energy_mj,),
            "nvmlDeviceGetTemperature 0": (self.temperature_c,),
            "nvmlDeviceGetCurrentClocksEventReasons": (self.reasons,),
            "nvmlDeviceGetCurrentClocksThrottleReasons": (self.reasons,),
            "nvmlDeviceGetPersistenceMode": (1,),
            "nvmlDeviceGetMigMode": (self.mig, 1),
            "nvmlDeviceGetEccMode": (1, 0),
            "nvmlDeviceGetMaxPcieLinkGeneration": (5,),
            "nvmlDeviceGetMaxPcieLinkWidth": (16,),
        }


class FakeNvml:
    """The functions of ``libnvidia-ml.so.1``. ``lacking``: functions that this driver does not have.

    Calls on a GPU hang while ``answers`` is not set; ``hangs`` is set as soon as one does.
    """

    def __init__(self, *gpus: FakeGpu, lacking: tuple[str, ...] = ()) -> None:
        self.gpus = gpus
        self.answers = threading.Event()
        self.answers.set()
        self.hangs = threading.Event()
        self.is_open = True
        self._functions: dict[str, Callable[..., int]] = {
            "nvmlShutdown": self._shut_down,
            "nvmlDeviceGetCount_v2": lambda count: _write([len(gpus)], count),
            "nvmlDeviceGetHandleByIndex_v2": self._by_index,
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda m, out: _write([m.value - _MIG], out),
            "nvmlSystemGetDriverVersion": self._driver,
            "nvmlDeviceGetUUID": partial(self._text, "uuid"),
            "nvmlDeviceGetName": partial(self._text, "name"),
            "nvmlDeviceGetPciInfo_v3": self._pci,
            "nvmlDeviceGetComputeRunningProcesses_v3": partial(self._processes, new=True),
            "nvmlDeviceGetComputeRunningProcesses": partial(self._processes, new=False),
        }
        names = {key.split()[0] for gpu in gpus for key in gpu.numbers()}
        self._functions |= {name: partial(self._numbers, name) for name in names}
        for name in lacking:
            del self._functions[name]

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in self._functions:
            raise AttributeError(name)
        return self._functions[name]

    def _shut_down(self) -> int:
        self.is_open = False
        return OK

    def _by_index(self, index: int, handle: object) -> int:
        return NO_PERMISSION if self.gpus[index].forbidden else _write([index + 1], handle)

    def _by_uuid(self, uuid: bytes, handle: object) -> int:
        owners = [i for i, gpu in enumerate(self.gpus) if uuid.decode() in gpu.migs]
        return _write([owners[0] + 1 + _MIG], handle) if owners else NOT_FOUND

    def _driver(self, buffer: Any, _: int) -> int:  # noqa: ANN401 - ctypes
        buffer.value = b"580.1"
        return OK

    def _text(self, name: str, handle: Any, buffer: Any, _: int) -> int:  # noqa: ANN401 - ctypes
        buffer.value = getattr(self._gpu(handle), name).encode()
        return OK

    def _pci(self, handle: Any, pci: Any) -> int:  # noqa: ANN401 - ctypes
        pci._obj.bus = self._gpu(handle).bus  # noqa: SLF001 - of byref()
        return OK

    def _numbers(self, name: str, handle: object, *arguments: object) -> int:
        if not self.answers.is_set():
            self.hangs.set()
            self.answers.wait()
        kinds = [argument for argument in arguments if isinstance(argument, int)]
        numbers = self._gpu(handle).numbers()[" ".join(map(str, (name, *kinds)))]
        return _write(numbers, *arguments[len(kinds) :])

    def _processes(self, handle: object, count: Any, entries: Any, *, new: bool) -> int:  # noqa: ANN401 - ctypes
        assert hasattr(entries[0], "gpu_instance") is new  # newer functions have a longer structure
        pids, room = self._gpu(handle).processes, count._obj.value  # noqa: SLF001 - of byref()
        if len(pids) <= room:
            for entry, pid in zip(entries, pids, strict=False):
                entry.pid = pid
        return _write([len(pids)], count) or (TOO_SMALL if len(pids) > room else OK)

    def _gpu(self, handle: Any) -> FakeGpu:  # noqa: ANN401 - ctypes
        index: int = handle.value - 1
        return self.gpus[index]


def _write(numbers: Any, *outputs: Any) -> int:  # noqa: ANN401 - ctypes
    for number, output in zip(numbers, outputs, strict=True):
        output._obj.value = number or 0  # noqa: SLF001 - of byref()
    return NOT_SUPPORTED if None in numbers else OK


def use(monkeypatch: pytest.MonkeyPatch, library: FakeNvml) -> None:
    """Let nsyswrap load this library."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "load", lambda: nvml.Nvml(library))


def sample_rows(file: Path) -> list[list[str]]:
    """The samples in a conditions.csv, without its header."""
    with file.open(encoding="ascii", newline="") as lines:
        header, *samples = csv.reader(lines)
    assert tuple(header) == COLUMNS
    return samples
