"""The sentence on what launching cost."""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.launch_bound import LaunchCost, judged_launches, launch_cost_of
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.base.text import counted
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.wording.states import CAUSE_NAMES


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


def headline(scope: str, cost: LaunchCost) -> str:
    """Return what launching cost in ``scope``, which names a part of a capture."""
    return (
        f"Launch latency left the GPU idle for {duration(cost.exposed_ns)} "
        f"({percent(100 * cost.weight)} of the {scope}); the GPU was busy for {duration(cost.busy_ns)}"
    )


def _firsts(launches: Launches) -> str:
    count = int(launches.first.sum())
    spent = duration(int(launches.api_ns[launches.first].sum()))
    return f"{counted(count, 'first launches')}, {spent} of CPU time"


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
    """Return the main cause of idle time, unless it is the launches and the first sentence says so."""
    parts = {CAUSE_NAMES[cause]: time for cause, time in cost.idle_ns.items()}
    parts[CAUSE_NAMES["launch"]] -= cost.first_exposed_ns
    parts["first launches"] = cost.first_exposed_ns
    total, cause = sum(parts.values()), max(parts, key=lambda name: parts[name])
    if not total or (cost.is_large and cause == CAUSE_NAMES["launch"]):
        return []
    return [
        f"GPU idle for {duration(total)} in total, mostly {cause} ({duration(parts[cause])}; -r gpu_idle)"
    ]
