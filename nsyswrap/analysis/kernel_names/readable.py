"""Kernel names as a person would say them: ``elementwise add<float> strided``, ``gemm bf16 128x256x64 tn``.

For a screen alone: much of a name is left out, so that two kernels can read the same.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names.classes import OTHER, classify
from nsyswrap.analysis.kernel_names.demangled import parse
from nsyswrap.analysis.kernel_names.libraries import gemm, pytorch, short_type, triton, value_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.kernel_names.demangled import Name

_NCCL = re.compile(r"nccl\w*?Kernel_(\w+)")
_THRUST = re.compile(r"cuda_cub::__(?!parallel_for)(\w+?)::")
_FLASH = re.compile(r"\bflash::(FlashAttn\w+)<.*?\bcutlass::(\w+_t)\b")
# cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_...: f16 for bfloat16, too
_CUDNN_ATTENTION = re.compile(r"^cudnn_generated_\w+?_sdpa_sm\d+_(\w+?prop)_.*?_(\d+x\d+x\d+)_")
_INDEX_TYPES = {"int", "unsigned int"}
_SHELLS = {"Kernel", "Kernel2", "device_kernel"}
_FILLERS = re.compile(r"^(?:global)?[kK]ernel2?$|^impl$|_?[kK]ernel(?=_|$)|_cuda(?=_|$)")


@cache
def readable(name: str) -> str:
    """Return a name that a person can read; the same one where its make is not known."""
    try:
        return next((text for text in _said(name, parse(name)) if text), name)
    except (IndexError, ValueError):  # it begins like one of a known make, and goes on in another way
        return name


def _said(name: str, kernel: Name) -> Iterator[str | None]:
    """Ask those who know one family of names each, the most special first."""
    yield triton(name)
    yield _nccl(name)
    yield gemm(name, kernel) if classify(name) == "gemm" else None
    yield _attention(name, kernel)
    yield _thrust(name)
    yield pytorch(name, kernel)
    yield _template(name, kernel)


def _nccl(name: str) -> str | None:
    found = _NCCL.match(name)
    return f"nccl {found[1].replace('_', ' ')}" if found else None


def _attention(name: str, kernel: Name) -> str | None:
    """Look into ``flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, ...>>``, and FlashAttention 3."""
    traits = parse(kernel.arguments[0]) if kernel.arguments else kernel
    if "kernel_traits" in traits.base:
        head, *tile = traits.arguments[:3]
        return f"attention {_short(kernel)}<{_first_type(traits)}> head {head} {'x'.join(tile)}"
    if found := _CUDNN_ATTENTION.search(name):
        return f"attention cudnn {found[1]} {found[2]}"
    found = _FLASH.search(name)
    return f"attention {found[1]}<{short_type(found[2])}>" if found else None


def _thrust(name: str) -> str | None:
    found = _THRUST.search(name) if "_kernel_agent<" in name else None
    return f"{classify(name)} thrust {found[1]}" if found else None


def _template(name: str, kernel: Name) -> str | None:
    """Name the first type of a template whose class is known."""
    kind = classify(name)
    if not kernel.arguments or kind == OTHER:
        return None
    first = _first_type(kernel)
    if kernel.base in _SHELLS:  # what it wraps says it all
        return f"{kind} {first}"
    return f"{kind} {_short(kernel)}" + (f"<{first}>" if first else "")


def _short(kernel: Name) -> str:
    """Return the name of a function without what all kernels are called."""
    parts = [_FILLERS.sub("", part) for part in kernel.path.split("::")]
    said = next((part for part in reversed(parts) if part), kernel.base)
    return said.replace("CatArrayBatchedCopy", "cat")


def _first_type(kernel: Name) -> str:
    types = value_types(kernel.arguments)
    return next((name for name in types if name not in _INDEX_TYPES), "".join(types[:1]))
