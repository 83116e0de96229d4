"""Read from the name of a kernel what it computes with: types of its inputs, tensor cores, alignment, tile.

A name that does not say it leaves a field unknown. ``docs/kernels.md`` has the table of rules with their
sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from nsyswrap.analysis.kernel_names.classes import classify
from nsyswrap.analysis.kernel_names.demangled import parse, plain
from nsyswrap.analysis.kernel_names.libraries import is_number, operation, short_type

TENSOR_CORE, CUDA_CORE, MEMORY, OTHER_UNIT = UNITS = ("tensor core", "CUDA core", "memory", "other")
_PRODUCTS = {"gemm", "convolution", "attention"}
_MEMORY_BOUND = {"copy", "elementwise", "norm", "reduce", "softmax"}


@dataclass(frozen=True)
class Arithmetic:
    """What the name of a kernel says about its arithmetic; an empty field is unknown.

    ``input_type`` is the type in which factors are multiplied: ``tf32`` for float32 data that the tensor
    cores round. ``tensor_cores`` is None if unknown. ``alignment`` of the inputs is in elements. ``tile`` is
    ``MxN``.
    """

    input_type: str = ""
    accumulation: str = ""
    tensor_cores: bool | None = None
    alignment: int = 0
    tile: str = ""
    library: str = ""


_SAME = {
    **dict.fromkeys(("fp32", "float", "float2", "s", "c", "cf32"), "f32"),
    **dict.fromkeys(("fp16", "half", "__half2", "h", "qkvfp16", "cf16"), "f16"),
    **dict.fromkeys(("bfloat16", "__nv_bfloat162", "t"), "bf16"),
    **dict.fromkeys(("fp64", "double", "double2", "d", "z", "cf64"), "f64"),
    **dict.fromkeys(("e4m3", "e5m2", "f8e4m3", "f8e5m2", "fp8"), "f8"),
    **dict.fromkeys(("e2m1", "fp4"), "f4"),
    **dict.fromkeys(("int8", "s8", "u8", "signed char"), "i8"),
    **dict.fromkeys(("i", "s32", "int32"), "i32"),
}
_KNOWN = {*_SAME.values(), "tf32"}
_FLOATS = _KNOWN - {"i8", "i32"}
_TYPE = r"(?:tf32|bf16|c?f(?:16|32|64)|fp(?:16|32|64)|e[245]m[123]|int8|[isu](?:8|32))"

# (library, tensor cores, pattern). The first pattern found in a name without return type and unnamed
# namespaces holds; its groups are fields. docs/kernels.md names the source of each.
RULES: tuple[tuple[str, bool | None, str], ...] = (
    # hsh: letters of inputs, sums and outputs; h is f16, t bf16, s f32. Other codes are not documented.
    ("cuBLASLt", True, r"^nvjet_(?:sm\d+_)?(?P<input>[ht])(?P<sum>s)[hst]_(?:mma_)?(?P<tile>\d+x\d+)"),
    ("cuBLASLt", None, r"^nvjet_(?:sm\d+_)?[a-z]+_(?:mma_)?(?P<tile>\d+x\d+)"),
    # CUTLASS 3 names the instruction: SM90_64x128x16_F32F16F16_SS<...>, SM100_MMA_TF32_SS<...>.
    (
        "CUTLASS",
        True,
        r"^cutlass::device_kernel<.*?\bSM(?:[789]|1\d)\d_\d+x\d+x\d+_(?P<sum>[FS]\d\d)(?P<input>TF32|BF16|F16|F64|E[45]M[23]|[SU]8)",
    ),
    ("CUTLASS", True, r"^cutlass::device_kernel<.*?\bSM1\d\d_MMA_(?P<input>TF32|S8)?\w*_[ST]S\b"),
    ("CUTLASS", False, r"^cutlass::device_kernel<.*?\bUniversalFMA<(?P<sum>\w+), ?(?P<input>\w+)"),
    # The kernels of FlashAttention that multiply, then those that do not.
    (
        "FlashAttention",
        True,
        r"\bflash_(?:fwd_(?:splitkv_)?kernel|bwd_dq_dk_dv_loop)\w*<.*?cutlass::(?P<input>\w+)_t\b",
    ),
    ("FlashAttention", True, r"\bflash_(?:fwd_(?:splitkv_)?kernel|bwd_dq_dk_dv_loop)"),
    ("FlashAttention", False, r"\bflash_(?:bwd_(?:dot_do_o|convert_\w+)|fwd_splitkv_combine)_kernel"),
    ("FlashAttention", True, r"\bflash::FlashAttn(?:Fwd|Bwd)Sm\d+<.*?cutlass::(?P<input>\w+)_t\b"),
    ("FlashAttention", False, r"\bflash::FlashAttn(?:Fwd|Bwd)(?:Combine|Preprocess|Postprocess)"),
    # Of PyTorch's memory-efficient attention, only these types and GPUs always use tensor cores.
    ("CUTLASS", True, r"^fmha_cutlass[FB]_(?P<input>b?f16)_\w*?(?P<tile>\d+x\d+)_\w*?sm(?:7|8|9)\d"),
    ("CUTLASS", None, r"^fmha_cutlass[FB]_(?P<input>b?f16|f32)_\w*?(?P<tile>\d+x\d+)_"),
    # cuDNN writes f16 for bfloat16, too.
    ("cuDNN", True, r"^cudnn_generated_\w*?_sdpa_\w*?_w(?:g)?mma_\w*?_(?P<tile>\d+x\d+)x\d+_"),
    (
        "TensorRT-LLM",
        True,
        r"^fmha_v2_\w*?(?P<input>fp16|bf16|e4m3|int8)_(?:(?P<sum>fp16|fp32)_)?(?P<tile>\d+_\d+)_",
    ),
    ("TensorRT-LLM", True, r"^fmhaSm1\d\d\w?Kernel_Qkv(?P<input>Fp16|Bfloat16|E4m3)O"),
    (
        "TensorRT-LLM",
        True,
        r"^(?:bmm|gemm)_[A-Z]\w+?_(?P<input>E[245]m[123]|Fp16|Bfloat16)(?:E\dm\d|Fp16|Bfloat16|MxE\w+)_(?P<sum>Fp32)_\w*?t(?P<tile>\d+x\d+)x",
    ),
    ("DeepGEMM", True, r"^deep_gemm::\w*?(?P<input>fp8|bf16|tf32)_\w*gemm"),
    # Before cuBLAS: their names contain sgemm.
    ("cuDNN", False, r"^\w*convolve_sgemm<(?P<input>[\w:]+)"),
    ("cuDNN", False, r"^[wd]grad\w*_engine<(?P<input>[\w:]+)"),
    ("cuDNN", False, r"^fft2d_[rc]2[rc]_\w+<(?P<input>[\w:]+)"),
    ("cuDNN", False, r"^cudnn::(?:\w+::)*(?:bn_[fb]w_\w+|n\w{3}ToN\w{3}Kernel)<(?P<input>\w+)"),
    ("cuDNN", False, r"^cudnn::fusion::(?:compute_dot_do_o|convert_dq)"),
    ("cuBLAS", False, r"^(?:gemmSN_[NT]+_kernel|gemv\w*|gemmk1_kernel|dot_kernel)<(?:int, )*(?P<input>\w+)"),
    ("cuBLAS", False, r"^internal::gemvx::kernel<(?:int, )*(?P<input>\w+)"),
    ("cuBLAS", False, r"^(?P<input>[sdcz])gemm_(?:sm\d\d_|largek_lds|\d+x\d+x\d+)"),
    ("cuBLASLt", False, r"^cublasLt::(?:splitKreduce_kernel|epilogue::)"),
    # Reductions with a product of torch.compile's own, and templates, can use tensor cores.
    ("torch.compile", False, r"^triton_(?:poi|for)_|^triton_(?:red|per)_(?!\w*mm)"),
    ("torch.compile", None, r"^triton_(?:tem|red|per|spl|mm|bmm|addmm)"),
    ("NCCL", False, r"^nccl\w*Kernel_\w+?_(?P<input>b?f16|f32|f64|f8e\dm\d|[iu]8)_"),
    ("NCCL", False, r"^nccl\w*Kernel_"),
)


def _typed(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("TYPE", _TYPE))


# volta_fp16_s884gemm_fp16_128x128: the letter is that of the sums, digits are the shape of one instruction of
# the tensor cores, the type after them that of the inputs.
_LETTER = _typed(
    r"(?<![A-Za-z])(?P<builder>cutlass_(?:\d+_)?|(?:maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_)"
    r"(?P<op>(?:wmma_|sp|bs)?tensorop_|simt_)?(?:TYPE_)?(?P<sum>[sdhczi])(?P<shape>\d*)(?P<inner>TYPE)?"
    r"(?P<kind>gemm|cudnn|[fdw](?:prop|grad))(?P<rest>\w*)"
)
_TYPE_AFTER = _typed(r"_(TYPE)(?=_|$)")
_TILE = re.compile(r"_(\d+x\d+)(?=_|$)")
_ALIGNMENT = re.compile(r"_aligna?(\d+)")
# sm80_xmma_gemm_f32f32_tf32f32_f32: types of A and B in memory, of the product and of the sums.
_XMMA = _typed(
    r"_xmma_\w*?_(?P<memory>TYPE)TYPE_(?:(?P<input>TYPE)(?P<sum>TYPE)|(?P<only>TYPE))_TYPE(?=_)"
    r"(?:\w*?_tile(?:size)?(?P<tile>\d+x\d+)x)?"
)
_XMMA_TENSOR = re.compile(r"_tensor\d|_warpgroupsize\d|_[hidq]mma_")
_XMMA_PLAIN = re.compile(r"_[fdh]fma2?_|_simt_|_dp4a_")
_NATIVE = re.compile(r"^at::native::|^softmax_warp_(?:for|back)ward<|^cunn_SoftMax")


@cache
def arithmetic(name: str) -> Arithmetic:
    """Return what a kernel's name says about its arithmetic."""
    text = plain(name)
    try:
        return next(_readings(name, text), Arithmetic())
    except (IndexError, ValueError):  # begins like a known name but continues differently
        return Arithmetic()


