"""Findings about kernels that only move data. Steps of 1000 ns are launched a step ahead."""

from pathlib import Path

import pytest
from advised import STEP_NS, findings_of, looped, new, stakes
from tiny_export import Row, call, changed, kernel, memcpy

from nsyswrap.analysis.advice import memory_bound
from nsyswrap.analysis.advice.memory_bound import CAST, ELEMENTWISE, OTHER, _role

_LAMBDA = "::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)]"
_DIRECT = f"at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &){_LAMBDA}"
_TWO = "std::array<char *, (unsigned long)2>"
_VECTORIZED = "void at::native::vectorized_elementwise_kernel<(int)4, {}>(int, T2, T3)"
_NOCAST = "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl{}<{}>(T1)>"

_FOREACH = "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::{}>(T1, T2, T3...)"
LERP = _FOREACH.format(
    "TensorListMetadata<(int)2>, at::native::<unnamed>::TernaryOpScalarFunctor<float, (int)2, (int)2, "
    "(int)0>, at::native::LerpFunctor<float>, float"
)
SQRT = _FOREACH.format(
    "TensorListMetadata<(int)2>, at::native::<unnamed>::UnaryOpFunctor<float, (int)2, (int)1, (int)1>, "
    "at::native::Sqrt<float>"
)
FUSED_ADAM = _FOREACH.format(
    "FusedOptimizerTensorListMetadata<(int)4>, at::native::<unnamed>::FusedAdamMathFunctor<float, (int)4, "
    "(at::native::ADAM_MODE)1, (bool)0>, const float *"
)

STRIDED_ADD = _NOCAST.format("_nocast", "at::native::CUDAFunctor_add<float>")
FILL = _VECTORIZED.format("at::native::FillFunctor<float>, std::array<char *, (unsigned long)1>")
MEAN = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, MeanOps<float>>>(T3)"
PRODUCT = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN"
EXP = _VECTORIZED.format(f"at::native::exp_kernel_cuda(at::TensorIteratorBase &){_LAMBDA}, {_TWO}")
ADD = _VECTORIZED.format("at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>")
ADDCDIV = _VECTORIZED.format(
    f"at::native::addcdiv_cuda_kernel(at::TensorIteratorBase &){_LAMBDA}, {_TWO.replace('2', '4')}"
)
TO_HALF = _VECTORIZED.format(
    f"at::native::float16_copy_kernel_cuda(at::TensorIteratorBase &){_LAMBDA}, {_TWO}"
)
TO_FLOAT = (
    f"void at::native::unrolled_elementwise_kernel<{_DIRECT}, {_TWO}, (int)4, "
    "TrivialOffsetCalculator<(int)1>, at::native::memory::LoadWithCast<(int)1>, "
    "at::native::memory::StoreWithCast<(int)1>>(int)"
)
CLONE = _VECTORIZED.format(f"{_DIRECT}, {_TWO}")
STRIDED = _NOCAST.format("_nocast", _DIRECT)
STRIDED_CAST = _NOCAST.format("", _DIRECT)
CONVERSION = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, (bool)0>(T3)"
CAT = "void at::native::<unnamed>::CatArrayBatchedCopy<float, unsigned int, (int)2, (int)64>(T1 *)"
SOFTMAX = "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *)"
LOG_SOFTMAX = SOFTMAX.replace("(bool)0, (bool)0", "(bool)1, (bool)0")
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)64>>(flash::Flash_fwd_params)"
NORM = "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2)"
BACKWARD = "void dgrad_engine<float, (int)128, (int)5>(T1)"
TRITON_CAST = "triton_poi_fused__to_copy_0"
BLOCKS = 1000


def in_order(*work: tuple[str, int] | tuple[str, int, int], idle: int = 0) -> list[Row]:
    """A step with kernels of these names, durations and blocks, one after the other, in the step after it."""
    rows, at = [], STEP_NS + 10
    for number, (name, ns, *blocks) in enumerate(work, 1):
        rows += [
            *(call("cudaLaunchKernel", number, number + 1, number),),
            *(kernel(name, at, at + ns, number, gridX=(blocks or [BLOCKS])[0]),),
        ]
        at += ns + idle
    return rows


