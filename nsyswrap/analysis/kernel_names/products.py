"""Read type, tile and layout from the names of matrix products and convolutions."""

from __future__ import annotations

import re

from nsyswrap.analysis.kernel_names.arithmetic import arithmetic
from nsyswrap.analysis.kernel_names.demangled import Name, parse
from nsyswrap.analysis.kernel_names.libraries import LEVELS, check_levels, short_type

# In 64x4 after a tile, and in stages_64x4, 64 is the depth of the tile and 4 the number of stages.
_SHAPES = (
    re.compile(
        r"^nvjet_(?:sm\d+_)?(?P<code>[a-z]+)_(?P<tile>\d+x\d+)_(?P<depth>\d+)x.*_(?P<layout>[NT]{3})$"
    ),
    re.compile(r"^nvjet_(?:sm\d+_)?(?P<code>[a-z]+)_mma_(?P<tile>\d+x\d+x\d+)_.*_(?P<layout>[NT]{3,4})$"),
    re.compile(r"^sm\d+_xmma_gemm_\w*?_(?P<layout>[nt]{2})_n_tilesize(?P<tile>\d+x\d+x\d+)_"),
    re.compile(r"^cutlass3x_\w*?_(?P<tile>\d+x\d+x\d+)_\w*?_(?P<layout>[nt]{3})_align"),
    # s16816gemm: the type of the sums and the shape of one instruction.
    re.compile(
        r"_(?P<code>[a-z])\d*(?:[a-z]+\d+)?gemm(?:_[a-z\d]+){,2}?"
        r"_(?P<tile>\d+x\d+)(?:_(?P<depth>\d+)x\d+)?(?P<rest>\w*)"
    ),
)
_STAGES = re.compile(r"_stages_(\d+)x")
_LAYOUT = re.compile(r"_([nt]{2})(?:_|$)")
_COMPLEX = {"c": "complex f32", "z": "complex f64"}
_EXTENT = re.compile(r"\b(?:C<|_)(\d+)")
_EXTRAS = {"splitK_": "split-k", "split_k_kernel": "split-k", "_relu_": "relu", "_bias_": "bias"}
_NAMES = {"half": "f16", "float": "f32", "double": "f64"}
_WAY = re.compile("fprop|[dw]grad|winograd", re.IGNORECASE)


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


def _text(*parts: str) -> str:
    return " ".join(part for part in parts if part)
