"""Blocks per multiprocessor, what limits them, and waves: by CUDA's occupancy calculator, and one by one."""

from __future__ import annotations

import csv
import lzma
import sqlite3
from contextlib import closing
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from recorded import capture_names, run_folder
from tiny_export import changed, kernel, row, write

from nsyswrap.analysis.occupancy import LIMITERS, blocks_at, blocks_of, occupancy_of
from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import EXPORT

if TYPE_CHECKING:
    from tiny_export import Row

    from nsyswrap.analysis.occupancy import Occupancy

NCU = Path(__file__).resolve().parents[1] / "data" / "occupancy"
REGISTERS, SHARED, WARPS, BLOCKS = LIMITERS
# What a multiprocessor holds, by the table of compute capabilities in the CUDA programming guide: bytes of
# shared memory, warps, blocks.
SIZES = {
    "6.0": (65_536, 64, 32),
    "6.1": (98_304, 64, 32),
    "7.0": (98_304, 64, 32),
    "7.5": (65_536, 32, 16),
    "8.0": (167_936, 64, 32),
    "8.6": (102_400, 48, 16),
    "9.0": (233_472, 64, 32),
    "12.0": (102_400, 48, 24),
}


def gpu(version: str, **more: object) -> Row:
    major, minor = map(int, version.split("."))
    shared, warps, blocks = SIZES[version]
    sizes = {
        "maxRegistersPerSm": 65_536,
        "maxShmemPerSm": shared,
        "maxWarpsPerSm": warps,
        "maxBlocksPerSm": blocks,
    }
    cells = {"id": 0, "name": "GPU", "smCount": 10, "computeMajor": major, "computeMinor": minor, **sizes}
    return row("TARGET_INFO_GPU", **{**cells, **more})


def launch(threads: int, registers: int | None, static: int = 0, dynamic: int = 0) -> Row:
    used = {"registersPerThread": registers, "staticSharedMemory": static, "dynamicSharedMemory": dynamic}
    return changed(kernel("k", 0, 1), blockX=threads, **used)


def occupied(folder: Path, *rows: Row) -> Occupancy:
    kernels = sum("blockX" in one.cells for one in rows)
    return occupancy_of(open_capture(write(folder / "one.sqlite", *rows)), np.arange(kernels))


# cuda_occupancy.h of CUDA 13.0, compiled, says the same of each.
@pytest.mark.parametrize(
    ("version", "launched", "blocks", "limits"),
    [
        # 8 warps of 32 x 32 = 1024 registers: 64 warps, which are 8 blocks of 8; 64 warps fit, too
        ("8.0", launch(256, 32), 8, (REGISTERS, WARPS)),
        # 33 x 32 = 1056 are 1280: 12 warps in each of 4 parts with 16384, 48 in all
        ("8.0", launch(256, 33), 6, (REGISTERS,)),
        # 255 x 32 = 8160 are 8192: 2 warps in each part, 8 in all, 4 a block
        ("8.0", launch(128, 255), 2, (REGISTERS,)),
        # 40 x 32 = 1280: 12 warps a part; shared memory allows 167936 / (16384 + 1024) = 9.6
        ("8.0", launch(256, 40, 16_384), 6, (REGISTERS,)),
        # a warp each: 64 warps, 128 by registers, 164 by the 1024 bytes that CUDA keeps
        ("8.0", launch(32, 16), 32, (BLOCKS,)),
        ("8.0", launch(1024, 32), 2, (REGISTERS, WARPS)),
        ("8.6", launch(256, 32), 6, (WARPS,)),  # 48 warps; registers allow 8
        # 40 x 32 = 1280: 48 warps by registers, 32 a block
        ("8.6", launch(1024, 40), 1, (REGISTERS, WARPS)),
        ("8.6", launch(128, 96, 32_768), 3, (SHARED,)),  # 102400 / 33792 = 3.03; registers 20 warps: 5
        ("8.6", launch(64, 24), 16, (BLOCKS,)),  # 24 by warps
        # a product of cuBLAS: 213188 + 1024, and 168 x 32 = 5376: 3 warps a part, 12 in all
        ("9.0", launch(384, 168, 0, 213_188), 1, (REGISTERS, SHARED)),
        ("9.0", launch(256, 128), 2, (REGISTERS,)),  # 4096 a warp: 16 warps
        # 3 warps of 2048: 8 a part, 32 in all, 10 blocks; shared memory 233472 / 1152 = 202
        ("9.0", launch(96, 64, 0, 100), 10, (REGISTERS,)),
        # 56 x 32 = 1792: 9 warps a part, 36 in all; 233472 / 25600 = 9.12
        ("9.0", launch(128, 56, 0, 24_576), 9, (REGISTERS, SHARED)),
        ("9.0", launch(33, 20), 32, (WARPS, BLOCKS)),  # 2 warps a block
        ("7.5", launch(128, 32, 1), 8, (WARPS,)),  # 256 bytes for 1: 256 blocks
        ("7.0", launch(256, 32, 8193), 8, (REGISTERS, WARPS)),  # 98304 / 8448 = 11.6
        ("7.0", launch(32, 32, 3200), 29, (SHARED,)),  # 3328 in pieces of 256; in pieces of 128 it were 30
        ("7.0", changed(launch(64, 16), sharedMemoryExecuted=0), 32, (WARPS, BLOCKS)),  # it needs none
        ("12.0", launch(64, 40), 24, (REGISTERS, WARPS, BLOCKS)),
        # 80 x 32 = 2560, 3 warps a block. GP100 has two parts of 32768: 12 warps each; others four of 6
        ("6.0", launch(96, 80), 8, (REGISTERS,)),
        ("6.1", launch(96, 80), 8, (REGISTERS,)),
    ],
)
def test_the_occupancy_calculator(
    version: str, launched: Row, blocks: int, limits: tuple[str, ...], tmp_path: Path
) -> None:
    of = occupied(tmp_path, gpu(version), launched)
    assert of.blocks.tolist() == [blocks]
    assert [name for name, marks in zip(LIMITERS, of.limits, strict=True) if marks[0]] == list(limits)
    warps = ceil(int(str(launched.cells["blockX"])) / 32)
    assert of.percent[0] == pytest.approx(100 * blocks * warps / SIZES[version][1])


