"""Add up how long events last in the steady steps of their processes, for times per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.judged_part import JudgedPart


class SteadyWindows(NamedTuple):
    """The steady part of each process that has one, by global process id; ``steps`` counts its steps."""

    process: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    steps: NDArray[Any]

    @classmethod
    def of(cls, parts: Sequence[JudgedPart]) -> SteadyWindows:
        """Return the steady parts, which outlier steps belong to."""
        rows = [
            (part.steps.global_pid, *part.steps.window, np.count_nonzero(part.steps.steady))
            for part in parts
            if part.steps.found
        ]
        return cls(*np.array(sorted(rows), np.int64).reshape(-1, 4).T)

    def per_step(
        self, owner: NDArray[Any], start_ns: NDArray[Any], end_ns: NDArray[Any]
    ) -> NDArray[Any] | None:
        """Return the time of each event in the steady part of its process, by step; None without steps.

        ``owner`` has global process or thread ids. Summed over processes, it is the time of all of them in a
        step of each.
        """
        if not len(self.process):
            return None
        process = owner & PROCESS_MASK
        at = np.minimum(np.searchsorted(self.process, process), len(self.process) - 1)
        start, end = (np.clip(times, self.start_ns[at], self.end_ns[at]) for times in (start_ns, end_ns))
        return np.where(self.process[at] == process, (end - start) / self.steps[at], 0.0)
