"""Read type, tile and layout from the names of matrix products of cuBLAS and CUTLASS."""

from __future__ import annotations

import re

from nsyswrap.analysis.kernel_names.demangled import Name, parse
from nsyswrap.analysis.kernel_names.libraries import LEVELS, check_levels, short_type

_TYPES = r"bf16|tf32|fp16|f16|f32|f64|e4m3|e5m2|int8|i8|s8"
_TILE = r"_(?P<tile>\d+x\d+)"
# In 64x4 after a tile, and in stages_64x4, 64 is the depth of the tile and 4 the number of stages.
_NVJET = re.compile(
    rf"^nvjet_(?:sm\d+_)?(?P<type>[a-z]+){_TILE}_(?P<depth>\d+)x\d+_.*_(?P<layout>[NT]{{3}})$"
)
_XMMA = re.compile(
    rf"(?<!\w)(?=(\w*?xmma_gemm_(?:f32f32_(?=tf32))?(?P<type>{_TYPES})))\1\w*?"
    r"_(?P<layout>[nt]{2})_n_tilesize(?P<tile>\d+x\d+x\d+)_"
)
# s16816gemm: the accumulator type and the shape of one instruction.
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


def gemm(name: str, kernel: Name) -> str | None:
    """Return ``gemm bf16 128x256x64 tn``: type, tile in M, N and K, layout, then extras such as split-k."""
    if match := _NVJET.search(name):
        kind = _NVJET_TYPES.get(match["type"], match["type"])
        return _gemm_text(kind, f"{match['tile']}x{match['depth']}", match["layout"].lower(), name)
    if match := _XMMA.search(name):
        return _gemm_text(match["type"], match["tile"], match["layout"], name)
    if match := _LETTER.search(name):
        return _lettered(match, name)
    return _cutlass_3(kernel)


def _lettered(match: re.Match[str], name: str) -> str:
    stages, layout = _STAGES.search(match["rest"]), _LAYOUT.search(match["rest"])
    depth = stages[1] if stages else match["depth"]
    kind = match["type"] or match["out"] or _SUMS.get(match["sum"], match["sum"])
    tile = f"{match['tile']}x{depth}" if depth else match["tile"]
    return _gemm_text(kind, tile, layout[1] if layout else "", name)


def _cutlass_3(kernel: Name, levels: int = LEVELS) -> str | None:
    """Read ``device_kernel<GemmUniversal<..., CollectiveMma<schedule, tile, type, ...>, ...>>``."""
    check_levels(levels)
    for argument in kernel.arguments:
        inner = parse(argument)
        if inner.base == "CollectiveMma":
            _, tile, kind, *_ = inner.arguments
            return _gemm_text(short_type(kind), "x".join(_EXTENT.findall(tile)), "", "")
        if "gemm::" in argument and (text := _cutlass_3(inner, levels - 1)):
            return text
    return None


def _gemm_text(kind: str, tile: str, layout: str, name: str) -> str:
    extras = [extra for mark, extra in _EXTRAS.items() if mark in name]
    return " ".join(part for part in ("gemm", _SAME.get(kind, kind), tile, layout, *extras) if part)