@pytest.mark.parametrize(
    ("more", "waves", "tail"),
    [
        ({"gridX": 160}, 2.0, 0.0),  # 8 blocks on each of 10
        ({"gridX": 100}, 1.25, 0.75),
        ({"gridX": 5, "gridY": 4}, 0.25, 0.75),
        ({"gridX": 100, "launchType": 2}, np.nan, np.nan),  # cooperative: they all ran at once somehow
        ({"gridX": 20, "launchType": 2}, 0.25, 0.75),
        ({"gridX": 100, "greenContextId": 1}, np.nan, np.nan),  # on some of the multiprocessors
        # 12 clusters of 4 at once, not the 80 blocks that fit without
        ({"gridX": 96, "clusterX": 2, "clusterY": 2, "clusterZ": 1, "maxActiveClusters": 12}, 2.0, 0.0),
        ({"gridX": 8, "clusterX": 2, "clusterY": 2, "clusterZ": 1, "maxActiveClusters": 1}, 2.0, 0.0),
        ({"gridX": 160, "clusterX": 1, "clusterY": 1, "clusterZ": 1, "maxActiveClusters": 80}, 2.0, 0.0),
        ({"gridX": 160, "clusterX": 0, "clusterY": 0, "clusterZ": 0, "maxActiveClusters": 0}, 2.0, 0.0),
    ],
)
def test_waves(more: dict[str, object], waves: float, tail: float, tmp_path: Path) -> None:
    of = occupied(tmp_path, gpu("8.0"), changed(launch(256, 32), **more))
    assert of.waves.tolist() == pytest.approx([waves], nan_ok=True)
    assert of.tail.tolist() == pytest.approx([tail], nan_ok=True)


@pytest.mark.parametrize(
    ("more", "blocks"),
    [
        ({"sharedMemoryExecuted": 102_400}, 5),  # the program prefers cache: 102400 / 17408
        ({"sharedMemoryExecuted": 102_400, "graphNodeId": 7}, 8),  # that of another kernel
        ({"sharedMemoryExecuted": 16_384}, 8),  # less than a block needs cannot be
        ({"sharedMemoryExecuted": None}, 8),
    ],
)
def test_shared_memory_that_the_driver_gave(more: dict[str, object], blocks: int, tmp_path: Path) -> None:
    of = occupied(tmp_path, gpu("8.0"), changed(launch(256, 32, 16_384), **more))
    assert of.blocks.tolist() == [blocks]


@pytest.mark.parametrize(
    "rows",
    [
        (launch(256, 32),),
        (launch(256, 32), gpu("8.0", maxWarpsPerSm=None)),
        (launch(256, 32), gpu("8.0", smCount=0)),
        (launch(256, 32), gpu("8.0"), gpu("8.6", id=1)),
        (launch(256, None), gpu("8.0")),
        (launch(256, 0), gpu("8.0")),
        (launch(0, 32), gpu("8.0")),
        (launch(256, 32, 200_000), gpu("8.0")),  # no such block fits
        (kernel("k", 0, 1), gpu("8.0")),  # written by an nsys that records no registers
    ],
)
def test_what_is_not_known_is_empty(rows: tuple[Row, ...], tmp_path: Path) -> None:
    of = occupied(tmp_path, *rows)
    assert np.isnan([*of.blocks, *of.percent, *of.waves, *of.tail]).all()
    assert not of.limits.any()


