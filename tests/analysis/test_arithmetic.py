"""What the names of kernels say about types, tensor cores, alignment and tiles."""

import re
import time
from pathlib import Path

import pytest
from tiny_export import kernel, opened

from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import RULES, Arithmetic, arithmetic, unit_of
from nsyswrap.analysis.peaks import kernel_kinds

T, C, M, O = "tensor core", "CUDA core", "memory", "other"  # noqa: E741 -- one letter in the table
# A name, its library, types of inputs and sums, tile, alignment, unit.
TABLE = """
volta_sgemm_32x128_nt                                                   | cuBLAS f32 f32 32x128 0 | C
pascal_dgemm_128x64_tn                                                  | cuBLAS f64 f64 128x64 0 | C
ampere_dgemm_64x64_tn                                                   | cuBLAS f64 f64 64x64 0  | O
sgemm_largek_lds64                                                      | cuBLAS f32 - - 0        | C
void gemmSN_TN_kernel<float, (int)128, (int)16>(T1)                     | cuBLAS f32 - - 0        | M
void gemv2N_kernel<int, int, double, double>(T3)                        | cuBLAS f64 - - 0        | M
volta_h884gemm_64x128_ldg8_nt                                           | cuBLAS f16 f16 64x128 0 | T
turing_s1688gemm_fp16_128x64_ldg8_f2f_nn                                | cuBLAS f16 f32 128x64 0 | T
ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x5_nn| cuBLAS bf16 f32 64x64 0 | T
volta_fp16_sgemm_fp16_32x32_sliced1x4_nn                                | cuBLAS f16 f32 32x32 0  | C
turing_int8_i8816gemm_int8_128x128_ldg16_relu_nn                        | cuBLAS i8 i32 128x128 0 | T
sm80_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize64x256x16_stage4_tensor16x8x8_execute_kernel__5x_cublas | cuBLAS tf32 f32 64x256 0 | T
sm90_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_kernel__5x_cublas | cuBLAS f16 f32 64x64 0 | T
sm80_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize32x32x16_stage3_tensor16x8x8_execute_kernel__5x_cublas | cuBLAS f64 f64 32x32 0 | T
sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize64x32x8_stage3_ffma_aligna4_alignc4_execute_kernel__5x_cublas | cuBLAS f32 f32 64x32 4 | C
sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize64x32x8_stage3_execute_kernel__5x_cublas | cuBLAS f32 f32 64x32 0 | O
sm80_xmma_fprop_implicit_gemm_i8i8_i8i32_f32_tilesize128x64x64_tensor16x8x32_kernel_trt | TensorRT i8 i32 128x64 0 | T
sm80_xmma_wgrad_implicit_gemm_cf32cf32_f32f32_cf32_tilesize64x64x8_ffma_execute_kernel__5x_cudnn | cuDNN f32 f32 64x64 0 | C
nvjet_sm90_hsh_64x32_64x16_1x1_h_bz_NNN                                 | cuBLASLt f16 f32 64x32 0   | T
nvjet_tss_128x64_64x8_2x1_v_bz_TNN                                      | cuBLASLt bf16 f32 128x64 0 | T
nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_bz_TNNN                 | cuBLASLt bf16 f32 64x64 0  | T
nvjet_sm90_ootst_128x64_128x6_1x2_h_bz_TNT                              | cuBLASLt - - 128x64 0      | O
void cutlass::Kernel2<cutlass_80_simt_sgemm_32x128_8x5_nt_align1>(T1::Params) | CUTLASS f32 f32 32x128 1 | C
void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(T1::Params) | CUTLASS tf32 f32 64x64 4 | T
void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32x6_nn_align2>(T1::Params) | CUTLASS f16 f32 64x64 2 | T
cutlass_tensorop_s1688tf32gemm_128x128_16x4_tn_align4                   | CUTLASS tf32 f32 128x128 4 | T
_ZN7cutlass7Kernel2I66cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8EEvNT_6ParamsE | CUTLASS bf16 f32 64x64 8 | T
ampere_scudnn_winograd_128x128_ldg1_ldg4_mobile_relu_tile148t_nt_v0     | cuDNN f32 f32 128x128 0    | C
turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1   | cuDNN f16 f32 256x64 0     | T
void explicit_convolve_sgemm<float, int, (int)1024, (int)5>(int)        | cuDNN f32 - - 0            | C
void cudnn::cnn::wgrad2d_grouped_direct_kernel<(bool)0, (bool)1, int, __half, float>(T1) | cuDNN f16 - - 0 | C
void fft2d_c2r_16x16<float, (bool)0>(T1)                                | cuDNN f32 - - 0            | C
void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(T1) | cuDNN f32 - - 0            | C
void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, c10::BFloat16, float, (int)4>(T2) | PyTorch bf16 - - 0 | M
at::native::<unnamed>::fill_index_and_segment_kernel(int2 *, int)         | PyTorch - - - 0            | O
void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, (int)4, at::native::Var>(T1) | PyTorch - - - 0 | O
void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)3, c10::Half, int>(T1) | PyTorch f16 - - 0 | C
void dgrad2d_c1_k1_nchw_engine<__half, (int)5>(T1)                      | cuDNN f16 - - 0            | C
cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_3_64x128x64_1x1x1_kernel0_0 | cuDNN - - 64x128 0 | T
void cudnn::fusion::convert_dq_to_16bits<(bool)0>(void *)               | cuDNN - - - 0              | M
void cudnn::ops::nhwcToNchwKernel<float, float, float>(T1)              | cuDNN f32 - - 0            | M
void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<(int)64, cutlass::bfloat16_t>>(T1) | FlashAttention bf16 - - 0 | T
void flash::flash_bwd_dot_do_o_kernel<(bool)1, Traits<cutlass::half_t>>(T1) | FlashAttention - - - 0 | M
fmha_cutlassB_f16_notaligned_64x64_k128_sm75(T1)                        | CUTLASS f16 - 64x64 0      | T
fmha_cutlassB_f32_aligned_64x64_k32_sm80(T1)                            | CUTLASS - - 64x64 0        | T
fmha_v2_flash_attention_bf16_128_64_S_qkv_64_sm80_kernel                | TensorRT-LLM bf16 - 128x64 0 | T
void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0>(float *)  | DeepGEMM f8 - - 0          | T
triton_poi_fused_mul_7                                                  | torch.compile - - - 0      | M
triton_tem_fused_bmm_2                                                  | torch.compile - - - 0      | O
ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(T1)                         | NCCL f16 - - 0             | O
void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::conv::kernel::C<cutlass__5x_cudnn::gemm::GemmShape<(int)64, (int)256, (int)16>, A, cutlass__5x_cudnn::gemm::warp::MmaTensorOp<cutlass__5x_cudnn::gemm::GemmShape<(int)64, (int)64, (int)16>, cutlass__5x_cudnn::tfloat32_t, L>>>(T1) | CUTLASS tf32 - 64x256 0 | T
void cutlass::Kernel2<cutlass::gemm::kernel::Gemm<cutlass::gemm::GemmShape<(int)64, (int)32, (int)8>, A, cutlass::gemm::warp::MmaSimt<cutlass::gemm::GemmShape<(int)32, (int)16, (int)8>, float, L>>>(T1) | CUTLASS f32 - 64x32 0 | C
trt_ampere_h16816gemm_64x64_ldg8_tn_v1                                  | TensorRT f16 f16 64x64 0   | T
sm89_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n_tilesize64x128x64_stage3_tensor16x8x32_execute_kernel__5x_cublas | cuBLAS f8 f32 64x128 0 | T
void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x64_16x6_nhwc_align4>(T1) | cuDNN tf32 f32 128x64 4 | T
void magma_sgemmEx_kernel<float, float, float, (bool)1, (int)6>(int)    | cuBLAS f32 - - 0           | C
void dot_kernel<double, (int)128, (int)0, cublasDotParams<T1>>(T1)      | cuBLAS f64 - - 0           | M
cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_64x128x64_1x1x1_0_tnn_align8_warpspecialized | CUTLASS bf16 f32 64x128 8 | T
cutlass3x_sm100_bstensorop_gemm_ue8m0xe4m3_ue8m0xe4m3_f32_void_bf16_128x64x128_1x1x1_0_tnn_align16 | CUTLASS f8 f32 128x64 16 | T
cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_tnn_align1_bias_f32_relu | CUTLASS f32 f32 64x64 1 | C
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::SM80_16x8x16_F32F16F16F32_TN>>(T1) | CUTLASS f16 f32 - 0 | T
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::SM90::GMMA::MMA_64x64x32_F32E4M3E4M3_SS_TN>>(T1) | CUTLASS f8 f32 - 0 | T
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::SM90::GMMA::MMA_64x64x8_F32TF32TF32_SS_TN>>(T1) | CUTLASS tf32 f32 - 0 | T
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::SM100_MMA_F16BF16_2x1SM_SS<cutlass::bfloat16_t>>>(T1) | CUTLASS bf16 - - 0 | T
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::SM100_MMA_F8F6F4_SS>>(T1) | CUTLASS - - - 0 | T
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T, cute::UniversalFMA<float, float, float>>>(T1) | CUTLASS f32 f32 - 0 | C
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T>>(T1) | - - - - 0                 | O
void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop<(int)2, cutlass::half_t, float>>>>(T1) | FlashAttention f16 - - 0 | T
void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cutlass::half_t>>(T1) | FlashAttention - - - 0 | M
fmhaSm100fKernel_QkvE4m3OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128       | TensorRT-LLM f8 - - 0      | T
bmm_Bfloat16_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x16x512_s4_et128x16       | TensorRT-LLM f4 f32 128x16 0 | T
void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<c10::Half, at::native::func_wrapper_t<float>, float, (int)4>>(T1) | PyTorch f16 - - 0 | M
k                                                                       | - - - - 0                  | O
tiled_matmul(float *, float *)                                          | - - - - 0                  | O
"""  # noqa: E501 -- names are not broken


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_the_name_says(line: str) -> None:
    name, said, unit = (part.strip() for part in line.split("|"))
    library, inputs, sums, tile, alignment = ("" if word == "-" else word for word in said.split())
    read = arithmetic(name)
    assert (read.library, read.input_type, read.accumulation) == (library, inputs, sums)
    assert (read.tile, read.alignment) == (tile, int(alignment))
    assert unit_of(name, classify(name)) == {"T": T, "C": C, "M": M, "O": O}[unit]


