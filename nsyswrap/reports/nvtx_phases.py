"""NVTX ranges by name: what the launches inside them cost, per instance.

For every push/pop range: the calls its thread made inside that launched kernels or whole CUDA graphs, their
queue times and what they started (wherever that ran, also after the range), the copies and memsets its calls
started, and the time the thread waited in synchronising calls. Unified-memory migrations belong to no call.
Medians are over the range's instances. A launch counts in every range around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.join import outermost_launches
from nsyswrap.nesting import Inside, Spans
from nsyswrap.nvtx import own_texts
from nsyswrap.report import Column, Report
from nsyswrap.schema import NVTX_PUSH_POP
from nsyswrap.stats import grouped
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture import Capture
    from nsyswrap.join import OutermostLaunches
    from nsyswrap.report import Values

SYNCHRONISING = "Synchronize"  # in the names of all calls that wait


def compute(capture: Capture) -> dict[str, Values]:
    """Return one row per range name, in order of first appearance."""
    ranges, codes, names = _ranges(capture)
    api = capture.columns("api", "start_ns", "end_ns", "global_tid")
    inside = Inside(Spans(api["global_tid"], api["start_ns"], api["end_ns"]), ranges)
    launched = [outermost_launches(capture, kind) for kind in ("kernel", "graph") if capture.has(kind)]
    copied = [outermost_launches(capture, kind) for kind in ("memcpy", "memset") if capture.has(kind)]
    rows = len(api["start_ns"])
    sync = np.zeros(rows, np.int64)
    waits = _synchronising(capture)
    sync[waits] = (api["end_ns"] - api["start_ns"])[waits]

    def per_call(launches: Sequence[OutermostLaunches], field: str) -> NDArray[Any]:
        spread = np.zeros(rows, np.int64)
        for launch in launches:
            spread[launch.api_row] += np.maximum(getattr(launch, field), 0)  # no wait is no queue time
        return spread

    def medians(values: NDArray[Any]) -> NDArray[Any]:
        return grouped(codes, values, len(names)).med

    calls = np.zeros(rows, np.int64)
    for launch in launched:
        calls[launch.api_row] = 1
    data: dict[str, Values] = {
        "range": names,
        "instances": np.bincount(codes, minlength=len(names)),
        "launches": grouped(codes, inside.sum(calls), len(names)).avg,
        "range_med_ns": medians(ranges.end - ranges.start),
        "api_med_ns": medians(inside.sum(per_call(launched, "api_ns"))),
        "queue_med_ns": medians(inside.sum(per_call(launched, "queue_ns"))),
        "kernel_med_ns": medians(inside.sum(per_call(launched, "gpu_ns"))),
        "copy_med_ns": medians(inside.sum(per_call(copied, "gpu_ns"))),
        "sync_med_ns": medians(inside.sum(sync)),
    }
    appearance = np.argsort(np.unique(codes, return_index=True)[1], kind="stable")
    return {
        name: values[appearance] if isinstance(values, np.ndarray) else [values[i] for i in appearance]
        for name, values in data.items()
    }


def _ranges(capture: Capture) -> tuple[Spans, NDArray[Any], list[str | None]]:
    """Every closed push/pop range by start, the code of its name, and the names, without domains."""
    events = capture.columns("nvtx", "start_ns", "end_ns", "event_type", "global_tid")
    closed = np.isin(events["event_type"], NVTX_PUSH_POP) & (events["end_ns"] >= events["start_ns"])
    rows = np.flatnonzero(closed)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    spans = Spans(*(events[field][rows] for field in ("global_tid", "start_ns", "end_ns")))
    return spans, *own_texts(capture, rows)


def _synchronising(capture: Capture) -> NDArray[Any]:
    ids = capture.name_ids("api")
    named = [i for i in np.unique(ids).tolist() if SYNCHRONISING in (capture.text(i) or "")]
    return np.isin(ids, named)


REPORT = Report(
    name="nvtx_phases",
    title="Launching inside NVTX ranges",
    layer="analysis",
    needs=(("nvtx",), ("api",)),
    columns=(
        Column("range", "Range", Unit.TEXT, "name of the NVTX push/pop range"),
        Column("instances", "Instances", Unit.COUNT, "number of ranges with this name"),
        Column("launches", "Launches", Unit.RATIO, "launch calls per instance (mean)"),
        Column("range_med_ns", "Range Med", Unit.NS, "median duration of the range on the CPU"),
        Column("api_med_ns", "API Med", Unit.NS, "median per instance: time in launch calls"),
        Column(
            "queue_med_ns",
            "Queue Med",
            Unit.NS,
            "median per instance: nsys' queue times of the launches",
            detail=2,
        ),
        Column(
            "kernel_med_ns",
            "Kernel Med",
            Unit.NS,
            "median per instance: GPU time of the kernels and graphs launched",
        ),
        Column(
            "copy_med_ns",
            "Copy Med",
            Unit.NS,
            "median per instance: GPU time of copies and memsets",
        ),
        Column("sync_med_ns", "Sync Med", Unit.NS, "median per instance: time in synchronising calls"),
    ),
    compute=compute,
)
