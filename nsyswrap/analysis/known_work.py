"""The floating-point operations and bytes of kernels whose operation of PyTorch has recorded shapes.

A kernel belongs to the innermost operation around its launch whose work is known. If several kernels belong
to one, those that multiply share it by their time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import KERNEL, places_of
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import (
    CUDA_CORE,
    MEMORY,
    PRODUCTS,
    TENSOR_CORE,
    arithmetic,
    unit_of,
)
from nsyswrap.analysis.names import full_names
from nsyswrap.analysis.nvtx_ranges import any_label_has
from nsyswrap.analysis.operation_work import (
    CONVOLUTION,
    CONVOLUTION_BACKWARD,
    UNKNOWN,
    OperationWork,
    Shape,
    convolution_work,
    is_known,
    shapes_of,
    work_of,
)
from nsyswrap.analysis.peaks import HALF, kernel_peaks, measured_peaks, peak_bandwidth, peak_of
from nsyswrap.analysis.range_texts import MODULE, SIZES
from nsyswrap.analysis.range_tree.figures import shape_sources
from nsyswrap.analysis.range_tree.tree import NestedRanges, range_tree_of
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.stream import looked_up

Floats = NDArray[np.float64]
Ints = NDArray[Any]

_BYTES = {"f64": 8, "tf32": 4, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "f8": 1, "i8": 1}
_OPAQUE = regex(r"OpaqueType<(?:\(unsigned int\))?(\d{1,2})")
_OTHER, _MOVES, _PRODUCT, _MULTIPLIES = range(4)  # what a kernel of an operation is for
_WEIGHT = 1  # the input of a convolution after the first
# Times the peak at most: masks of attention and Winograd's convolution save work that counts; caches help.
_ABOVE_PEAK, _ABOVE_BANDWIDTH = 4, 16
_NEAR = 12  # ranges after a convolution, one of which has its output


COMPUTE_ROOF, MEMORY_ROOF = "compute", "memory"
_NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class KnownWork:
    """Floating-point operations and bytes of each kernel, NaN where not known.

    ``known`` marks the kernels of operations whose work is known: those that another kernel prepares or
    completes have neither. ``recorded`` tells whether any operation has recorded shapes.
    """

    flops: Floats
    bytes: Floats
    known: NDArray[np.bool_]
    recorded: bool


def known_work(capture: Capture) -> KnownWork:
    """Return the work of the selected kernels, in the order of their table."""
    whole = _of_whole(capture.whole)
    if not capture.view.selection.narrows:
        return whole
    rows = capture.columns(KERNEL, "row")["row"] - 1
    return KnownWork(whole.flops[rows], whole.bytes[rows], whole.known[rows], whole.recorded)


@per_capture
def _of_whole(whole: Capture) -> KnownWork:
    count = whole.count(KERNEL) if whole.has(KERNEL) else 0
    unknown = np.full(count, np.nan)
    if not count or not whole.has("api") or not any_label_has(whole, SIZES):
        return KnownWork(unknown, unknown, np.zeros(count, bool), recorded=False)
    tree = range_tree_of(whole)
    around = tree.range[places_of(whole)[KERNEL]]
    source = shape_sources(whole)
    flops, moved, known = (values[source] for values in _of_operations(whole, tree.ranges, around))
    # Kernels that cannot have done this work in their time did something else, or less.
    start, end = whole.columns(KERNEL, *SPANS).values()
    seconds = np.maximum(end - start, 1) / NS_PER_S
    most = _ABOVE_PEAK * kernel_peaks(whole) * seconds
    most_moved = _ABOVE_BANDWIDTH * (peak_bandwidth(whole) or np.nan) * seconds
    other = (flops > most) | (moved > most_moved)
    flops[other] = moved[other] = np.nan
    return KnownWork(flops, moved, known & ~other, recorded=True)


def _of_operations(whole: Capture, ranges: NestedRanges, around: Ints) -> tuple[Floats, Floats, Ints]:
    """Return the FLOPs and bytes of kernels in operations with recorded shapes, and whose are known."""
    operation = np.append(_innermost(ranges), -1)[around]
    known = np.flatnonzero(operation >= 0)
    used, codes = np.unique(operation[known], return_inverse=True)
    work = np.array(_works(ranges, used), np.float64).reshape(-1, len(UNKNOWN))
    purpose, size = (values[known] for values in _by_name(whole))
    start, end = (times[known] for times in whole.columns(KERNEL, *SPANS).values())
    # Those that multiply do the work; where none does, those that move data, then whatever there is.
    most = np.zeros(len(used), np.int64)
    np.maximum.at(most, codes, purpose)
    mine = purpose == most[codes]
    # A convolution has a kernel for each of two gradients.
    backward = ranges.of_text([text.names[-1:] == (CONVOLUTION_BACKWARD,) for text in ranges.texts])[used]
    kernels = np.bincount(codes[mine & (purpose >= _PRODUCT)], minlength=len(used))
    work *= np.where(backward, np.clip(kernels, 1, 2), 1)[:, np.newaxis]
    duration_ns = np.where(mine, np.maximum(end - start, 1), 0)
    share = (
        duration_ns / np.bincount(codes, duration_ns, len(used))[codes]
        if len(used)
        else duration_ns.astype(float)
    )
    share[~mine] = np.nan
    flops, moved = (np.full(len(around), np.nan) for _ in range(2))
    flops[known] = work[codes, 0] * share
    moved[known] = work[codes, 1] * share * size
    is_known = np.zeros(len(around), bool)
    is_known[known] = np.isfinite(work).sum(axis=1)[codes] > 0
    return flops, moved, is_known


def _innermost(ranges: NestedRanges) -> Ints:
    """Return the innermost operation of known work at or around each range, -1 for none; modules end it."""
    known = ranges.of_text([bool(text.sizes) and is_known(text.names[-1]) for text in ranges.texts]).astype(
        bool
    )
    module = ranges.kind == MODULE
    found = np.full(len(ranges), -1)
    for rows in ranges.levels():
        above = ranges.parent[rows]
        inherited = np.where((above >= 0) & ~module[rows], found[above], -1)
        found[rows] = np.where(known[rows], rows, inherited)
    return found


def _by_name(whole: Capture) -> tuple[Ints, Floats]:
    """Return what each kernel is for, and the bytes of an element, NaN if its name does not tell."""
    codes, names = full_names(whole)
    purposes = np.array([_purpose(name) for name in names], np.int8)
    sizes = np.array([_element_bytes(name) for name in names], np.float64)
    return looked_up(purposes, codes), looked_up(sizes, codes)


def _purpose(name: str) -> int:
    kind = classify(name)
    if kind not in PRODUCTS:
        return _MOVES
    unit = unit_of(name, kind)
    if unit in (TENSOR_CORE, CUDA_CORE):
        return _MULTIPLIES
    return _PRODUCT if unit != MEMORY or "gemv" in name or "gemmSN_" in name else _OTHER


def _element_bytes(name: str) -> float:
    """Return the bytes of an element; of a conversion the mean of both types, where its name has both."""
    if opaque := _OPAQUE.search(name):
        return float(opaque[1])
    size = float(_BYTES.get("f16" if HALF.search(name) else arithmetic(name).input_type, np.nan))
    if "LoadWithCast" in name:  # the name has the type of the output alone
        return np.nan
    return (size + _BYTES["f16"]) / 2 if "float16_copy_kernel" in name else size


def _works(ranges: NestedRanges, used: Ints) -> list[OperationWork]:
    """Return the work of each of these operations; of a convolution's backward, that of one gradient."""
    outputs = _outputs(ranges)
    known: dict[int, OperationWork] = {}
    works = []
    for code in ranges.text[used].tolist():
        text = ranges.texts[code]
        if code not in known:
            known[code] = _work(text.names[-1], shapes_of(text.sizes), outputs)
        works.append(known[code])
    return works


