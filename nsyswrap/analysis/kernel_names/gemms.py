"""Names of matrix products: nvjet and its forerunners in cuBLAS, CUTLASS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.analysis.kernel_names.demangled import parse
from nsyswrap.analysis.kernel_names.libraries import short_type

if TYPE_CHECKING:
    from nsyswrap.analysis.kernel_names.demangled import Name

_TYPES = r"bf16|tf32|fp16|f16|f32|f64|e4m3|e5m2|int8|i8|s8"
_TILE = r"_(?P<tile>\d+x\d+)"
# In 64x4 behind a tile, and in stages_64x4, 64 is how deep the tile is and 4 how many are under way.
_NVJET = re.compile(
    rf"^nvjet_(?:sm\d+_)?(?P<type>[a-z]+){_TILE}_(?P<depth>\d+)x\d+_.*_(?P<layout>[NT]{{3}})$"
)
_XMMA = re.compile(
    rf"xmma_gemm_(?P<type>{_TYPES})\w*?_(?P<layout>[nt]{{2}})_n_tilesize(?P<tile>\d+x\d+x\d+)_"
)
# s16816gemm: the type it adds up in, and the shape of one instruction.
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
    """Return ``gemm bf16 128x256x64 tn``: type, tile in M, N and K, layout, and what is done besides."""
    if found := _NVJET.search(name):
        kind = _NVJET_TYPES.get(found["type"], found["type"])
        return _said(kind, f"{found['tile']}x{found['depth']}", found["layout"].lower(), name)
    if found := _XMMA.search(name):
        return _said(found["type"], found["tile"], found["layout"], name)
    if found := _LETTER.search(name):
        return _lettered(found, name)
    return _cutlass_3(kernel)


def _lettered(found: re.Match[str], name: str) -> str:
    stages, layout = _STAGES.search(found["rest"]), _LAYOUT.search(found["rest"])
    depth = stages[1] if stages else found["depth"]
    kind = found["type"] or found["out"] or _SUMS.get(found["sum"], found["sum"])
    return _said(
        kind, f"{found['tile']}x{depth}" if depth else found["tile"], layout[1] if layout else "", name
    )


def _cutlass_3(kernel: Name) -> str | None:
    """Look into ``device_kernel<GemmUniversal<..., CollectiveMma<schedule, tile, type, ...>, ...>>``."""
    for argument in kernel.arguments:
        inner = parse(argument)
        if inner.base == "CollectiveMma":
            _, tile, kind, *_ = inner.arguments
            return _said(short_type(kind), "x".join(_EXTENT.findall(tile)), "", "")
        if "gemm::" in argument and (found := _cutlass_3(inner)):
            return found
    return None


def _said(kind: str, tile: str, layout: str, name: str) -> str:
    extras = [extra for mark, extra in _EXTRAS.items() if mark in name]
    return " ".join(part for part in ("gemm", _SAME.get(kind, kind), tile, layout, *extras) if part)
