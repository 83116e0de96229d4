"""Sum up what launching costs the GPU: idle time inside launches, and what graphs or fusion can save."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import pieces_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.analysis.launches import Launches
    from nsyswrap.capture.capture import Capture

_WAITS = re.compile("cu(da)?(.*Synchronize|Memcpy(?!.*Async))")


@dataclass(frozen=True)
class LaunchCost:
    """The GPU time that launching cost, in ns, summed over processes and devices.

    ``exposed_ns`` is the idle time inside repeat launches, ``first_exposed_ns`` inside first launches.
    ``idle_ns`` is all idle time, by cause. CUDA graphs or fusion can save at most ``saved_ns`` of
    ``exposed_ns``, and ``between_ns`` of the time in host code. These two only count gaps that end with a
    launch whose thread did not wait since its previous launch: the first launch after a wait remains.
    """

    busy_ns: int
    idle_ns: dict[str, int]
    exposed_ns: int
    first_exposed_ns: int
    saved_ns: int
    between_ns: int

    @property
    def total_ns(self) -> int:
        """The time from the first to the last operation, summed over processes and devices."""
        return self.busy_ns + sum(self.idle_ns.values())

    @property
    def percent(self) -> float:
        """Exposed time as a percentage of the total time."""
        return 100 * self.exposed_ns / max(self.total_ns, 1)


def launch_cost_of(capture: Capture) -> LaunchCost:
    """Return what launching cost the GPU in the selected part of a capture."""
    launches, gaps, operations = launches_of(capture), gaps_of(capture), pieces_of(capture)
    ended = ended_by(launches, gaps)
    close = ~launches.first & back_to_back(capture, launches)

    def idle_before(cause: str, which: NDArray[Any]) -> int:
        return int(gaps.parts[cause][np.append(which, False)[ended]].sum())

    return LaunchCost(
        busy_ns=sum(
            union(operations.start_ns[rows], operations.end_ns[rows]).length
            for _, _, rows in operations.by_device()
        ),
        idle_ns={cause: int(part.sum()) for cause, part in gaps.parts.items()},
        exposed_ns=idle_before("launch", ~launches.first),
        first_exposed_ns=idle_before("launch", launches.first),
        saved_ns=idle_before("launch", close),
        between_ns=idle_before("host", close),
    )


def launch_verdict(capture: Capture) -> str:
    """Return the cost in words, and the most that can be saved, of all that is selected.

    That is not the steady part: whether that is launch-bound, the answer tells.
    """
    launches = launches_of(capture)
    if launches.first.all():
        return f"No launch is repeated, so launching is not judged ({_firsts(launches)})."
    cost, again = launch_cost_of(capture), launches.of(~launches.first)
    left_out = [f"left out: {_firsts(launches)}"] if launches.first.any() else []
    more = "; ".join([*left_out, *_main_cause(cost)])
    verdict = (
        f"{headline(cost)}; median launch call {duration(np.median(again.api_ns))} for "
        f"{duration(np.median(again.gpu_ns))} of GPU work; graphs or fusion could save {_savings(cost)}."
    )
    return f"{verdict} {more[0].upper()}{more[1:]}." if more else verdict


def headline(cost: LaunchCost) -> str:
    """Return in words how long the GPU was idle inside repeat launches, and how long it worked."""
    return (
        f"The GPU idles {duration(cost.exposed_ns)} inside repeat launches and works "
        f"{duration(cost.busy_ns)} of {duration(cost.total_ns)} ({percent(cost.percent)} idle in launches)"
    )


def _firsts(launches: Launches) -> str:
    count = int(launches.first.sum())
    spent = duration(int(launches.api_ns[launches.first].sum()))
    return f"{count:,} first launch{'' if count == 1 else 'es'}, {spent} of CPU time"


def _savings(cost: LaunchCost) -> str:
    if not cost.saved_ns + cost.between_ns:
        return "nothing, as launches after a wait stay" if cost.exposed_ns else "nothing"
    between = f", and {duration(cost.between_ns)} of host time in between" if cost.between_ns else ""
    return f"at most {duration(cost.saved_ns)}{between}"


def _main_cause(cost: LaunchCost) -> list[str]:
    """Return the main cause of idle time, unless it is launching, which the headline has."""
    parts = {CAUSES[cause]: time for cause, time in cost.idle_ns.items()}
    parts[CAUSES["launch"]] -= cost.first_exposed_ns
    parts["inside a first launch"] = cost.first_exposed_ns
    total, cause = sum(parts.values()), max(parts, key=lambda name: parts[name])
    if not total or cause == CAUSES["launch"]:
        return []
    return [f"largest part of {duration(total)} idle: {duration(parts[cause])} {cause} (-r gpu_idle)"]


def back_to_back(capture: Capture, launches: Launches) -> NDArray[Any]:
    """Mark the launches whose thread did not wait since its previous launch."""
    api = capture.whole.columns("api", "start_ns", "global_tid")
    ids, positions = distinct(capture.whole.name_ids("api"))
    waits = np.array([bool(_WAITS.match(capture.text(i) or "")) for i in ids.tolist()], bool)[positions]
    order = np.lexsort((api["start_ns"], api["global_tid"]))
    waited = np.empty(len(order), np.int64)
    waited[order] = np.cumsum(waits[order])
    by_thread = np.argsort(api["global_tid"][launches.call], kind="stable")  # launches are sorted by time
    calls = launches.call[by_thread]
    marks = np.zeros(len(calls), dtype=bool)
    marks[by_thread[1:]] = (np.diff(api["global_tid"][calls]) == 0) & (np.diff(waited[calls]) == 0)
    return marks


def ended_by(launches: Launches, gaps: Gaps) -> NDArray[Any]:
    """Return the position of the launch whose operation ended each gap; -1 if it is none of these."""
    if not len(launches):
        return np.full(len(gaps), -1)
    call, by_call = gaps.call, np.argsort(launches.call)
    place = np.searchsorted(launches.call[by_call], call)
    launch = by_call[np.minimum(place, len(launches) - 1)]
    return np.where(launches.call[launch] == call, launch, -1)