def kinds(folder: Path, *work: tuple[str, int] | tuple[str, int, int]) -> dict[str, int | None]:
    """Return the ceilings of three steps with these kernels."""
    return stakes(folder, *looped(*in_order(*work)))


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (PRODUCT, memory_bound.PRODUCT),
        (EXP, ELEMENTWISE),
        (TO_HALF, CAST),
        (TO_FLOAT, CAST),
        (STRIDED_CAST, CAST),
        (SOFTMAX, memory_bound.SOFTMAX),
        (LOG_SOFTMAX, OTHER),
        (SOFTMAX.replace("(bool)0, (bool)0", "true, false").replace("(int)", ""), OTHER),
        ("void at::native::<unnamed>::cunn_SoftMaxForward<(int)4, LogSoftMaxForwardEpilogue>(T4 *)", OTHER),
        (TRITON_CAST, memory_bound.FUSED),
        ("wrapped_add", memory_bound.WRAPPED),
        ("wrapped_exponential_minus_one_2", memory_bound.WRAPPED),
        ("loop_add_multiply_fusion_1", memory_bound.LOOP),
        ("wrapped_broadcast", OTHER),
        ("wrapped_convert", OTHER),
        ("wrapped_addition", OTHER),
        ("input_concatenate_fusion", memory_bound.JOINED),
        ("triton_per_fused_native_layer_norm_3", OTHER),
        ("triton_per_fused__softmax_3", memory_bound.SOFTMAX),
        (FLASH, memory_bound.ATTENTION),
        (LERP, memory_bound.FOREACH),
        (FUSED_ADAM, OTHER),
        ("saxpy(int, float, float *, float *)", OTHER),
        ("void rmsnorm_kernel<float>(float *)", OTHER),
    ],
)
def test_what_a_kernel_does_is_read_from_its_name(name: str, role: int) -> None:
    assert _role(name) == role


# casts: of five kernels a step, the casts take 200 of 1000 ns
def test_casts_there_and_back(tmp_path: Path) -> None:
    work = (EXP, 300), (TO_HALF, 100), (PRODUCT, 480), (TO_FLOAT, 100, 2 * BLOCKS), (BACKWARD, 10)
    one = findings_of(new(tmp_path, *looped(*in_order(*work))))["casts"]
    assert (one.ceiling_ns, one.status) == (3 * 200, "estimate")
    assert one.numbers == {"steps": 3, "kernels": 6, "kernels_ns": 600, "trains": True}


def test_weights_that_are_cast_again_although_nothing_trains(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*in_order((TO_HALF, 200, 7), (PRODUCT, 790)))))["casts"]
    assert (one.ceiling_ns, one.numbers["trains"]) == (3 * 200, False)


@pytest.mark.parametrize(
    "casts",
    [
        [(TO_HALF, 100, 7), (TO_FLOAT, 100, 14)],  # no other kernel has so many elements: weights
        [(TO_HALF, 200), (PRODUCT, 1)],  # one a step
        [(TRITON_CAST, 100), (TRITON_CAST, 100)],
        [(TO_HALF, 24), (TO_HALF, 25)],  # 4.9 %
    ],
)
def test_casts_that_stay(casts: list[tuple[str, int]], tmp_path: Path) -> None:
    assert "casts" not in kinds(tmp_path, (EXP, 300), (PRODUCT, 300), *casts, (BACKWARD, 10))


# layout
@pytest.mark.parametrize(
    ("name", "part"),
    [
        (CONVERSION, "conversions_ns"),
        (STRIDED, "strided_ns"),
        (CAT, "concatenations_ns"),
        (CLONE, "clones_ns"),
    ],
)
def test_copies_inside_the_gpu(name: str, part: str, tmp_path: Path) -> None:
    work = (PRODUCT, 400), (name, 50), (PRODUCT, 350), (name, 50), (EXP, 100)
    one = findings_of(new(tmp_path, *looped(*in_order(*work))))["layout_copies"]
    assert (one.ceiling_ns, one.status) == (300, "estimate")
    assert (one.numbers[part], one.language) == (300, "pytorch")


