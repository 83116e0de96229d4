"""What launching cost: the first launch of each kernel apart from the repeats.

A launch is one API call that started kernels: a graph launch counts once, a runtime call and the driver
call below it count once (the outer one). First launches pay for module loading, so their time says
nothing about launching. Queue is nsys' queue time: from the call's return to the start of its first kernel,
over the launches where that is not negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.join import first_launches, outermost_launches
from nsyswrap.report import NAMED, SPANS, Column, Report
from nsyswrap.stats import grouped
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from nsyswrap.capture import Capture
    from nsyswrap.report import Values

LABELS = ("repeat launches", "first launches")


def compute(capture: Capture) -> dict[str, Values]:
    """Return one row for repeated and one for first launches; a class without launches has no row."""
    launch = outermost_launches(capture)
    codes = first_launches(capture, launch).astype(np.int64)
    waited = launch.queue_ns >= 0
    api = grouped(codes, launch.api_ns, 2)
    queue = grouped(codes[waited], launch.queue_ns[waited], 2)
    kernel = grouped(codes, launch.gpu_ns, 2)
    rows = np.flatnonzero(api.count)
    return {
        "launches": [LABELS[row] for row in rows],
        "count": api.count[rows],
        "api_total_ns": api.total[rows],
        "api_med_ns": api.med[rows],
        "api_max_ns": api.max[rows],
        "queue_med_ns": queue.med[rows],
        "kernel_med_ns": kernel.med[rows],
        "kernel_total_ns": kernel.total[rows],
    }


REPORT = Report(
    name="launch_overhead",
    title="Launch overhead",
    layer="analysis",
    needs=(("kernel",), ("api",)),
    columns=(
        Column("launches", "Launches", Unit.TEXT, "first: of this kernel in this process"),
        Column("count", "Count", Unit.COUNT, "API calls that launched kernels"),
        Column("api_total_ns", "API Total", Unit.NS, "CPU time in the launch calls", detail=1),
        Column("api_med_ns", "API Med", Unit.NS, "median CPU time of one call"),
        Column("api_max_ns", "API Max", Unit.NS, "longest call", detail=7),
        Column(
            "queue_med_ns",
            "Queue Med",
            Unit.NS,
            "median wait from return to first kernel, of those that waited",
        ),
        Column("kernel_med_ns", "Kernel Med", Unit.NS, "median GPU time of one launch's kernels"),
        Column("kernel_total_ns", "Kernel Total", Unit.NS, "GPU time of the kernels"),
    ),
    compute=compute,
    reads={
        "kernel": (*NAMED, "correlation_id", "global_pid"),
        "api": (*SPANS, "global_tid", "correlation_id"),
    },
)
