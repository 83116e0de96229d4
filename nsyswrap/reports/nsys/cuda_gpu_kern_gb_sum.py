"""Kernel summary: GPU time by kernel name, grid and block."""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.names import name_codes, shapes
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.summaries import GroupedRows, time_summary
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per kernel name, grid and block."""
    name_of, names = name_codes(capture, "kernel")
    grid_of, grids = shapes(capture, "grid")
    block_of, blocks = shapes(capture, "block")
    codes, (name, grid, block) = group_keys(name_of, grid_of, block_of)
    rows = GroupedRows(codes, [names[code] for code in name], capture.durations("kernel"))
    return Result(
        {
            **time_summary(rows, "instances", "name"),
            "grid_xyz": [grids[code] for code in grid],
            "block_xyz": [blocks[code] for code in block],
        }
    )


SCHEMA = Schema(
    "cuda_gpu_kern_gb_sum",
    "CUDA GPU Kernel/Grid/Block Summary",
    *time_columns(
        Column.count("instances", "Instances", "number of executions, graph nodes included"),
        Column("grid_xyz", "GridXYZ", "blocks in the grid, by dimension"),
        Column("block_xyz", "BlockXYZ", "threads in a block, by dimension"),
        Column("name", "Name", "kernel name (demangled, base or mangled)", kernels=True),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",),),
    compute=compute,
    order=(Order("total_ns", descending=True), Order("instances")),
    qualifiers=KERNEL_NAMES,
    reads={"kernel": (*NAMED, *(f"{field}_{axis}" for field in ("grid", "block") for axis in "xyz"))},
)
