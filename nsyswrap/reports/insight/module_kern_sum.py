"""Kernels by PyTorch module, phase and operation with its input shapes.

A kernel belongs to a module, or to NVTX ranges where no modules are recorded, as in nvtx_tree. A module has
the name of its path in the model, such as layers.3.attention.qkv; the model itself that of its class. A
kernel outside of modules has the path of its ranges, with slashes.

The operation is the one that autograd records, or else the innermost one. A kernel of a backward pass has the
operation of the forward, and its input shapes, if emit_nvtx of PyTorch, or nsys 2025 with
--pytorch=autograd-shapes-nvtx, records all operations. profile --modules records operations and shapes in the
first steps; later kernels have those of the same kernels there, and a kernel of a backward pass has the
function of the backward. For a kernel that torch.compile fused, all operations in it are listed.
"""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, READS, operation_notes
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.range_tree import READS as TREE_READS
from nsyswrap.analysis.range_tree.figures import node_kernels_of
from nsyswrap.analysis.range_tree.tree import node_labels, numbered
from nsyswrap.analysis.utilization import summed
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.reports.table import (
    BY_TOTAL,
    FLOP_PER_S,
    PEAK_PERCENT,
    TIME_PERCENT,
    TOTAL_TIME,
    Column,
    Report,
    Result,
    Schema,
    share,
)

PHASES = (None, "forward", "backward")


def compute(capture: Capture) -> Result:
    """Return one row per module, phase, operation and kernel name."""
    found = node_kernels_of(capture)
    module, labels = numbered(node_labels(found.tree, found.node))
    noted = capture.run_facts.get("fused_kernels", {})  # operations that torch.compile fused
    fused = [
        ", ".join(noted[name]).replace("aten.", "aten::") if name in noted else None for name in found.names
    ]
    of_name = np.array([len(found.operations) + i if ops else -1 for i, ops in enumerate(fused)] or [-1])
    operation = np.where(of_name[found.name] >= 0, of_name[found.name], found.operation)
    codes, (module, phase, operation, name) = group_keys(module, found.phase, operation, found.name)
    total, kernels = np.zeros(len(name), np.int64), np.zeros(len(name), np.int64)
    np.add.at(total, codes, found.total_ns)
    np.add.at(kernels, codes, found.kernels)
    group = np.append(codes, [-1])[found.group]
    flop_per_s, peak_percent = summed(chosen_views(capture), group, len(name)).rates()
    operations = [*found.operations, *((ops, None) for ops in fused), (None, None)]  # the last one: -1
    operation = np.where(operation < 0, len(operations) - 1, operation)
    return Result(
        {
            "module": TextColumn(module, labels),
            "phase": TextColumn(phase, PHASES),
            "operation": TextColumn(operation, [one for one, _ in operations]),
            "shapes": TextColumn(operation, [sizes or None for _, sizes in operations]),
            "instances": kernels,
            "time_percent": share(total),
            "total_ns": total,
            "avg_ns": total / kernels,
            "name": TextColumn(name, found.names),
            "flop_per_s": flop_per_s,
            "peak_percent": peak_percent,
        },
        operation_notes(capture),
    )


SCHEMA = Schema(
    "module_kern_sum",
    "Kernel time by module and operation",
    Column("module", "Module", "module, or path of NVTX ranges, that the kernel belongs to", -1),
    Column("phase", "Phase", "forward or backward; empty: neither"),
    Column("operation", "Operation", "operation of PyTorch; of a backward its forward", 1),
    Column("shapes", "Shapes", "shapes of the inputs of the operation", 5),
    Column.count("instances", "Instances", "executions, graph nodes included", 3),
    TIME_PERCENT,
    TOTAL_TIME,
    Column("avg_ns", "Avg", "arithmetic mean of the durations", 2),
    Column("name", "Name", "kernel name (demangled, base or mangled)", kernels=True),
    FLOP_PER_S,
    PEAK_PERCENT,
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), (KERNEL, GRAPH), ("api",)),
    compute=compute,
    order=BY_TOTAL,
    rows_from=(KERNEL, GRAPH),
    qualifiers=("base", "mangled"),
    reads={
        **READS,
        KERNEL: (*READS[KERNEL], "name"),
        "api": (*READS["api"], *SPANS),
        "nvtx": TREE_READS["nvtx"],
    },
    judges_steps=True,
)
