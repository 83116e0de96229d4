"""Facts on the machine: node, CPU, usable cores, frequency governor, load."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from nsyswrap.base.run_facts import Host

CPUS = Path("/sys/devices/system/cpu")
CPU_INFO = Path("/proc/cpuinfo")


def load() -> tuple[float, ...]:
    """Return the 1-minute load average; empty if it is not known."""
    with suppress(OSError):
        return (round(os.getloadavg()[0], 2),)
    return ()


def describe(load_before: tuple[float, ...]) -> Host:
    """Return the facts on this machine after a run."""
    cores = os.sched_getaffinity(0)
    return Host(
        node=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        cpu=cpu_model(_text(CPU_INFO)),
        cores=len(cores),
        governor=", ".join(sorted({_governor(core) for core in cores} - {""})),
        load=(*load_before, *load()),
        machine_cores=os.cpu_count(),
    )


def cpu_model(cpu_info: str) -> str:
    """Return the model in the text of ``/proc/cpuinfo``; empty if it is missing, for example on ARM."""
    model = re.search(r"(?m)^model name\s*:\s*(.+?)\s*$", cpu_info)
    return model[1] if model else ""


def _governor(core: int) -> str:
    return _text(CPUS / f"cpu{core}" / "cpufreq" / "scaling_governor").strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
