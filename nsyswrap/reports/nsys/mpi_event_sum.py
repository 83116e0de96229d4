"""MPI summary: time in MPI calls, by class of call and function."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, grouped
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import Column, Report, Result, Schema, share, stat_values, time_columns

# nsys' names of the classes, in the order in which rows of equal total stand.
CLASSES = {
    "collectives": "mpi_collective",
    "other": "mpi_other",
    "p2p": "mpi_p2p",
    "start-wait": "mpi_start_wait",
}


def compute(capture: Capture) -> Result:
    """Return one row per class and name id. A call that never ended counts, without a duration."""
    classes, ids, durations = _calls(capture)
    codes, (group_class, group_id) = group_keys(classes, ids)
    ended = durations != MISSING
    stats = grouped(codes[ended], durations[ended], len(group_id))
    total = np.where(stats.count, stats.total, MISSING)
    numbers = {
        "time_percent": np.where(stats.count, share(stats.total), np.nan),
        "total_ns": total,
        "instances": np.bincount(codes),
        **stat_values(stats),
    }
    order = np.argsort(~total, kind="stable")  # descending, what is missing last
    return Result(
        {
            **{name: values[order] for name, values in numbers.items()},
            "source": [list(CLASSES)[i] for i in group_class[order]],
            "name": [capture.text(int(i)) for i in group_id[order]],
        }
    )


def _calls(capture: Capture) -> tuple[NDArray[Any], ...]:
    """Return class number, name id and duration in ns (``MISSING``: did not end) of every call."""
    parts = []
    for number, kind in enumerate(CLASSES.values()):
        if capture.has(kind):
            start, end, ids = capture.columns(kind, "start_ns", "end_ns", "name").values()
            parts.append((np.full(len(ids), number), ids, np.where(end == MISSING, MISSING, end - start)))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


SCHEMA = Schema(
    "mpi_event_sum",
    "MPI Event Summary",
    *time_columns(
        Column.count("instances", "Instances", "number of calls"),
        Column("source", "Source", "point-to-point, start or wait, collective, or other"),
        Column("name", "Name", "MPI function"),
    ),
)

REPORT = Report(SCHEMA, needs=(tuple(CLASSES.values()),), compute=compute)