@pytest.mark.parametrize(("kind", "expected"), [(8, {"layout_copies": 300}), (10, {})])
def test_copies_within_a_device_are_clones(kind: int, expected: dict[str, int], tmp_path: Path) -> None:
    rows = [
        *in_order(("mine", 800)),
        *(call("cudaMemcpyAsync", 5, 6, 9), memcpy(kind, 1900, 1950, 8, correlationId=9)),
        *(call("cudaMemcpyAsync", 6, 7, 10), memcpy(kind, 1950, 2000, 8, correlationId=10)),
    ]
    found = findings_of(new(tmp_path, *looped(*rows)))
    assert {name: one.ceiling_ns for name, one in found.items() if name == "layout_copies"} == expected


def test_one_clone_a_step_is_part_of_an_operation(tmp_path: Path) -> None:
    assert kinds(tmp_path, (PRODUCT, 790), (CLONE, 200)) == {}


def test_what_runs_beside_other_kernels_saves_nothing(tmp_path: Path) -> None:
    beside = [call("cudaLaunchKernel", 0, 9, 9, tid=101), kernel("gemm", 1010, 2000, 9, streamId=8)]
    assert stakes(tmp_path, *looped(*in_order((CONVERSION, 900)), *beside)) == {}


# attention
SCORES = (PRODUCT, 100), (ADD, 100), (SOFTMAX, 200), (TO_HALF, 50), (PRODUCT, 100)


def test_attention_that_is_not_fused_owns_the_kernels_between_its_products(tmp_path: Path) -> None:
    work = *SCORES, (EXP, 200), (PRODUCT, 240)
    [one] = findings_of(new(tmp_path, *looped(*in_order(*work)))).values()
    assert (one.kind, one.ceiling_ns, one.status) == ("unfused_attention", 3 * 350, "estimate")
    assert one.numbers == {"steps": 3, "kernels": 9, "kernels_ns": 1050, "softmaxes": 3}


@pytest.mark.parametrize(
    "work",
    [
        [(PRODUCT, 400), (LOG_SOFTMAX, 200), (PRODUCT, 390)],  # a loss
        [(PRODUCT, 400), (FLASH, 200), (PRODUCT, 390)],
        [(PRODUCT, 400), (SOFTMAX, 200), (NORM, 100), (PRODUCT, 290)],
        [(PRODUCT, 400), (SOFTMAX, 590), ("mine", 1)],
    ],
)
def test_no_attention(work: list[tuple[str, int]], tmp_path: Path) -> None:
    assert "unfused_attention" not in kinds(tmp_path, *work)


def test_attention_with_two_softmaxes_in_a_row(tmp_path: Path) -> None:
    work = (PRODUCT, 300), (SOFTMAX, 200), (SOFTMAX, 100), (PRODUCT, 390)
    assert stakes(tmp_path, *looped(*in_order(*work))) == {"unfused_attention": 3 * 300}


@pytest.mark.parametrize(
    ("before", "after", "copies"),
    [
        ([(STRIDED, 100), (CLONE, 50)], [(STRIDED, 60)], 210),
        ([(STRIDED, 100), (PRODUCT, 50)], [(PRODUCT, 50), (STRIDED, 60)], 160),  # of a backward
        ([(STRIDED, 100), (EXP, 50)], [(CAT, 60)], 0),
        ([(STRIDED, 100), (PRODUCT, 50), (PRODUCT, 10)], [(PRODUCT, 50), (PRODUCT, 10), (STRIDED, 60)], 0),
    ],
)
def test_copies_of_heads_belong_to_attention(
    before: list[tuple[str, int]], after: list[tuple[str, int]], copies: int, tmp_path: Path
) -> None:
    work = *before, (PRODUCT, 100), (SOFTMAX, 200), (PRODUCT, 100), *after, ("mine", 200)
    found = findings_of(new(tmp_path, *looped(*in_order(*work))))
    one = found["unfused_attention"]
    assert (one.ceiling_ns, one.numbers["kernels_ns"]) == (3 * (200 + copies), 3 * (200 + copies))
    assert "elementwise_chains" not in found


def test_copies_of_the_next_step_do_not_belong_to_attention(tmp_path: Path) -> None:
    work = (STRIDED, 100), (EXP, 100), (PRODUCT, 100), (SOFTMAX, 300), (PRODUCT, 390)
    assert kinds(tmp_path, *work)["unfused_attention"] == 3 * 300