def test_equal_gpus_and_any_order_of_rows(tmp_path: Path) -> None:
    rows = [launch(256, 32), launch(256, 33), launch(128, 255)]
    whole = open_capture(write(tmp_path / "one.sqlite", gpu("8.0"), gpu("8.0", id=1), *rows))
    assert occupancy_of(whole, np.array([2, 0, 1, 0])).blocks.tolist() == [2, 8, 6, 8]


COLUMNS = (
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "sharedMemoryExecuted",
    "launchType",
)


def of_ncu() -> list[dict[str, str]]:
    """The launches that Nsight Compute was asked about, and what it says."""
    with (NCU / "ncu.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("one", of_ncu(), ids=lambda one: one["kernel"][:40])
def test_nsight_compute_says_the_same(one: dict[str, str], tmp_path: Path) -> None:
    cells: dict[str, object] = {name: int(one[name]) for name in COLUMNS}
    for what in ("grid", "block"):
        cells |= zip((f"{what}{axis}" for axis in "XYZ"), map(int, one[what].split("x")), strict=True)
    of = occupied(tmp_path, gpu("9.0", smCount=132), changed(kernel("k", 0, 1), **cells))
    limits = [int(one[name]) for name in LIMITERS]
    assert of.blocks.tolist() == [min(limits)]
    assert of.limits[:, 0].tolist() == [limit == min(limits) for limit in limits]
    assert of.percent[0] == pytest.approx(float(one["occupancy_percent"]))
    assert of.waves[0] == pytest.approx(float(one["waves"]), abs=0.005)  # ncu writes hundredths


def test_nsight_compute_says_the_same_of_a_recording(tmp_path: Path) -> None:
    export = tmp_path / EXPORT
    export.write_bytes(lzma.decompress((NCU / f"{EXPORT}.xz").read_bytes()))
    table = open_capture(export).report("kernel_efficiency").records()
    expected = {one["kernel"]: one for one in of_ncu()}
    assert len(table) == 12
    for one in table:
        ncu = expected[one["name"].split("(")[0]]
        assert one["blocks_per_sm"] == min(int(ncu[limit]) for limit in LIMITERS)
        assert one["waves"] == pytest.approx(float(ncu["waves"]), abs=0.005)
        assert one["registers"] == int(ncu["registersPerThread"])


class _Sizes(NamedTuple):
    registers: int
    shared: int
    warps: int
    blocks: int
    multiprocessors: int
    major: int


def _one_by_one(size: _Sizes, cells: dict[str, int | None]) -> tuple[float, float]:
    """Return blocks per multiprocessor and waves of a kernel, in plain numbers."""
    get = {name: value or 0 for name, value in cells.items()}
    warps = -(-get["blockX"] * get["blockY"] * get["blockZ"] // 32)
    a_warp = -(-get["registersPerThread"] * 32 // 256) * 256
    reserved, piece = (1024, 128) if size.major >= 8 else (0, 256)
    need = -(-(get["staticSharedMemory"] + get["dynamicSharedMemory"] + reserved) // piece) * piece
    room = get["sharedMemoryExecuted"] if not get["graphNodeId"] else 0
    room = room if room >= need else size.shared
    fit = size.registers // 4 // a_warp * 4 // warps
    most = min(fit, room // need if need else inf, size.warps // warps, size.blocks)
    return most, get["gridX"] * get["gridY"] * get["gridZ"] / (most * size.multiprocessors)


@pytest.mark.parametrize("name", capture_names())
def test_recorded_kernels_one_by_one(name: str, tmp_path: Path) -> None:
    export = run_folder(name, tmp_path) / EXPORT
    whole = open_capture(export)
    if not whole.has("kernel"):
        pytest.skip("no kernels")
    with closing(sqlite3.connect(export)) as database:
        database.row_factory = sqlite3.Row
        gpus = "maxRegistersPerSm, maxShmemPerSm, maxWarpsPerSm, maxBlocksPerSm, smCount, computeMajor"
        size = _Sizes(*database.execute(f"SELECT {gpus} FROM TARGET_INFO_GPU").fetchone())  # noqa: S608
        kernels = database.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    of = occupancy_of(whole, np.arange(len(kernels)))
    expected = [_one_by_one(size, dict(one)) for one in kernels]
    assert of.blocks.tolist() == [blocks for blocks, _ in expected]
    assert of.waves.tolist() == [waves for _, waves in expected]


def test_blocks_of_few_kernels_are_those_of_all_kernels(tmp_path: Path) -> None:
    kernels = [kernel("k", 10 * i, 10 * i + 5, i + 1, gridX=i % 7 + 1, gridY=i % 3 + 1) for i in range(6_000)]
    whole = open_capture(write(tmp_path / "many.sqlite", *kernels)).whole
    rows = np.array([5_999, 7, 3_000, 7])
    few = blocks_at(whole, rows)
    assert blocks_of not in whole.results  # the grids of the other kernels were not read
    assert few.tolist() == [(i % 7 + 1) * (i % 3 + 1) for i in rows.tolist()]
    assert few.tolist() == blocks_of(whole)[rows].tolist()
