"""What JSON files say of runs: their conditions, what used CUDA, a run without nsys, and the plan of a batch.

`record` writes it, `analysis` and `reports` read it. The conditions of a run are facts about GPUs, machine
and program in ``run.json`` under ``conditions``, and samples of the GPUs in ``conditions.csv``:

    time_ns         time of the sample, ns since 1970 UTC
    gpu             position in ``Conditions.gpus``
    sm_mhz          clock of the SMs, MHz
    memory_mhz      clock of the memory, MHz
    power_mw        power draw, mW
    temperature_c   temperature, degrees Celsius
    reasons         why the clock is reduced: bits of NVML's clock event reasons

A value that the GPU does not report is empty.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from nsyswrap.base.files import brief, read_json, typed
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass

with lazy_imports():  # used for batches
    import hashlib
    import json

    from nsyswrap.base import run_folder

COLUMNS = ("time_ns", "gpu", "sm_mhz", "memory_mhz", "power_mw", "temperature_c", "reasons")
INTERVAL_S = 0.1  # time between two samples
# Bit of nvmlClocksEventReasons -> what reduced the clock. An idle GPU and a chosen clock are not throttled.
THROTTLE_REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
GPU_PROCESSES = "gpu_processes"  # the key of the processes that used CUDA in run.json
_COMMIT_DIGITS = 12  # unique in any repository
_LONGEST_NAME = 255  # bytes, of Linux
_USUAL = re.compile(r"(?:[0-9]{2,9}/)?[0-9]{5,9}[\w=.,+-]{0,99}", re.ASCII).fullmatch  # as we name folders


@dataclass(frozen=True)
class GpuProcess:
    """A process that had a CUDA context on a GPU during the run.

    ``in_run``: it belongs to the run; None if its process id is not visible from here. ``began_before``: it
    was there before the program started.
    """

    pid: int
    name: str = ""
    in_run: bool | None = None
    began_before: bool = False


@dataclass(frozen=True)
class Peaks:
    """The highest rates that were measured on a GPU with this driver.

    ``flop_per_s`` has operations per second of products of matrices, by the type of their numbers.
    ``bytes_per_s`` counts the bytes that a copy reads and writes.
    """

    driver: str
    flop_per_s: Mapping[str, float]
    bytes_per_s: float

    def __post_init__(self) -> None:
        """Raise ValueError for what is no rate."""
        if not all(0 < rate < math.inf for rate in (*self.flop_per_s.values(), self.bytes_per_s)):
            raise ValueError("a peak is not above 0")


@dataclass(frozen=True)
class Gpu:
    """One GPU of the run, as NVML describes it. None and empty texts: not reported.

    ``index`` is NVML's number. ``samples`` counts the rows of the GPU in ``conditions.csv``.
    ``pcie_generation`` and ``pcie_lanes`` are the most that GPU and slot allow. ``numa_node`` is that of the
    slot. ``joules`` is the energy from the first sample to the last, by the counter of the GPU. ``peaks``
    were measured before, on a GPU of this name with this driver.
    """

    uuid: str
    name: str = ""
    index: int = 0
    mig: bool | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    max_sm_mhz: int | None = None
    power_limit_w: float | None = None
    samples: int = 0
    processes: tuple[GpuProcess, ...] = ()
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    numa_node: int | None = None
    peaks: Peaks | None = None
    joules: float | None = None


@dataclass(frozen=True)
class Host:
    """The machine. ``load`` is the 1-minute load average before the run and after it.

    ``cores`` are those that the program may use, ``numa_nodes`` their nodes, ``machine_cores`` all that the
    load is of.
    """

    node: str = ""
    cpu: str = ""
    cores: int | None = None
    governor: str = ""
    load: tuple[float, ...] = ()
    machine_cores: int | None = None
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Git:
    """The commit of the program's folder. ``dirty``: tracked files differ from it."""

    commit: str
    dirty: bool

    @property
    def label(self) -> str:
        """The beginning of the commit, with ``-dirty`` if tracked files differ from it."""
        return self.commit[:_COMMIT_DIGITS] + ("-dirty" if self.dirty else "")


