"""Kernel time by class: matrix products, attention, elementwise, copies and others.

The full demangled name decides the class, whichever names are shown. A kernel that matches no rule is in
class ``other``. Your own rules (``--classes``) come before the built-in ones. With a selected time, figures
are of the parts of kernels inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys
from nsyswrap.analysis.kernel_names import CLASSES
from nsyswrap.analysis.names import kernel_classes
from nsyswrap.analysis.peaks import kernel_arithmetic
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports import summaries
from nsyswrap.reports.table import (
    BY_TOTAL,
    KERNEL_NAMES,
    TIME_PERCENT,
    TOTAL_TIME,
    Column,
    Report,
    Result,
    Schema,
    share,
)

_LEAST_TYPE = 0.01  # of the time of a class
_QUANTILES = {"p95_ns": 0.95, "p99_ns": 0.99}


def compute(capture: Capture) -> Result:
    """Return one row per kernel class that occurs."""
    kernels = summaries.kernels(capture)
    durations = kernels.values
    codes, classes = kernel_classes(capture)
    rows = GroupBy(codes, len(classes))
    of = rows.of(durations)
    number, largest = _kernels(codes, kernels, len(classes))
    return Result(
        {
            "class": classes,
            "kernels": number,
            "instances": of.count,
            "time_percent": share(of.total),
            "total_ns": of.total,
            "avg_ns": of.avg,
            "med_ns": of.med,
            **{name: rows.quantile(durations, part) for name, part in _QUANTILES.items()},
            "largest_name": largest,
            **_arithmetic(capture, codes, durations, len(classes)),
        },
        _graph_notes(capture),
    )


def _kernels(
    classes: NDArray[Any], kernels: summaries.GroupedRows, count: int
) -> tuple[NDArray[Any], Sequence[str | None]]:
    """Return the number of kernel names in each class, and the name with the most time.

    Of names with equal time the first one counts.
    """
    pairs, (name, kind) = group_keys(kernels.codes, classes)  # mostly one class for each name
    total = GroupBy(pairs, len(kind)).totals(kernels.values)
    by_time = np.lexsort((name, -total, kind))
    first = by_time[np.searchsorted(kind[by_time], np.arange(count))]
    return np.bincount(kind, minlength=count), [kernels.labels[i] for i in name[first].tolist()]


def _arithmetic(
    capture: Capture, classes: NDArray[Any], durations: NDArray[Any], count: int
) -> dict[str, NDArray[Any] | Sequence[str | None]]:
    """Return the types of the inputs in each class, by time, and the shares with and without tensor cores."""
    codes, said = kernel_arithmetic(capture)
    pairs, (kind, name) = group_keys(classes, codes)
    total = GroupBy(pairs, len(kind)).totals(durations)
    time = {known: np.zeros(count) for known in (True, False, None)}
    types: list[Counter[str]] = [Counter() for _ in range(count)]
    for of_class, of_name, ns in zip(kind.tolist(), name.tolist(), total.tolist(), strict=True):
        time[said[of_name].tensor_cores][of_class] += ns
        types[of_class][said[of_name].input_type or "unknown"] += ns
    whole = np.where(time[True] + time[False] > 0, sum(time.values()), np.nan)  # no share if none is known
    named = [
        ", ".join(text for text, ns in of_class.most_common() if ns >= _LEAST_TYPE * of_class.total())
        for of_class in types
    ]
    return {
        "input_types": [None if text == "unknown" else text for text in named],
        "tensor_core_percent": time[True] * 100 / whole,
        "no_tensor_core_percent": time[False] * 100 / whole,
    }


def _graph_notes(capture: Capture) -> tuple[str, ...]:
    graphs = capture.count("graph")
    text = (
        f"whole-graph executions ({graphs:,}) hide their kernels, which are in no class; profile with "
        "--graphs node"
    )
    return (text,) if graphs else ()


SCHEMA = Schema(
    "kernel_class_sum",
    "Kernel time by class",
    Column("class", "Class", f"class by kernel name: {', '.join(CLASSES)}, or one of --classes"),
    Column.count("kernels", "Kernels", "distinct kernel names", 1),
    Column.count("instances", "Instances", "number of executions, graph nodes included"),
    TIME_PERCENT,
    TOTAL_TIME,
    Column("avg_ns", "Avg", "arithmetic mean of the durations", 4),
    Column("med_ns", "Med", "median of the durations"),
    Column("p95_ns", "P95", "95 % of the executions took this long or less", 2),
    Column("p99_ns", "P99", "99 % of the executions took this long or less", 5),
    Column("largest_name", "Top Kernel", "kernel with the most time in the class", kernels=True),
    Column(
        "input_types",
        "Input Types",
        "types of the inputs by names, longest first, from 1 % of the time of the class",
        1,
    ),
    Column(
        "tensor_core_percent",
        "Tensor Cores",
        "share of the time of the class in kernels whose name says that they use tensor cores",
        2,
    ),
    Column(
        "no_tensor_core_percent",
        "CUDA Cores",
        "share in kernels whose name says that they use none; the rest is unknown",
        6,
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",),),
    compute=compute,
    order=BY_TOTAL,
    qualifiers=KERNEL_NAMES,
    reads={"kernel": NAMED},
    packs=("kernel",),
)
