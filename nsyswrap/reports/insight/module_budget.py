"""Where the time of a step goes, by PyTorch module or NVTX range.

Each nanosecond of a step belongs to one row, so the rows of a device add up to the steps. If several
operations run at once, the time belongs to the first in the order of step_budget: compute, exposed
communication, exposed copies. Of several that compute, it belongs to the first to start. Idle time belongs to
the operation that ended it: the GPU waited for this module. Idle time before the end of the last step belongs
to no module.

Modules and ranges are those of nvtx_tree. The steps are the steady steps of step_budget. Without a steady
part, or under --time or --nvtx, the whole selection counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes
from nsyswrap.analysis.range_tree import NOWHERE, READS
from nsyswrap.analysis.range_tree.figures import STATES, NodeTime, node_times
from nsyswrap.analysis.range_tree.tree import RangeTree, node_labels, numbered, range_tree_of
from nsyswrap.analysis.utilization import summed
from nsyswrap.base.units import Unit, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import (
    FLOP_PER_S,
    PEAK_PERCENT,
    Column,
    Report,
    ReportOption,
    Result,
    Schema,
    Values,
)
from nsyswrap.reports.wording.notes import note_text

_ALL = 100.0


def compute(capture: Capture, depth: int, fold: int) -> Result:
    """Return one row per process, device and module, those of a device by time."""
    tree, processes = range_tree_of(capture.whole), judged_processes(capture)
    rows = [
        _rows(tree, process, device, depth, fold)
        for process in processes
        for device in node_times(process.view)
    ]
    data: dict[str, Values] = {
        column.name: np.concatenate([row[column.name] for row in rows])
        for column in SCHEMA.columns
        if column.unit is not Unit.TEXT and rows
    }
    modules = [label for row in rows for label in row["module"].tolist()]
    return Result({**data, "module": modules}, (*operation_notes(capture), *_notes(processes)))


def _rows(
    tree: RangeTree, process: JudgedProcess, time: NodeTime, depth: int, fold: int
) -> dict[str, NDArray[Any]]:
    module, labels = numbered(node_labels(tree, time.node, depth, fold=bool(fold)))
    steps = int(np.count_nonzero(process.steps.steady)) if process.steps.has_steady else 0

    def added(which: NDArray[Any]) -> NDArray[Any]:
        sums = np.zeros(len(labels), np.int64)
        np.add.at(sums, module[which], time.ns[which])
        return sums

    every = added(np.ones(len(module), bool))
    code = {label: i for i, label in enumerate(labels)}
    nodes = node_labels(tree, np.arange(NOWHERE, len(tree.names)), depth, fold=bool(fold))
    of_node = np.array([code.get(label, -1) for label in nodes])
    on_device = gpu_operations_of(process.view.whole).device_id == time.device_id
    group = np.where(on_device, of_node[tree.node - NOWHERE], -1)
    flop_per_s, peak_percent = summed([process.view], group, len(labels)).rates(every)
    columns = {
        "module": np.array(labels, object),
        "time_percent": every * _ALL / max(int(every.sum()), 1),
        "per_step_ns": every / steps if steps else np.full(len(labels), np.nan),
        "total_ns": every,
        "backward_ns": added(time.backward),
        **{f"{state}_ns": added(time.state == number) for number, state in enumerate(STATES)},
        "process_id": np.full(len(labels), process.process_id),
        "device_id": np.full(len(labels), time.device_id),
        "flop_per_s": flop_per_s,
        "peak_percent": peak_percent,
    }
    order = np.array(sorted(np.flatnonzero(every).tolist(), key=lambda i: (-int(every[i]), labels[i])), int)
    return {name: values[order] for name, values in columns.items()}


def _notes(processes: Sequence[JudgedProcess]) -> Iterator[str]:
    for process in processes:
        if process.steps.why_none:
            yield f"no steady part: {note_text(process.steps.why_none)}"


def conclude(_: Capture, data: Mapping[str, Values]) -> str:
    """Return the module with the most time, and that for which the GPU was idle longest."""
    time, idle = np.asarray(data["total_ns"]), np.asarray(data["idle_ns"])
    whole = int(time.sum())
    if not whole:
        return ""
    most, waited = int(np.argmax(time)), int(np.argmax(idle))
    modules = list(data["module"])
    text = f"Most time: {modules[most]} {percent(_ALL * time[most] / whole)}."
    if not idle[waited]:
        return text
    return f"{text} Most idle time before work of {modules[waited]}: {percent(_ALL * idle[waited] / whole)}."


SCHEMA = Schema(
    "module_budget",
    "Step time by module or NVTX range",
    Column("module", "Module", "module, or path of NVTX ranges, that the time belongs to", -1),
    Column("time_percent", "Time", "share of the time of the device", -1),
    Column("per_step_ns", "Time by Step", "mean time in a steady step", -1),
    Column("total_ns", "Total Time", "time in all steady steps, idle time included", 3),
    Column("compute_ns", "Compute", "kernels and graphs that do not communicate", 1),
    Column("communication_ns", "Exposed Comm", "communication kernels without compute", 4),
    Column("copy_ns", "Exposed Copy", "copies, memsets or migrations without a kernel", 4),
    Column("idle_ns", "Idle", "time without any operation, which its operations ended", 1),
    Column("backward_ns", "Backward", "part of the total time: before or in a backward pass", 2),
    Column("process_id", "PID", "process of the step", 7),
    Column("device_id", "Device", "device of the process", 6),
    FLOP_PER_S,
    PEAK_PERCENT,
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), (KERNEL, GRAPH), ("api",)),
    compute=compute,
    options=(
        ReportOption("depth", 0, "levels of the tree; 0: all", least=0),
        ReportOption(
            "fold", 0, "1: modules that differ in their first number are one, as in layers.*.mlp", most=1
        ),
    ),
    rows_from=(KERNEL, GRAPH),
    reads=READS,
    conclude=conclude,
    judges_steps=True,
)
