"""The conditions of a run: what `record` notes about GPUs, machine and program, and `analysis` reads.

Facts are in ``run.json`` under ``conditions``. Samples of the GPUs are in ``conditions.csv``:

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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import typed

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_COMMIT_DIGITS = 12  # unique in any repository


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
class Gpu:
    """One GPU of the run, as NVML describes it. None and empty texts: not reported.

    ``index`` is NVML's number. ``samples`` counts the rows of the GPU in ``conditions.csv``.
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


@dataclass(frozen=True)
class Host:
    """The machine. ``load`` is the 1-minute load average before the run and after it.

    ``cores`` are those that the program may use, ``machine_cores`` all that the load is of.
    """

    node: str = ""
    cpu: str = ""
    cores: int | None = None
    governor: str = ""
    load: tuple[float, ...] = ()
    machine_cores: int | None = None


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
