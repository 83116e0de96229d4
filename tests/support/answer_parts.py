"""Answers written down by hand, for tests of how they are shown."""

from __future__ import annotations

from typing import Any

from nsyswrap.analysis.advice import Advice
from nsyswrap.analysis.answer import Answer, DeviceTime, JudgedSteps, Outlier, StartUp

MS = 1_000_000


def steps(**changes: Any) -> JudgedSteps:
    """30 steps of 2 ms each, numbered from 0."""
    known = {"label": "'step'", "count": 30, "first": 0, "last": 29, "warm_up": 0, "total": 30}
    times = {"mean_ns": 2.0 * MS, "median_ns": 2.0 * MS, "outliers": ()}
    return JudgedSteps(**{**known, **times, **changes})


def device(number: int = 0, process: int = 7, *, busy: dict[str, int], idle: dict[str, int]) -> DeviceTime:
    """A device with times in ms."""
    busy_ns, idle_ns = ({name: ms * MS for name, ms in times.items()} for times in (busy, idle))
    return DeviceTime(process, number, sum(busy_ns.values()) + sum(idle_ns.values()), busy_ns, idle_ns)


def finding(name: str, what: str, potential_ms: float | None, **changes: Any) -> Advice:
    texts = {"evidence": "seen", "do": "do this", "unless": "not that", "see": "gpu_idle"}
    texts |= {"remedy": "fewer launches", "example": "fuse()"}
    potential_ns = None if potential_ms is None else int(potential_ms * MS)
    return Advice(
        name=name, what=what, potential_ns=potential_ns, **{**texts, "window_ns": 60 * MS, **changes}
    )


LAUNCHES = finding(
    "launch_bound",
    "Launch-bound: median launch 4.60 µs for 1.20 µs of GPU work",
    30,
    remedy="CUDA graphs or fusion",
)
# Of 60 ms: 15 % busy, 50 % in launches, 30 % in host code, 5 % in synchronize calls.
LAUNCH_BOUND = device(busy={"gemm_kernel": 9}, idle={"host": 18, "launch": 30, "synchronise": 3})


def answer(*devices: DeviceTime, **changes: Any) -> Answer:
    """An answer about 30 steps of 2 ms after 3.5 s of start-up."""
    known = {"part": "steady part", "why_whole": "", "steps": steps(), "withheld": "", "notes": ()}
    known |= {"start_up": StartUp(3_500 * MS, 150 * MS), "findings": (LAUNCHES,)}
    return Answer(**{**known, "devices": devices or (LAUNCH_BOUND,), **changes})


def outlier(number: int, duration_ms: int, **filled_ms: int) -> Outlier:
    return Outlier(number, duration_ms * MS, {state: ms * MS for state, ms in filled_ms.items()})
