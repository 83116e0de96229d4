"""How well each kernel uses the GPU: occupancy, waves, and its rates against the GPU's peaks.

A row is a kernel with one grid, one block and one use of registers and shared memory. Blocks per
multiprocessor and what limits them follow from the rules of CUDA's occupancy calculator. FLOPs and bytes are
known for PyTorch operations with recorded shapes (``profile --modules``). A rate is the work of the kernels
with known work by their time. Peaks are those that ``doctor --probe --peaks`` measured before the run, if
any; else those of dense matrices at the GPU's highest clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys, grouped
from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.analysis.known_work import Roofline, known_work, roofline_of
from nsyswrap.analysis.names import kernel_classes, name_codes, shapes
from nsyswrap.analysis.occupancy import BLOCK, GRID, LIMITERS, RESOURCES, multiprocessor_of, occupancy_of
from nsyswrap.analysis.peaks import kernel_arithmetic, measured_peaks, peak_flops
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.table import (
    KERNEL_NAMES,
    TIME_PERCENT,
    TOTAL_TIME,
    Column,
    Order,
    Report,
    Result,
    Schema,
    Values,
    share,
)


def compute(capture: Capture) -> Result:
    """Return one row per kernel name, grid, block, and use of registers and shared memory."""
    name_of, names = name_codes(capture, KERNEL)
    (grid_of, grids), (block_of, blocks) = (shapes(capture, what) for what in ("grid", "block"))
    used = capture.columns(KERNEL, *RESOURCES).values()
    codes, keys = group_keys(name_of, grid_of, block_of, *used)
    name, grid, block, registers, static, dynamic = keys
    first = np.empty(len(name), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    times = grouped(codes, capture.durations(KERNEL), len(name))
    return Result(
        {
            "time_percent": share(times.total),
            "total_ns": times.total,
            "instances": times.count,
            "med_ns": times.med,
            **_arithmetic(capture, first),
            "registers": registers,
            "shared_bytes": np.where(np.minimum(static, dynamic) < 0, MISSING, static + dynamic),
            **_occupancy(capture, first),
            **_work(roofline_of(capture, codes, first)),
            "grid_xyz": [grids[code] for code in grid],
            "block_xyz": [blocks[code] for code in block],
            "name": [names[code] for code in name],
        },
        tuple(_notes(capture)),
    )


def _arithmetic(capture: Capture, first: NDArray[Any]) -> dict[str, Values]:
    """Return the class, the type and the use of tensor cores of kernels, given by their positions."""
    of_class, classes = kernel_classes(capture)
    codes, arithmetic = kernel_arithmetic(capture)
    said = [arithmetic[code] for code in codes[first].tolist()]
    words = {True: "yes", False: "no", None: None}
    return {
        "class": [classes[code] for code in of_class[first].tolist()],
        "type": [one.input_type or None for one in said],
        "tensor_cores": [words[one.tensor_cores] for one in said],
    }


def _occupancy(capture: Capture, first: NDArray[Any]) -> dict[str, Values]:
    narrowed = capture.view.selection.narrows
    of = occupancy_of(capture.whole, capture.columns(KERNEL, "row")["row"][first] - 1 if narrowed else first)
    limits = (
        ", ".join(name for name, is_limit in zip(LIMITERS, marks, strict=True) if is_limit)
        for marks in of.limits.T.tolist()
    )
    return {
        "blocks_per_sm": np.where(np.isnan(of.blocks), MISSING, np.nan_to_num(of.blocks)).astype(np.int64),
        "limiter": [text or None for text in limits],
        "occupancy_percent": of.percent,
        "waves": of.waves,
        "tail_percent": 100 * of.tail,
    }


def _work(work: Roofline) -> dict[str, Values]:
    return {
        "avg_flop": work.flop,
        "avg_bytes": work.bytes,
        "flop_per_s": work.flop_per_s,
        "bytes_per_s": work.bytes_per_s,
        "intensity": work.intensity,
        "peak_percent": 100 * work.flop_per_s / work.peak_flop_per_s,
        "bandwidth_percent": 100 * work.bytes_per_s / work.peak_bytes_per_s,
        "roof": [text or None for text in work.roof],
    }


def _notes(capture: Capture) -> Iterator[str]:
    whole = capture.whole
    if multiprocessor_of(whole) is None:
        yield "no occupancy: the sizes of the GPU are not recorded, or the GPUs differ"
    if not known_work(capture).recorded:
        yield "no FLOPs and bytes: no operation has recorded shapes; nsyswrap profile --modules records them"
    elif measured := measured_peaks(whole):
        yield f"peaks were measured before, by nsyswrap doctor --probe --peaks with driver {measured.driver}"
    elif peak_flops(whole, "f32", tensor_cores=False):
        yield "peaks are of the highest clock; nsyswrap doctor --probe --peaks measures them for later runs"


SCHEMA = Schema(
    "kernel_efficiency",
    "Kernel efficiency: occupancy, waves, and shares of the peak",
    TIME_PERCENT,
    replace(TOTAL_TIME, drop_order=2),
    Column.count("instances", "Instances", "number of executions, graph nodes included", 5),
    Column("med_ns", "Med", "median of the durations", 4),
    Column("class", "Class", "class by kernel name", 6),
    Column("type", "Type", "type of the factors, by the name of the kernel", 7),
    Column("tensor_cores", "Tensor Cores", "yes or no, by the name of the kernel", 7),
    Column.count("registers", "Regs", "registers per thread", 9),
    Column("shared_bytes", "Shared", "static and dynamic shared memory of a block", 9),
    Column.count("blocks_per_sm", "Blocks/SM", "blocks that a multiprocessor holds at once", 8),
    Column("limiter", "Limiter", "what allows no more blocks per multiprocessor", 1),
    Column("occupancy_percent", "Occupancy", "warps of these blocks, of those possible"),
    Column("waves", "Waves", "blocks of the grid, by those that the GPU holds at once", unit=Unit.RATIO),
    Column("tail_percent", "Tail", "share of the last wave that is empty", 6),
    Column("avg_flop", "FLOP", "floating-point operations of an execution, by recorded shapes", 9),
    Column("avg_bytes", "Moved", "bytes of inputs and outputs of an execution, by recorded shapes", 9),
    Column("flop_per_s", "FLOP Rate", "operations by the time of the kernels", 2),
    Column("bytes_per_s", "Byte Rate", "bytes by the time of the kernels", 5),
    Column("intensity", "FLOP/Byte", "operations for each byte", 8, unit=Unit.RATIO),
    Column("peak_percent", "Of Peak", "share of the GPU's peak for this type"),
    Column("bandwidth_percent", "Of Bandwidth", "share of the peak bandwidth of GPU memory", 3),
    Column("roof", "Roof", "what bounds it by operations for each byte: compute or memory", 6),
    Column("grid_xyz", "GridXYZ", "blocks in the grid, by dimension", 4),
    Column("block_xyz", "BlockXYZ", "threads in a block, by dimension", 7),
    Column("name", "Name", "kernel name (demangled, base or mangled)", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=((KERNEL,),),
    compute=compute,
    order=(Order("total_ns", descending=True), Order("instances")),
    qualifiers=KERNEL_NAMES,
    reads={KERNEL: (*NAMED, *GRID, *BLOCK, *RESOURCES)},
)
