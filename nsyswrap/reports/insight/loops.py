"""Loops of each process: how long their steps take, the gaps between them, and what runs outside CUDA graphs.

A loop is what a process repeats: an NVTX range, or a sequence of GPU operations. The first row of a process
is the loop that the screen judges, in its steady steps. In other loops every step counts. After them come the
launches of CUDA graphs, each with the time of its GPU work, and the GPU work outside of all steps above.

The server of a language model often has two loops: many short steps that write a token each, often by a CUDA
graph, and longer ones that read the prompts. They have names only where NVTX ranges name them.

The GPU work of a step is what its calls launched. A gap lasts from the end of that work to the start of the
work of the next step of the same loop; 0 if that started before. A gap includes the work of other loops: the
gaps of the short steps show how long the longer steps delay them. The 99th percentile is the least
duration that 99 % of the steps do not exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, median
from nsyswrap.analysis.gpu_operations import KINDS, GpuOperations, gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes
from nsyswrap.analysis.launches import READS, launches_of
from nsyswrap.analysis.steps import LEAST_STEPS, Steps
from nsyswrap.analysis.steps.loops import UPDATE
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit, duration
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.reports.table import Column, Report, Result, Schema, Values
from nsyswrap.reports.wording.notes import note_text

_P99 = 0.99
_GRAPHS = "launches of CUDA graphs"


def compute(capture: Capture) -> Result:
    """Return one row per process and loop, the judged loop of a process first, then those with most time."""
    processes = judged_processes(capture)
    rows = [row for process in processes for row in _rows(capture, process)]
    data: dict[str, Values] = {
        column.name: [row[column.name] for row in rows]
        if column.unit is Unit.TEXT
        else np.array([row.get(column.name, np.nan) for row in rows])
        for column in SCHEMA.columns
    }
    notes = [f"no steps: {note_text(one.steps.why_none)}" for one in processes if one.steps.why_none]
    return Result(data, (*operation_notes(capture), *dict.fromkeys(notes)))


def _rows(capture: Capture, process: JudgedProcess) -> Iterator[dict[str, Any]]:
    """Yield the columns of each loop of a process, and of its GPU work outside of their steps."""
    whole, steps, every = capture.whole, process.steps, gpu_operations_of(capture)
    operations = every.of(every.global_pid == steps.global_pid)
    launches, called = launches_of(whole), operations.call >= 0
    in_graph = called & np.isin(operations.call, launches.call[launches.of_graph])
    called_ns = np.full(len(operations), MISSING)
    called_ns[called] = whole.columns("api", "start_ns")["start_ns"][operations.call[called]]
    gpu_ns = np.maximum(operations.end_ns - operations.start_ns, 0)  # of damaged times
    busy = union(operations.start_ns, operations.end_ns)
    left = np.ones(len(operations), bool)
    for loop, which in _loops(steps):
        step = np.searchsorted(loop.host_start_ns, called_ns, "right") - 1  # -1: launched in none
        step = np.where(called_ns < (loop.host_start_ns + loop.host_ns)[step], step, -1)
        inside = which[step] & (step >= 0)
        left &= ~inside
        yield {
            "loop": loop.label.short,
            "process_id": process.process_id,
            **_durations(loop.duration_ns[which]),
            **_gaps(*_spans(operations.of(inside), step[inside])),
            "busy_percent": _percent(
                busy.within(loop.start_ns[which], loop.end_ns[which]), loop.duration_ns[which]
            ),
            **_shares(gpu_ns, inside, in_graph),
        }
    if in_graph.any():
        launch, _ = group_keys(called_ns[in_graph], operations.call[in_graph])
        first, last = _spans(operations.of(in_graph), launch)
        yield {
            "loop": _GRAPHS,
            "process_id": process.process_id,
            **_durations(last - first),
            **_gaps(first, last),
            **_shares(gpu_ns, in_graph, in_graph),
        }
    if left.any():
        yield {
            "loop": "outside the steps above",
            "process_id": process.process_id,
            "steps": MISSING,
            **_shares(gpu_ns, left, in_graph),
        }


def _loops(steps: Steps) -> Iterator[tuple[Steps, NDArray[Any]]]:
    """Yield each loop with the marks of the steps that count, the judged one first."""
    if steps.has_steady:
        yield steps, steps.steady
        for other in sorted(steps.others, key=lambda one: -int(one.duration_ns.sum())):
            yield other, np.ones(len(other), bool)


def _percent(part_ns: NDArray[Any], whole_ns: NDArray[Any]) -> float:
    return 100.0 * int(part_ns.sum()) / max(int(whole_ns.sum()), 1)


def _shares(gpu_ns: NDArray[Any], which: NDArray[Any], in_graph: NDArray[Any]) -> dict[str, float]:
    """Return the share of the process' GPU time, and that of it outside graphs."""
    outside = _percent(gpu_ns[which & ~in_graph], gpu_ns[which]) if in_graph.any() else np.nan
    return {"gpu_time_percent": _percent(gpu_ns[which], gpu_ns), "outside_graphs_percent": outside}


