"""Shorten kernel names for people: ``elementwise add<float> strided``, ``gemm bf16 128x256x64 tn``.

Use them on screens only: much of a name is left out, so two kernels can have the same short name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from nsyswrap.analysis.kernel_names.arithmetic import arithmetic
from nsyswrap.analysis.kernel_names.classes import (
    LEVELS,
    OTHER,
    Name,
    check_levels,
    classify,
    each_value_type,
    is_number,
    parse,
    plain,
    pytorch,
    short_type,
    triton,
)
from nsyswrap.base.lazy import regex
from nsyswrap.base.text import alike

# In 64x4 after a tile, and in stages_64x4, 64 is the depth of the tile and 4 the number of stages.
_SHAPES = (
    regex(r"^nvjet_(?:sm\d+_)?(?P<code>[a-z]+)_(?P<tile>\d+x\d+)_(?P<depth>\d+)x.*_(?P<layout>[NT]{3})$"),
    regex(r"^nvjet_(?:sm\d+_)?(?P<code>[a-z]+)_mma_(?P<tile>\d+x\d+x\d+)_.*_(?P<layout>[NT]{3,4})$"),
    regex(r"^sm\d+_xmma_gemm_\w*?_(?P<layout>[nt]{2})_n_tilesize(?P<tile>\d+x\d+x\d+)_"),
    regex(r"^cutlass3x_\w*?_(?P<tile>\d+x\d+x\d+)_\w*?_(?P<layout>[nt]{3})_align"),
    # s16816gemm: the type of the sums and the shape of one instruction.
    regex(
        r"_(?P<code>[a-z])\d*(?:[a-z]+\d+)?gemm(?:_[a-z\d]+){,2}?"
        r"_(?P<tile>\d+x\d+)(?:_(?P<depth>\d+)x\d+)?(?P<rest>\w*)"
    ),
)
_STAGES = regex(r"_stages_(\d+)x")
_LAYOUT = regex(r"_([nt]{2})(?:_|$)")
_COMPLEX = {"c": "complex f32", "z": "complex f64"}
_EXTENT = regex(r"\b(?:C<|_)(\d+)")
_EXTRAS = {"splitK_": "split-k", "split_k_kernel": "split-k", "_relu_": "relu", "_bias_": "bias"}
_NAMES = {"half": "f16", "float": "f32", "double": "f64"}
_WAY = regex("fprop|[dw]grad|winograd", re.IGNORECASE)


def gemm(name: str, kernel: Name) -> str | None:
    """Return ``gemm bf16 128x256x64 tn``: type, tile in M, N and K, layout, then extras such as split-k."""
    match = next((match for shape in _SHAPES if (match := shape.search(name))), None)
    if match is None:
        said = arithmetic(name)
        of_2 = _text("gemm", said.input_type, said.tile) if said.input_type and said.tile else None
        return _cutlass_3(kernel, said.input_type) or of_2
    parts = {"code": "", "depth": "", "layout": "", "rest": "", **match.groupdict("")}
    stages, layout = _STAGES.search(parts["rest"]), _LAYOUT.search(parts["rest"])
    depth = stages[1] if stages else parts["depth"]
    kind = _COMPLEX.get(parts["code"]) or arithmetic(name).input_type or parts["code"]
    tile = f"{parts['tile']}x{depth}" if depth else parts["tile"]
    extras = [extra for mark, extra in _EXTRAS.items() if mark in name]
    return _text("gemm", kind, tile, parts["layout"].lower() or (layout[1] if layout else ""), *extras)


def _cutlass_3(kernel: Name, kind: str, levels: int = LEVELS) -> str | None:
    """Read ``device_kernel<GemmUniversal<..., CollectiveMma<schedule, tile, type, ...>, ...>>``."""
    check_levels(levels)
    for argument in kernel.arguments:
        inner = parse(argument)
        if inner.base == "CollectiveMma":
            _, tile, written, *_ = inner.arguments
            written = short_type(written)
            return _text("gemm", kind or _NAMES.get(written, written), "x".join(_EXTENT.findall(tile)))
        if "gemm::" in argument and (text := _cutlass_3(inner, kind, levels - 1)):
            return text
    return None


def convolution(name: str) -> str | None:
    """Return ``convolution fprop tf32 128x64``: direction, type and tile."""
    said, way = arithmetic(name), _WAY.search(name)
    if not said.input_type or not said.tile:
        return None
    return _text("convolution", way[0].lower() if way else "", said.input_type, said.tile)


def fft(kernel: Name) -> str | None:
    """Return ``fft vector c2r 1024``: how cuFFT computes it, and the length."""
    length = next(map(plain, kernel.arguments), "")
    words = [word for word in kernel.base.split("_") if word != "fft"]
    return _text("fft", *words, length) if is_number(length) else None


def _text(*parts: str) -> str:
    return " ".join(part for part in parts if part)


_NCCL = regex(r"nccl\w*?Kernel_(\w+)")
_THRUST = regex(r"cuda_cub::__(?!parallel_for)(\w+?)::")
# (?=(...))\1 tries only the first place of what is before it: time is linear in the length of a name.
_FLASH = regex(r"(?=(.*?\bflash::(?P<base>FlashAttn\w+)<))\1.*?\bcutlass::(?P<type>\w+_t)\b")
# cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_...: f16 also for bfloat16
_CUDNN_ATTENTION = regex(
    r"cudnn_generated_(?=(\w+?_sdpa_sm\d+_))\1(?=((?P<pass>\w+?prop)_))\2.*?_(?P<tile>\d+x\d+x\d+)_"
)
# fmha_cutlassB_f16_aligned_64x64_k128_dropout_sm80(...), PyTorch's memory-efficient attention
_EFFICIENT = regex(
    r"fmha_cutlass(?P<way>[FB])_(?P<type>bf16|f16|f32)_(?P<un>not)?aligned_(?P<tile>\d+x\d+)_(?P<rest>\w+)_sm\d"
)
_TYPES = {"f16": "half", "f32": "float"}
_INDEX_TYPES = {"int", "unsigned int"}
_KNOWN = regex(r"(?:at|vision::ops|cudnn|at_cuda_detail::cub|cask_plugin\w*)::")
_SHELLS = {"Kernel", "Kernel2", "device_kernel"}
_FILLERS = regex(r"^(?:global)?[kK]ernel2?$|^impl$|_?[kK]ernel(?=_|$)|_cuda(?=_|$)")


@cache
def readable(name: str) -> str:
    """Return a short name for people; an unknown name unchanged."""
    try:
        return _short_name(name, parse(name)) or name
    except (IndexError, ValueError):  # begins like a known name but continues differently
        return name


def distinct_names(names: Iterable[str]) -> dict[str, str]:
    """Return the readable form of each name. Equal readable forms are numbered in the order of the names."""
    texts = {name: readable_name(name) if "/" in name else readable(name) for name in sorted(names)}
    for group in alike(texts):
        texts.update({name: f"{texts[name]} #{number}" for number, name in enumerate(group, 1)})
    for group in alike(texts):  # a full name may equal a numbered one
        texts.update({name: name for name in group})
    return texts


def readable_name(name: str) -> str:
    """Return the readable form of a kernel name; an NVTX range before it stays."""
    head, slash, tail = name.rpartition("/")
    return head + slash + readable(tail)


def _short_name(name: str, kernel: Name) -> str | None:
    """Return the short name of the first family of names that it is of; special families come first."""
    kind = classify(name)
    return (
        triton(name)
        or _nccl(name)
        or (gemm(name, kernel) if kind == "gemm" else None)
        or (convolution(name) if kind == "convolution" else None)
        or (fft(kernel) if kind == "fft" else None)
        or _attention(name, kernel)
        or _thrust(name, kind)
        or pytorch(name, kernel)
        or _template(name, kernel, kind)
    )


def _nccl(name: str) -> str | None:
    match = _NCCL.match(name)
    return f"nccl {match[1].replace('_', ' ')}" if match else None


def _thrust(name: str, kind: str) -> str | None:
    match = _THRUST.search(name) if "_kernel_agent<" in name else None
    return f"{kind} thrust {match[1]}" if match else None


def _attention(name: str, kernel: Name) -> str | None:
    """Read ``flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, ...>>``, cuDNN, CUTLASS and others."""
    first = next(kernel.each_argument(), name)
    if "kernel_traits" in first and "kernel_traits" in (traits := parse(first)).base:
        head, *tile = traits.arguments[:3]
        return f"attention {_short(kernel.path)}<{_first_type(traits)}> head {head} {'x'.join(tile)}"
    if match := _CUDNN_ATTENTION.match(name):
        return f"attention cudnn {match['pass']} {match['tile']}"
    if match := _EFFICIENT.match(name):
        what = f"{'fwd' if match['way'] == 'F' else 'bwd'}<{_TYPES.get(match['type'], match['type'])}>"
        rest = ("unaligned " if match["un"] else "") + match["rest"].replace("_", " ")
        return f"attention cutlass {what} {match['tile']} {rest}"
    match = _FLASH.match(name) if "flash::" in name else None
    return f"attention {match['base']}<{short_type(match['type'])}>" if match else None


def _template(name: str, kernel: Name, kind: str) -> str | None:
    """Return class, name and first type of a template whose class is known, or of a library's kernel."""
    known = name.endswith(")") and _KNOWN.match(kernel.path)
    if not known and (kind == OTHER or next(kernel.each_argument(), None) is None):
        return None
    first = _first_type(kernel)
    if kernel.base in _SHELLS:  # the wrapped type is the name
        return f"{kind} {first}"
    what = _short(kernel.path)
    if kind not in (what, OTHER):
        what = f"{kind} {what}"
    return what + (f"<{first}>" if first else "")


@cache
def _short(path: str) -> str:
    """Return the name of a function without filler words such as ``kernel``."""
    parts = path.split("::")
    short = next((short for part in reversed(parts) if (short := _FILLERS.sub("", part))), parts[-1])
    return short.replace("CatArrayBatchedCopy", "cat")


def _first_type(kernel: Name) -> str:
    """Return the first type that is no index type, else the first one."""
    first = ""
    for name in each_value_type(kernel.each_argument()):
        if name not in _INDEX_TYPES:
            return name
        first = first or name
    return first
