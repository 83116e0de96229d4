"""The work of an operation of PyTorch, by its name and the shapes of its inputs.

Floating-point operations are counted as ``torch.utils.flop_counter`` does: a multiplication and an addition
are two, attention is counted in full where a causal mask leaves half of it out, and elementwise operations
have none. Memory is what has to move at least: each element of an input read once, each of an output written
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, nan, prod
from typing import NamedTuple

from nsyswrap.base.lazy import regex

Shape = tuple[float, ...]

_ATEN = "aten::"
_SIZES, _SHAPE = regex(r"[\[\]0-9, ]*"), regex(r"\[([0-9, ]*)\]")
_MOST_DIGITS = 18  # of the extent of an array
_MOST_DIMENSIONS, _MOST_SHAPES = 64, 10_000  # of an array of PyTorch, of the inputs of one operation
_MATRIX, _BATCH = 2, 3  # dimensions of what a product multiplies
_SPATIAL = 2  # the first dimension of an image after those of batch and channel


class OperationWork(NamedTuple):
    """Floating-point operations, and elements read and written; NaN where not known."""

    flops: float = nan
    elements: float = nan


UNKNOWN = OperationWork()


def shapes_of(sizes: str) -> list[Shape]:
    """Return the shape of each input that ``sizes`` names, as PyTorch writes them: ``[[4], [], [4, 8]]``.

    Of any other text none: with one shape left out, the others would count as those of other inputs.
    """
    if not _SIZES.fullmatch(sizes) or sizes.count("[") != sizes.count("]"):
        return []
    shapes: list[Shape] = []
    for match in _SHAPE.finditer(sizes):
        extents = match[1].replace(" ", "").split(",", _MOST_DIMENSIONS) if match[1] else []
        if len(extents) > _MOST_DIMENSIONS or len(shapes) == _MOST_SHAPES:
            return []
        shapes.append(tuple(float(n) if len(n) <= _MOST_DIGITS else inf for n in extents if n))
    return shapes


def is_known(name: str) -> bool:
    """Return True if the work of an operation of this name can be known."""
    return name in PRODUCTS or name in (CONVOLUTION, CONVOLUTION_BACKWARD) or name in _MOVES


def work_of(name: str, shapes: Sequence[Shape]) -> OperationWork:
    """Return the work of an operation; what shapes do not tell, or tell of another one, is unknown."""
    rule = PRODUCTS.get(name) or _MOVES.get(name)
    return _checked(rule, shapes) if rule and shapes else UNKNOWN


def convolution_work(inputs: Shape, weight: Shape, output: Shape) -> OperationWork:
    """Return the work of a convolution; the gradient of the input has the same, and that of the weight.

    ``weight`` has the channels of the output, those of the input in one group, and the extents of the filter.
    That of a transposed convolution has the channels of the input, then those of the output.
    """
    if not len(inputs) == len(weight) == len(output) > _SPATIAL or inputs[0] != output[0]:
        return UNKNOWN
    before, after = (prod(shape[_SPATIAL:]) for shape in (inputs, output))
    transposed = weight[0] == inputs[1] and (weight[0] != output[1] or after > before)
    flops = 2 * inputs[0] * (before if transposed else after) * prod(weight)
    return _finite(OperationWork(flops, prod(inputs) + prod(weight) + prod(output)))


def _checked(rule: Callable[[Sequence[Shape]], OperationWork], shapes: Sequence[Shape]) -> OperationWork:
    try:
        return _finite(rule(shapes))
    except (IndexError, ValueError, OverflowError):
        return UNKNOWN


def _finite(work: OperationWork) -> OperationWork:
    return OperationWork(*(value if isfinite(value) else nan for value in work))


def _product(first: int, dimensions: int) -> Callable[[Sequence[Shape]], OperationWork]:
    """Return the rule for a product of two matrices, or batches of them, from the input ``first`` on."""

    def work(shapes: Sequence[Shape]) -> OperationWork:
        one, other = shapes[first : first + 2]
        if not len(one) == len(other) == dimensions or one[-1] != other[-2]:
            return UNKNOWN
        batch = prod(one[:-2])
        m, k, n = one[-2], one[-1], other[-1]
        return OperationWork(2 * batch * m * n * k, batch * (m * k + k * n + m * n))

    return work


def _attention(first: int, products: int, *, heads: int = 1) -> Callable[[Sequence[Shape]], OperationWork]:
    """Return the rule for attention of query, key and value, from the input ``first`` on.

    Of ``products`` two by two, one has the width of a query and one that of a value; a backward has a third
    of the first kind. ``heads`` is their dimension.
    """

    def work(shapes: Sequence[Shape]) -> OperationWork:
        query, key, value = shapes[first : first + 3]
        batch, count = query[0], query[heads]
        rows, columns = query[3 - heads], key[3 - heads]
        with_values = products // 2
        width = (products - with_values) * query[3] + with_values * value[3]
        output = batch * count * rows * value[3]
        moved = prod(query) + prod(key) + prod(value)
        elements = moved + output if products == 2 else 2 * moved + 2 * output  # noqa: PLR2004
        return OperationWork(2 * batch * count * rows * columns * width, elements)

    return work


def _elementwise(shapes: Sequence[Shape]) -> OperationWork:
    """Each input is read once, the output, of the shape that they broadcast to, is written."""
    length = max(map(len, shapes))
    padded = [(1.0,) * (length - len(shape)) + shape for shape in shapes]
    extents = [0.0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True)]
    fits = all(size in (1, extent) for shape in padded for size, extent in zip(shape, extents, strict=True))
    if not fits or not length:
        return UNKNOWN
    return OperationWork(elements=prod(extents) + sum(prod(shape) for shape in shapes if shape))


def _times(factor: float, *, inputs: int = 1) -> Callable[[Sequence[Shape]], OperationWork]:
    """Return the rule for what moves so many times the elements of its first inputs."""
    return lambda shapes: OperationWork(elements=factor * sum(prod(shapes[i]) for i in range(inputs)))


def _copy(shapes: Sequence[Shape]) -> OperationWork:
    written, read = shapes[:2]
    return OperationWork(elements=prod(written) + prod(read))


def _of_all(factor: float) -> Callable[[Sequence[Shape]], OperationWork]:
    """Return the rule for what moves so many times the elements of all its inputs."""
    return lambda shapes: OperationWork(elements=factor * sum(prod(shape) for shape in shapes if shape))


def _of_list_or_two(shapes: Sequence[Shape]) -> OperationWork:
    """One list of arrays, or two of the same shapes: the first is read and written, the other one read."""
    arrays = [shape for shape in shapes if shape]
    half = len(arrays) // 2
    two = len(arrays) % 2 == 0 and arrays[:half] == arrays[half:]
    return UNKNOWN if two and half == 1 else _of_all(1.5 if two else 2.0)(arrays)


def _named(*names: str) -> list[str]:
    """Return the names of operations, and of those that change their first input."""
    return [f"{_ATEN}{name}{end}" for name in " ".join(names).split() for end in ("", "_")]


_SDPA = [_ATEN + "_scaled_dot_product_" + kind for kind in ("flash", "efficient", "cudnn")]
PRODUCTS: dict[str, Callable[[Sequence[Shape]], OperationWork]] = {
    _ATEN + "mm": _product(0, _MATRIX),
    _ATEN + "_scaled_mm": _product(0, _MATRIX),
    _ATEN + "_int_mm": _product(0, _MATRIX),
    _ATEN + "bmm": _product(0, _BATCH),
    **dict.fromkeys(_named("addmm _addmm_activation"), _product(1, _MATRIX)),
    **dict.fromkeys(_named("baddbmm"), _product(1, _BATCH)),
    **{f"{name}_attention": _attention(0, 2) for name in _SDPA},
    **{f"{name}_attention_backward": _attention(1, 5) for name in _SDPA},
    # FlashAttention's own package: batch, sequence, heads, width.
    "flash_attn::_flash_attn_forward": _attention(0, 2, heads=2),
    "flash_attn::_flash_attn_backward": _attention(1, 5, heads=2),
}
CONVOLUTION = _ATEN + "convolution"  # of input, weight
CONVOLUTION_BACKWARD = _ATEN + "convolution_backward"  # of gradient, input, weight
_MOVES: dict[str, Callable[[Sequence[Shape]], OperationWork]] = {
    **dict.fromkeys(
        _named(
            "add sub rsub mul div neg exp log sqrt rsqrt pow sin cos abs square reciprocal lerp erf",
            "clamp clamp_min clamp_max maximum minimum addcmul addcdiv hardtanh leaky_relu",
            "tanh sigmoid relu gelu silu threshold_backward gelu_backward silu_backward tanh_backward",
            "sigmoid_backward _softmax _log_softmax",
        ),
        _elementwise,
    ),
    **dict.fromkeys(_named("fill zero normal uniform"), _times(1)),
    _ATEN + "copy_": _copy,
    _ATEN + "_softmax_backward_data": _times(1.5, inputs=2),
    _ATEN + "_log_softmax_backward_data": _times(1.5, inputs=2),
    **dict.fromkeys(_named("native_layer_norm cudnn_batch_norm native_batch_norm"), _times(2)),
    **dict.fromkeys(_named("native_layer_norm_backward native_batch_norm_backward"), _times(1.5, inputs=2)),
    _ATEN + "cudnn_batch_norm_backward": _times(1.5, inputs=2),
    _ATEN + "native_group_norm": _times(2),
    _ATEN + "native_dropout": _times(2.25),  # and a mask
    _ATEN + "sum": _times(1),  # and a smaller output
    _ATEN + "mean": _times(1),
    _ATEN + "cat": _of_all(2),
    **dict.fromkeys(_named("_foreach_sqrt _foreach_neg _foreach_reciprocal _foreach_zero"), _of_all(2)),
    **dict.fromkeys(_named("_foreach_add _foreach_sub _foreach_mul _foreach_div"), _of_list_or_two),
    **dict.fromkeys(_named("_foreach_lerp"), _of_all(1.5)),
    **dict.fromkeys(_named("_foreach_addcmul _foreach_addcdiv"), _of_all(4 / 3)),
    # Parameter and two moments are read and written, the gradient is read.
    **dict.fromkeys([_ATEN + "_fused_adam_", _ATEN + "_fused_adamw_"], _of_all(7 / 4)),
}