def _work(name: str, shapes: list[Shape], outputs: dict[tuple[Shape, ...], set[Shape]]) -> OperationWork:
    if name == CONVOLUTION_BACKWARD and len(shapes) > _WEIGHT + 1:
        return convolution_work(shapes[1], shapes[2], shapes[0])
    if name == CONVOLUTION and len(shapes) > _WEIGHT:
        output, *others = outputs.get(tuple(shapes[: _WEIGHT + 1]), {()})
        return UNKNOWN if others else convolution_work(shapes[0], shapes[1], output)
    return work_of(name, shapes)


def _outputs(ranges: NestedRanges) -> dict[tuple[Shape, ...], set[Shape]]:
    """Return the shapes of the outputs of convolutions, by those of input and weight.

    The backward has them. Without one, an operation soon after the convolution does.
    """
    found: dict[tuple[Shape, ...], set[Shape]] = {}
    missing = []
    for i, text in enumerate(ranges.texts):
        if text.names[-1:] == (CONVOLUTION_BACKWARD,) and text.sizes:
            gradient, *others = shapes_of(text.sizes)[: _WEIGHT + 2]
            found.setdefault(tuple(others), set()).add(gradient)
        elif text.names[-1:] == (CONVOLUTION,) and text.sizes:
            missing.append(i)
    told = set(found)
    for at in np.flatnonzero(np.isin(ranges.text, missing)).tolist():
        key = tuple(shapes_of(ranges.texts[ranges.text[at]].sizes)[: _WEIGHT + 1])
        if key not in told and (output := _output_after(ranges, at, *key)):
            found.setdefault(key, set()).add(output)
    return found