def test_attention_that_two_threads_launch_is_seen_in_the_order_of_its_stream(tmp_path: Path) -> None:
    rows = in_order(*SCORES, (EXP, 440))
    for number in (0, 4):  # the calls of the first and the third kernel
        rows[number].cells["globalTid"] = rows[number].cells["globalTid"] + 1  # type: ignore[operator]
    assert stakes(tmp_path, *looped(*rows)) == {"unfused_attention": 3 * 350}


def test_a_step_that_nothing_marks_can_begin_inside_attention(tmp_path: Path) -> None:
    assert kinds(tmp_path, (SOFTMAX, 300), (PRODUCT, 690)) == {"unfused_attention": 2 * 300}


def test_strided_copies_beside_attention_split_its_heads(tmp_path: Path) -> None:
    assert kinds(tmp_path, (STRIDED, 200), (FLASH, 500), (CONVERSION, 100), (PRODUCT, 190)) == {
        "layout_copies": 3 * 100
    }


def test_attention_in_a_graph_that_is_recorded_by_its_nodes(tmp_path: Path) -> None:
    kernels = [one for one in in_order(*SCORES, (EXP, 440)) if "gridX" in one.cells]
    rows = [changed(one, correlationId=1, graphNodeId=node) for node, one in enumerate(kernels, 1)]
    graph = [call("cudaGraphLaunch", 1, 2, 1), *rows]
    assert stakes(tmp_path, *looped(*graph)) == {"unfused_attention": 3 * 350}


# chains: a kernel with two arrays and one with three write and read one less each
def test_a_chain_saves_what_each_link_writes_and_reads(tmp_path: Path) -> None:
    work = (PRODUCT, 300), (EXP, 100), (ADD, 300), (EXP, 100), (PRODUCT, 190)
    [one] = findings_of(new(tmp_path, *looped(*in_order(*work)))).values()
    assert (one.kind, one.status) == ("elementwise_chains", "estimate")
    assert one.ceiling_ns == 3 * (50 + 100 + 100 + 50)
    assert (one.numbers["chains"], one.numbers["kernels"], one.numbers["kernels_ns"]) == (3, 9, 1500)
    assert [name.split()[1] for name in one.numbers["names"]] == ["exp<float>", "add<float>", "exp<float>"]


def test_a_norm_is_part_of_a_chain_if_it_takes_about_as_long(tmp_path: Path) -> None:
    assert kinds(tmp_path, (ADD, 300), (NORM, 300), (PRODUCT, 390)) == {"elementwise_chains": 3 * 200}
    assert kinds(tmp_path, (ADD, 100), (NORM, 301), (PRODUCT, 590)) == {}


def test_a_chain_goes_on_behind_a_reduction_and_kernels_of_a_value_for_each_row(tmp_path: Path) -> None:
    """A reduction reads one array, and strided kernels read and write two."""
    work = (PRODUCT, 170), (EXP, 200), (MEAN, 100), (STRIDED_ADD, 200), (EXP, 10, 1), (EXP, 10, 1), (ADD, 300)
    [one] = findings_of(new(tmp_path, *looped(*in_order(*work)))).values()
    assert one.ceiling_ns == 3 * (100 + 50 + 50 + 100 + 100 + 100)
    assert (one.numbers["chains"], one.numbers["kernels"]) == (3, 12)


