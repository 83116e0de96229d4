"""Names of PyTorch's own kernels: templates over what they compute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names.classes import classify
from nsyswrap.analysis.kernel_names.demangled import parse
from nsyswrap.analysis.kernel_names.libraries import is_number, operation, value_types, words

if TYPE_CHECKING:
    from nsyswrap.analysis.kernel_names.demangled import Name

_TIMES = "\u00d7"
_COPIES = {"direct_copy", "copy_device_to_device"}
_CONVERSION = re.compile(r"(b?float\d+\w*)_copy")
_ARITHMETIC = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_DISTRIBUTION = re.compile(r"templates::cuda::(\w+?)(?:_and_transform|_kernel)?<")


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
