"""Findings and facts about what kernels compute with. Steps of 1000 ns are launched a step ahead."""

from pathlib import Path

import pytest
from advised import STEADY_NS, STEP_NS, findings_of, looped, moved, new
from tiny_export import Row, call, kernel, row

from nsyswrap.analysis.advice import advice_of, products
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.peaks import tf32_speedup
from nsyswrap.analysis.program_language import framework_of
from nsyswrap.api import CaptureReader

SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)"
FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_x"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize256x128x32_warpgroupsize2x1x1_x__5x_cublas"
FP64 = "sm90_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x128x16_warpsize2x2x1_tensor16x8x8_x__5x_cublas"
MISALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_256x128_nn_align2>(T1::Params)"
ALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_256x128_nn_align8>(T1::Params)"
UNKNOWN = "nvjet_xyz_256x128_64x4_1x2_h_bz_coopA_NNT"
ADD = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<{}>, T>(int)"
KINDS = {kind.__name__ for kind in products.CHECKS}
OWN = "gemm(const float *, float *)"


def gpu(major: int | None = 9, minor: int | None = 0, name: str = "NVIDIA H200") -> Row:
    return row("TARGET_INFO_GPU", id=0, name=name, smCount=10, computeMajor=major, computeMinor=minor)


# CPU  |L 0-10|L 10-20|
# GPU                    of the step before   | name [1000 .. until) rest [until .. 2000)
def ahead(name: str, until: int, rest: str = ADD.format("float"), blocks: int = 10) -> list[Row]:
    shape = {"gridX": blocks}
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel(name, STEP_NS, STEP_NS + until, 1, **shape)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel(rest, STEP_NS + until, 2 * STEP_NS, 2, gridX=10)),
    ]


def found(folder: Path, *rows: Row) -> dict[str, Finding]:
    return findings_of(new(folder, *rows))


def stake(folder: Path, name: str, *more: Row) -> dict[str, tuple[int | None, str]]:
    """Return ceiling and status of what is found about a kernel of 600 of the 1000 ns of a step."""
    every = found(folder, *looped(*ahead(name, 600)), *more).items()
    return {kind: (one.ceiling_ns, one.status) for kind, one in every if kind in KINDS}


@pytest.mark.parametrize("name", [SIMT, FP32])
def test_fp32_products_cost_what_tf32_would_save(name: str, tmp_path: Path) -> None:
    saved = int(3 * 600 * (1 - 66.9 / 494.7))
    assert stake(tmp_path, name, gpu()) == {"fp32_products": (saved, "estimate")}


def test_what_is_said_of_fp32_products(tmp_path: Path) -> None:
    one = found(tmp_path, gpu(), *looped(*ahead(FP32, 600)))["fp32_products"]
    assert one.numbers == {"steps": 3, "kernels": 3, "kernels_ns": 1800, "longest_kernel": FP32}
    assert (one.time_percent, one.window_ns) == (60.0, STEADY_NS)


@pytest.mark.parametrize("name", [TF32, OWN, UNKNOWN, ALIGNED, ADD.format("c10::Half")])
def test_other_or_unknown_arithmetic_is_not_claimed(name: str, tmp_path: Path) -> None:
    assert stake(tmp_path, name, gpu()) == {}


@pytest.mark.parametrize("more", [(), (gpu(None),), (gpu(11),), (gpu(), gpu(8))])
def test_unknown_gpus_have_a_share_alone(more: tuple[Row, ...], tmp_path: Path) -> None:
    assert stake(tmp_path, FP32, *more) == {"fp32_products": (1800, "unknown")}


@pytest.mark.parametrize("one", [gpu(7, 5, "Tesla T4"), gpu(8, 6, "NVIDIA GeForce RTX 3090")])
def test_gpus_on_which_tf32_is_no_faster(one: Row, tmp_path: Path) -> None:
    assert tf32_speedup(new(tmp_path, one, kernel("k", 0, 1))) == 1
    assert stake(tmp_path, FP32, one) == {}


def test_products_of_few_blocks_cannot_reach_the_peak(tmp_path: Path) -> None:
    assert [*found(tmp_path, gpu(), *looped(*ahead(FP32, 600, blocks=4)))] == ["few_blocks"]


def test_products_before_the_gpu_waits_for_a_launch_save_nothing(tmp_path: Path) -> None:
    # CPU  |L 0-10|                     |L 900-910|
    # GPU         fp32 [10 .. 700)                 add [910 .. 1000)
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel(FP32, 10, 700, 1, gridX=10)),
        *(call("cudaLaunchKernel", 900, 910, 2), kernel(ADD.format("float"), 910, 1000, 2, gridX=10)),
    ]
    assert "fp32_products" not in found(tmp_path, gpu(), *looped(*rows))
    waited = [*rows, call("cudaDeviceSynchronize", 20, 701)]  # then the host is earlier, too
    assert found(tmp_path, gpu(), *looped(*waited))["fp32_products"].numbers["kernels_ns"] == 3 * 690


