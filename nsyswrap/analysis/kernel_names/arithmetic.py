"""Read from the name of a kernel what it computes with: types of its inputs, tensor cores, alignment, tile.

A name that does not say it leaves a field unknown. ``docs/findings.md`` has the table of rules with their
sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from nsyswrap.analysis.kernel_names.classes import classify, is_number, operation, parse, plain, short_type
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass

TENSOR_CORE, CUDA_CORE, MEMORY, OTHER_UNIT = UNITS = ("tensor core", "CUDA core", "memory", "other")
PRODUCTS = {"gemm", "convolution", "attention"}
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
    **dict.fromkeys(("tf32", "tfloat32"), "tf32"),
    **dict.fromkeys(("i", "s32", "int32"), "i32"),
}
_FLASH = r"\bflash(?:_(?:fwd_(?:splitkv_(?:mla_)?)?kernel|bwd_dq_dk_dv_loop)|::FlashAttn(?:Fwd|Bwd)Sm\d)"
_KNOWN = set(_SAME.values())
_FLOATS = _KNOWN - {"i8", "i32"}
_TYPE = r"(?:tf32|bf16|c?f(?:16|32|64)|fp(?:16|32|64)|e[245]m[123]|int8|[isu](?:8|32))"

# Parts of patterns.
_CUTLASS_2 = r"^cutlass\w*::Kernel2?<[^,]*?\bGemmShape<(?P<tile>\d+, \d+), \d+>.*?\bwarp::"
_CUTE = r"^cutlass::device_kernel<.*?\b"
_CUTE_TYPES = r"(?P<sum>[FS]\d\d)(?P<input>TF32|BF16|F16|F64|E[45]M[23]|[SU]8)"
_3X_TYPES = (
    r"(?:[a-z\d]{,8}x)?(?P<input>TYPE)_(?:[a-z\d]{,8}x)?TYPE_(?P<sum>TYPE)_\w{,20}?_(?P<tile>\d+x\d+)x\d+_"
)
_GEN_TILE = r"(?:\w*?t(?P<tile>\d+x\d+)x)?"
_FIRST = r"<(?:(?:int|\d+), )*(?P<input>[\w:]+)"
_LONGEST = 10_000  # bounds the time that a name of any form takes

# (library, tensor cores, pattern). The first pattern found in a name without return type and unnamed
# namespaces holds; its groups are fields. docs/findings.md names the source of each.
RULES: tuple[tuple[str, bool | None, str], ...] = (
    # hsh: letters of inputs, sums and outputs; h is f16, t bf16, s f32. Other codes are not documented.
    ("cuBLASLt", True, r"^nvjet_(?:sm\d+_)?(?P<input>[ht])(?P<sum>s)[hst]_(?:mma_)?(?P<tile>\d+x\d+)"),
    ("cuBLASLt", None, r"^nvjet_(?:sm\d+_)?[a-z]+_(?:mma_)?(?P<tile>\d+x\d+)"),
    # The kernels of FlashAttention that multiply, then those that do not.
    ("FlashAttention", True, _FLASH + r"\w*<.*?cutlass::(?P<input>\w+)_t\b"),
    ("FlashAttention", True, _FLASH),
    ("FlashAttention", False, r"\bflash_(?:bwd_(?:dot|clear|convert)_\w+|fwd_splitkv_combine_kernel)"),
    ("FlashAttention", False, r"\bflash::FlashAttn(?:Fwd|Bwd)(?:Combine|Preprocess|Postprocess)"),
    ("CUTLASS", True, _CUTLASS_2 + r"MmaTensorOp<[\w:]*GemmShape<[^>]*>, (?P<input>[\w:]+)"),
    ("CUTLASS", False, _CUTLASS_2 + r"MmaSimt<[\w:]*GemmShape<[^>]*>, (?P<input>[\w:]+)"),
    # CUTLASS 3 names the instruction, a struct of CuTe.
    ("CUTLASS", True, _CUTE + r"SM(?:[789]\d_|\d+::(?:\w+::)*G?MMA_)\d+x\d+x\d+_" + _CUTE_TYPES),
    ("CUTLASS", True, _CUTE + r"SM1\d\d_MMA_(?P<input>TF32|S8)_"),
    ("CUTLASS", True, _CUTE + r"SM1\d\d_(?:MMA_|\d+x\d+x\d+_TN)\w*(?:<(?P<input>[\w:]+))?"),
    ("CUTLASS", False, _CUTE + r"UniversalFMA<(?P<sum>[\w:]+), ?(?P<input>[\w:]+)"),
    (
        "CUTLASS",
        True,
        r"cutlass3x_sm\d+_[a-z]*tensorop_(?:[a-z]\d+x\d+x\d+)?(?P<inner>TYPE)?[a-z]{,9}gemm_" + _3X_TYPES,
    ),
    # PyTorch's memory-efficient attention; three TF32 products for one of float32, or CUDA cores.
    ("CUTLASS", True, r"^fmha_cutlass[FB]_(?P<input>b?f16)_\w*?(?P<tile>\d+x\d+)_\w*?sm[789]\d"),
    ("CUTLASS", True, r"^fmha_cutlass[FB]_f32_\w*?(?P<tile>\d+x\d+)_\w*?sm[89]\d"),
    ("CUTLASS", None, r"^fmha_cutlass[FB]_(?P<input>b?f16|f32)_\w*?(?P<tile>\d+x\d+)_"),
    # cuDNN writes f16 for bfloat16, too.
    ("cuDNN", True, r"^cudnn_generated_\w*?_sdpa_\w*?_wg?mma_\w*?_(?P<tile>\d+x\d+)x\d+_"),
    ("cuDNN", False, r"^cudnn::fusion::(?:compute_dot_do_o|convert_dq)"),
    ("cuDNN", False, r"^\w*convolve_sgemm" + _FIRST),  # before sgemm of cuBLAS
    (
        "cuDNN",
        False,
        r"^(?:cudnn::\w+::)?(?:[wd]grad\w*_(?:engine|direct_kernel)|fft2d_[rc]2[rc]_\w+|winograd\w+)"
        + _FIRST,
    ),
    ("cuDNN", False, r"^cudnn::(?:\w+::)*(?:bn_[fb]w_\w+|n\w{3}ToN\w{3}Kernel)" + _FIRST),
    (
        "TensorRT-LLM",
        True,
        r"^fmha_v2_\w*?(?P<input>fp16|bf16|e4m3|int8)_(?:(?P<sum>fp\d\d)_)?(?P<tile>\d+_\d+)_",
    ),
    ("TensorRT-LLM", True, r"^fmhaSm1\d\d\w?Kernel_(?:Qkv(?P<input>Fp16|Bfloat16|E4m3)O)?"),
    (
        "TensorRT-LLM",
        True,
        r"^(?:bmm|gemm)_[A-Z]\w+?_(?P<input>E\dm\d|Fp16|Bfloat16)\w+?_(?P<sum>Fp32)_" + _GEN_TILE,
    ),
    (
        "DeepGEMM",
        True,
        r"^(?:deep_gemm::(?:sm\d+_)?|sm[19]\d+_)(?P<input>fp8|bf16|tf32)_\w*gemm\w*_(?:impl|k)",
    ),
    ("cuBLAS", False, r"^(?:gemmSN_[NT]+_kernel|(?:internal::)?gemv[\w:]*|gemmk1_kernel)" + _FIRST),
    ("cuBLAS", False, r"^(?:dot|axpy|scal|nrm2|asum)_kernel\w*" + _FIRST),
    ("cuBLAS", False, r"^(?P<input>[sdcz])gemm_(?:sm\d\d_|largek_lds|\d+x\d+x\d+)"),
    ("cuBLAS", False, r"^magma_(?P<input>[sd])gemmEx_"),
    ("cuBLASLt", False, r"^cublasLt::(?:splitKreduce_kernel|epilogue::)"),
    # Reductions with a product of torch.compile's own, and templates, can use tensor cores.
    ("torch.compile", False, r"^triton_(?:poi|for)_|^triton_(?:red|per)_(?!\w*mm)"),
    ("torch.compile", None, r"^triton_(?:tem|red|per|spl|mm|bmm|addmm)"),
    ("NCCL", False, r"^nccl\w*Kernel_(?:\w+?_(?P<input>b?f16|f32|f64|f8e\dm\d|[iu]8)_)?"),
)


@cache
def _typed(pattern: str) -> re.Pattern[str]:
    return regex(pattern.replace("TYPE", _TYPE))


# volta_fp16_s884gemm_fp16_128x128: the letter is that of the sums, digits are the shape of one instruction of
# the tensor cores, the type after them that of the inputs.
_LETTER = (
    r"(?<![A-Za-z])(?P<builder>cutlass(?:3x_sm\d+_|_(?:\d+_)?)|(?:maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_)"
    r"(?P<op>(?:wmma_|sp|bs)?tensorop_|simt_)?(?:TYPE_)?(?P<sum>[sdhczi])(?P<shape>\d*)(?P<inner>TYPE)?"
    r"(?P<kind>gemm|cudnn|[fdw](?:prop|grad))(?P<rest>\w*)"
)
_TYPE_AFTER = _typed(r"_(TYPE)(?=_|$)")
_TILE = regex(r"_(\d+x\d+)(?:x\d+)?(?=_|$)")
_ALIGNMENT = regex(r"_aligna?(\d+)")
# sm80_xmma_gemm_f32f32_tf32f32_f32: types of A and B in memory, of the product and of the sums.
_XMMA = _typed(
    r"^sm\d+_xmma_\w*?_(?P<memory>TYPE)TYPE_(?:(?P<input>TYPE)(?P<sum>TYPE)|(?P<only>TYPE))_TYPE(?=_)"
    r"(?:\w*?_tile(?:size)?(?P<tile>\d+x\d+)x)?"
)
_XMMA_TENSOR = regex(r"_tensor\d|_warpgroupsize\d|_[hidq]mma_")
_XMMA_PLAIN = regex(r"_[fdh]fma2?_|_simt_|_dp4a_")
_NATIVE = regex(r"^at::native::|^softmax_warp_(?:for|back)ward<|^cunn_SoftMax")


@cache
def arithmetic(name: str) -> Arithmetic:
    """Return what a kernel's name says about its arithmetic."""
    text = plain(name)[:_LONGEST]
    try:
        return next(_readings(name, text), Arithmetic())
    except (IndexError, ValueError):  # begins like a known name but continues differently
        return Arithmetic()