@pytest.mark.parametrize(
    "work",
    [
        # reductions that are no part of one
        [(PRODUCT, 300), (MEAN, 200), (EXP, 200), (PRODUCT, 290)],  # the gradient of a bias
        [(EXP, 300), (MEAN, 40), (ADD, 300), (PRODUCT, 350)],  # of few elements
        [(EXP, 300), (MEAN, 150), (ADD, 300, 3 * BLOCKS), (PRODUCT, 240)],
        [(EXP, 300), (MEAN, 150), (FILL, 1, 1), (ADD, 300), (PRODUCT, 240)],  # a loss and its backward
        [(NORM, 300), (NORM, 300), (PRODUCT, 390)],  # statistics of all elements, and what uses them
        [(NORM, 300), (EXP, 10, 1), (ADD, 300), (PRODUCT, 380)],
        [(NORM, 300), (MEAN, 150), (ADD, 300), (PRODUCT, 240)],
        [(EXP, 100), (MEAN, 301), (ADD, 100), (PRODUCT, 489)],
        [(EXP, 10), (PRODUCT, 490), (EXP, 10), (PRODUCT, 480)],
        # too few kernels one after another
        [(EXP, 300), (PRODUCT, 390), (EXP, 300)],
        [(EXP, 300), (EXP, 300, 3 * BLOCKS), (PRODUCT, 390)],
        [(TRITON_CAST, 300), ("triton_poi_fused_add_1", 300), (PRODUCT, 390)],
        [("mine", 300), ("mine", 690)],
    ],
)
def test_no_chain(work: list[tuple[str, int]], tmp_path: Path) -> None:
    assert kinds(tmp_path, *work) == {}


def test_operations_that_jax_calls_one_by_one_are_a_chain(tmp_path: Path) -> None:
    """A loop combines one array with a number."""
    work = [("wrapped_add", 300), ("loop_multiply_fusion", 200), ("wrapped_add", 300)]
    assert kinds(tmp_path, *work)["elementwise_chains"] == 3 * 400
    assert stakes(tmp_path, *in_order(*work)) == {}  # without steps nothing tells


def test_shifts_that_jax_calls_one_by_one_are_part_of_a_chain(tmp_path: Path) -> None:
    work = [("input_concatenate_fusion", 200), ("wrapped_add", 300), ("wrapped_add", 300)]
    assert kinds(tmp_path, *work)["elementwise_chains"] == 3 * 400
    alone = [("input_concatenate_fusion", 300), ("loop_add_fusion", 300), ("wrapped_add", 300)]
    assert "elementwise_chains" not in kinds(tmp_path, *alone)


@pytest.mark.parametrize(
    "work",
    [
        [
            ("wrapped_add", 300),
            ("loop_multiply_fusion", 300),
            ("wrapped_subtract", 300),
        ],  # of one program
        [("loop_add_fusion", 300), ("loop_multiply_fusion", 300)] * 2,  # a compiled loop
        [("wrapped_add", 200), ("gemm_fusion_dot_1", 250), ("wrapped_add", 200)],
        [("wrapped_add", 300, 1), ("loop_multiply_fusion", 300, 3), ("wrapped_add", 300, 1)],  # blocks
    ],
)
def test_compiled_kernels_of_jax_are_no_chain(work: list[tuple[str, int]], tmp_path: Path) -> None:
    assert "elementwise_chains" not in kinds(tmp_path, *work)


@pytest.mark.parametrize(("idle", "expected"), [(160, {"elementwise_chains": 3 * 320}), (161, {})])
def test_a_chain_ends_at_a_gap(idle: int, expected: dict[str, int], tmp_path: Path) -> None:
    found = stakes(tmp_path, *looped(*in_order((EXP, 160), (EXP, 160), (EXP, 160), idle=idle)))
    assert {kind: ns for kind, ns in found.items() if kind == "elementwise_chains"} == expected


