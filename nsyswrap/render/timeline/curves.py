"""Curves below the lanes: what a run's samples say of each GPU over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.conditions import run_conditions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

GROUP = "clocks and power"
_NS_PER_S = 1_000_000_000
# Column of the samples: title, unit, and units of the column in it.
_SAMPLED = {
    "sm_mhz": ("SM clock", "MHz", 1),
    "memory_mhz": ("memory clock", "MHz", 1),
    "power_mw": ("power", "W", 1000),
    "temperature_c": ("temperature", "\N{DEGREE SIGN}C", 1),
}


class Curve(NamedTuple):
    """A curve: samples in order of time, in ns on the clock of the capture, and their values as integers."""

    title: str
    unit: str
    times_ns: NDArray[Any]
    values: NDArray[Any]


def curves(capture: Capture) -> Iterator[Curve]:
    """Yield the curves of each GPU that worked; none without samples, or without any change in them."""
    run = run_conditions_of(capture)
    for gpu in run.gpus if run else ():
        times_ns = np.round(gpu.seconds * _NS_PER_S).astype(np.int64)
        for column, (name, unit, factor) in _SAMPLED.items():
            values = gpu.samples[column]
            known = np.flatnonzero(~np.isnan(values))
            whole = np.round(values[known] / factor).astype(np.int64)
            if len(known) and whole.min() < whole.max():
                yield Curve(f"GPU {gpu.gpu.index} {name}", unit, times_ns[known], whole)