def _output_after(ranges: NestedRanges, at: int, *key: Shape) -> Shape:
    """Return the shape of the first input with batch and channels of the output in a later operation."""
    if len(key) <= _WEIGHT or not key[0] or not key[1]:
        return ()
    for later in range(at + 1, min(at + 1 + _NEAR, len(ranges))):
        text = ranges.texts[ranges.text[later]]
        if ranges.spans.thread[later] != ranges.spans.thread[at] or CONVOLUTION in text.names:
            return ()
        shape = next(iter(shapes_of(text.sizes)), ())
        like = len(shape) == len(key[0]) and shape[:2] == (key[0][0], key[1][0])
        if like and "convolution" not in text.names[-1]:
            return shape
    return ()


# The work of kernels per second, against the peaks of the GPU, and the roof that bounds them.


@dataclass(frozen=True, eq=False)
class Roofline:
    """The work of groups of kernels, an entry each; NaN where it is not known.

    ``flop`` and ``bytes`` are means of the kernels whose work is known, the rates their work by their time.
    ``peak_flop_per_s`` is that of the GPU for the type of the kernel: the measured one if there is one.
    """

    flop: Floats
    bytes: Floats
    flop_per_s: Floats
    bytes_per_s: Floats
    peak_flop_per_s: Floats
    peak_bytes_per_s: float
    moves: NDArray[np.bool_]

    @property
    def intensity(self) -> Floats:
        """Return the operations for each byte."""
        return _divided(self.flop, self.bytes)

    @property
    def roof(self) -> list[str]:
        """Return what bounds the kernels: ``compute``, ``memory``, or an empty text if it is not known.

        Operations for each byte decide. Without known operations, the kinds of kernels that only move data
        are bound by memory.
        """
        ridge = self.peak_flop_per_s / self.peak_bytes_per_s
        known = ~np.isnan(self.intensity / ridge)
        computes = known & (self.intensity >= ridge)
        moves = np.where(known, ~computes, self.moves & ~np.isnan(self.bytes))
        return np.select([computes, moves], [COMPUTE_ROOF, MEMORY_ROOF], "").tolist()  # type: ignore[no-any-return]


def roofline_of(capture: Capture, group: NDArray[Any], first: NDArray[Any]) -> Roofline:
    """Return the work of groups of the selected kernels.

    ``group`` has the number of each kernel's group, ``first`` the position of a kernel of each group. All
    kernels of a group have one name.
    """
    whole, work = capture.whole, known_work(capture)
    measured = measured_peaks(whole)
    start, end = whole.columns(KERNEL, *SPANS).values()
    duration_ns = end - start  # of whole kernels, whatever the selection cuts
    if capture.view.selection.narrows:
        duration_ns = duration_ns[capture.columns(KERNEL, "row")["row"] - 1]
    codes, names = full_names(capture)
    moves = np.array([unit_of(name, classify(name)) == MEMORY for name in names], bool)
    peaks = np.array([peak_of(whole, name, measured=True) for name in names], float)
    flop, flop_per_s = _rates(work.flops, duration_ns, group, len(first))
    moved, bytes_per_s = _rates(work.bytes, duration_ns, group, len(first))
    return Roofline(
        flop,
        moved,
        flop_per_s,
        bytes_per_s,
        looked_up(peaks, codes[first]),
        measured.bytes_per_s if measured else peak_bandwidth(whole) or np.nan,
        looked_up(moves, codes[first]),
    )


def _rates(work: Floats, duration_ns: NDArray[Any], group: NDArray[Any], count: int) -> tuple[Floats, Floats]:
    """Return the mean work of the kernels of each group that have it, and their work per second."""
    has = ~np.isnan(work)
    numbers = (work, np.ones(len(work)), duration_ns)
    total, number, ns = (np.bincount(group[has], values[has], count).astype(float) for values in numbers)
    return _divided(total, number), _divided(total * _NS_PER_S, ns)


def _divided(values: Floats, by: Floats) -> Floats:
    """Return quotients, NaN for those by zero."""
    quotients: Floats = np.divide(values, by, out=np.full(len(values), np.nan), where=by > 0)
    return quotients