def test_fp64_is_a_finding_where_the_framework_defaults_to_fp32(tmp_path: Path) -> None:
    adds = looped(*ahead(FP64, 300, ADD.format("double")))
    saved = 3 * (300 * (1 - 66.9 / 494.7) + 700 * 0.5)  # a product, and half of the bytes
    assert found(tmp_path, gpu(), *adds)["fp64_kernels"].ceiling_ns == int(saved)
    older = looped(*ahead("volta_dgemm_128x32_nn", 300, ADD.format("double")))
    assert found(tmp_path, gpu(), *older)["fp64_kernels"].ceiling_ns == int(saved)
    assert found(tmp_path, gpu(7, 5), *adds)["fp64_kernels"].ceiling_ns == STEADY_NS // 2
    program = new(tmp_path, gpu(), *looped(*ahead(FP64, 300, "own(double *)")))
    assert framework_of(program) == ""
    assert findings_of(program) == {}
    facts = {one.kind: one for one in advice_of(program).facts}
    assert facts["uses_fp64"].time_percent == 30.0


def test_programs_that_factor_matrices_want_fp64(tmp_path: Path) -> None:
    solve = "void kernel<getrf_wo_pivot_params_<double, (int)0, (int)256>>(T1)"
    rows = [*ahead(FP64, 600), call("cudaLaunchKernel", 20, 30, 3)]
    program = new(tmp_path, gpu(), *looped(*rows, kernel(solve, 1990, 2000, 3, gridX=10)))
    assert "fp64_kernels" not in findings_of(program)
    assert facts_of(program)["uses_fp64"].time_percent == 60.0


def test_misaligned_products(tmp_path: Path) -> None:
    assert stake(tmp_path, MISALIGNED, gpu()) == {"misaligned_products": (1800, "unknown")}


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        (ADD.format("float"), "pytorch"),
        ("triton_poi_fused_add_gelu_mul_0", "pytorch"),
        ("loop_add_fusion", "jax"),
        ("input_reduce_fusion_1", "jax"),
        ("wrapped_convert", "jax"),
        ("confusion(float *)", ""),
        (FP32, ""),
    ],
)
def test_frameworks_are_known_by_their_kernels(name: str, framework: str, tmp_path: Path) -> None:
    assert framework_of(new(tmp_path, kernel(name, 0, 1))) == framework


# Facts
def facts_of(capture: CaptureReader) -> dict[str, Finding]:
    return {one.kind: one for one in advice_of(capture).facts}


@pytest.mark.parametrize(("until", "expected"), [(300, 70.0), (600, 60.0)])
def test_the_kernel_that_takes_most(until: int, expected: float, tmp_path: Path) -> None:
    one = facts_of(new(tmp_path, gpu(), *looped(*ahead(OWN, until))))["one_kernel"]
    assert one.time_percent == expected


def test_a_finding_comes_before_a_closer_look(tmp_path: Path) -> None:
    assert "one_kernel" not in facts_of(new(tmp_path, gpu(), *looped(*ahead(FP32, 600))))


def test_unknown_arithmetic_is_a_fact(tmp_path: Path) -> None:
    facts = facts_of(new(tmp_path, gpu(), *looped(*ahead(UNKNOWN, 200))))
    assert facts["unknown_products"].time_percent == 20.0


def uneven(*lengths: int, blocks: tuple[int, ...] = (10,)) -> list[Row]:
    """Steps in which one kernel takes these times, each beside a kernel of 400 ns."""
    rows = []
    for number, length in enumerate(lengths):
        shape = {"gridX": blocks[number % len(blocks)]}
        step = [call("cudaLaunchKernel", 0, 10, 1), kernel(OWN, 1000, 1000 + length, 1, **shape)]
        step += [call("cudaLaunchKernel", 10, 20, 2), kernel("rest", 1600, 2000, 2, gridX=10)]
        rows += [moved(one, number * STEP_NS, 1000 * number) for one in looped(*step, steps=1)]
    return rows


def test_a_kernel_that_becomes_slower(tmp_path: Path) -> None:
    slower = [400 + 8 * (number // 5) for number in range(60)]
    one = facts_of(new(tmp_path, gpu(), *uneven(*slower)))["kernel_drifts"]
    assert one.numbers["kernel"] == OWN
    assert one.numbers["first_ns"] == pytest.approx(412, abs=6)
    assert one.numbers["last_ns"] == pytest.approx(476, abs=6)


def test_grids_that_differ_are_other_work(tmp_path: Path) -> None:
    slower = [400 + 8 * (number // 5) for number in range(60)]
    assert "kernel_drifts" not in facts_of(new(tmp_path, gpu(), *uneven(*slower, blocks=(10, 20))))


def test_a_kernel_with_long_launches(tmp_path: Path) -> None:
    lengths = [560 if number % 40 == 5 else 200 for number in range(130)]
    one = facts_of(new(tmp_path, gpu(), *uneven(*lengths)))["kernel_varies"]
    assert one.numbers == {"kernel": OWN, "median_ns": 200.0, "p99_ns": pytest.approx(560.0)}