@dataclass(frozen=True)
class Conditions:
    """The conditions of one run. ``versions`` maps a library of the program (torch, cudnn) to its version."""

    gpus: tuple[Gpu, ...] = ()
    host: Host = field(default_factory=Host)
    versions: Mapping[str, str] = field(default_factory=dict)
    git: Git | None = None


def conditions_of(run: Mapping[str, Any]) -> Conditions | None:
    """Return the conditions in the content of ``run.json``; None if they are missing or invalid."""
    try:
        return typed(Conditions, run["conditions"])
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True)
class GpuUser:
    """A process that opened the GPU for CUDA. ``parent`` is the process id of its parent.

    ``forked``: it was forked from its parent without an exec; None if the parent had ended. ``rank`` is the
    one that its launcher gave it, such as RANK of torchrun.
    """

    pid: int
    name: str
    parent: int
    forked: bool | None
    rank: int | None = None


def gpu_users_of(run: Mapping[str, Any]) -> list[GpuUser] | None:
    """Return the processes in the content of ``run.json``; None if they are missing or invalid."""
    try:
        return typed(list[GpuUser], run.get(GPU_PROCESSES))
    except ValueError:
        return None


@dataclass(frozen=True)
class BareRun:
    """A run without nsys. ``program_s``: the time from exec to exit in s, None if it is not known."""

    exit_code: int
    program_s: float | None


def bare_run_of(run: Mapping[str, Any]) -> BareRun | None:
    """Return the run without nsys in the content of ``run.json``; None if it is missing or invalid."""
    try:
        return typed(BareRun, run["bare"])
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: its number, the path of its folder in ``runs/``, and the key of its spec.json.

    The folders of a large batch lie in folders of a thousand: ``12/12345-n=1``. ``active`` is False for a run
    of an earlier plan that a later one left out.
    """

    number: int
    folder: str
    key: str
    active: bool

    def __post_init__(self) -> None:
        """Raise ValueError for a number below 1, and for a folder outside of ``runs/``."""
        if self.number < 1:
            raise ValueError(f"number is {self.number}: expected 1 or more")
        if _USUAL(self.folder):
            return
        thousand, slash, name = self.folder.rpartition("/")
        if (
            name in ("", ".", "..")
            or (slash and not re.fullmatch("[0-9]{2,9}", thousand))
            or "\0" in name
            or len(os.fsencode(name)) > _LONGEST_NAME
        ):
            raise ValueError(f"folder is {brief(self.folder)}: expected the name of a folder")


@dataclass(frozen=True)
class BatchFile:
    """The name of the plan, the id of the batch, and all its runs."""

    name: str
    id: str
    runs: tuple[PlannedRun, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for no run, and for two with the same number, folder or key."""
        if not self.runs:
            raise ValueError("runs is empty: expected at least one run")
        for what in ("number", "folder", "key"):
            if len({getattr(run, what) for run in self.runs}) < len(self.runs):
                raise ValueError(f"two runs have the same {what}")


def batch_of(run: Path) -> Path:
    """Return the folder of the batch that a planned run would be part of, by the path of its folder."""
    folder = run.parent if run.parent.name == run_folder.RUNS else run.parent.parent
    return folder.parent


def read_batch(folder: Path) -> BatchFile:
    """Read batch.json of a batch folder. Raises OSError and ValueError."""
    return typed(BatchFile, read_json(folder / run_folder.BATCH))


def spec_key(spec: Mapping[str, Any]) -> str:
    """Return a hash of a spec.json without label and timeout. Specs of the same key are the same run."""
    facts = {name: value for name, value in spec.items() if name not in ("label", "timeout_s")}
    return checksum(facts)[:16]


def checksum(content: Mapping[str, Any]) -> str:
    """Return a hash of the values, which does not depend on the layout of the file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
