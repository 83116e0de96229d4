"""Tell from the names of kernels which framework a program uses."""

from __future__ import annotations

import re

from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.analysis.names import numbered_names
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

PYTORCH, JAX = FRAMEWORKS = ("pytorch", "jax")
_PYTORCH = re.compile(
    r"\bat::(?:native|cuda)\b|\bat_cuda_detail::|\bc10::|PyTorchMemEffAttention|\bpytorch_flash::"
    r"|^triton_(?:poi|red|per|tem|for|spl)_(?:fused_)?"
)
# XLA names a kernel after its fusion: loop_add_fusion, input_reduce_fusion_1, wrapped_convert, fusion_12
_JAX = re.compile(r"^(?:(?:loop|input|gemm|transpose|scatter|concatenate)_(?:\w+_)?)?fusion(?:_|$)|^wrapped_")


@per_capture
def framework_of(whole: Capture) -> str:
    """Return the one of FRAMEWORKS that launched kernels of a capture; empty without one."""
    if not whole.has(KERNEL):
        return ""
    ids, _ = numbered_names(whole.viewed(names="full"), KERNEL)
    names = [text or "" for text in whole.texts(ids)]
    patterns = {PYTORCH: _PYTORCH, JAX: _JAX}
    return next((name for name, one in patterns.items() if any(map(one.search, names))), "")
