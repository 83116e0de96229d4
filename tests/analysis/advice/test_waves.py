"""Findings about blocks. Steps of 1000 ns are drawn once; of four, the last three are judged."""

from pathlib import Path

import numpy as np
import pytest
from advised import STEP_NS, findings_of, looped, new, stakes
from tiny_export import Row, call, changed, kernel, row

from nsyswrap.analysis.advice import context, waves
from nsyswrap.analysis.gpu_operations import gpu_operations_of

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn"
GPU = row("TARGET_INFO_GPU", id=0, name="GPU", smCount=10)
LIMITS = {"maxRegistersPerSm": 65_536, "maxShmemPerSm": 100_000, "maxWarpsPerSm": 64, "maxBlocksPerSm": 16}
SIZED = row("TARGET_INFO_GPU", id=0, name="GPU", smCount=10, computeMajor=8, **LIMITS)
RESOURCES = {"registersPerThread": 32, "staticSharedMemory": 0, "dynamicSharedMemory": 0}


@pytest.fixture(autouse=True)
def any_duration(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short kernels count where no launches are known."""
    if "long_enough" not in request.fixturenames:
        monkeypatch.setattr(context, "_SHORT_NS", 0)


# few_blocks, on 10 multiprocessors
# CPU  |L 0-10|L 10-20|
# GPU         few[10 .. until) full[until ... 1000)
def filled(until: int, blocks: int = 1) -> list[Row]:
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("few", 10, until, 1, gridX=blocks)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("full", until, STEP_NS, 2, gridX=10)),
    ]


@pytest.mark.parametrize(
    ("blocks", "expected"), [(1, {"few_blocks": 3 * 90}), (5, {"few_blocks": 3 * 50}), (6, {})]
)
def test_kernels_with_fewer_blocks_than_multiprocessors(
    blocks: int, expected: dict[str, int], tmp_path: Path
) -> None:
    # each of 100 ns leaves that much of the GPU unused
    assert stakes(tmp_path, GPU, *looped(*filled(110, blocks))) == expected


def test_what_is_said_of_few_blocks(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, GPU, *looped(*filled(110))))["few_blocks"]
    assert one.numbers == {
        "steps": 3,
        "median_blocks": 1.0,
        "multiprocessors": 10,
        "kernels": 3,
        "kernels_ns": 300,
        "longest_kernel": "few",
    }


@pytest.mark.parametrize(("until", "expected"), [(65, {}), (66, {"few_blocks": 151})])
def test_few_blocks_of_less_than_five_percent(until: int, expected: dict[str, int], tmp_path: Path) -> None:
    # 3 x 0.9 x 55 = 148.5, and 3 x 0.9 x 56 = 151.2, of 3000
    assert stakes(tmp_path, GPU, *looped(*filled(until))) == expected


def test_another_stream_may_fill_the_gpu(tmp_path: Path) -> None:
    beside = [call("cudaLaunchKernel", 0, 9, 3, tid=101), kernel("full", 10, 110, 3, gridX=10, streamId=8)]
    assert stakes(tmp_path, GPU, *looped(*filled(110), *beside)) == {}


# Ten kernels of one block on ten multiprocessors, five at a time: half of the GPU is idle for 2 x 100 ns.
def test_kernels_of_few_blocks_that_run_together_add_up(tmp_path: Path) -> None:
    rows = [kernel("k", 100 * (i // 5), 100 * (i // 5) + 100, i, streamId=i) for i in range(10)]
    assert stakes(tmp_path, GPU, *rows) == {"few_blocks": 100}


def test_communication_has_few_blocks_on_purpose(tmp_path: Path) -> None:
    rows = [kernel(ALL_REDUCE, 0, 100, 1), kernel("full", 0, 100, 2, gridX=10, streamId=8)]
    assert stakes(tmp_path, GPU, *rows) == {}


@pytest.mark.parametrize("sizes", [(), (None,), (10, 20)])
def test_without_the_size_of_the_gpu_no_blocks_are_few(sizes: tuple[int | None, ...], tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU", smCount=size) for i, size in enumerate(sizes)]
    assert stakes(tmp_path, *gpus, kernel("k", 0, 100, 1)) == {}


def test_few_blocks_on_two_gpus_count_once(tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU", smCount=10) for i in range(2)]
    rows = [kernel("k", 0, 100, 1), kernel("k", 0, 100, 2, deviceId=1)]
    assert stakes(tmp_path, *gpus, *rows) == {"few_blocks": 90}


@pytest.mark.parametrize(("long_enough", "expected"), [(9_999, {}), (10_000, {"few_blocks": 9_000})])
def test_short_kernels_do_not_count(long_enough: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, GPU, kernel("k", 0, long_enough, 1)) == expected


@pytest.mark.parametrize(("call_ns", "expected"), [(33, {"few_blocks": 270}), (34, {})])
def test_kernels_that_launching_limits_do_not_count(
    call_ns: int, expected: dict[str, int], tmp_path: Path
) -> None:
    rows = [*filled(110), call("cudaLaunchKernel", 20, 20 + call_ns, 3)]
    rows = [changed(one, end=one.cells["start"] + call_ns) if "nameId" in one.cells else one for one in rows]  # type: ignore[operator]
    found = stakes(tmp_path, GPU, *looped(*rows))
    assert {kind: ns for kind, ns in found.items() if kind == "few_blocks"} == expected


@pytest.mark.parametrize(
    ("name", "blocks", "expected"), [(GEMM, 9, []), (GEMM, 8, ["few_blocks"]), ("mine", 9, ["few_blocks"])]
)
def test_products_may_leave_a_tenth_of_the_gpu_to_others(
    name: str, blocks: int, expected: list[str], tmp_path: Path
) -> None:
    assert list(stakes(tmp_path, GPU, kernel(name, 0, 1000, 1, gridX=blocks))) == expected


# last_wave, on 10 multiprocessors that hold two blocks of 1024 threads
def waved(name: str, blocks: int, **more: object) -> Row:
    return changed(kernel(name, 0, 1000, 1), **{"gridX": blocks, "blockX": 1024, **RESOURCES, **more})


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        (waved(GEMM, 25), 166),  # 1.25 waves; 2.5 of 3 blocks on each
        (waved(GEMM, 40), 0),
        (waved(GEMM, 41), 180),  # 2.05 waves; 4.1 of 5
        (waved(GEMM, 61), 0),  # more than 3 waves
        (waved("mine", 25), 166),
        (waved("void at::native::vectorized_elementwise_kernel<4, F>(int)", 25), 0),  # limited by memory
        (waved("void gemv2T_kernel_val<float>(T1)", 25), 0),
        (waved("cutlass_gemm_streamk", 25), 0),
        (waved("void at::native::<unnamed>::EmbeddingBag_updateOutputKernel<float>(T1)", 25), 0),
        (waved(GEMM, 25, registersPerThread=33), 166),  # 40 a thread: one block, so 2.5 of 3 waves
        (waved(GEMM, 25, dynamicSharedMemory=50_000), 166),
        (waved(GEMM, 25, staticSharedMemory=48_800), 166),
        (waved(GEMM, 25, blockX=32), 0),  # 16 blocks of one warp: 0.16 waves
        (waved(GEMM, 25, registersPerThread=None), 0),  # occupancy is not known
        (waved(GEMM, 25, staticSharedMemory=None), 0),
        (waved(GEMM, 32, clusterX=4, clusterY=1, clusterZ=1, maxActiveClusters=4), 0),  # 2 full waves
        (waved(GEMM, 36, clusterX=4, clusterY=1, clusterZ=1, maxActiveClusters=4), 99),  # 4.5 of 5
    ],
)
def test_what_the_last_wave_leaves_idle(row: Row, lost: int, tmp_path: Path) -> None:
    assert stakes(tmp_path, SIZED, row).get("last_wave", 0) == lost


def test_what_is_said_of_the_last_wave(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, SIZED, waved(GEMM, 25)))["last_wave"]
    assert one.status == "estimate"
    assert one.numbers == {
        "steps": 0,
        "kernels": 1,
        "kernels_ns": 1000,
        "kernel": GEMM,
        "blocks": 25,
        "waves": 1.25,
        "resident": 2,
        "multiprocessors": 10,
    }


def test_clusters_leave_multiprocessors_out(tmp_path: Path) -> None:
    of_four = waved(GEMM, 36, clusterX=4, clusterY=1, clusterZ=1, maxActiveClusters=4)
    numbers = findings_of(new(tmp_path, SIZED, of_four))["last_wave"].numbers
    assert (numbers["waves"], numbers["resident"], numbers["multiprocessors"]) == (2.25, 2, 8)


def test_waves_of_a_gpu_of_unknown_size_are_not_judged(tmp_path: Path) -> None:
    assert stakes(tmp_path, GPU, waved(GEMM, 25)) == {}


@pytest.mark.parametrize("within", [60, 500, 3000])  # kernels run at the same time, some do, few do
@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
def test_idle_multiprocessors_are_summed_moment_by_moment(
    at_once: int, within: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(at_once)
    start = np.sort(random.integers(0, within, 40))
    end = start + random.integers(0, 25, 40)
    share = np.where(random.random(40) < 0.7, random.integers(0, 4, 40) / 8, 1.0)  # exact as floats
    spans = zip(start.tolist(), end.tolist(), strict=True)
    kernels = gpu_operations_of(new(tmp_path, *(kernel("k", *span, i) for i, span in enumerate(spans))))
    unused = 0.0
    for moment in range(int(end.max())):
        running = (start <= moment) & (end > moment)
        unused += max(0.0, 1 - share[running].sum()) if running.any() else 0.0
    monkeypatch.setattr(waves, "_BLOCK", at_once)
    assert waves._unused_ns(kernels, share, np.arange(40)) == int(unused)  # noqa: SLF001