def unit_of(name: str, kernel_class: str) -> str:
    """Return what bounds a kernel of this name and class, one of ``UNITS``; ``other`` if unknown.

    Bound by memory are elementwise kernels, norms, reductions, softmax, copies, products with a vector, and
    what libraries run before and after a product.
    """
    if kernel_class in _MEMORY_BOUND or "gemv" in name:
        return MEMORY
    said = arithmetic(name)
    if kernel_class not in _PRODUCTS or said.tensor_cores is None:
        return OTHER_UNIT
    return TENSOR_CORE if said.tensor_cores else CUDA_CORE if said.input_type else MEMORY


@cache
def _compiled() -> list[tuple[str, bool | None, re.Pattern[str]]]:
    return [(library, cores, re.compile(pattern)) for library, cores, pattern in RULES]


def _readings(name: str, text: str) -> Iterator[Arithmetic]:
    if _NATIVE.match(text):
        yield _native(name, text)
    if match := _XMMA.search(text):
        yield _xmma(match, text)
    for library, cores, pattern in _compiled():
        if match := pattern.search(text):
            groups = match.groupdict("")
            tile = groups.get("tile", "").replace("_", "x")
            yield Arithmetic(
                _type(groups.get("input")), _type(groups.get("sum")), cores, tile=tile, library=library
            )
    if match := _LETTER.search(text):
        yield _letter(match, text)


