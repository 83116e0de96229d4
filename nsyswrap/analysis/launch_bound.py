"""Compute what launching cost: GPU idle time inside launches beside GPU busy time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, pieces_of
from nsyswrap.analysis.judged_part import judged_parts
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import by_thread, with_name
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.per_capture import per_capture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.analysis.launches import Launches
    from nsyswrap.capture.capture import Capture

_WAITS = re.compile("cu(da)?(.*Synchronize|Memcpy(?!.*Async))")
_LEAST_SHARE, _LEAST_WEIGHT = 0.5, 0.05


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
    def share(self) -> float:
        """Exposed time as a fraction of busy plus exposed time."""
        return self.exposed_ns / max(self.busy_ns + self.exposed_ns, 1)

    @property
    def weight(self) -> float:
        """Exposed time as a fraction of the time from the first to the last operation."""
        return self.exposed_ns / max(self.busy_ns + sum(self.idle_ns.values()), 1)

    @property
    def launch_bound(self) -> bool:
        """Whether exposed time is at least the busy time, and at least 5 % of the whole time."""
        return self.share >= _LEAST_SHARE and self.weight >= _LEAST_WEIGHT


def launch_cost_of(capture: Capture) -> LaunchCost:
    """Return what launching cost the GPU in the selected part of a capture."""
    launches, gaps, operations = launches_of(capture), gaps_of(capture), pieces_of(capture)
    every = launches_of(capture.whole)  # one after the selected part can end its last gap
    ended, ended_by_any = ended_by(launches, gaps), ended_by(every, gaps)
    close = np.append(~every.first & back_to_back(capture.whole), False)[ended_by_any]

    def idle_before(cause: str, which: NDArray[Any]) -> int:
        return int(gaps.parts[cause][np.append(which, False)[ended]].sum())

    return LaunchCost(
        busy_ns=sum(
            union(operations.start_ns[rows], operations.end_ns[rows]).length
            for _, _, rows in operations.by_device()
        ),
        idle_ns=dict(gaps.spent_ns),
        exposed_ns=idle_before("launch", ~launches.first),
        first_exposed_ns=idle_before("launch", launches.first),
        saved_ns=int(gaps.parts["launch"][close].sum()),
        between_ns=int((gaps.parts["host"] + gaps.parts["call"])[close].sum()),
    )


def judged_launches(capture: Capture) -> tuple[str, Capture]:
    """Return the part of a capture that is judged, in words and as a view; that with most of its GPU work."""
    whole = "the selected part" if capture.view.selection.windowed else "the whole capture"
    parts = [part for part in judged_parts(capture) if part.steps.found]
    if not parts:
        return whole, capture
    view = max((part.view for part in parts), key=lambda view: len(gpu_operations_of(view)))
    return ("the steady part", view) if (~launches_of(view).first).any() else (whole, capture)


def launch_verdict(capture: Capture) -> str:
    """Return what launching cost the GPU in words, and the most that can be saved."""
    launches = launches_of(capture)
    if launches.first.all():
        return f"Every kernel was launched once; launch overhead not assessed ({_firsts(launches)})."
    name, view = judged_launches(capture)
    cost, judged = launch_cost_of(view), launches_of(view)
    again = judged.of(~judged.first)
    sentences = [
        headline(name, cost),
        (
            f"Median launch call {duration(np.median(again.api_ns))} for "
            f"{duration(np.median(again.gpu_ns))} of GPU work"
        ),
        f"CUDA graphs or fusion could save {_savings(cost)}",
        *([f"Excluded: {_firsts(judged)}"] if judged.first.any() else []),
        *_main_cause(cost),
    ]
    return " ".join(f"{sentence}." for sentence in sentences)


def headline(part: str, cost: LaunchCost) -> str:
    """Return what launching cost in a part of a capture, which is named."""
    return (
        f"Launch latency left the GPU idle for {duration(cost.exposed_ns)} "
        f"({percent(100 * cost.weight)} of {part}); the GPU was busy for {duration(cost.busy_ns)}"
    )


def _firsts(launches: Launches) -> str:
    count = int(launches.first.sum())
    spent = duration(int(launches.api_ns[launches.first].sum()))
    return f"{count:,} first launch{'' if count == 1 else 'es'}, {spent} of CPU time"


def _savings(cost: LaunchCost) -> str:
    if not cost.saved_ns + cost.between_ns:
        return "nothing: the delayed launches follow a wait" if cost.exposed_ns else "nothing"
    between = (
        f" of launch latency and {duration(cost.between_ns)} of host code and other calls between launches"
        if cost.between_ns
        else ""
    )
    return f"at most {duration(cost.saved_ns)}{between}"


def _main_cause(cost: LaunchCost) -> list[str]:
    """Return the main cause of idle time, unless it is the launches of a launch-bound run."""
    parts = {CAUSES[cause]: time for cause, time in cost.idle_ns.items()}
    parts[CAUSES["launch"]] -= cost.first_exposed_ns
    parts["first launches"] = cost.first_exposed_ns
    total, cause = sum(parts.values()), max(parts, key=lambda name: parts[name])
    if not total or (cost.launch_bound and cause == CAUSES["launch"]):
        return []
    return [
        f"GPU idle for {duration(total)} in total, mostly {cause} ({duration(parts[cause])}; -r gpu_idle)"
    ]


@per_capture
def back_to_back(whole: Capture) -> NDArray[Any]:
    """Mark the launches of the whole capture whose thread did not wait since its previous launch."""
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
    return marks


def ended_by(launches: Launches, gaps: Gaps) -> NDArray[Any]:
    """Return the position of the launch whose operation ended each gap; -1 if it is none of these."""
    if not len(launches):
        return np.full(len(gaps), -1)
    call = gaps.call
    launch = np.full(
        max(int(launches.call.max()), int(call.max(initial=0))) + 2, -1
    )  # the last is that of -1
    launch[launches.call] = np.arange(len(launches))
    return launch[call]  # type: ignore[no-any-return]
