"""What the kernels of a capture compute with, by their full names.

Pictures draw kernels by their kind: the class, and for products what bounds them. On tensor cores a product
keeps its class, ``tensor core gemm``. Of other products the unit matters, not the class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import (
    CUDA_CORE,
    MEMORY,
    OTHER_UNIT,
    PRODUCTS,
    TENSOR_CORE,
    Arithmetic,
    arithmetic,
    unit_of,
)
from nsyswrap.analysis.kernel_names.classes import Rules
from nsyswrap.analysis.names import full_names, numbered_names
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import looked_up

KINDS = {CUDA_CORE: "CUDA core products", MEMORY: "memory-bound products", OTHER_UNIT: "other products"}


@per_capture
def kernel_kinds(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return one code per kernel and the sorted kinds; the view's own classes come first."""
    ids, codes = numbered_names(capture.viewed(names="full"), "kernel")
    kind_of_name = [_kind(text, capture.view.classes) for text in capture.texts(ids)]
    kinds = sorted(set(kind_of_name))
    return looked_up(np.array([kinds.index(kind) for kind in kind_of_name], np.int32), codes), kinds


def _kind(name: str | None, rules: Rules) -> str:
    kernel_class = classify(name, rules)
    if name is None or kernel_class not in PRODUCTS:
        return kernel_class
    unit = unit_of(name, kernel_class)
    return KINDS.get(unit, f"{TENSOR_CORE} {kernel_class}")


@per_capture
def kernel_arithmetic(capture: Capture) -> tuple[NDArray[Any], list[Arithmetic]]:
    """Return one code per kernel, and what the name of each code says about its arithmetic."""
    codes, names = full_names(capture)
    return codes, list(map(arithmetic, names))
