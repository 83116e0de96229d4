"""What one command costs as a whole process: its wall and CPU time, and the memory of its largest process.

Whoever measures has to be small: a child's peak memory counts from what its parent held when it started it.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nsyswrap.base.errors import NsyswrapError

_KIB = 1024  # what ru_maxrss counts


class Failed(NsyswrapError):
    """A command that is measured did not end well."""

    exit_code = 70


@dataclass(frozen=True)
class Cost:
    """What a command took, once or in the median."""

    wall_s: float
    peak_bytes: int
    cpu_s: float = 0.0  # of the process and of its children: other work on the machine hardly changes it
    written_bytes: int = 0  # of the files that it left in its folder


def measured(argv: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end, its output thrown away; raises Failed with what it said last."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            last = (said.read().strip().splitlines() or ["nothing was said"])[-1]
            raise Failed(f"{' '.join(argv)}: ended with {process.returncode}: {last}", "run it alone")
    return Cost(wall_s, usage.ru_maxrss * _KIB, usage.ru_utime + usage.ru_stime)


def middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of time, of memory and of what was written."""
    return Cost(
        median(cost.wall_s for cost in costs),
        round(median(cost.peak_bytes for cost in costs)),
        median(cost.cpu_s for cost in costs),
        round(median(cost.written_bytes for cost in costs)),
    )
