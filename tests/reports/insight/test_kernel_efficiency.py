"""kernel_efficiency: occupancy, waves, and rates against the peaks of the GPU, worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from conditioned import H200 as FULL
from conditioned import recorded
from made_modules import Training
from tiny_export import KERNEL, changed, kernel, opened, row

from nsyswrap.base.run_facts import Conditions, Peaks
from nsyswrap.capture.selection import Selection

if TYPE_CHECKING:
    from pathlib import Path

    from tiny_export import Row

    from nsyswrap.api import CaptureReader

BF16 = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
# 1000 MHz: 10 x 4096 x 1e9 x 61/66 = 37.858 TFLOP/s for bf16, 10 x 256 x 1e9 = 2.56 for f32 on CUDA cores.
H200 = row(
    "TARGET_INFO_GPU",
    id=0,
    name="NVIDIA H200",
    smCount=10,
    computeMajor=9,
    computeMinor=0,
    maxRegistersPerSm=65_536,
    maxShmemPerSm=233_472,
    maxWarpsPerSm=64,
    maxBlocksPerSm=32,
    clockRate=10**9,
    memoryBandwidth=10**12,
)
NO_SHAPES = "no FLOPs and bytes: no operation has recorded shapes; nsyswrap profile --modules records them"
CALCULATED = "peaks are of the highest clock; nsyswrap doctor --probe --peaks measures them for later runs"
MEASURED = "peaks were measured before, by nsyswrap doctor --probe --peaks with driver 580.1"
NO_SIZES = "no occupancy: the sizes of the GPU are not recorded, or the GPUs differ"


def used(one: Row, registers: int = 32, shared: int = 0, grid: int = 100) -> Row:
    more = {"registersPerThread": registers, "staticSharedMemory": shared, "dynamicSharedMemory": 0}
    return changed(one, gridX=grid, blockX=256, **more)


def records(capture: CaptureReader) -> list[dict[str, Any]]:
    return capture.report("kernel_efficiency").records()


def test_a_row_for_each_use_of_registers_and_shared_memory(tmp_path: Path) -> None:
    rows = [
        used(kernel("mine(int)", 0, 40)),
        used(kernel("mine(int)", 50, 60)),
        used(kernel("mine(int)", 60, 80), registers=128),
        used(kernel("mine(int)", 80, 90), shared=100_000, grid=10),
    ]
    expected = [
        (50, 2, 32, 0, 8, "registers, warps", 100.0, 1.25, 75.0, " 100    1    1"),
        (20, 1, 128, 0, 2, "registers", 25.0, 5.0, 0.0, " 100    1    1"),
        (10, 1, 32, 100_000, 2, "shared memory", 25.0, 0.5, 50.0, "  10    1    1"),
    ]
    names = ["total_ns", "instances", "registers", "shared_bytes", "blocks_per_sm", "limiter"]
    names += ["occupancy_percent", "waves", "tail_percent", "grid_xyz"]
    capture = opened(tmp_path, H200, *rows)
    assert [tuple(one[name] for name in names) for one in records(capture)] == expected
    assert capture.report("kernel_efficiency").notes == (NO_SHAPES,)


def work() -> list[Row]:
    """A product of 2 x 64 x 128 x 256 operations, and an addition of 64 x 256 numbers to as many."""
    made = Training()
    made.operation("aten::mm", 0, 100, sizes="[[64, 128], [128, 256]]")
    made.launch(BF16, 10, 200)
    made.operation("aten::add", 200, 300, sizes="[[64, 256], [64, 256], []]")
    made.launch(ADD, 210, 300)
    return [used(one) if one.table == KERNEL else one for one in made.rows]


def worked(folder: Path, *gpus: Row) -> CaptureReader:
    return opened(folder, *work(), *gpus)


def test_rates_and_roofs(tmp_path: Path) -> None:
    flop = 2 * 64 * 128 * 256  # 4,194,304 in 200 ns
    moved = 2 * (64 * 128 + 128 * 256 + 64 * 256)  # 114,688 bytes
    add, product = records(worked(tmp_path, H200))
    near = pytest.approx
    assert (product["class"], product["type"], product["tensor_cores"]) == ("gemm", "bf16", "yes")
    assert (product["avg_flop"], product["avg_bytes"]) == (flop, moved)
    assert product["flop_per_s"] == near(flop / 200e-9)  # 20.97 TFLOP/s
    assert product["bytes_per_s"] == near(moved / 200e-9)
    assert product["intensity"] == near(flop / moved)  # 36.57, less than 37.86: the ridge
    assert product["peak_percent"] == near(100 * 20.97152 / (40.96 * 61 / 66))
    assert product["bandwidth_percent"] == near(57.344)
    assert product["roof"] == "memory"
    assert (add["class"], add["type"], add["tensor_cores"]) == ("elementwise", "f32", "no")
    assert (add["avg_flop"], add["intensity"], add["peak_percent"]) == (None, None, None)
    assert add["avg_bytes"] == 4 * 3 * 64 * 256
    assert add["bandwidth_percent"] == near(100 * 196_608 / 300e-9 / 1e12)
    assert add["roof"] == "memory"


@pytest.mark.parametrize(
    ("cells", "roof"), [({"memoryBandwidth": 2 * 10**12}, "compute"), ({"memoryBandwidth": None}, None)]
)
def test_the_roof_of_a_product_is_that_of_the_gpu(
    cells: dict[str, int | None], roof: str | None, tmp_path: Path
) -> None:
    _, product = records(worked(tmp_path, changed(H200, **cells)))
    assert product["roof"] == roof
    assert (product["bandwidth_percent"] is None) == (roof is None)


def test_peaks_that_were_measured_come_first(tmp_path: Path) -> None:
    peaks = Peaks("580.1", {"bf16": 30e12, "f32": 1e12}, 8e11)
    facts = Conditions((replace(FULL, peaks=peaks), replace(FULL, index=1, peaks=peaks)))
    capture = recorded(tmp_path / "run", [*work(), H200], None, facts)
    add, product = records(capture)
    assert product["peak_percent"] == pytest.approx(100 * 20.97152 / 30)
    assert product["bandwidth_percent"] == pytest.approx(57.344 / 0.8)
    assert add["bandwidth_percent"] == pytest.approx(100 * 196_608 / 300e-9 / 8e11)
    assert capture.report("kernel_efficiency").notes == (MEASURED,)
    others = Conditions((replace(FULL, peaks=peaks), FULL))  # of two GPUs one was not measured
    unlike = recorded(tmp_path / "other", [*work(), H200], None, others)
    assert records(unlike)[1]["peak_percent"] == pytest.approx(100 * 20.97152 / (40.96 * 61 / 66))
    assert unlike.report("kernel_efficiency").notes == (CALCULATED,)


def test_an_unknown_gpu_has_no_peak_and_no_occupancy(tmp_path: Path) -> None:
    capture = worked(tmp_path, row("TARGET_INFO_GPU", id=0, name="GPU"))
    add, product = records(capture)
    assert product["flop_per_s"] == pytest.approx(20.97152e12)
    for name in (
        "blocks_per_sm",
        "limiter",
        "waves",
        "tail_percent",
        "peak_percent",
        "bandwidth_percent",
        "roof",
    ):
        assert product[name] is None, name
    assert add["roof"] == "memory"  # it only moves data
    assert capture.report("kernel_efficiency").notes == (NO_SIZES,)


def test_of_a_selection_rates_are_those_of_whole_kernels(tmp_path: Path) -> None:
    capture = worked(tmp_path, H200)
    part = capture.viewed(selection=Selection(start_ns=300, end_ns=350, clip=True))  # of 220 to 520
    [add] = records(part)
    assert (add["total_ns"], add["waves"]) == (50, 1.25)
    assert add["bytes_per_s"] == pytest.approx(196_608 / 300e-9)
