"""Whether launching is what the GPU waits for: idle time inside launches against the time it works."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.base.units import duration, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.analysis.launches import Launches
    from nsyswrap.capture.capture import Capture

_WAITS = re.compile("cu(da)?(.*Synchronize|Memcpy(?!.*Async))")
_HALF, _WORTH = 0.5, 0.05


@dataclass(frozen=True)
class LaunchCost:
    """What launching cost the GPU, in ns, summed over processes and devices.

    ``exposed_ns`` is the idle time inside repeat launches, ``first_exposed_ns`` inside first ones. Graphs or
    fusion can take away at most ``saved_ns`` of the former and ``between_ns`` of the host's own time: what
    lies before launches that their thread made without a wait since the one before. The first launch after
    a wait stays. ``idle_ns`` is all idle time, by cause.
    """

    busy_ns: int
    idle_ns: dict[str, int]
    exposed_ns: int
    first_exposed_ns: int
    saved_ns: int
    between_ns: int

    @property
    def share(self) -> float:
        """What is exposed, as part of the time that the GPU works or is kept from it by launches."""
        return self.exposed_ns / max(self.busy_ns + self.exposed_ns, 1)

    @property
    def weight(self) -> float:
        """What is exposed, as part of all the time between the first operation and the last."""
        return self.exposed_ns / max(self.busy_ns + sum(self.idle_ns.values()), 1)

    @property
    def launch_bound(self) -> bool:
        """Whether the GPU waits for repeat launches as long as it works, and for 5 % of the time or more."""
        return self.share >= _HALF and self.weight >= _WORTH


def launch_cost_of(capture: Capture) -> LaunchCost:
    """Return what launching cost the GPU in what is selected."""
    launches, gaps, operations = launches_of(capture), gaps_of(capture), gpu_operations_of(capture)
    ended = ended_by(launches, gaps)
    close = ~launches.first & back_to_back(capture, launches)

    def taken(cause: str, which: NDArray[Any]) -> int:
        return int(gaps.parts[cause][np.append(which, False)[ended]].sum())

    return LaunchCost(
        busy_ns=sum(
            union(operations.start_ns[rows], operations.end_ns[rows]).length
            for _, _, rows in operations.by_device()
        ),
        idle_ns={cause: int(part.sum()) for cause, part in gaps.parts.items()},
        exposed_ns=taken("launch", ~launches.first),
        first_exposed_ns=taken("launch", launches.first),
        saved_ns=taken("launch", close),
        between_ns=taken("host", close),
    )


def launch_verdict(capture: Capture) -> str:
    """Say whether what is selected is launch-bound, by how much, and what could be saved at most."""
    launches = launches_of(capture)
    if launches.first.all():
        return f"Nothing to judge launching by: no launch is repeated ({_firsts(launches)})."
    found, again = launch_cost_of(capture), launches.of(~launches.first)
    left_out = [f"left out: {_firsts(launches)}"] if launches.first.any() else []
    more = "; ".join([*left_out, *_elsewhere(found)])
    said = (
        f"{headline(found)}; median launch call {duration(np.median(again.api_ns))} for "
        f"{duration(np.median(again.gpu_ns))} of GPU work; graphs or fusion could save {_savings(found)}."
    )
    return f"{said} {more[0].upper()}{more[1:]}." if more else said


def headline(found: LaunchCost) -> str:
    """Say whether launching is what the GPU waits for, and by what measure."""
    return (
        f"{'Launch-bound' if found.launch_bound else 'Not launch-bound'}: the GPU idles "
        f"{duration(found.exposed_ns)} inside repeat launches and works {duration(found.busy_ns)} "
        f"({_shares(found)})"
    )


def _shares(found: LaunchCost) -> str:
    little = found.share >= _HALF and not found.launch_bound
    return f"{percent(100 * found.share)} idle" + little * f", but {percent(100 * found.weight)} of the whole"


def _firsts(launches: Launches) -> str:
    count = int(launches.first.sum())
    spent = duration(int(launches.api_ns[launches.first].sum()))
    return f"{count:,} first launch{'' if count == 1 else 'es'}, {spent} of CPU time"


def _savings(found: LaunchCost) -> str:
    if not found.saved_ns + found.between_ns:
        return "nothing, as launches after a wait stay" if found.exposed_ns else "nothing"
    between = f", and {duration(found.between_ns)} of host time in between" if found.between_ns else ""
    return f"at most {duration(found.saved_ns)}{between}"


def _elsewhere(found: LaunchCost) -> list[str]:
    """Name the main cause of idle time, unless it is what the verdict is about."""
    parts = {CAUSES[cause]: time for cause, time in found.idle_ns.items()}
    parts[CAUSES["launch"]] -= found.first_exposed_ns
    parts["inside a first launch"] = found.first_exposed_ns
    total, cause = sum(parts.values()), max(parts, key=lambda name: parts[name])
    if not total or (found.launch_bound and cause == CAUSES["launch"]):
        return []
    return [f"largest part of {duration(total)} idle: {duration(parts[cause])} {cause} (-r gpu_idle)"]


def back_to_back(capture: Capture, launches: Launches) -> NDArray[Any]:
    """Mark the launches before which their thread waited for nothing since the one before."""
    api = capture.whole.columns("api", "start_ns", "global_tid")
    ids, positions = distinct(capture.whole.name_ids("api"))
    waits = np.array([bool(_WAITS.match(capture.text(i) or "")) for i in ids.tolist()], bool)[positions]
    order = np.lexsort((api["start_ns"], api["global_tid"]))
    waited = np.empty(len(order), np.int64)
    waited[order] = np.cumsum(waits[order])
    by_thread = np.argsort(api["global_tid"][launches.call], kind="stable")  # launches are in order of time
    calls = launches.call[by_thread]
    found = np.zeros(len(calls), dtype=bool)
    found[by_thread[1:]] = (np.diff(api["global_tid"][calls]) == 0) & (np.diff(waited[calls]) == 0)
    return found


def ended_by(launches: Launches, gaps: Gaps) -> NDArray[Any]:
    """Return the launch whose operation ended each gap, by position; -1: none of these."""
    if not len(launches):
        return np.full(len(gaps), -1)
    call, by_call = gaps.call, np.argsort(launches.call)
    found = np.searchsorted(launches.call[by_call], call)
    launch = by_call[np.minimum(found, len(launches) - 1)]
    return np.where(launches.call[launch] == call, launch, -1)
