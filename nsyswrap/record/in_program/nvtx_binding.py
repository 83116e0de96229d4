"""The NVTX functions and the PyTorch of a program, if it has them, for ``measure``."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# Tools that record NVTX, such as nsys, set one of these variables.
_RECORDERS = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


class Nvtx(NamedTuple):
    """Functions that open a range, close it and write a mark: default domain, calling thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]
    mark: Callable[[str], object]


def nvtx() -> Nvtx:
    """Return the NVTX functions of an imported PyTorch, which keep no texts, or those of the package nvtx."""
    torch_nvtx = sys.modules.get("torch.cuda.nvtx")
    if torch_nvtx and getattr(sys.modules.get("torch.version"), "cuda", None):
        return Nvtx(torch_nvtx.range_push, torch_nvtx.range_pop, torch_nvtx.mark)
    return _package()


def recorded() -> bool:
    """Return True if a tool records the NVTX marks of this process."""
    return any(name in os.environ for name in _RECORDERS)


@functools.cache
def _package() -> Nvtx:
    try:
        package = importlib.import_module("nvtx")
        return Nvtx(package.push_range, package.pop_range, package.mark)
    except (ImportError, AttributeError):  # a file or folder of the program may have the package's name
        return Nvtx(lambda _: None, lambda: None, lambda _: None)


@functools.cache
def torch(option: str) -> ModuleType:
    """Return PyTorch. Raises Unavailable if it is missing or has no GPU; ``option`` of measure needs it."""
    try:
        module = importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable(
            f"measure({option}) requires PyTorch, which cannot be imported ({error}); install torch"
        ) from error
    if not module.cuda.is_available():
        raise Unavailable(
            f"measure({option}) requires a CUDA GPU, and PyTorch {module.__version__} found none"
        )
    return module
