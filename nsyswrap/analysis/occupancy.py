"""How many blocks of a kernel a multiprocessor holds at once, what limits them, and their waves.

The rules are those of CUDA's occupancy calculator (``cuda_occupancy.h``): registers are allocated by warps,
256 at a time, in each of the four parts of a multiprocessor; shared memory in pieces of 128 bytes, of which
CUDA keeps 1 KiB of each block for itself from compute capability 8.0 on. The sizes of a multiprocessor are
those that nsys records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import Columns

GRID, BLOCK = (tuple(f"{what}_{axis}" for axis in "xyz") for what in ("grid", "block"))
RESOURCES = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")
_CLUSTER = ("cluster_x", "cluster_y", "cluster_z")
_LAUNCH = ("executed_shared_bytes", "graph_node_id", "green_context_id", "launch_type", "active_clusters")
LIMITERS = ("registers", "shared memory", "warps", "blocks")
_SIZES = tuple(f"{what}_per_multiprocessor" for what in ("registers", "shared_bytes", "warps", "blocks"))
_WARP, _REGISTERS_AT_ONCE = 32, 256
_PARTS, _PARTS_OF_GP100 = 4, 2
_RESERVES, _RESERVED_BYTES = 8, 1024  # from this major compute capability on
_COOPERATIVE = (2, 3)  # launch types: all blocks run at once
_FEW = 0.05  # of the kernels: those of a short window are read by themselves


class Multiprocessor(NamedTuple):
    """What a multiprocessor holds, and how many of them each GPU has."""

    registers: int
    shared_bytes: int
    warps: int
    blocks: int
    multiprocessors: int
    capability: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Occupancy:
    """The occupancy of kernels, an entry each; NaN where it is not known.

    ``blocks`` are those that a multiprocessor holds at once, ``percent`` their share of its warps. ``limits``
    has a row of marks for each of ``LIMITERS``: those that allow no more. ``waves`` are the blocks of the
    grid by those that the GPU holds at once.
    """

    blocks: NDArray[np.float64]
    percent: NDArray[np.float64]
    limits: NDArray[np.bool_]
    waves: NDArray[np.float64]

    @property
    def tail(self) -> NDArray[np.float64]:
        """Return the share of the last wave that is empty."""
        return np.ceil(self.waves) - self.waves


def occupancy_of(whole: Capture, rows: NDArray[Any]) -> Occupancy:
    """Return the occupancy of the kernels at these positions of their table."""
    of, gpu = _launches(whole, rows), multiprocessor_of(whole)
    if gpu is None:
        unknown = np.full(len(rows), np.nan)
        return Occupancy(unknown, unknown, np.zeros((len(LIMITERS), len(rows)), bool), unknown)
    warps = np.ceil(_product(of, BLOCK) / _WARP)
    limits = np.array([*_limits(gpu, of, warps)])
    blocks = limits.min(axis=0)
    blocks[blocks < 1] = np.nan
    # Clusters do not fit everywhere.
    size, active = _product(of, _CLUSTER), of["active_clusters"]
    waves = _product(of, GRID) / np.where(
        (size > 1) & (active > 0), size * active, blocks * gpu.multiprocessors
    )
    cooperative = np.isin(of["launch_type"], _COOPERATIVE)
    waves[(of["green_context_id"] > 0) | (cooperative & (waves > 1))] = np.nan  # on a part of the GPU
    return Occupancy(blocks, 100 * blocks * warps / gpu.warps, limits == blocks, waves)


def _launches(whole: Capture, rows: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the fields of the kernels at these positions, NaN if not recorded."""
    order = np.argsort(rows)
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    read = whole.at(KERNEL, rows[order], *GRID, *BLOCK, *RESOURCES, *_CLUSTER, *_LAUNCH)
    return {field: np.where(values < 0, np.nan, values)[place] for field, values in read.items()}


