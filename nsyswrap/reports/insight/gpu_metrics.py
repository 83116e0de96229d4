"""Counters of the GPU: SM, tensor core, DRAM and PCIe activity of kernels, modules and steps.

nsys samples the counters (profile --gpu-metrics), by default 10,000 times a second. A sample counts for a row
if nothing else ran on the GPU in its time, and the row's operations ran in at least 95 % of it. Rows with
fewer than 30 such samples are unsampled: their kernels are too short, or too few. For a step, all samples
wholly inside it count, idle time included; where no step has 30, steps have no rows.

Percentages are of the peak that a GPU can sustain. Modules are those of nvtx_tree with what is inside them,
their layers together, as in layers.*.mlp. Near is the roof that the counters approach: compute if tensor
cores or instruction issue reach 60 %, memory if DRAM reads plus writes reach 60 % and are higher, else
neither. Roof says what bounds the kernel by its operations for each byte, as in kernel_efficiency.

Counters cover the whole GPU, with the work of other programs that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import number_texts
from nsyswrap.analysis.gpu_counters import (
    COUNTERS,
    LEAST_ELSEWHERE,
    LEAST_SAMPLES,
    NEITHER,
    Figures,
    busy_counters,
    groups,
    means,
    near_roof,
    sampled_gpus,
)
from nsyswrap.analysis.gpu_operations import (
    KERNEL,
    KINDS,
    gpu_operations_of,
    name_notes,
    names,
    positions_of,
    selected_ns,
)
from nsyswrap.analysis.judged_process import JudgedProcess, chosen_views, judged_processes
from nsyswrap.analysis.known_work import roofline_of
from nsyswrap.analysis.names import kernel_classes, name_codes
from nsyswrap.analysis.peaks import peak_bandwidth
from nsyswrap.analysis.range_tree import NOWHERE, READS
from nsyswrap.analysis.range_tree.tree import node_labels, numbered, range_tree_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import shorten
from nsyswrap.base.units import percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import Column, Report, Result, Schema, Values

Labels = Sequence[str | None]

PART, CLASS, MODULE, OPERATION, STEP = ("part", "class", "module", "operation", "step")
UNSAMPLED = "unsampled"
_MOSTLY_PERCENT = 50.0  # of the time of operations
_MORE = "; more with --nsys-arg=--gpu-metrics-frequency=100000"
_MOST_LEVELS = 8  # of modules
_MOST_NAMED, _NAME_WIDTH = 3, 40  # kernels in a note


class _Rows(NamedTuple):
    """The rows of one kind."""

    scope: str
    names: Labels
    instances: NDArray[Any]
    total_ns: NDArray[Any]
    figures: Figures


def compute(capture: Capture) -> Result:
    """Return rows of the judged parts, then of classes, modules and names of operations, then of steps."""
    processes, roofs = judged_processes(capture), _roofs(capture)
    named = {one.process_id for one in processes if len(processes) > 1} - {MISSING}
    owned = [(one, f", process {one.process_id}" if one.process_id in named else "") for one in processes]
    blocks = [*(_judged_row(*one) for one in owned), *_of_operations(capture)]
    short = []
    for one, of in owned:
        if one.steps.has_steady:
            rows_of_steps = _step_rows(one, of)
            if (rows_of_steps.figures["samples"] >= LEAST_SAMPLES).any():
                blocks.append(rows_of_steps)
            else:
                short.append(f"no rows of steps{of}: none has {LEAST_SAMPLES} samples")
    figures = {name: np.concatenate([one.figures[name] for one in blocks]) for name in blocks[0].figures}
    rows = [(block.scope, name) for block in blocks for name in block.names]
    near = near_roof(figures)
    roof = [roofs.get(name) or None if scope == OPERATION else None for scope, name in rows]
    data: dict[str, Values] = {
        "scope": [scope for scope, _ in rows],
        "instances": np.concatenate([block.instances for block in blocks]),
        "total_ns": np.concatenate([block.total_ns for block in blocks]),
        "samples": figures["samples"],
        **{f"{name}_percent": figures[name] for name in (*COUNTERS, "dram")},
        "dram_bytes_per_s": figures["dram"] / 100 * (peak_bandwidth(capture.whole) or np.nan),
        "near": [one or UNSAMPLED for one in near],
        "roof": roof,
        "name": [name for _, name in rows],
    }
    differ = [
        f"{shorten(str(name), _NAME_WIDTH)} ({one}, not {other})"
        for (_, name), one, other in zip(rows, near, roof, strict=True)
        if other and one not in ("", NEITHER, other)
    ]
    labels = name_notes(capture, gpu_operations_of(capture))
    return Result(data, (*labels, *_notes(processes, differ), *short, _sampled(data)))


def _judged_row(process: JudgedProcess, of: str) -> _Rows:
    """Return the row of the part that is judged of a process; ``of`` names this process."""
    view = process.view
    label = "selected part" if view.view.selection.windowed else "whole capture"
    label = f"{'steady part' if process.steps.has_steady else label}{of}"
    figures = means([view], lambda gpu: np.zeros(len(gpu.start_ns), np.int64), 1)
    count, time_ns = np.array([len(gpu_operations_of(view))]), np.array([process.window_ns])
    return _Rows(PART, [label], count, time_ns, figures)


def _step_rows(process: JudgedProcess, of: str) -> _Rows:
    """Return the rows of the steady steps of a process; ``of`` names this process."""
    steps = process.steps
    numbers = np.flatnonzero(steps.steady)
    start, end = steps.start_ns[numbers], steps.end_ns[numbers]
    figures = means([process.view], lambda gpu: gpu.inside(start, end), len(numbers))
    labels = [f"step {number}{of}" for number in (numbers + steps.first).tolist()]
    return _Rows(STEP, labels, np.full(len(numbers), MISSING), end - start, figures)


def _of_operations(capture: Capture) -> Iterator[_Rows]:
    """Yield the rows of classes, modules and names, each by time."""
    views, whole = chosen_views(capture), capture.whole
    position = np.concatenate([positions_of(view) for view in views])
    ns = np.concatenate([selected_ns(view, gpu_operations_of(view)) for view in views])
    for scope, codes, labels in _groupings(capture, position):
        code = np.full(len(gpu_operations_of(whole)), -1)
        code[position] = codes
        figures = means(views, lambda gpu, code=code: groups(whole, gpu, code), len(labels))  # type: ignore[misc]
        count, total = np.zeros(len(labels), np.int64), np.zeros(len(labels), np.int64)
        np.add.at(count, codes[codes >= 0], 1)
        np.add.at(total, codes[codes >= 0], ns[codes >= 0])
        rows = np.argsort(-total, kind="stable")
        rows = rows[count[rows] > 0]
        texts = [labels[row] for row in rows.tolist()]
        of_rows = {name: values[rows] for name, values in figures.items()}
        yield _Rows(scope, texts, count[rows], total[rows], of_rows)


def _groupings(capture: Capture, position: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any], Labels]]:
    """Yield a kind of row, the code of each operation (-1: none), and the label of each code."""
    whole = capture.whole
    operations = gpu_operations_of(whole).of(position)
    of_kernel, classes = kernel_classes(whole) if whole.has(KERNEL) else (position, [])
    is_kernel = operations.kind == KINDS.index(KERNEL)
    codes = operations.kind.astype(np.int64) + len(classes)
    codes[is_kernel] = of_kernel[operations.row[is_kernel]]
    yield CLASS, codes, [*classes, *KINDS]
    if whole.has("nvtx") and whole.has("api"):
        tree = range_tree_of(whole)
        nodes = np.arange(NOWHERE, len(tree.names))
        above = node_labels(tree, nodes[:1]) * len(nodes)  # that of no range
        for depth in range(1, _MOST_LEVELS + 1):
            labels = node_labels(tree, nodes, depth, fold=True)
            deeper = np.array([one != before for one, before in zip(labels, above, strict=True)])
            if not deeper.any():
                break
            of_label, known = numbered(labels)
            yield MODULE, np.where(deeper, of_label, -1)[tree.node[position] - NOWHERE], known
            above = labels
    texts = names(whole, operations)
    yield OPERATION, *number_texts(texts.codes, texts.texts)


def _roofs(capture: Capture) -> Mapping[str | None, str]:
    """Return what bounds the kernels of each name by their known work."""
    if not capture.has(KERNEL):
        return {}
    codes, labels = name_codes(capture, KERNEL)
    first = np.full(len(labels), -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return dict(zip(labels, roofline_of(capture, codes, first).roof, strict=True))


def _sampled(data: Mapping[str, Values]) -> str:
    rows = np.array([scope == OPERATION for scope in data["scope"]])
    total, samples = (np.asarray(data[name])[rows] for name in ("total_ns", "samples"))
    enough = samples >= LEAST_SAMPLES
    share = 100 * total[enough].sum() / max(total.sum(), 1)
    text = f"{enough.sum():,} of {len(enough):,} operations ({percent(share)} of the time) are sampled enough"
    return text + (_MORE if share < _MOSTLY_PERCENT else "")


def _notes(processes: Sequence[JudgedProcess], differ: Sequence[str]) -> Iterator[str]:
    for process in processes:
        view = process.view
        mine = gpu_operations_of(view).rows_of.keys()
        used = [gpu for gpu in sampled_gpus(view.whole) if gpu.owners & mine]
        if not used:
            yield "the GPU that worked was not sampled, or nsys did not record which one it is"
        if impossible := sum(gpu.impossible for gpu in used):
            yield f"values below 0 % or above 100 % are left out: {impossible:,}"
        if missing := [name for name in COUNTERS if any(np.isnan(gpu.percent[name]).all() for gpu in used)]:
            yield f"not sampled on this GPU: {', '.join(missing)}"
        if (elsewhere := busy_counters(view).get("elsewhere", 0.0)) >= LEAST_ELSEWHERE:
            yield f"another program uses this GPU: SMs active {percent(elsewhere)} without recorded work"
    if differ:
        more = f", {len(differ) - _MOST_NAMED} more" if len(differ) > _MOST_NAMED else ""
        yield f"counters differ from the roof by known work: {', '.join(differ[:_MOST_NAMED])}{more}"


SCHEMA = Schema(
    "gpu_metrics",
    "GPU metrics: SM, tensor core, DRAM and PCIe activity",
    Column("scope", "Scope", f"{PART}, {CLASS}, {MODULE}, {OPERATION} or {STEP}"),
    Column.count("instances", "Instances", "number of operations", 6),
    Column("total_ns", "Total Time", "sum of the durations", 2),
    Column.count("samples", "Samples", "samples that lie wholly inside"),
    Column("sm_active_percent", "SMs Active", "cycles with a warp on the multiprocessor"),
    Column("sm_issue_percent", "SM Issue", "cycles with an instruction issued", 3),
    Column("tensor_active_percent", "Tensor", "cycles in which tensor cores worked"),
    Column("dram_percent", "DRAM", "reads and writes of GPU memory together"),
    Column("dram_read_percent", "DRAM Read", "reads of GPU memory", 5),
    Column("dram_write_percent", "DRAM Write", "writes of GPU memory", 5),
    Column("dram_bytes_per_s", "DRAM Rate", "DRAM, at the recorded peak", 4),
    Column("pcie_rx_percent", "PCIe RX", "bytes that the GPU received", 7),
    Column("pcie_tx_percent", "PCIe TX", "bytes that the GPU sent", 7),
    Column("near", "Near", f"roof that counters are close to, {NEITHER}, or {UNSAMPLED}"),
    Column("roof", "Roof", "roof by known FLOPs and bytes: compute or memory", 1),
    Column("name", "Name", "part, class, module, operation or step", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("gpu_metric",), ("gpu_metric_name",), KINDS),
    compute=compute,
    rows_from=KINDS,
    qualifiers=("base", "mangled"),
    reads={kind: fields for kind, fields in READS.items() if kind != "overhead"},
    judges_steps=True,
)
