"""The time between two looks at a batch, so that waiting costs next to no CPU time."""

from __future__ import annotations

import os
import time

_FIRST_S, _LONGEST_S = 1.0, 15.0
_SLOWER = 20  # a look takes place after each 1/20 of the time that has passed
_SHARE = 0.008  # of one core, for this process and the commands that it runs
_SETTLED = 5  # a look that costs much waits at most 1/5 of the time that has passed


class Pause:
    """Gives the pauses of one loop, from its begin."""

    def __init__(self) -> None:
        self._began, self._cpu_s = time.monotonic(), _cpu_s()

    def seconds(self) -> float:
        """Return how long to sleep now: long if the last look took much CPU time."""
        passed_s, before_s = time.monotonic() - self._began, self._cpu_s
        self._cpu_s = _cpu_s()
        for_cost_s = min((self._cpu_s - before_s) / _SHARE, passed_s / _SETTLED)
        return max(_FIRST_S, min(_LONGEST_S, passed_s / _SLOWER), for_cost_s)


def _cpu_s() -> float:
    """Return the CPU time of this process and its ended children, in seconds."""
    return sum(os.times()[:4])