PAGE = Path(__file__).parents[2] / "docs" / "findings.md"
CORES = {"yes": True, "no": False, "unknown": None}


def test_the_page_has_the_rules() -> None:
    _, rules = PAGE.read_text("utf-8").split("### Rules")
    lines = [line for line in rules.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    for names, library, inputs, sums, cores, tile, _ in rows:
        size, _, alignment = tile.partition(", ")
        types = ["" if word == "unknown" else word for word in (library, inputs, sums)]
        expected = Arithmetic(
            types[1], types[2], CORES[cores.split(":")[0]], int(alignment or 0), size, types[0]
        )
        for name in re.findall("`([^`]+)`", names.split("`: ")[0] + "`"):
            assert arithmetic(name) == expected, name
    assert {library for _, library, *_ in rows} >= {library for library, _, _ in RULES}


def test_rules_are_quick_on_names_of_any_length() -> None:
    parts = (
        "flash_fwd_kernel<",
        "cutlass3x_sm90_tensorop_gemm_",
        "sm80_xmma_",
        "nvjet_sm90_",
        "f32f32_",
        "ampere_s",
    )
    begun = time.process_time()
    for part in parts:
        for before in ("", "cutlass::device_kernel<", "sm80_xmma_"):
            arithmetic(before + part * 20_000)
    assert time.process_time() - begun < 10  # of a CPU


def test_double_is_read_where_it_is_computed_with() -> None:
    functor = "at::native::AUnaryFunctor<{0}, {0}, {0}, at::native::binary_internal::MulFunctor<{0}>>"
    name = "void at::native::vectorized_elementwise_kernel<(int)4, {}>(double)"
    assert arithmetic(name.format(functor.format("double"))).input_type == "f64"
    assert arithmetic(name.format(functor.format("c10::Half"))).input_type == "f16"
    assert arithmetic(name.format(functor.format("long"))).input_type == ""


def test_names_of_any_form_are_read() -> None:
    for name in ("", "void", "at::native::reduce_kernel<", "nvjet_", "sm80_xmma_", "at::native::x<" * 40):
        assert isinstance(arithmetic(name), Arithmetic)


def test_kinds_of_kernels(tmp_path: Path) -> None:
    names = {
        "nvjet_tst_64x128_64x8_1x2_h_bz_TNN": "tensor core gemm",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80": "tensor core attention",
        "ampere_sgemm_32x128_nn": "CUDA core products",
        "void gemv2N_kernel<int, int, float>(T3)": "memory-bound products",
        "my_gemm(float *)": "other products",
        "softmax_warp_forward": "softmax",
        "diffuse(float *)": "other",
    }
    capture = opened(tmp_path, *(kernel(name, 10 * i, 10 * i + 5) for i, name in enumerate(names)))
    codes, kinds = kernel_kinds(capture)
    assert [kinds[code] for code in codes] == list(names.values())
    seen = capture.viewed(classes=(("gemm", "diffuse"), ("mine", "nvjet")))
    codes, kinds = kernel_kinds(seen)
    assert [kinds[code] for code in codes[[0, -1]]] == ["mine", "other products"]
