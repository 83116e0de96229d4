"""Tell what a program is written with: a framework of Python, Python, OpenACC or CUDA C++."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.gpu_operations import KERNEL
from nsyswrap.analysis.names import full_names
from nsyswrap.analysis.nvtx_ranges import domain_names
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import XLA_DOMAIN

PYTORCH, JAX = FRAMEWORKS = ("pytorch", "jax")
_PYTORCH = regex(
    r"\bat::(?:native|cuda)\b|\bat_cuda_detail::|\bc10::|PyTorchMemEffAttention|\bpytorch_flash::"
    r"|^triton_(?:poi|red|per|tem|for|spl)_(?:fused_)?"
)
# XLA names a kernel after its fusion: loop_add_fusion, input_reduce_fusion_1, wrapped_convert, fusion_12
_JAX = regex(r"^(?:(?:loop|input|gemm|transpose|scatter|concatenate)_(?:\w+_)?)?fusion(?:_|$)|^wrapped_")

CUPY, PYTHON, OPENACC, CUDA = "cupy", "python", "openacc", "cuda"
IN_PYTHON = (PYTORCH, JAX, CUPY, PYTHON)
LANGUAGES = (*IN_PYTHON, OPENACC, CUDA)
_PYTHON = regex(r"(?:python|pypy)[\d.]*")
_CUPY = regex(r"^cupy_")
# The compilers of NVIDIA and GCC name a kernel after the function and the line of its loop.
_OPENACC = regex(r"_\d+_gpu(?:__red)?$|^nvkernel_|\$_omp_fn\$\d+$")


@per_capture
def framework_of(whole: Capture) -> str:
    """Return the one of FRAMEWORKS that launched kernels of a capture; empty without one."""
    found = _framework(full_names(whole)[1]) if whole.has(KERNEL) else ""
    return found or (_framework(_kernel_names(whole)) if whole.is_near else "")


def _framework(names: Sequence[str]) -> str:
    patterns = {PYTORCH: _PYTORCH, JAX: _JAX}
    return next((name for name, one in patterns.items() if any(map(one.search, names))), "")


@per_capture
def _kernel_names(whole: Capture) -> list[str]:
    """Return the full names of all kernels that were recorded."""
    if not whole.has(KERNEL):
        return []
    if not whole.is_near:
        return full_names(whole)[1]
    ids = whole.recorded.stream(KERNEL, ("name",), lambda block: {"": ascending(block["name"])})[""]
    return [text or "" for text in whole.texts(ascending(ids))]


@per_capture
def language_of(whole: Capture) -> str:
    """Return the one of LANGUAGES that a program is written with, by its kernels, ranges and command."""
    framework = framework_of(whole)
    if framework:
        return framework
    if whole.has("nvtx") and XLA_DOMAIN in domain_names(whole):
        return JAX
    names = _kernel_names(whole)
    if any(map(_CUPY.search, names)):
        return CUPY
    if whole.has("openacc") or any(map(_OPENACC.search, names)):
        return OPENACC
    command = whole.info.command
    return PYTHON if command and _PYTHON.fullmatch(PurePath(command[0]).name) else CUDA
