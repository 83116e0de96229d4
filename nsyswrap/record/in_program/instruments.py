"""NVTX and PyTorch, where a program has them, for measuring it."""

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

# Either is set by what records NVTX, as nsys does.
_RECORDERS = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")


class Nvtx(NamedTuple):
    """Open a range of this name, close it, write a mark: of the default domain, on the calling thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]
    mark: Callable[[str], object]


def nvtx() -> Nvtx:
    """Return PyTorch's functions where it was imported, as it keeps no text; else those of the package."""
    torch_nvtx = sys.modules.get("torch.cuda.nvtx")
    if torch_nvtx and getattr(sys.modules.get("torch.version"), "cuda", None):
        return Nvtx(torch_nvtx.range_push, torch_nvtx.range_pop, torch_nvtx.mark)
    return _package()


def recorded() -> bool:
    """Whether anybody would see a mark of this process."""
    return any(name in os.environ for name in _RECORDERS)


@functools.cache
def _package() -> Nvtx:
    try:
        from nvtx import mark, pop_range, push_range  # noqa: PLC0415 - may be missing
    except ImportError:
        return Nvtx(lambda _: None, lambda: None, lambda _: None)
    return Nvtx(push_range, pop_range, mark)


@functools.cache
def torch(asked: str) -> ModuleType:
    """Return PyTorch, once it is known to see a GPU; else raise Unavailable, naming what ``asked`` for it."""
    try:
        found = importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable(
            f"measure({asked}): PyTorch cannot be imported ({error}); install torch, or leave that out"
        ) from error
    if not found.cuda.is_available():
        raise Unavailable(f"measure({asked}): PyTorch {found.__version__} finds no CUDA GPU; leave that out")
    return found
