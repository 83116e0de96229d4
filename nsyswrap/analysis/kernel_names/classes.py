"""Find the class of a kernel by its name, from the first matching pattern of an ordered table.

Two classes exist because other classes would match their kernels. The name of a cuDNN *convolution* contains
"gemm" ("implicit gemm"), but the program did not ask for a matrix product. A *softmax* is neither a reduction
nor a norm.

The user's own rules come from a TOML file and are tried first:

[[class]]
name = "stencil"
pattern = "advec|diffuse"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nsyswrap.analysis.kernel_names.demangled import plain
from nsyswrap.base.errors import UsageError
from nsyswrap.base.files import brief, read_toml, why

Rules = Sequence[tuple[str, str]]


OTHER = "other"

# (class, pattern): the pattern is searched for in the name without return type and unnamed namespaces. IN at
# its beginning limits it to the function's own name and namespaces, without the template arguments. A pattern
# that looks farther, beyond the character after them, needs one of _FARTHER in the name.
IN = r"^[\w:]*"
_MOVES = (
    "to_copy|clone|copy|cat|stack|transpose|permute|view|unsafe_view|expand|slice|select|constant_pad_nd|t"
)


def _then(first: str, later: str) -> str:
    """Return a pattern for both texts in this order. Only the first place of ``first`` is tried.

    Patterns that try every place take a time that grows with the square of the length of a name.
    """
    return rf"^(?=(.*?{first}))\1.*?{later}"


def _in_word(first: str, later: str) -> str:
    """Return a pattern for both texts in this order in one word, as ``_then`` does."""
    return rf"(?<!\w)(?=(\w*?{first}))\1\w*{later}"


RULES: tuple[tuple[str, str], ...] = (
    # Triton kernels of torch.compile. The operators after "fused" include those that made the inputs, so only
    # the kind before them is certain: poi(ntwise), red(uction), per(sistent), tem(plate).
    ("copy", rf"^triton_poi_fused(_+({_MOVES}))+(_\d+)?$"),
    ("elementwise", r"^triton_(poi|for)_"),
    ("attention", r"^triton_tem_.*flex_(attention|decoding)"),
    ("convolution", r"^triton_tem_.*convolution"),
    ("gemm", r"^triton_(tem_.*_)?(mm|addmm|bmm|baddbmm)(_|$)"),
    ("softmax", r"^triton_(red|per)_.*softmax"),
    ("norm", r"^triton_(red|per)_.*(layer|batch|group|rms)_norm"),
    ("sort", r"^triton_per_.*_sort(_|$)"),
    ("reduce", r"^triton_(red|per|spl)_"),
    # NCCL, NVSHMEM, and the own collectives of inference servers.
    ("communication", r"^nccl\w*Kernel_|^oneRankReduce<"),
    ("communication", IN + r"(?i:all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|nvshmem)"),
    ("communication", IN + r"(?:cross_device_reduce_|deep_ep::)"),
    # These kernels write the attention cache; they do not compute attention.
    ("copy", IN + r"(?:reshape_and_cache|concat_and_cache)"),
    ("attention", IN + r"(?i:fmha|sdpa|attention|attn|flash_(?:fwd|bwd|mla|decod))"),
    ("attention", r"^[\w:]*?" + _in_word("(?:Prefill|Decode)With", "KVCache")),
    ("attention", r"^(?:pytorch_)?flash::|^cutlass::device_kernel<flash::"),
    ("attention", r"^cudnn::fusion::(?:compute_dot_do_o|convert_dq)"),
    # cuDNN computes convolutions as matrix products, so they are tried before gemm.
    ("convolution", _in_word("(?:xmma|cutlass)_", "(?:fprop|dgrad|wgrad)")),
    ("convolution", IN + r"(?i:winograd|convolve|convolution|depthwise_?conv|conv_?transpose)"),
    ("convolution", IN + r"(?:(?<![A-Za-z])conv(?:[123]d|_depthwise)|[dw]grad(?:2d|_engine|_alg))"),
    (
        "convolution",
        r"^xmma_cudnn::|^cudnn::cnn::|^fft2d_[rc]2[rc]_|^cutlass\w*::Kernel2?<cutlass\w*::conv::|(?<![a-z])[hs]\d*cudnn_",
    ),
    # cuBLAS, cuBLASLt, CUTLASS and kernels named like theirs, with prologues and epilogues of the product.
    ("gemm", r"^nvjet_|^bmm_[A-Z]|^marlin\w*::Marlin|^fused_moe_kernel|" + _in_word("cutlass_", "gemm")),
    ("gemm", IN + r"(?i:gemm|gemv|matmul|splitKreduce)"),
    ("reduce", r"^cutlass\w*::Kernel2?<cutlass\w*::reduction::"),
    ("gemm", r"^cutlass::(?:device_kernel|Kernel2?)<cutlass::gemm::|^cublasLt::epilogue::"),
    ("softmax", IN + r"(?i:softmax)"),
    ("norm", IN + r"(?i:(?:layer|batch|group|instance|rms|weight|qk)_?norm)"),
    ("norm", IN + r"(?:RowwiseMoments|GammaBeta|bn_[fb]w_|(?<![a-z])ln_[fb]wd_)"),
    ("rng", IN + r"(?i:distribution_(?:binary_)?elementwise|curand|philox|randperm|bernoulli)"),
    ("rng", r"^gen_sequenced<curand|^generate_seed_pseudo"),
    ("sort", IN + r"(?i:sort|top_?k)"),
    ("sort", _then("_kernel_agent<", "cuda_cub::__(?:merge|radix)_sort")),
    ("copy", _then("elementwise_kernel<", r"(?:_copy_kernel_cuda|copy_device_to_device)\(")),
    ("copy", IN + r"(?:CatArrayBatchedCopy|index_elementwise_kernel|convertTensor_kernel)"),
    ("copy", IN + r"(?i:copy|index_?select|gather|scatter|im2col|col2im|transpose|permut)"),
    ("copy", IN + r"(?i:nchw_?to_?nhwc|nhwc_?to_?nchw|(?:constant|reflection|replication)_?pad)"),
    # Scans (running sums) count as reductions.
    (
        "reduce",
        r"^dot_kernel<|^nrm2_kernel|^asum_kernel|" + _then("multi_tensor_apply_kernel<", "L[2p]NormFunctor"),
    ),
    ("reduce", r"^(?![\w:]*backward)[\w:]*(?i:reduce|reduction|argmax|argmin)"),
    ("reduce", IN + r"(?:(?<![a-z])scan|Scan)"),
    ("reduce", _then("_kernel_agent<", "cuda_cub::__(?:reduce|scan)")),
    ("elementwise", IN + r"(?i:elementwise|pointwise|dropout|rotary|act_and_mul|silu_and_mul|gelu_and_mul)"),
    ("elementwise", IN + r"(?:multi_tensor_apply_kernel|axpy_kernel|scal_kernel)"),
    ("elementwise", _then("_kernel_agent<", "cuda_cub::__(?:transform|fill|uninitialized_fill|tabulate)")),
    # XLA: one operation of its own, and fusions of elementwise ones. Reductions are found before.
    ("copy", r"^wrapped_(?:slice|concatenate|convert|pad|reverse)"),
    ("elementwise", r"^wrapped_|^loop_(?:\w+_)?fusion(?:_\d+)?$"),
)
CLASSES = (*sorted({name for name, _ in RULES}), OTHER)
_FARTHER = (
    *("triton_", "cutlass", "cudnn", "xmma", "gen_sequenced"),
    *("cuda_cub::", "_copy_kernel_cuda", "copy_device_to_device", "NormFunctor"),
)
_HEAD = re.compile(r"[\w:]*.?", re.DOTALL)

_KEYS = ("name", "pattern")
_FORM = 'for each class, in the order to try, write: [[class]] name = "..." pattern = "REGEX"'


def classify(name: str | None, rules: Rules = ()) -> str:
    """Return the class of a kernel, ``other`` for an unknown name.

    ``rules`` are pairs of a class and a regular expression. They are searched for in the full name, in order,
    before the built-in rules.
    """
    if name is None:
        return OTHER
    for kind, pattern in rules:
        if re.search(pattern, name):
            return kind
    return _built_in(name)


@cache
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in RULES]


@cache
def _built_in(name: str) -> str:
    """Return the class of a name. Names that differ in template arguments mostly share one search."""
    text = plain(name)
    looks_farther = any(map(text.__contains__, _FARTHER))
    return _class_of(text if looks_farther else next(_HEAD.finditer(text))[0])


@cache
def _class_of(text: str) -> str:
    return next((kind for kind, pattern in _compiled() if pattern.search(text)), OTHER)


def read_rules(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the pairs of class and pattern from a TOML file, in its order.

    Raises UsageError with the error, its place, and the correct form.
    """
    entries = _document(path).get("class")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: [[class]] is missing", _FORM)
    return tuple(_rule(entry, f"{path}: [[class]] number {i}") for i, entry in enumerate(entries, 1))


def _document(path: Path) -> dict[str, Any]:
    try:
        document = read_toml(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {why(error)}", "give a TOML file") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}", _FORM) from None
    for key in document:
        if key != "class":
            raise UsageError(f"{path}: unknown key {key!r}", _FORM)
    return document


def _rule(entry: object, where: str) -> tuple[str, str]:
    keys = entry if isinstance(entry, dict) else {}
    wrong = [("lacks", key) for key in _KEYS if key not in keys]
    wrong += [("has an unknown key", key) for key in keys if key not in _KEYS]
    if wrong:
        raise UsageError(f"{where} {' and '.join(f'{what} {key!r}' for what, key in wrong)}", _FORM)
    name, pattern = keys["name"], keys["pattern"]
    if not all(isinstance(text, str) and text for text in (name, pattern)):
        raise UsageError(f"{where}: name and pattern must be non-empty strings", _FORM)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{where}: {brief(pattern)} is not a regular expression: {error}", _FORM) from None
    return name, pattern
