"""Kernel executions by duration: how many of each kernel are in each class of durations.

A median hides two modes, a long tail and a slow first execution; the classes show them. Those of a kernel are
equally wide on a logarithmic scale: the finest scale on which its durations take at most 13 classes. Kernels
come by their total time, the longest first. ``--match NAME`` shows some of them. With a selected time,
durations are those inside it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, grouped
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import MOST
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.summaries import kernels
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema

_PER_DECADE = (3, 10, 30, 100, 300, 1000)  # classes, equally wide on a logarithmic scale
_DECADES, _MOST = 13, 12  # to 3 hours; classes of a kernel


def compute(capture: Capture) -> Result:
    """Return one row per kernel name and class of durations that occurs."""
    executions = kernels(capture)
    codes, (names,) = group_keys(executions.codes)
    of_kernel = grouped(codes, executions.values, len(names))
    decades = np.log10(np.maximum(of_kernel.max, 1) / np.maximum(of_kernel.min, 1))
    fineness = np.searchsorted(-_MOST / np.array(_PER_DECADE), -decades, "right") - 1
    edges = np.concatenate([_edges(number) for number in _PER_DECADE])
    first = np.cumsum([0, *(len(_edges(number)) for number in _PER_DECADE)])
    classes = np.empty_like(executions.values)
    for number, per_decade in enumerate(_PER_DECADE):
        mine = np.maximum(fineness, 0)[codes] == number
        own = np.searchsorted(_edges(per_decade), executions.values[mine], "right") - 1
        classes[mine] = first[number] + own
    pairs, (kernel, of) = group_keys(codes, classes)
    rows = grouped(pairs, executions.values, len(of))
    return Result(
        {
            "from_ns": edges[of],
            "to_ns": edges[of + 1],
            "instances": rows.count,
            "instances_percent": 100 * rows.count / of_kernel.count[kernel],
            "total_ns": rows.total,
            "of_kernel_ns": of_kernel.total[kernel],
            "name": [executions.labels[code] for code in names[kernel].tolist()],
        }
    )


@cache
def _edges(per_decade: int) -> NDArray[Any]:
    """Return the ends of classes in whole ns. The first class has executions without a duration."""
    powers = 10 ** (np.arange(_DECADES * per_decade + 1) / per_decade)
    return np.unique([0, *np.ceil(powers.round(6)).astype(np.int64).tolist(), MOST])


SCHEMA = Schema(
    "kernel_histogram",
    "Kernel durations by class",
    Column("from_ns", "From", "shortest duration of the class"),
    Column("to_ns", "Below", "end of the class: durations are shorter"),
    Column.count("instances", "Instances", "executions of this kernel in the class"),
    Column("instances_percent", "Share", "executions in the class, of all of the kernel", bar=True),
    Column("total_ns", "Total Time", "time of these executions", 2),
    Column("of_kernel_ns", "Of Kernel", "time of all executions of the kernel", 3),
    Column("name", "Name", "kernel name (demangled, base or mangled)", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",),),
    compute=compute,
    order=(Order("of_kernel_ns", descending=True),),
    qualifiers=KERNEL_NAMES,
    reads={"kernel": NAMED},
    packs=("kernel",),
)