def _durations(ns: NDArray[Any]) -> dict[str, float]:
    return {"steps": len(ns), "avg_ns": float(ns.mean()), "med_ns": median(ns), "p99_ns": _p99(ns)}


def _p99(ns: NDArray[Any]) -> float:
    """Return the 99th percentile, one of the values: "inverted_cdf" of numpy, in a tenth of its time."""
    return float(np.sort(ns)[max(ceil(len(ns) * _P99 - 1), 0)])


def _spans(operations: GpuOperations, step: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end of the GPU work of each step. ``step`` has the step of each operation."""
    order = np.argsort(step, kind="stable")
    begins = np.flatnonzero(np.diff(step[order], prepend=-1))
    if not len(begins):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, last = operations.start_ns[order], operations.end_ns[order]
    return np.minimum.reduceat(first, begins), np.maximum.reduceat(last, begins)


def _gaps(first: NDArray[Any], last: NDArray[Any]) -> dict[str, float]:
    """Return median and 99th percentile of the gaps between work with these starts and ends."""
    if len(first) < 2:  # noqa: PLR2004 - a gap is between two
        return {}
    gaps = np.maximum(first[1:] - np.maximum.accumulate(last)[:-1], 0)
    return {"gap_med_ns": median(gaps), "gap_p99_ns": _p99(gaps)}


def conclude(_: Capture, data: Mapping[str, Values]) -> str:
    """Return the gaps between the steps of the judged loop; without one, between launches of CUDA graphs."""
    steps = np.asarray(data["steps"])
    first = next(iter(np.flatnonzero(steps >= LEAST_STEPS)), None)
    if first is None:
        return ""
    gap, longest = (float(np.asarray(data[name])[first]) for name in ("gap_med_ns", "gap_p99_ns"))
    if np.isnan(gap):
        return ""
    label = list(data["loop"])[first]
    what = {_GRAPHS: label, UPDATE: "optimizer steps"}.get(label, f"steps of {label}")
    text = f"{steps[first]:,} {what}: the gap between two is {duration(gap)}"
    return f"{text} (median), at most {duration(longest)} for 99 % of them."


SCHEMA = Schema(
    "loops",
    "Loops: steps, gaps between them, work outside CUDA graphs",
    Column("loop", "Loop", "NVTX range or GPU operations that repeat", -1, is_key=True),
    Column.number("steps", "Steps", "steps that count; empty outside of them", -1),
    Column("avg_ns", "Avg", "mean duration of a step", 3),
    Column("med_ns", "Med", "median duration of a step", -1),
    Column("p99_ns", "P99", "99th percentile of the durations", 2),
    Column("gap_med_ns", "Gap Med", "median time between the GPU work of two steps", -1),
    Column("gap_p99_ns", "Gap P99", "99th percentile of these times", 1),
    Column("busy_percent", "Busy", "part of the steps in which a GPU worked", 4),
    Column("gpu_time_percent", "GPU Time", "share of the GPU time of the process", 5),
    Column(
        "outside_graphs_percent",
        "No Graph",
        "GPU time of the loop that no CUDA graph launched; not known without graphs",
        6,
    ),
    Column("process_id", "PID", "process of the loop", 7),
)

REPORT = Report(
    SCHEMA,
    needs=(KINDS, ("api",)),
    compute=compute,
    reads={kind: fields for kind, fields in READS.items() if kind != "overhead"},
    conclude=conclude,
    judges_steps=True,
)