def _type(text: str | None) -> str:
    """Return the type in the form of ``Arithmetic``, an unknown one as none."""
    word = short_type(text or "").lower()
    word = _SAME.get(word, word)
    return word if word in _KNOWN else ""


def _letter(match: re.Match[str], text: str) -> Arithmetic:
    """Read the names of cuBLAS, cuDNN and CUTLASS 2."""
    op, letter, shape = match["op"], match["sum"], match["shape"]
    cores: bool | None = bool(shape or (op and op != "simt_"))
    if (
        letter == "d"
        and not cores
        and not op
        and not re.search("maxwell|pascal|volta|turing", match["builder"])
    ):
        cores = None  # from sm80 on, tensor cores multiply float64, too
    typed, tile = _TYPE_AFTER.search(match["rest"]), _TILE.search(match["rest"])
    kind = match["inner"] or (typed[1] if typed else "")
    if not kind:  # s alone: half and bfloat16 inputs are written
        kind = {"s": "s" if not cores else "tf32" if shape == "1688" else "", "i": "i8"}.get(letter, letter)
    library = "cuDNN" if match["kind"] != "gemm" else "CUTLASS" if "cutlass" in match["builder"] else "cuBLAS"
    size = tile[1] if tile else ""
    return Arithmetic(_type(kind), _type(letter), cores, _alignment(text), size, library)


def _alignment(text: str) -> int:
    match = _ALIGNMENT.search(text)
    return int(match[1]) if match else 0


def _xmma(match: re.Match[str], text: str) -> Arithmetic:
    """Read ``sm80_xmma_...``. The word xmma alone says nothing about tensor cores."""
    kind = _type(match["input"] or match["memory"])
    cores = True if kind == "tf32" or _XMMA_TENSOR.search(text) else None
    cores = False if cores is None and _XMMA_PLAIN.search(text) else cores
    library = (
        "cuBLAS" if "cublas" in text else "cuDNN" if "cudnn" in text else "TensorRT" if "trt" in text else ""
    )
    total = _type(match["sum"] or match["only"])
    return Arithmetic(kind, total, cores, _alignment(text), match["tile"] or "", library)


def _native(name: str, text: str) -> Arithmetic:
    """Read PyTorch's own kernels: those of a memory-bound class have no products."""
    kind, kernel = classify(name), parse(text)
    cores = False if kind in (*_MEMORY_BOUND, "rng", "sort") else None
    arguments = [argument for argument in kernel.arguments if not is_number(argument)]
    types = [short_type(argument) for argument in arguments[:1]]
    if "elementwise_kernel" in kernel.base:
        types = operation(arguments[kernel.base.endswith("_with_index")])[1]
    elif kernel.base == "multi_tensor_apply_kernel":
        types = operation(arguments[1])[1]
    elif kernel.base == "reduce_kernel":
        types = [short_type(parse(arguments[-1]).arguments[0])]
    read = _type(types[0]) if types and kind != "rng" else ""
    return Arithmetic(read if read in _FLOATS else "", "", cores, library="PyTorch")