# updates: each of eight parameters takes an exponential and an addition, five times; together, they read and
# write two arrays of five less
def updated(sizes: int, kernels: int = 80) -> list[tuple[str, int, int]]:
    return [((EXP, ADD)[i % 2], 5, 1 << 2 * (i // 2 % sizes)) for i in range(kernels)]


def test_parameters_that_are_updated_one_by_one(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*in_order((PRODUCT, 500), *updated(8)))))["parameter_updates"]
    assert (one.ceiling_ns, one.status) == (int(3 * 40 * (5 / 2 + 5 / 3)), "estimate")
    assert one.numbers == {"steps": 3, "kernels": 240, "kernels_ns": 1200}


@pytest.mark.parametrize(("last", "kind"), [(ADDCDIV, "parameter_updates"), (ADD, "elementwise_chains")])
def test_adam_of_one_large_parameter(last: str, kind: str, tmp_path: Path) -> None:
    """Of a chain, only the name of a kernel that Adam needs says what it does."""
    work = (PRODUCT, 90), *[(EXP, 120), (ADD, 150)] * 3, (last, 90)
    assert set(kinds(tmp_path, *work)) == {kind}


def test_few_kernels_with_that_of_adam_are_a_chain(tmp_path: Path) -> None:
    assert set(kinds(tmp_path, (PRODUCT, 390), (EXP, 300), (ADDCDIV, 300))) == {"elementwise_chains"}


@pytest.mark.parametrize("sizes", [1, 8])
def test_one_kernel_for_each_parameter_has_nothing_to_fuse(sizes: int, tmp_path: Path) -> None:
    work = [(EXP, 5, 1 << 2 * (i % sizes)) for i in range(80)]
    assert "parameter_updates" not in kinds(tmp_path, (PRODUCT, 500), *work)


def test_a_program_that_updates_parameters_trains(tmp_path: Path) -> None:
    found = kinds(tmp_path, (PRODUCT, 390), *updated(8), (TO_HALF, 200, 7))
    assert "parameter_updates" in found
    assert "casts" not in found


@pytest.mark.parametrize(
    ("first", "sizes", "count", "found"),
    [(PRODUCT, 1, 80, True), ("mine", 2, 80, True), ("mine", 1, 80, False), (PRODUCT, 8, 38, False)],
)
def test_which_bursts_are_updates(first: str, sizes: int, count: int, tmp_path: Path, *, found: bool) -> None:
    assert ("parameter_updates" in kinds(tmp_path, (first, 500), *updated(sizes, count))) == found


def test_an_optimizer_that_does_one_operation_on_all_parameters_after_the_other(tmp_path: Path) -> None:
    """Of 3 + 2 arrays that two launches each read and write, one pass leaves out those between."""
    work = (PRODUCT, 400), (LERP, 120), (LERP, 120), (SQRT, 90), (SQRT, 90), (FUSED_ADAM, 90)
    one = findings_of(new(tmp_path, *looped(*in_order(*work))))["parameter_updates"]
    assert (one.ceiling_ns, one.status) == (3 * (240 // 3 + 180 // 2), "estimate")
    assert one.numbers == {"steps": 3, "kernels": 12, "kernels_ns": 3 * 420, "foreach": True}


def test_updates_one_by_one_and_in_several_passes_are_one_finding(tmp_path: Path) -> None:
    rows = in_order((PRODUCT, 390), *updated(8), (LERP, 90), (SQRT, 100))
    one = findings_of(new(tmp_path, *looped(*rows)))["parameter_updates"]
    assert one.numbers == {"steps": 3, "kernels": 246, "kernels_ns": 3 * 590}


@pytest.mark.parametrize(
    "work",
    [
        [(FUSED_ADAM, 300), (FUSED_ADAM, 300)],
        [(LERP, 300), (LERP, 300)],  # one pass, as over an average of the weights
        [(LERP, 300), (PRODUCT, 100), (SQRT, 300)],
        [(LERP, 300), (SQRT, 99)],  # of other parameters
    ],
)
def test_passes_that_one_cannot_replace(work: list[tuple[str, int]], tmp_path: Path) -> None:
    assert "parameter_updates" not in kinds(tmp_path, (PRODUCT, 200), *work)


def test_a_burst_of_many_names_is_no_update(tmp_path: Path) -> None:
    names = [ADD.replace("CUDAFunctor_add", f"CUDAFunctor_{i}") for i in range(20)]
    work = [(names[i % 20], 5, 1 << 2 * (i % 8)) for i in range(80)]
    assert "parameter_updates" not in kinds(tmp_path, (PRODUCT, 500), *work)


def test_numbers_in_names_can_be_of_any_size(tmp_path: Path) -> None:
    names = [
        EXP.replace("(unsigned long)2", "9" * 30),
        STRIDED.replace("(int)128, (int)4", f"{'9' * 9}, {'9' * 9}"),
    ]
    assert kinds(tmp_path, *((name, 490, 2**31 - 1) for name in names)) == {"layout_copies": 3 * 490}


def test_steps_are_filled(tmp_path: Path) -> None:
    assert kinds(tmp_path, (PRODUCT, STEP_NS - 10)) == {}
