"""Define the columns that many reports share, with their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import Statistics
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.reports.table import Column

KERNEL_NAMES = ("base", "mangled", "nvtx-name")  # the qualifiers of most reports that name kernels

TIME_PERCENT = Column(
    "time_percent", "Time", Unit.PERCENT, "share of the total of the listed rows, not of the run"
)
TOTAL_TIME = Column("total_ns", "Total Time", Unit.NS, "sum of the durations")
FLOP_PER_S = Column(
    "flop_per_s", "FLOP Rate", Unit.FLOP_PER_S, "FLOPs by time; empty if shapes tell of less than 80 %", 5
)
PEAK_PERCENT = Column(
    "peak_percent", "Of Peak", Unit.PERCENT, "share of the GPU's peak FLOP/s of the types", 5
)


def stat_columns(
    prefix: str = "", header: str = "", unit: Unit = Unit.NS, of: str = "the durations"
) -> tuple[Column, ...]:
    """Return the five columns of statistics in nsys' summaries, in nsys' order. ``of`` names the values."""
    return tuple(
        Column(f"{prefix}{short}_{unit.value}", f"{header}{title}", unit, f"{text} {of}{more}", drop_order)
        for short, title, drop_order, text, more in (
            ("avg", "Avg", 5, "arithmetic mean of", ""),
            ("med", "Med", 0, "median of", ""),
            ("min", "Min", 8, "smallest of", ""),
            ("max", "Max", 7, "largest of", ""),
            ("std", "StdDev", 9, "sample standard deviation (n - 1) of", "; 0 for a single value"),
        )
    )


def time_columns(count: Column, *others: Column) -> tuple[Column, ...]:
    """Return the columns of nsys' time summaries: share and sum of the time, count, statistics, others."""
    return (TIME_PERCENT, TOTAL_TIME, count, *stat_columns(), *others)


def stat_values(statistics: Statistics, prefix: str = "", unit: Unit = Unit.NS) -> dict[str, NDArray[Any]]:
    """Return the values of ``stat_columns``. Min and max are missing in a group without values."""
    empty = statistics.count == 0
    return {
        f"{prefix}avg_{unit.value}": statistics.avg,
        f"{prefix}med_{unit.value}": statistics.med,
        f"{prefix}min_{unit.value}": np.where(empty, MISSING, statistics.min),
        f"{prefix}max_{unit.value}": np.where(empty, MISSING, statistics.max),
        f"{prefix}std_{unit.value}": statistics.std,
    }


def share(total: NDArray[Any]) -> NDArray[Any]:
    """Return each total as percent of their sum, or NaN if the sum is 0."""
    whole = total.sum()
    return total * 100.0 / whole if whole else np.full(len(total), np.nan)
