"""Answers written down by hand, for tests of how they are shown."""

from typing import Any

import numpy as np

from nsyswrap.analysis.answer import Answer, DeviceTime, JudgedSteps, Outlier, StartUp
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.steps.occurrences import LoopLabel
from nsyswrap.capture.intervals import NOTHING, IntervalSet

MS = 1_000_000


def steps(**changes: Any) -> JudgedSteps:
    """30 steps of 2 ms each, numbered from 0."""
    known = {
        "label": LoopLabel.of_range("step"),
        "count": 30,
        "first": 0,
        "last": 29,
        "warm_up": 0,
        "total": 30,
    }
    times = {"mean_ns": 2.0 * MS, "median_ns": 2.0 * MS, "outliers": ()}
    return JudgedSteps(**{**known, **times, **changes})


def device(number: int = 0, process: int = 7, *, busy: dict[str, int], idle: dict[str, int]) -> DeviceTime:
    """A device with times in ms."""
    busy_ns, idle_ns = ({name: ms * MS for name, ms in times.items()} for times in (busy, idle))
    return DeviceTime(process, number, sum(busy_ns.values()) + sum(idle_ns.values()), busy_ns, idle_ns)


def finding(kind: FindingKind, ceiling_ms: float | None, **numbers: Any) -> Finding:
    """A finding about the 60 ms of the 30 steps."""
    ceiling_ns = None if ceiling_ms is None else int(ceiling_ms * MS)
    return Finding(kind, {"steps": 30, **numbers}, NOTHING, ceiling_ns, "bound", "gpu_idle", 60 * MS)


def fact(kind: FindingKind, ms: float, **numbers: Any) -> Finding:
    """A fact about so much of the 60 ms of the 30 steps."""
    cover = IntervalSet(np.array([0]), np.array([int(ms * MS)]))
    return Finding(kind, numbers, cover, None, "measured", "cuda_kern_exec_trace", 60 * MS)


LAUNCHES = finding(
    "launch_bound",
    30,
    bounds=True,
    launches=90,
    median_launch_ns=4600.0,
    median_work_ns=1200.0,
    inside_ns=30 * MS,
    between_ns=0,
)


def spikes(*numbers: int, ceiling_ms: float) -> Finding:
    """A finding on outliers of 12 ms among the 30 steps."""
    times = {"median_ns": 2.0 * MS, "outlier_ns": 12.0 * MS, "more_ns": int(ceiling_ms * MS)}
    return finding("spikes", ceiling_ms, step_numbers=numbers, **times)


# Of 60 ms: 15 % busy, 50 % in launches, 30 % in host code, 5 % in synchronize calls.
LAUNCH_BOUND = device(busy={"gemm_kernel": 9}, idle={"host": 18, "launch": 30, "synchronise": 3})


def answer(*devices: DeviceTime, **changes: Any) -> Answer:
    """An answer about 30 steps of 2 ms after 3.5 s of start-up."""
    known: dict[str, Any] = {
        "scope": "steady part",
        "why_whole": None,
        "steps": steps(),
        "withheld": None,
        "notes": (),
    }
    known |= {"remarks": (), "notes": ()}
    known |= {"start_up": StartUp(3_500 * MS, 150 * MS), "findings": (LAUNCHES,)}
    return Answer(**{**known, "devices": devices or (LAUNCH_BOUND,), **changes})


def outlier(number: int, duration_ms: int, **filled_ms: int) -> Outlier:
    return Outlier(number, duration_ms * MS, 2 * MS, {state: ms * MS for state, ms in filled_ms.items()})
