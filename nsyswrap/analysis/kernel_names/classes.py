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
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base.errors import UsageError
from nsyswrap.base.files import brief, read_toml, why
from nsyswrap.base.lazy import regex

_RETURN = regex(r"^(?:void|std::enable_if<[^>]*>::type) ")
_UNNAMED = "<unnamed>::", "(anonymous namespace)::"
_CAST = regex(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")  # (int)4
_PATH = regex(r"[\w:]*")
# <float, int>, without brackets inside, is one mark. A pattern that begins with a set is found faster.
_MARK = regex(r"[]<([{>)},](?:(?<=[<([{])[^]<([{>)}]*[]>)}])?")
_STEP = {**dict.fromkeys("<([{", 1), **dict.fromkeys(">)]}", -1), ",": 0}

_NUMBER = regex(r"-?\d+[ul]*|true|false")
_BUILT_IN = regex(r"[a-z][a-z_\d ]*\**")  # "unsigned long"
_LAMBDA = regex(r"[\[{]lambda\(([^()]*)\)")
_SHORT = {
    **dict.fromkeys(("BFloat16", "__nv_bfloat16", "nv_bfloat16", "bfloat16_t"), "bf16"),
    **dict.fromkeys(("Half", "__half", "half_t"), "half"),
    "Float8_e4m3fn": "e4m3",
    "Float8_e5m2": "e5m2",
}
LEVELS = 16  # of templates inside templates that are read
# Templates that wrap the operation as their last argument.
_WRAPPERS = {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "func_wrapper_t"}
_OF_SCALARS = {"BinaryFunctor": "", "AUnaryFunctor": "scalar_", "BUnaryFunctor": "_scalar"}
_BEFORE = regex(r"^(?:CUDAFunctor_|launch_|Compare(?=[A-Z])|_cuda_|_)")
_SPECIAL = {
    "CUDAFunctorOnSelf_add": "add_scalar",
    "CUDAFunctorOnOther_add": "scalar_add",
    "CompareFunctor": "compare",
}
_ENDINGS = (
    "_kernel",
    "_cuda",
    "_impl",
    "_functor",
    "_internal",
    "_out",
    "CUDA",
    "Kernel",
    "Impl",
    "Functor",
    "Internal",
)
_BACKWARD = regex(f"(?:{'|'.join(ending[::-1] for ending in (*_ENDINGS, 'Op', 'Ops'))})*")
_HUMP = regex(r"(?<=[a-z\d])(?=[A-Z])")

_TIMES = "\u00d7"
_COPIES = {"direct_copy", "copy_device_to_device"}
_CONVERSION = regex(r"(b?float\d+\w*)_copy")
_ARITHMETIC = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_DISTRIBUTION = regex(r"templates::cuda::(\w+?)(?:_and_transform|_kernel)?<")

_TRITON = regex(r"triton_(poi|red|per|tem|for|spl)_fused_([A-Za-z_]\w*?)(?:_\d+)?")
# The kind of a Triton kernel, from the second word of its name; pointwise is not written.
_KINDS = {"for": "foreach ", "red": "reduce ", "per": "reduce ", "spl": "scan ", "tem": "template "}
# Operators are joined with underscores, which their names contain too. These names have several words; any
# other word counts as an operator of its own.
_SEVERAL_WORDS = """
    adaptive_avg_pool2d avg_pool2d bitwise_and bitwise_not bitwise_or constant_pad_nd
    convert_element_type cross_entropy_loss embedding_dense_backward flex_attention full_like
    fused_rms_norm fused_rms_norm_backward gelu_backward index_put index_select lift_fresh
    linalg_vector_norm log_softmax log_softmax_backward_data logical_and logical_not logical_or
    masked_fill max_pool2d_with_indices native_batch_norm native_batch_norm_backward
    native_batch_norm_legit native_batch_norm_legit_functional native_dropout
    native_dropout_backward native_group_norm native_layer_norm native_layer_norm_backward new_zeros
    nll_loss_backward nll_loss_forward ones_like prepare_softmax_online scaled_dot_product_attention
    scaled_dot_product_cudnn_attention scaled_dot_product_efficient_attention
    scaled_dot_product_flash_attention sigmoid_backward silu_backward slice_backward
    softmax_backward_data tanh_backward threshold_backward to_copy unsafe_index unsafe_view var_mean
    zeros_like
"""
_LONGEST_FIRST = sorted(_SEVERAL_WORDS.split(), key=len, reverse=True)
_OPERATOR = regex(rf"(?:{'|'.join(_LONGEST_FIRST)})(?=_|$)|[^_]+")


# Take demangled C++ names apart, in the form of nsys and in that of c++filt.
#
# nsys writes `f<(int)4, <unnamed>::G<float>>(T2)` where c++filt writes
# `f<4, (anonymous namespace)::G<float> >(float)`.


class Name(NamedTuple):
    """A function or type: qualified name, name without namespaces, and the text behind it."""

    path: str
    base: str
    rest: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The template arguments."""
        return _arguments(self.rest)

    def each_argument(self) -> Iterator[str]:
        """Yield the template arguments: faster for the first of many."""
        return split(self.rest) if self.rest.startswith("<") else iter(())


@cache
def plain(name: str) -> str:
    """Return a name without return type, unnamed namespaces and casts of numbers."""
    text = _RETURN.sub("", name)
    for unnamed in _UNNAMED:
        text = text.replace(unnamed, "")
    return _CAST.sub("", text)


@cache
def parse(name: str) -> Name:
    """Return path and template arguments at the beginning of a name."""
    text = plain(name.strip())
    path = next(_PATH.finditer(text))[0]
    return Name(path, path.rpartition("::")[2], text[len(path) :])


@cache
def _arguments(rest: str) -> tuple[str, ...]:
    return tuple(split(rest)) if rest.startswith("<") else ()


def split(text: str) -> Iterator[str]:
    """Yield the comma-separated parts inside the bracket that ``text`` begins with."""
    depth, begin = 1, 1
    for mark in _MARK.finditer(text, begin):
        step = _STEP.get(mark[0])
        if step is None:
            continue
        depth += step
        if depth == 0 or (depth == 1 and not step):
            yield text[begin : mark.start()].strip()
            begin = mark.end()
        if depth == 0:
            return


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
    # cuFFT, older versions of which have spRadix0064B::kernel1Mem, and VkFFT.
    ("fft", IN + r"(?:(?<![A-Za-z\d])fft(?![a-z])|(?<![A-Za-z])[sd]p(?:Radix|Vector)\d|VkFFT)"),
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
_HEAD = regex(r"[\w:]*.?", re.DOTALL)

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
    try:
        document = read_toml(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {why(error)}", "give a TOML file") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}", _FORM) from None
    for key in document:
        if key != "class":
            raise UsageError(f"{path}: unknown key {key!r}", _FORM)
    entries = document.get("class")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: [[class]] is missing", _FORM)
    return tuple(_rule(entry, f"{path}: [[class]] number {i}") for i, entry in enumerate(entries, 1))


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


# Read operation and data types from the kernel names of libraries.
#
# Known are templates of PyTorch and the Triton kernels of torch.compile, `triton_poi_fused_add_relu_0`.


def check_levels(levels: int) -> None:
    """Raise ValueError if no level is left: each one reads all of the text inside once more."""
    if not levels:
        raise ValueError("nested too deeply")


def operation(text: str, levels: int = LEVELS) -> tuple[str, list[str]]:
    """Return the operation of a functor or lambda, and its distinct types.

    Raises ValueError for operations inside more than ``levels`` others.
    """
    check_levels(levels)
    functor = parse(text)
    if functor.base in _WRAPPERS:
        arguments = [argument for argument in functor.arguments if not is_number(argument)]
        return operation(arguments[-1], levels - 1)
    if functor.base in _OF_SCALARS:
        inner, types = operation(functor.arguments[-1], levels - 1)
        return _scalar(functor.base, inner), value_types(functor.arguments[:-2]) or types
    types = value_types(functor.arguments)
    lambdas = _LAMBDA.findall(text)
    if not types and lambdas:
        types = value_types(lambdas[-1].split(", "))
    return words(functor.base), types


def value_types(arguments: Sequence[str], levels: int = LEVELS) -> list[str]:
    """Return the distinct types among template arguments, in short form."""
    return list(dict.fromkeys(each_value_type(arguments, levels)))


def each_value_type(arguments: Iterable[str], levels: int = LEVELS) -> Iterator[str]:
    """Yield the types among template arguments, in short form."""
    types = (short_type(argument, levels) for argument in arguments if argument and not is_number(argument))
    return (name for name in types if not name.endswith("Policy"))


@cache
def is_number(argument: str) -> bool:
    """Return True if a template argument is a number or a truth value."""
    return bool(_NUMBER.fullmatch(plain(argument)))


@cache
def short_type(text: str, levels: int = LEVELS) -> str:
    """Return the short form of a type: ``bf16`` for ``c10::BFloat16``, others without namespaces.

    Raises ValueError for types inside more than ``levels`` others.
    """
    check_levels(levels)
    if _BUILT_IN.fullmatch(text):
        return _SHORT.get(text, text).rstrip("*")
    name = parse(text)
    if name.base == "OpaqueType":
        return f"{plain(name.arguments[0])}-byte"
    inner = f"<{','.join(value_types(name.arguments, levels - 1))}>" if name.base == "complex" else ""
    return _SHORT.get(name.base, name.base) + inner


def words(name: str) -> str:
    """Return the operation in a name: ``gelu`` of ``GeluCUDAKernelImpl``, ``add`` of ``CUDAFunctor_add``."""
    name = _SPECIAL.get(name, name)
    short = _BEFORE.sub("", name)
    without = _BACKWARD.sub("", short[::-1], count=1)[::-1]
    return _HUMP.sub("_", without or name).lower()


def _scalar(functor: str, inner: str) -> str:
    """Write the operand that is a scalar: before the operation or after it."""
    scalar = _OF_SCALARS[functor]
    return scalar + inner if scalar.endswith("_") else inner + scalar


def pytorch(name: str, kernel: Name) -> str | None:
    """Return class, operation and types: ``elementwise add<float> strided``, ``reduce sum<float>``."""
    base = kernel.base
    read = next((read for prefix, read in _FAMILIES if base.startswith(prefix)), None)
    if read is None and "elementwise_kernel" in base:
        read = _elementwise
    return read(name, kernel) if read and kernel.arguments else None


def _elementwise(name: str, kernel: Name) -> str:
    functors = [argument for argument in kernel.arguments if not is_number(argument)]
    functor = functors[kernel.base.endswith("_with_index")]  # whose first type is that of the index
    return f"{_on_types(classify(name), *operation(functor))}{_access(kernel)}"


def _on_types(kind: str, what: str, types: list[str]) -> str:
    on = ",".join(types)
    if match := _CONVERSION.fullmatch(what):
        return f"{kind}<{on} to {match[1].replace('bfloat', 'bf')}>"
    text = kind if what in _COPIES else f"{kind} {what}"
    return f"{text}<{on}>" if on else text


def _access(kernel: Name) -> str:
    """Return the access to elements: vectorized with its width, unrolled or strided, with casts or not."""
    cast = " cast" if any("LoadWithCast" in argument for argument in kernel.arguments) else ""
    if kernel.base.startswith("vectorized_"):
        return f" {_TIMES}{kernel.arguments[0]}"
    if kernel.base.startswith("unrolled_"):
        return f" unrolled{cast}"
    return " strided" if kernel.base in ("elementwise_kernel", "elementwise_kernel_manual_unroll") else ""


def _reduce(name: str, kernel: Name) -> str | None:
    """Read ``reduce_kernel<512, 1, ReduceOp<float, MeanOps<float, ...>, ...>>``."""
    inner = parse(kernel.arguments[-1])
    if inner.base != "ReduceOp":
        return None
    what, _ = operation(inner.arguments[1])
    return _on_types(classify(name), what, value_types(inner.arguments[:1]))


def _foreach(name: str, kernel: Name) -> str:
    """Read ``multi_tensor_apply_kernel<Metadata<2>, Functor<float, ...>, std::plus<float>, ...>``."""
    functor, *more = kernel.arguments[1:]
    what, types = operation(functor)
    operators = (_ARITHMETIC.get(parse(argument).base) for argument in more)
    what = next((operator for operator in operators if operator), what)
    return _on_types(f"{classify(name)} foreach", what, types[:1])


def _random(name: str, kernel: Name) -> str:
    match = _DISTRIBUTION.search(name)
    what = match[1] if match else words(kernel.base)
    return _on_types(classify(name), what, [short_type(kernel.arguments[0])])


_FAMILIES = (
    ("distribution_elementwise", _random),
    ("reduce_kernel", _reduce),
    ("multi_tensor_apply_kernel", _foreach),
)


def triton(name: str) -> str | None:
    """Return ``triton add+relu``, with the kind of kernel unless it is pointwise."""
    match = _TRITON.fullmatch(name)
    if not match:
        return None
    kind, fused = match.groups()
    operators = _OPERATOR.findall(fused)
    return f"triton {'' if operators == ['sort'] else _KINDS.get(kind, '')}{'+'.join(operators)}"
