"""Read operation and data types from the kernel names of libraries.

Known are templates of PyTorch and the Triton kernels of torch.compile, ``triton_poi_fused_add_relu_0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from nsyswrap.analysis.kernel_names.classes import classify
from nsyswrap.analysis.kernel_names.demangled import Name, parse, plain

_NUMBER = re.compile(r"-?\d+[ul]*|true|false")
_BUILT_IN = re.compile(r"[a-z][a-z_\d ]*\**")  # "unsigned long"
_LAMBDA = re.compile(r"[\[{]lambda\(([^()]*)\)")
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
_BEFORE = re.compile(r"^(?:CUDAFunctor_|launch_|Compare(?=[A-Z])|_cuda_|_)")
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
_BACKWARD = re.compile(f"(?:{'|'.join(ending[::-1] for ending in (*_ENDINGS, 'Op', 'Ops'))})*")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")

_TIMES = "\u00d7"
_COPIES = {"direct_copy", "copy_device_to_device"}
_CONVERSION = re.compile(r"(b?float\d+\w*)_copy")
_ARITHMETIC = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_DISTRIBUTION = re.compile(r"templates::cuda::(\w+?)(?:_and_transform|_kernel)?<")

_TRITON = re.compile(r"triton_(poi|red|per|tem|for|spl)_fused_([A-Za-z_]\w*?)(?:_\d+)?")
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
_OPERATOR = re.compile(rf"(?:{'|'.join(_LONGEST_FIRST)})(?=_|$)|[^_]+")


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
    if not kernel.arguments:
        return None
    families = {
        "distribution_elementwise": _random,
        "reduce_kernel": _reduce,
        "multi_tensor_apply_kernel": _foreach,
    }
    base = kernel.base
    read = next((read for prefix, read in families.items() if base.startswith(prefix)), _elementwise)
    return read(name, kernel)


def _elementwise(name: str, kernel: Name) -> str | None:
    if "elementwise_kernel" not in kernel.base:
        return None
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


def triton(name: str) -> str | None:
    """Return ``triton add+relu``, with the kind of kernel unless it is pointwise."""
    match = _TRITON.fullmatch(name)
    if not match:
        return None
    kind, fused = match.groups()
    operators = _OPERATOR.findall(fused)
    return f"triton {'' if operators == ['sort'] else _KINDS.get(kind, '')}{'+'.join(operators)}"
