"""Compute what launching cost: GPU idle time inside launches beside GPU busy time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_gaps import Gaps, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, pieces_of
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.analysis.names import by_thread, with_name
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture

_WAITS = regex("cu(da)?(.*Synchronize|Memcpy(?!.*Async))")
_LEAST_WEIGHT = 0.05


@dataclass(frozen=True)
class LaunchCost:
    """The GPU time that launching cost, in ns, summed over processes and devices.

    ``exposed_ns`` is the idle time inside repeat launches, ``first_exposed_ns`` inside first launches.
    ``idle_ns`` is all idle time, by cause. CUDA graphs or fusion can save at most ``saved_ns`` of
    ``exposed_ns``, and ``between_ns`` of the time in host code and other CUDA calls. These two only count
    gaps that end with a launch whose thread did not wait since its previous launch: the first launch after a
    wait remains.
    """

    busy_ns: int
    idle_ns: dict[str, int]
    exposed_ns: int
    first_exposed_ns: int
    saved_ns: int
    between_ns: int

    @property
    def weight(self) -> float:
        """Exposed time as a fraction of the time from the first to the last operation."""
        return self.exposed_ns / max(self.busy_ns + sum(self.idle_ns.values()), 1)

    @property
    def is_large(self) -> bool:
        """Whether exposed time is at least the busy time, and at least 5 % of the whole time."""
        return self.exposed_ns >= self.busy_ns and self.weight >= _LEAST_WEIGHT


def launch_cost_of(capture: Capture) -> LaunchCost:
    """Return what launching cost the GPU in the selected part of a capture."""
    launches, gaps, operations = launches_of(capture), gaps_of(capture), pieces_of(capture)
    every = launches_of(capture.whole)  # one after the selected part can end its last gap
    ended, ended_by_any = ended_by(launches, gaps), ended_by(every, gaps)
    close = np.append(~every.first & back_to_back(capture.whole), False)[ended_by_any]

    def launching(which: NDArray[Any]) -> int:
        return int(gaps.parts["launch"][np.append(which, False)[ended]].sum())

    return LaunchCost(
        busy_ns=sum(
            union(operations.start_ns[rows], operations.end_ns[rows]).length
            for _, _, rows in operations.by_device()
        ),
        idle_ns=dict(gaps.spent_ns),
        exposed_ns=launching(~launches.first),
        first_exposed_ns=launching(launches.first),
        saved_ns=int(gaps.parts["launch"][close].sum()),
        between_ns=int((gaps.parts["host"] + gaps.parts["call"])[close].sum()),
    )


def judged_launches(capture: Capture) -> tuple[str, Capture]:
    """Return the part of a capture that is judged, by name and as a view; that with most of its GPU work."""
    whole = "selected part" if capture.view.selection.windowed else "whole capture"
    processes = [process for process in judged_processes(capture) if process.steps.has_steady]
    if not processes:
        return whole, capture
    view = max((process.view for process in processes), key=lambda view: len(gpu_operations_of(view)))
    return ("steady part", view) if (~launches_of(view).first).any() else (whole, capture)


@per_capture
def back_to_back(whole: Capture, *, or_first: bool = False) -> NDArray[Any]:
    """Mark the launches of the whole capture whose thread did not wait since its previous launch.

    ``or_first``: also the first launch of a thread that did not wait before it.
    """
    launches = launches_of(whole)
    if not len(launches):
        return np.zeros(0, dtype=bool)
    waits = with_name(whole, _WAITS)
    place = np.full(len(waits), -1, np.int32)
    place[launches.call] = np.arange(len(launches))
    marks = np.zeros(len(launches), dtype=bool)
    for calls in by_thread(whole).values():
        launch = place[calls]
        rows = np.flatnonzero(launch >= 0)
        waited = np.cumsum(waits[calls], dtype=np.int32)[rows]
        marks[launch[rows[1:]]] = waited[1:] == waited[:-1]
        if or_first:
            marks[launch[rows[:1]]] = waited[:1] == 0
    return marks


def ended_by(launches: Launches, gaps: Gaps) -> NDArray[Any]:
    """Return the position of the launch whose operation ended each gap; -1 if it is none of these."""
    if not len(launches):
        return np.full(len(gaps), -1)
    call = gaps.call
    launch = np.full(
        max(int(launches.call.max()), int(call.max(initial=0))) + 2, -1, np.int32
    )  # the last is that of -1
    launch[launches.call] = np.arange(len(launches), dtype=np.int32)
    return launch[call]  # type: ignore[no-any-return]