def unit_of(name: str, kernel_class: str) -> str:
    """Return what bounds a kernel of this name and class, one of ``UNITS``; ``other`` if unknown.

    Bound by memory are elementwise kernels, norms, reductions, softmax, copies, products with a vector or
    with few columns (gemmSN), and what libraries run before and after a product.
    """
    if kernel_class in _MEMORY_BOUND or "gemv" in name or "gemmSN_" in name:
        return MEMORY
    said = arithmetic(name)
    if kernel_class not in PRODUCTS or said.tensor_cores is None:
        return OTHER_UNIT
    return TENSOR_CORE if said.tensor_cores else CUDA_CORE if said.input_type else MEMORY


@cache
def _compiled() -> list[tuple[str, bool | None, re.Pattern[str]]]:
    return [(library, cores, _typed(pattern)) for library, cores, pattern in RULES]


def _readings(name: str, text: str) -> Iterator[Arithmetic]:
    if _NATIVE.match(text):
        yield _native(name, text)
    if match := _XMMA.search(text):
        yield _xmma(match, text)
    for library, cores, pattern in _compiled():
        if match := pattern.search(text):
            groups = {"tile": "", **match.groupdict("")}
            kind = _type(groups.get("inner") or groups.get("input"), tensor_cores=cores)
            tile = re.sub("_|, ", "x", groups["tile"])
            yield Arithmetic(kind, _type(groups.get("sum")), cores, _alignment(text), tile, library)
    if match := _typed(_LETTER).search(text):  # compiling it takes milliseconds
        yield _letter(match, text)