def _limits(
    gpu: Multiprocessor, of: Mapping[str, NDArray[Any]], warps: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Return how many blocks each of ``LIMITERS`` allows.

    The driver gives a kernel as much shared memory as its blocks need, unless the program asks for less. What
    is recorded of kernels in graphs is that of another kernel.
    """
    parts = _PARTS_OF_GP100 if gpu.capability == (6, 0) else _PARTS
    own_registers = np.where(of["registers_per_thread"] > 0, of["registers_per_thread"], np.nan)
    per_warp = _rounded(own_registers * _WARP, _REGISTERS_AT_ONCE)
    reserves = gpu.capability[0] >= _RESERVES
    shared = of["static_shared_bytes"] + of["dynamic_shared_bytes"] + _RESERVED_BYTES * reserves
    shared = _rounded(shared, 128 if reserves else 256)
    executed, in_graph = of["executed_shared_bytes"], of["graph_node_id"] > 0
    memory = np.where((executed >= shared) & ~in_graph, executed, gpu.shared_bytes)
    with np.errstate(divide="ignore", invalid="ignore"):  # without shared memory
        return (
            np.floor(np.floor(gpu.registers // parts / per_warp) * parts / warps),
            np.where(shared == 0, np.inf, np.floor(memory / shared)),
            np.floor(gpu.warps / warps),
            np.full(len(warps), float(gpu.blocks)),
        )


def _product(of: Mapping[str, NDArray[Any]], fields: tuple[str, ...]) -> NDArray[np.float64]:
    """Return a number of blocks or threads, NaN for none."""
    x, y, z = (of[field] for field in fields)
    return np.where(x * y * z > 0, x * y * z, np.nan)


def _rounded(values: NDArray[Any], to: int) -> NDArray[np.float64]:
    return np.ceil(values / to) * to


@per_capture
def multiprocessor_of(whole: Capture) -> Multiprocessor | None:
    """Return the multiprocessors of the GPUs; None if they are not recorded, or the GPUs differ."""
    if not whole.has("gpu"):
        return None
    read = whole.columns("gpu", *_SIZES, "multiprocessors", "compute_major", "compute_minor").values()
    kinds = set(zip(*(values.tolist() for values in read), strict=True))
    if len(kinds) != 1:
        return None
    registers, shared, warps, blocks, count, major, minor = kinds.pop()
    known = min(registers, shared, warps, blocks, count, major) > 0
    return Multiprocessor(registers, shared, warps, blocks, count, (major, minor)) if known else None


def multiprocessors(whole: Capture) -> int | None:
    """Return the number of multiprocessors of a GPU; None if it is not recorded or the GPUs differ."""
    if not whole.has("gpu"):
        return None
    counts = set(whole.columns("gpu", "multiprocessors")["multiprocessors"].tolist()) - {MISSING, 0}
    return counts.pop() if len(counts) == 1 else None


@per_capture
def blocks_of(whole: Capture) -> NDArray[Any]:
    """Return the number of blocks of each kernel, at most 2^31 - 1."""
    return whole.stream(KERNEL, GRID, _blocks)["blocks"]


def _blocks(size: Mapping[str, NDArray[Any]]) -> Columns:
    x, y, z = (size[axis] for axis in GRID)
    return {"blocks": np.clip(x.astype(float) * y * z, -1, np.iinfo(np.int32).max).astype(np.int32)}


def blocks_at(whole: Capture, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the number of blocks of the kernels at these positions of their table, as ``blocks_of`` does.

    Those of all kernels are read once, unless few are asked for.
    """
    if blocks_of in whole.results or len(rows) > _FEW * whole.count(KERNEL):
        return blocks_of(whole)[rows]  # type: ignore[no-any-return]
    order = np.argsort(rows, kind="stable")
    blocks = np.empty(len(rows), np.int32)
    blocks[order] = _blocks(whole.at(KERNEL, rows[order], *GRID))["blocks"]
    return blocks
