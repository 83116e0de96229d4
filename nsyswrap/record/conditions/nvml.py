"""Query GPUs through NVML, the management library of the NVIDIA driver, without opening a CUDA context.

Which of them a program sees is told by CUDA_VISIBLE_DEVICES in its environment.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import Gpu

LIBRARY = "libnvidia-ml.so.1"
PCI_DEVICES = Path("/sys/bus/pci/devices")
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_GPU_SENSOR = 0  # nvmlTemperatureSensors_t
_DIGITS = 6  # of an index in CUDA_VISIBLE_DEVICES, at most
_TOO_SMALL = 7  # NVML_ERROR_INSUFFICIENT_SIZE
_TEXT_BYTES = 96
_FIRST_ROOM = 64  # processes of one GPU
# Functions of newer drivers come first.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _OldProcess(ctypes.Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = (("pid", ctypes.c_uint), ("used_bytes", ctypes.c_ulonglong))


class _Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("old_bus_id", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


_PROCESSES = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", _Process),
    ("nvmlDeviceGetComputeRunningProcesses_v2", _Process),
    ("nvmlDeviceGetComputeRunningProcesses", _OldProcess),
)


class GpuSample(NamedTuple):
    """The state of a GPU at one time, as the columns of ``conditions.csv``. None: not reported."""

    sm_mhz: int | None
    memory_mhz: int | None
    power_mw: int | None
    temperature_c: int | None
    reasons: int | None


@dataclass(frozen=True)
class Device:
    """One GPU: its handle in the library."""

    library: Any
    handle: ctypes.c_void_p

    def describe(self, index: int) -> Gpu:
        """Return the facts on the GPU, which has NVML's number ``index``."""
        power_mw = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return Gpu(
            uuid=self.uuid,
            name=self._text("nvmlDeviceGetName"),
            index=index,
            mig=self._is_on("nvmlDeviceGetMigMode", 2),
            persistence=self._is_on("nvmlDeviceGetPersistenceMode"),
            ecc=self._is_on("nvmlDeviceGetEccMode", 2),
            max_sm_mhz=self._number("nvmlDeviceGetMaxClockInfo", _SM),
            power_limit_w=None if power_mw is None else power_mw / 1000,
            pcie_generation=self._number("nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_lanes=self._number("nvmlDeviceGetMaxPcieLinkWidth"),
            numa_node=self._numa_node(),
        )

    def _numa_node(self) -> int | None:
        pci, function = _Pci(), getattr(self.library, "nvmlDeviceGetPciInfo_v3", None)
        if function is None or function(self.handle, ctypes.byref(pci)):
            return None
        slot = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        try:
            node = int((PCI_DEVICES / slot / "numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def sample(self) -> GpuSample:
        """Return the state of the GPU now."""
        reasons = (self._number(name, kind=ctypes.c_ulonglong) for name in _REASONS)
        return GpuSample(
            self._number("nvmlDeviceGetClockInfo", _SM),
            self._number("nvmlDeviceGetClockInfo", _MEMORY),
            self._number("nvmlDeviceGetPowerUsage"),
            self._number("nvmlDeviceGetTemperature", _GPU_SENSOR),
            next((bits for bits in reasons if bits is not None), None),
        )

    def joules(self) -> float | None:
        """Return the energy since the driver was loaded; None if it is not counted. It can take 20 ms."""
        energy_mj = self._number("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)
        return None if energy_mj is None else energy_mj / 1000

    def process_ids(self) -> list[int]:
        """Return the ids of the processes that have a CUDA context on the GPU."""
        for name, kind in _PROCESSES:
            if function := getattr(self.library, name, None):
                return self._process_ids(function, kind)
        return []

    def _process_ids(self, function: Any, kind: type[_Process | _OldProcess]) -> list[int]:  # noqa: ANN401 - of the library
        count = ctypes.c_uint(_FIRST_ROOM)
        while True:
            room = count.value
            entries = (kind * room)()
            code = function(self.handle, ctypes.byref(count), entries)
            if code != _TOO_SMALL or count.value <= room:
                return [] if code else [entries[i].pid for i in range(count.value)]

    @property
    def uuid(self) -> str:
        """The UUID, ``GPU-...``; empty if it is not reported."""
        return self._text("nvmlDeviceGetUUID")

    def _number(self, name: str, *arguments: int, kind: type[Any] = ctypes.c_uint) -> int | None:
        values = self._values(name, *arguments, kind=kind)
        return values[0] if values else None

    def _is_on(self, name: str, outputs: int = 1) -> bool | None:
        values = self._values(name, outputs=outputs)
        return bool(values[0]) if values else None

    def _values(
        self, name: str, *arguments: int, kind: type[Any] = ctypes.c_uint, outputs: int = 1
    ) -> list[int]:
        """Call a function; return what it wrote, or nothing if it failed or is missing in this driver."""
        values = [kind() for _ in range(outputs)]
        function = getattr(self.library, name, None)
        if function is None or function(self.handle, *arguments, *map(ctypes.byref, values)):
            return []
        return [value.value for value in values]

    def _text(self, name: str) -> str:
        return _text_of(self.library, name, self.handle)


def _text_of(library: Any, name: str, *arguments: Any) -> str:  # noqa: ANN401 - of ctypes
    """Call a function that writes a text; return it, or an empty one if it failed or is missing."""
    buffer, function = ctypes.create_string_buffer(_TEXT_BYTES), getattr(library, name, None)
    if function is None or function(*arguments, buffer, _TEXT_BYTES):
        return ""
    return buffer.value.decode(errors="replace")


@dataclass(frozen=True)
class Nvml:
    """The library, initialized."""

    library: Any

    def devices(self) -> dict[int, Device]:
        """Return the GPUs that this process may use, by NVML's number, which follows their PCI bus order."""
        count = ctypes.c_uint()
        if self.library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return {}
        handles = {index: ctypes.c_void_p() for index in range(count.value)}
        return {
            index: Device(self.library, handle)
            for index, handle in handles.items()
            if not self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        }

    @property
    def driver(self) -> str:
        """Return the version of the driver; empty if it does not tell."""
        return _text_of(self.library, "nvmlSystemGetDriverVersion")

    def close(self) -> None:
        """Release the GPUs: an open one stays initialized, which changes the start of the next program."""
        self.library.nvmlShutdown()

    def parent_of_mig(self, uuid: str) -> str:
        """Return the UUID of the GPU that has the MIG device ``uuid``; empty if it is not known."""
        mig, parent = ctypes.c_void_p(), ctypes.c_void_p()
        parent_of = getattr(self.library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", None)
        if (
            parent_of is None
            or self.library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(mig))
            or parent_of(mig, ctypes.byref(parent))
        ):
            return ""
        return Device(self.library, parent).uuid


def load() -> Nvml | None:
    """Load and initialize the library; return None if it is missing or cannot be initialized."""
    try:
        library = ctypes.CDLL(LIBRARY)
        return None if library.nvmlInit_v2() else Nvml(library)
    except (OSError, AttributeError):  # missing, or older than this function
        return None


def visible(
    environment: Mapping[str, str], gpus: Sequence[Gpu], parent_of_mig: Callable[[str], str]
) -> list[int]:
    """Return the positions in ``gpus`` that a program with this environment sees, in CUDA's order.

    ``gpus`` are in NVML's order. ``parent_of_mig`` returns the UUID of a MIG device's GPU. Returns all
    positions if CUDA's numbering is not known to be that of NVML. Source of the rules: CUDA C++ Programming
    Guide, CUDA environment variables: the first invalid entry and those after it are ignored.
    """
    everything = list(range(len(gpus)))
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return everything
    positions: dict[int, None] = {}  # in order, each once
    for entry in map(str.strip, value.split(",")):
        if _is_index(entry) and not _numbered_alike(environment, gpus):
            return everything
        matches = _matching(entry, gpus, parent_of_mig)
        if entry.startswith("MIG-") and not matches:
            return everything
        if len(matches) != 1:
            break
        positions[matches[0]] = None
    return list(positions)


def _matching(entry: str, gpus: Sequence[Gpu], parent_of_mig: Callable[[str], str]) -> list[int]:
    """Return the positions of the GPUs that one entry can mean."""
    if _is_index(entry):
        return [int(entry)] if int(entry) < len(gpus) else []
    if entry.startswith("MIG-"):
        parent = parent_of_mig(entry)
        return [position for position, gpu in enumerate(gpus) if parent and gpu.uuid == parent]
    if entry.startswith("GPU-"):
        return [position for position, gpu in enumerate(gpus) if gpu.uuid.startswith(entry)]
    return []


def _is_index(entry: str) -> bool:
    return entry.isascii() and entry.isdigit() and len(entry) <= _DIGITS


def _numbered_alike(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> bool:
    """Return True if CUDA and NVML certainly number the GPUs alike: CUDA's default is the fastest first."""
    if len(gpus) <= 1:
        return True
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return (by_bus or len({gpu.name for gpu in gpus}) == 1) and not any(gpu.mig for gpu in gpus)
