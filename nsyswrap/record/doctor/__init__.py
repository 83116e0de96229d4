"""Check what recording needs on this machine: nsys, the GPU, the system, Python and compilers.

Each module gathers the facts of one subject, and a pure function turns them into checks.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from nsyswrap.record.doctor import gpu, installations, software, system

if TYPE_CHECKING:
    from nsyswrap.base.check import Check


def check_machine() -> dict[str, list[Check]]:
    """Return the checks of this machine by subject. Independent facts are gathered at the same time."""
    with ThreadPoolExecutor() as pool:
        gathering = [pool.submit(module.gather) for module in (installations, gpu, system)]
        nsys, devices, machine = (future.result() for future in gathering)
        in_software = software.begin(pool, has_gpu=not devices.devices.error, nsys=nsys.used)
        return {
            "nsys": list(installations.checks(nsys)),
            "GPU and driver": list(gpu.checks(devices, machine, nsys.used)),
            "machine": list(system.checks(machine)),
            "Python and compilers": [future.result() for future in in_software],
        }
