"""Read the kernel names of libraries: what is computed, on which types.

Matrix products of cuBLAS (nvjet and older names) and CUTLASS, templates of PyTorch, and the Triton kernels
that torch.compile writes, such as ``triton_poi_fused_add_relu_0``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names.classes import classify
from nsyswrap.analysis.kernel_names.demangled import parse, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.kernel_names.demangled import Name


_NUMBER = re.compile(r"-?\d+[ul]*|true|false")
_BUILT_IN = re.compile(r"[a-z][a-z_\d ]*\**")  # "unsigned long"
_LAMBDA = re.compile(r"[\[{]lambda\(([^()]*)\)")
_SHORT = {
    **dict.fromkeys(("BFloat16", "__nv_bfloat16", "nv_bfloat16", "bfloat16_t"), "bf16"),
    **dict.fromkeys(("Half", "__half", "half_t"), "half"),
    "Float8_e4m3fn": "e4m3",
    "Float8_e5m2": "e5m2",
}
# Arguments that hold the operation in them.
_WRAPPERS = {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "func_wrapper_t"}
_OF_SCALARS = {"BinaryFunctor": "", "AUnaryFunctor": "scalar_", "BUnaryFunctor": "_scalar"}
_BEFORE = re.compile(r"^(?:CUDAFunctor_|launch_|Compare(?=[A-Z])|_cuda_|_)")
_AFTER = re.compile(r"(?:_(?:kernel|cuda|impl|functor|internal|out)|CUDA|Kernel|Impl|Functor|Ops?)+$")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])")

_TYPES = r"bf16|tf32|fp16|f16|f32|f64|e4m3|e5m2|int8|i8|s8"
_TILE = r"_(?P<tile>\d+x\d+)"
# In 64x4 behind a tile, and in stages_64x4, 64 is how deep the tile is and 4 how many are under way.
_NVJET = re.compile(
    rf"^nvjet_(?:sm\d+_)?(?P<type>[a-z]+){_TILE}_(?P<depth>\d+)x\d+_.*_(?P<layout>[NT]{{3}})$"
)
_XMMA = re.compile(
    rf"xmma_gemm_(?P<type>{_TYPES})\w*?_(?P<layout>[nt]{{2}})_n_tilesize(?P<tile>\d+x\d+x\d+)_"
)
# s16816gemm: the type it adds up in, and the shape of one instruction.
_LETTER = re.compile(
    rf"(?:_(?P<type>{_TYPES}))?_(?P<sum>[a-z])\d*gemm(?:_[a-z]+)??(?:_(?P<out>{_TYPES}))?"
    rf"{_TILE}(?:_(?P<depth>\d+)x\d+)?(?P<rest>\w*)"
)
_STAGES = re.compile(r"_stages_(\d+)x")
_LAYOUT = re.compile(r"_([nt]{2})(?:_|$)")
_SUMS = {"s": "f32", "d": "f64", "h": "f16", "c": "complex f32", "z": "complex f64", "i": "int8"}
_NVJET_TYPES = {"tst": "bf16", "tss": "bf16", "hsh": "f16", "hss": "f16", "sss": "f32", "ddd": "f64"}
_SAME = {"fp16": "f16", "half": "f16", "float": "f32", "double": "f64", "i8": "int8", "s8": "int8"}
_EXTENT = re.compile(r"\b(?:C<|_)(\d+)")
_EXTRAS = {"splitK_": "split-k", "split_k_kernel": "split-k", "_relu_": "relu", "_bias_": "bias"}

_TIMES = "\u00d7"
_COPIES = {"direct_copy", "copy_device_to_device"}
_CONVERSION = re.compile(r"(b?float\d+\w*)_copy")
_ARITHMETIC = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_DISTRIBUTION = re.compile(r"templates::cuda::(\w+?)(?:_and_transform|_kernel)?<")

_NAME = re.compile(r"triton_(poi|red|per|tem|for|spl)_fused_([A-Za-z_]\w*?)(?:_\d+)?")
# What a name's second word says of the kernel; pointwise goes without saying.
_KINDS = {"for": "foreach ", "red": "reduce ", "per": "reduce ", "spl": "scan ", "tem": "template "}
# The names of operators follow one another with nothing between them but what is in them too. Those of more
# than one word are here; of others each word is taken for an operator.
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


def operation(text: str) -> tuple[str, list[str]]:
    """Return what a functor or a lambda computes and on which types, each once."""
    functor = parse(text)
    if functor.base in _WRAPPERS:
        return operation([argument for argument in functor.arguments if not is_number(argument)][-1])
    if functor.base in _OF_SCALARS:
        inner, types = operation(functor.arguments[-1])
        return _scalar(functor.base, inner), value_types(functor.arguments[:-2]) or types
    types = value_types(functor.arguments)
    lambdas = _LAMBDA.findall(text)
    if not types and lambdas:
        types = value_types(lambdas[-1].split(", "))
    return words(functor.base), types


def value_types(arguments: Sequence[str]) -> list[str]:
    """Return the types among template arguments, each once, as short as they are told apart."""
    types = (short_type(argument) for argument in arguments if argument and not is_number(argument))
    return [name for name in dict.fromkeys(types) if not name.endswith("Policy")]


def is_number(argument: str) -> bool:
    """Whether a template argument is a number or a truth value."""
    return bool(_NUMBER.fullmatch(plain(argument)))


def short_type(text: str) -> str:
    """Return ``bf16`` for ``c10::BFloat16``, and others without their namespaces."""
    if _BUILT_IN.fullmatch(text):
        return _SHORT.get(text, text).rstrip("*")
    name = parse(text)
    if name.base == "OpaqueType":
        return f"{plain(name.arguments[0])}-byte"
    inner = f"<{','.join(value_types(name.arguments))}>" if name.base == "complex" else ""
    return _SHORT.get(name.base, name.base) + inner


def words(name: str) -> str:
    """Return ``gelu`` for ``GeluCUDAKernelImpl``, ``add`` for ``CUDAFunctor_add``."""
    name = name.replace("CUDAFunctorOnSelf_add", "add_scalar")
    return _HUMP.sub("_", _AFTER.sub("", _BEFORE.sub("", name)) or name).lower()


def _scalar(functor: str, inner: str) -> str:
    """Say on which side a scalar stands."""
    mark = _OF_SCALARS[functor]
    return mark + inner if mark.endswith("_") else inner + mark


def gemm(name: str, kernel: Name) -> str | None:
    """Return ``gemm bf16 128x256x64 tn``: type, tile in M, N and K, layout, and what is done besides."""
    if found := _NVJET.search(name):
        kind = _NVJET_TYPES.get(found["type"], found["type"])
        return _said(kind, f"{found['tile']}x{found['depth']}", found["layout"].lower(), name)
    if found := _XMMA.search(name):
        return _said(found["type"], found["tile"], found["layout"], name)
    if found := _LETTER.search(name):
        return _lettered(found, name)
    return _cutlass_3(kernel)


def _lettered(found: re.Match[str], name: str) -> str:
    stages, layout = _STAGES.search(found["rest"]), _LAYOUT.search(found["rest"])
    depth = stages[1] if stages else found["depth"]
    kind = found["type"] or found["out"] or _SUMS.get(found["sum"], found["sum"])
    return _said(
        kind, f"{found['tile']}x{depth}" if depth else found["tile"], layout[1] if layout else "", name
    )


def _cutlass_3(kernel: Name) -> str | None:
    """Look into ``device_kernel<GemmUniversal<..., CollectiveMma<schedule, tile, type, ...>, ...>>``."""
    for argument in kernel.arguments:
        inner = parse(argument)
        if inner.base == "CollectiveMma":
            _, tile, kind, *_ = inner.arguments
            return _said(short_type(kind), "x".join(_EXTENT.findall(tile)), "", "")
        if "gemm::" in argument and (found := _cutlass_3(inner)):
            return found
    return None


def _said(kind: str, tile: str, layout: str, name: str) -> str:
    extras = [extra for mark, extra in _EXTRAS.items() if mark in name]
    return " ".join(part for part in ("gemm", _SAME.get(kind, kind), tile, layout, *extras) if part)


def pytorch(name: str, kernel: Name) -> str | None:
    """Return ``elementwise add<float> strided``, ``reduce sum<float>``, ``copy<bf16> unrolled``."""
    families = {"distribution_": _random, "reduce_kernel": _reduce, "multi_tensor_apply_kernel": _foreach}
    made = next((make for begin, make in families.items() if kernel.base.startswith(begin)), _elementwise)
    return made(name, kernel) if kernel.arguments else None


def _elementwise(name: str, kernel: Name) -> str | None:
    if "elementwise_kernel" not in kernel.base:
        return None
    functors = [argument for argument in kernel.arguments if not is_number(argument)]
    functor = functors[kernel.base.endswith("_with_index")]  # that one begins with the type of the index
    return f"{_on_types(classify(name), *operation(functor))}{_access(kernel)}"


def _on_types(kind: str, what: str, types: list[str]) -> str:
    on = ",".join(types)
    if found := _CONVERSION.fullmatch(what):
        return f"{kind}<{on} to {found[1].replace('bfloat', 'bf')}>"
    said = kind if what in _COPIES else f"{kind} {what}"
    return f"{said}<{on}>" if on else said


def _access(kernel: Name) -> str:
    """Say how the elements are reached: so many at once, with gaps between them, in another type."""
    cast = " cast" if any("LoadWithCast" in argument for argument in kernel.arguments) else ""
    if kernel.base.startswith("vectorized_"):
        return f" {_TIMES}{kernel.arguments[0]}"
    if kernel.base.startswith("unrolled_"):
        return f" unrolled{cast}"
    return " strided" if kernel.base in ("elementwise_kernel", "elementwise_kernel_manual_unroll") else ""


def _reduce(name: str, kernel: Name) -> str | None:
    """Look into ``reduce_kernel<512, 1, ReduceOp<float, MeanOps<float, ...>, ...>>``."""
    inner = parse(kernel.arguments[-1])
    if inner.base != "ReduceOp":
        return None
    what, _ = operation(inner.arguments[1])
    return _on_types(classify(name), what, value_types(inner.arguments[:1]))


def _foreach(name: str, kernel: Name) -> str:
    """Look into ``multi_tensor_apply_kernel<Metadata<2>, Functor<float, ...>, std::plus<float>, ...>``."""
    functor, *more = kernel.arguments[1:]
    what, types = operation(functor)
    operators = (_ARITHMETIC.get(parse(argument).base) for argument in more)
    what = next((operator for operator in operators if operator), what)
    return _on_types(f"{classify(name)} foreach", what, types[:1])


def _random(name: str, kernel: Name) -> str:
    found = _DISTRIBUTION.search(name)
    what = found[1] if found else words(kernel.base)
    return _on_types(classify(name), what, value_types(kernel.arguments[:1]))


def triton(name: str) -> str | None:
    """Return ``triton add+relu``, with the kind of kernel where it is none that goes point by point."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    kind, fused = found.groups()
    operators = _OPERATOR.findall(fused)
    return f"triton {'' if operators == ['sort'] else _KINDS.get(kind, '')}{'+'.join(operators)}"