def _type(text: str | None, *, tensor_cores: bool | None = None) -> str:
    """Return the type in the form of ``Arithmetic``, an unknown one as none.

    Tensor cores do not multiply float32: it is cut to an unknown type.
    """
    word = short_type(text or "").lower().removesuffix("_t").removeprefix("float_")
    word = _SAME.get(word, word)
    return word if word in _KNOWN and not (word == "f32" and tensor_cores) else ""


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
        tf32 = shape == "1688" and re.match("cutlass_8|ampere", match["builder"])
        kind = {"s": "tf32" if tf32 else "s", "i": "i8"}.get(letter, letter)
    library = "cuDNN" if match["kind"] != "gemm" else "CUTLASS" if "cutlass" in match["builder"] else "cuBLAS"
    library = "TensorRT" if text.startswith("trt_") else library
    size = tile[1] if tile else ""
    return Arithmetic(_type(kind, tensor_cores=cores), _type(letter), cores, _alignment(text), size, library)


def _alignment(text: str) -> int:
    match = _ALIGNMENT.search(text)
    return int(match[1]) if match else 0


def _xmma(match: re.Match[str], text: str) -> Arithmetic:
    """Read ``sm80_xmma_...``. The word xmma alone says nothing about tensor cores."""
    kind = match["input"] or match["memory"]
    cores = True if kind == "tf32" or _XMMA_TENSOR.search(text) else None
    cores = False if cores is None and _XMMA_PLAIN.search(text) else cores
    library = (
        "cuBLAS" if "cublas" in text else "cuDNN" if "cudnn" in text else "TensorRT" if "trt" in text else ""
    )
    total = _type(match["sum"] or match["only"])
    return Arithmetic(
        _type(kind, tensor_cores=cores), total, cores, _alignment(text), match["tile"] or "", library
    )


def _native(name: str, text: str) -> Arithmetic:
    """Read PyTorch's own kernels: those of a memory-bound class have no products."""
    kind, kernel = classify(name), parse(name if len(text) < _LONGEST else text)  # most know the former
    plain_loops = kind in (*_MEMORY_BOUND, "rng", "sort") or "depthwise" in kernel.base
    arguments = [argument for argument in kernel.arguments if not is_number(argument)]
    types = [name for name in map(short_type, arguments) if not name[:1].isupper()][:1]  # not functors: Var
    if "elementwise_kernel" in kernel.base:
        types = operation(arguments[kernel.base.endswith("_with_index")])[1]
    elif kernel.base == "multi_tensor_apply_kernel":
        types = operation(arguments[1])[1]
    elif kernel.base == "reduce_kernel":
        types = [short_type(parse(arguments[-1]).arguments[0])]
    read = _type(types[0]) if types and kind != "rng" else ""
    return Arithmetic(read if read in _FLOATS else "", "", False if plain_loops else None, library="PyTorch")
