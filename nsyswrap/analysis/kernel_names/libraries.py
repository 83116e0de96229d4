"""What a template argument of a kernel says: which operation, on which types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names.demangled import parse, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

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
