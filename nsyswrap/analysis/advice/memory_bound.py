"""Find kernels that only move data, and could be saved or fused.

They are seen in the order of their stream, whichever thread launched them, from a graph or not. A kernel
belongs to one finding alone: attention comes before updates of parameters, then casts, layout, and chains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.replay import decisive_ns
from nsyswrap.analysis.arrays.groups import ascending, order_by_code
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMSET
from nsyswrap.analysis.kernel_names import classify, readable
from nsyswrap.analysis.names import full_names
from nsyswrap.analysis.occupancy import blocks_at
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import WITHIN_DEVICE
from nsyswrap.capture.stream import in_blocks, looked_up

# What a kernel or copy does. FUSED are elementwise kernels that a compiler made. XLA makes WRAPPED of one
# operation, and LOOP of several, or of one and a number.
OTHER, PRODUCT, ATTENTION, SOFTMAX, NORM, REDUCE, ELEMENTWISE, FUSED, RANDOM, CAST, *_LAYOUT = range(14)
_OF_XLA = WRAPPED, LOOP = range(14, 16)
FOREACH = 16  # a kernel of PyTorch that does one operation on many tensors
JOINED, _COUNT = 17, 18  # a kernel of XLA that concatenates, as for a shift
_CONVERSION, _STRIDED, _CONCATENATION, _CLONE = _LAYOUT
_IN_ATTENTION = (ELEMENTWISE, FUSED, RANDOM, CAST, _STRIDED, _CLONE)  # and a softmax, between two products
_IN_UPDATE = (ELEMENTWISE, REDUCE, CAST, _CLONE)
_IN_CHAIN = (ELEMENTWISE, NORM, CAST)
_LEAST_OF_ADAM, _ADAM = 6, "addcdiv"  # its kernels for a parameter, and one that little else needs
_SAME, _ALIKE = 2, 3  # ratio of elements at most; of times, where a number of elements is unknown
_LEAST_KERNELS, _LEAST_PARAMETERS = 40, 8  # in updates of parameters one by one
_REGULAR = 0.8  # of the kernels of such updates: each parameter has them
_TINY = 10  # times as long are the kernels around one that works on a value for each row
_PAIR = 2  # casts a step, there and back; and copies
_ROUNDED, _NO_SIZE = 1024, np.iinfo(np.int64).max  # elements by which equal sizes can differ; larger than any
_MOST = 2**20  # arrays, and elements of a block: a name can say anything
_THREADS = 128  # in a block of PyTorch's elementwise kernels

_OF_TRITON = {
    "gemm": PRODUCT,
    "attention": ATTENTION,
    "softmax": SOFTMAX,
    **dict.fromkeys(("elementwise", "copy"), FUSED),
}
_OF_CLASS = {**_OF_TRITON, "norm": NORM, "reduce": REDUCE, "rng": RANDOM, "elementwise": OTHER}
_SOURCES = {
    "layout_copies": "cuda_gpu_sum",
    **dict.fromkeys(("unfused_attention", "elementwise_chains"), "cuda_gpu_trace"),
}
_TRAINS = regex(r"[Bb]ackward|_bwd|_bprop|dgrad|wgrad|multi_tensor_apply|(?<![Hh])[Aa]dam")
# The first truth value after the types of the warp template says whether it takes the logarithm.
_LOG_SOFTMAX = regex(r"[Ll]og_?[Ss]oft|softmax_warp_\w+<(?:[^,<]+, ){4}(?:\(bool\))?[1t]")
_WRAPPED = regex(
    "wrapped_(?:add|subtract|multiply|divide|maximum|minimum|power|remainder|negate|abs|exponential|log|tanh"
    "|logistic|sqrt|rsqrt|cbrt|sine|cosine|tan|atan2|erf|select|compare|and|or|xor|not|clamp|sign|floor|ceil)"
    r"(?![a-z])"
)
_JOINING = "input_concatenate_fusion"
_CONVERTS = regex(r"nchw_?to_?nhwc|nhwc_?to_?nchw|convertTensor", re.IGNORECASE)
_ARRAYS = regex(r"(?:std::array|at::detail::Array)<char \*, (?:\([a-z ]+\))?(\d{1,9})")
# What functions such as torch._foreach_mul_ run, with the number of arrays that it reads; not fused ones.
_FOREACH = regex(
    r"::(?:Unary|Binary|Pointwise|Ternary)Op\w*Functor<[\w:]+, (?:\(int\))?\d, (?:\(int\))?(\d),"
)
_SIZES = regex(r"elementwise_kernel(?:_manual_unroll)?<(?:\(int\))?(\d{1,9}), (?:\(int\))?(\d{1,9})")


def _role(name: str) -> int:
    """Return what a kernel does, by its name."""
    kind = classify(name)
    if name.startswith("triton_"):
        return _OF_TRITON.get(kind, OTHER)
    if kind == "softmax" and _LOG_SOFTMAX.search(name):
        return OTHER
    if kind == "copy":
        return _role_of_copy(name)
    if name.startswith(("wrapped_", "loop_", _JOINING)):
        return _role_of_xla(name) if kind == "elementwise" or name.startswith(_JOINING) else OTHER
    pytorch = "at::native::" in name or "cudnn::" in name
    if kind == "elementwise" and pytorch:
        return FOREACH if _FOREACH.search(name) else OTHER if "multi_tensor_apply" in name else ELEMENTWISE
    return _OF_CLASS.get(kind, OTHER) if pytorch or kind not in ("norm", "reduce") else OTHER


def _role_of_xla(name: str) -> int:
    if name.startswith(_JOINING):
        return JOINED
    return WRAPPED if _WRAPPED.match(name) else LOOP if name.startswith("loop_") else OTHER


def _role_of_copy(name: str) -> int:
    if _CONVERTS.search(name):
        return _CONVERSION
    if "CatArrayBatchedCopy" in name:
        return _CONCATENATION
    if "elementwise_kernel<" not in name or "_copy_kernel_cuda" not in name:
        return OTHER
    if "direct_copy" not in name or "WithCast" in name or "gpu_kernel_impl<" in name:
        return CAST
    return _STRIDED if "gpu_kernel_impl_nocast<" in name else _CLONE


def _elements_of_block(name: str) -> int:
    """Return the number of elements of a block of PyTorch's elementwise kernels; 0 if not known.

    Blocks of XLA's kernels count as one: they tell whether sizes are equal.
    """
    if name.startswith(("wrapped_", "loop_")):
        return 1
    if "unrolled_elementwise_kernel<" in name:
        return 4 * _THREADS
    if "vectorized_elementwise_kernel<" in name:  # older releases name their arrays at::detail::Array
        return (8 if "std::array<" in name else 4) * _THREADS
    sizes = _SIZES.search(name)
    return min(int(sizes[1]) * int(sizes[2]), _MOST) if sizes else 0


def _arrays(name: str) -> int:
    """Return the number of arrays that a kernel reads and writes, two inputs and an output if not known.

    Strided kernels mostly combine an array with values of rows or columns, and XLA's loops with a number.
    """
    if foreach := _FOREACH.search(name):
        return int(foreach[1]) + 1
    if name.startswith(("loop_", _JOINING)):
        return 2
    arrays = _ARRAYS.search(name)
    if arrays:
        return min(max(int(arrays[1]), 1), _MOST)
    return 2 if _SIZES.search(name) else 3


@per_capture
def _roles(whole: Capture) -> NDArray[Any]:
    """Return the role of each name."""
    return np.array(list(map(_role, full_names(whole)[1])), np.int8)


@per_capture
def _block_elements(whole: Capture) -> NDArray[Any]:
    """Return the number of elements of a block of each name; 0 if it is not known."""
    sized = _roles(whole), (ELEMENTWISE, CAST, _STRIDED, _CLONE, *_OF_XLA)
    return _of_texts(whole, _elements_of_block, np.isin(*sized), 0)


@per_capture
def _array_counts(whole: Capture) -> NDArray[Any]:
    """Return the number of arrays of each name."""
    return _of_texts(whole, _arrays, np.isin(_roles(whole), (*_IN_CHAIN, *_OF_XLA, FOREACH, JOINED)), 1)


def _of_texts(
    whole: Capture, read: Callable[[str], int], chosen: NDArray[Any], otherwise: int
) -> NDArray[Any]:
    texts = zip(full_names(whole)[1], chosen.tolist(), strict=True)
    return np.array([read(text) if known else otherwise for text, known in texts], np.int32)


class _Work:
    """Kernels and copies of the typical steps in the order of their streams, a row each.

    ``row`` is the position in the operations of the part. ``free`` marks the rows that belong to no finding.
    ``updates`` is True if some update parameters one by one. What few checks need is computed for the rows
    that they ask for: an array of all rows takes longer to make than to use.
    """

    def __init__(self, context: AdviceContext) -> None:
        self._context, operations = context, context.operations
        chosen = (operations.kind != KINDS.index(MEMSET)) & ~operations.migration
        row = np.flatnonzero(chosen & context.typical.holds(operations.start_ns))
        kernels = np.flatnonzero(operations.kind[row] == KINDS.index(KERNEL))
        order = order_by_code(operations.stream[row], len(operations.streams.stream_id))
        role = np.zeros(len(row), np.int8)
        if len(kernels):
            role[kernels] = looked_up(_roles(context.capture.whole), context.kernels.code)
        role[np.searchsorted(row, _clones(context))] = _CLONE
        number = np.full(len(row), -1, np.int32)  # among the kernels of the context
        number[kernels] = np.arange(len(kernels), dtype=np.int32)
        self.row, self.role, self._number = row[order], role[order], number[order]
        self.free, self.updates = ~context.claimed[self.row], False

    def name(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the number of the name of each of these rows, -1 for copies."""
        code, name = self._context.kernels.code, self._number[rows]
        if len(code):
            name = np.where(name < 0, np.int32(-1), code.take(name, mode="clip"))
        return name  # type: ignore[no-any-return]

    def elements(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the number of elements of each of these rows; 0 if it is not known, as for copies."""
        elements: NDArray[Any] = self._of_names(_block_elements, rows, 0).astype(np.int64)
        known = np.flatnonzero(elements)
        table = self._context.operations.row[self.row[rows[known]]]
        elements[known] *= blocks_at(self._context.capture.whole, table)
        return elements

    def arrays(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the number of arrays that each of these rows reads and writes."""
        return self._of_names(_array_counts, rows, 1)

    def stream_step(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the number of the stream and step of each of these rows."""
        operations, steps = self._context.operations, self._context.judged.steps
        rows = self.row[rows]
        stream: NDArray[Any] = operations.stream[rows]
        if not steps.has_steady:
            return stream
        step = np.searchsorted(steps.start_ns, operations.start_ns[rows], "right")
        return stream.astype(np.int64) * (len(steps) + 1) + step  # type: ignore[no-any-return]

    @cached_property
    def ns(self) -> NDArray[Any]:
        """The duration of each row."""
        return self._context.duration_ns(self.row)

    def between_ns(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return the time from the end of each of these rows to the start of another one."""
        operations = self._context.operations
        return operations.start_ns[self.row[second]] - operations.end_ns[self.row[first]]  # type: ignore[no-any-return]

    def named(self, text: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Mark those of these rows that are kernels whose name has this text."""
        known = np.array([text in name for name in self._context.kernels.names] + [False])
        return known[self.name(rows)]  # type: ignore[no-any-return]

    def marked(self, *roles: int) -> NDArray[Any]:
        """Mark the rows of these roles."""
        known = np.zeros(_COUNT, bool)
        known[list(roles)] = True
        return looked_up(known, self.role)

    def _of_names(
        self, column: Callable[[Capture], NDArray[Any]], rows: NDArray[Any], of_copies: int
    ) -> NDArray[Any]:
        """Return a column of the names for each of these rows."""
        values = column(self._context.capture.whole) if len(self._context.kernels.code) else np.empty(0, int)
        return np.append(values, of_copies)[self.name(rows)]  # type: ignore[no-any-return]


def _clones(context: AdviceContext) -> NDArray[Any]:
    """Return the positions of the copies inside a GPU in the typical time."""
    copies = context.copies.rows[context.copies.kind == WITHIN_DEVICE]
    return copies[context.typical.holds(context.operations.start_ns[copies])]  # type: ignore[no-any-return]


def memory_bound(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding for each kind of data movement that takes much time; a kernel counts in one of them.

    Kernels are put into order only if those that a check is about take enough time.
    """
    # The time of the kernels and copies of each role.
    total_ns = np.zeros(_COUNT)
    if len(context.kernels.rows):
        total_ns += np.bincount(_roles(context.capture.whole), context.kernels.total_ns, len(total_ns))
    total_ns[_CLONE] += context.duration_ns(_clones(context)).sum()
    checks = [check for check, roles in _ROLES.items() if context.worth(int(total_ns[list(roles)].sum()))]
    if checks:
        work = _Work(context)
        for check in checks:
            yield from check(context, work)


def _attention(context: AdviceContext, work: _Work) -> Iterator[Finding]:
    """Yield a finding on softmaxes between two products, with elementwise kernels around them alone.

    Several softmaxes in a row count as one. Copies of the heads next to the products go with a fused kernel,
    too. That it makes products without reading or writing scores is not counted.
    """
    others = np.flatnonzero(~work.marked(*_IN_ATTENTION))
    softmax = work.role[others] == SOFTMAX
    others = others[~softmax | ~np.append(False, softmax[:-1])]
    at = np.flatnonzero(work.role[others[1:-1]] == SOFTMAX) + 1
    before, after = others[at - 1], others[at + 1]
    products = (work.role[before] == PRODUCT) & (work.role[after] == PRODUCT)
    products &= np.diff(context.operations.stream[work.row[np.stack([before, after])]], axis=0)[0] == 0
    edges = np.zeros(len(work.row) + 1, np.int8)
    edges[before[products] + 1] = 1
    edges[after[products]] -= 1
    inside = np.cumsum(edges[:-1]) > 0
    beside = _copies_of_heads(work, before[products], -1) | _copies_of_heads(work, after[products], 1)
    softmaxes = int(np.count_nonzero(products))
    yield from _finding(context, work, "unfused_attention", inside | beside, softmaxes=softmaxes)


def _copies_of_heads(work: _Work, products: NDArray[Any], way: int) -> NDArray[Any]:
    """Mark the copies next to products, before them if ``way`` is -1: fused kernels read heads as they lie.

    In a backward, two products are next to each other.
    """
    marks, copies = np.zeros(len(work.row), bool), work.marked(_STRIDED, _CLONE)
    at = _next(work, products, way)
    second = work.role[at] == PRODUCT
    at = np.append(at[~second], _next(work, at[second], way))
    while len(at := at[copies[at]]):
        marks[at] = True
        at = _next(work, at, way)
    return marks


def _next(work: _Work, rows: NDArray[Any], way: int) -> NDArray[Any]:
    """Return the rows after these, before them if ``way`` is -1, that are in the same stream and step."""
    rows = rows[(rows + way >= 0) & (rows + way < len(work.row))]
    return rows[work.stream_step(rows) == work.stream_step(rows + way)] + way  # type: ignore[no-any-return]


def _updates(context: AdviceContext, work: _Work) -> Iterator[Finding]:
    """Yield a finding on parameters updated one by one, or all of them by one operation after the other.

    One pass saves what each kernel writes and the next one of the same parameter reads.
    """
    marks, (passes, saved_of_passes) = _one_by_one(work), _passes(work)
    foreach_ns, total_ns = int(work.ns[passes].sum()), int(work.ns[marks | passes].sum())
    if not context.worth(total_ns):
        return
    saved = _saved_ns(work, *_neighbors(work, marks))
    of_foreach = {"foreach": True} if 2 * foreach_ns > total_ns else {}
    share = (saved + saved_of_passes) / total_ns
    found = list(_finding(context, work, "parameter_updates", marks | passes, share=share, **of_foreach))
    work.updates = bool(found)
    yield from found


def _passes(work: _Work) -> tuple[NDArray[Any], float]:
    """Mark kernels of operations on many tensors, one operation after the other; return what one pass saves.

    A pass over large tensors is several launches.
    """
    rows, marks = np.flatnonzero(work.marked(FOREACH) & work.free), np.zeros(len(work.row), bool)
    if not len(rows):
        return marks, 0.0
    apart = (np.diff(rows) != 1) | (np.diff(work.stream_step(rows)) != 0)
    first = np.flatnonzero(np.append(True, apart | (np.diff(work.name(rows)) != 0)))
    ns = np.add.reduceat(work.ns[rows], first)
    alike = np.maximum(ns[1:], ns[:-1]) <= _ALIKE * np.minimum(ns[1:], ns[:-1])
    linked = alike & ~apart[first[1:] - 1]
    an_array = ns / work.arrays(rows[first])
    used = np.append(linked, False) | np.append(False, linked)
    marks[rows[np.repeat(used, np.diff(np.append(first, len(rows))))]] = True
    return marks, float(an_array[:-1][linked].sum() + an_array[1:][linked].sum())


def _one_by_one(work: _Work) -> NDArray[Any]:
    """Mark bursts in which the same kernels run for one parameter after the other, or those of Adam for few.

    Beside products, which parameters are for, their sizes may be equal; elsewhere neighbors mostly differ.
    """
    marks = np.zeros(len(work.row), bool)
    rows = np.flatnonzero(work.marked(*_IN_UPDATE) & work.free)
    apart = (np.diff(rows) != 1) | (np.diff(work.stream_step(rows)) != 0)
    burst = np.cumsum(np.append(0, apart))[: len(rows)]
    adam = np.bincount(burst, work.named(_ADAM, rows)) > 0
    kernels = np.bincount(burst)
    long = ((kernels >= _LEAST_KERNELS) | (adam & (kernels >= _LEAST_OF_ADAM)))[burst]
    rows, burst = rows[long], burst[long]
    if not len(rows):
        return marks
    names = work.name(rows)
    name = burst * (int(names.max()) + 2) + names + 1
    _, which, times = np.unique(name, return_inverse=True, return_counts=True)
    regular = np.bincount(burst, times[which] >= _LEAST_PARAMETERS) >= _REGULAR * np.bincount(burst)
    size = work.elements(rows)
    size, of_burst = size[size > 0], burst[size > 0]
    changes = of_burst[1:][(np.diff(size) != 0) & (np.diff(of_burst) == 0)]
    if not (work.role == PRODUCT).any():
        regular &= np.bincount(changes, minlength=len(regular)) >= _LEAST_PARAMETERS - 1
    marks[rows[(regular | adam[: len(regular)])[burst]]] = True
    return marks


def _casts(context: AdviceContext, work: _Work) -> Iterator[Finding]:
    """Yield a finding on casts, in training on those of activations, which other kernels are as large as.

    Those of weights stay in training: autocast keeps weights in FP32, and casts their gradients back.
    Elsewhere the weights could be cast once.
    """
    marks = work.marked(CAST) & work.free
    if not context.worth(int(work.ns[marks].sum())):
        return
    # Kernels with names of training.
    named = zip(context.kernels.names, context.kernels.total_ns.tolist(), strict=True)
    trains = work.updates or any(total and _TRAINS.search(name) for name, total in named)
    if trains:
        known = ascending(work.elements(np.flatnonzero(work.marked(ELEMENTWISE) & work.free)))
        known = known[known > 0]
        size = work.elements(np.flatnonzero(marks))
        near = np.searchsorted(known, size - _ROUNDED)
        marks[marks] = np.append(known, _NO_SIZE)[near] <= size + _ROUNDED
        if np.count_nonzero(marks) < _PAIR * np.count_nonzero(context.judged.steps.steady):
            return
    yield from _finding(context, work, "casts", marks, trains=trains)


def _layout(context: AdviceContext, work: _Work) -> Iterator[Finding]:
    """Yield a finding on copies inside the GPU: conversions of the layout, strided ones, and clones.

    Strided copies beside attention split and join its heads, which libraries do, and one copy a step is part
    of an operation such as sorting.
    """
    attends = ((work.role == ATTENTION) | (work.role == SOFTMAX)).any()
    clones = int(np.count_nonzero(work.role == _CLONE))
    few = clones < _PAIR * np.count_nonzero(context.judged.steps.steady)
    left_out = {one for one, out in ((_STRIDED, attends), (_CLONE, few)) if out}
    marks = work.marked(*(one for one in _LAYOUT if one not in left_out)) & work.free
    kinds = ("conversions_ns", "strided_ns", "concatenations_ns", "clones_ns")
    times = np.bincount(work.role[marks], work.ns[marks], minlength=_COUNT)[_LAYOUT].astype(int).tolist()
    yield from _finding(context, work, "layout_copies", marks, **dict(zip(kinds, times, strict=True)))


def _chains(context: AdviceContext, work: _Work) -> Iterator[Finding]:
    """Yield a finding on kernels back to back that move the same elements, which one kernel could do.

    It saves what each of them writes and the next one reads.
    """
    first, second = _linked(work, of_xla=_calls_operations(context, work))
    if not len(first):
        return
    marks = np.zeros(len(work.row), bool)
    marks[first] = marks[second] = True
    rows = np.flatnonzero(marks)
    saved = _saved_ns(work, first, second)
    begin = np.flatnonzero(~np.isin(rows, second))
    end = np.append(begin[1:], len(rows))
    costliest = int(np.add.reduceat(work.ns[rows], begin).argmax())
    names = work.name(rows[begin[costliest] : end[costliest]])
    texts = [context.kernels.names[name] for name in names.tolist()]
    yield from _finding(
        context,
        work,
        "elementwise_chains",
        marks,
        share=saved / int(work.ns[rows].sum()),
        chains=len(begin),
        names=tuple(map(readable, texts)),
    )


def _calls_operations(context: AdviceContext, work: _Work) -> bool:
    """Return True if a program calls XLA's operations one by one: a kernel of one runs twice in each step.

    A compiled program names each of its kernels otherwise, and has what it could fuse fused.
    """
    wrapped = work.name(np.flatnonzero(work.marked(WRAPPED)))
    steps = len(context.judged.typical[0]) if context.judged.steps.has_steady else 0
    return bool(steps and len(wrapped) and np.bincount(wrapped).max() >= 2 * steps)


def _linked(work: _Work, *, of_xla: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows that form a chain with a next row, and these: neither is shorter than the gap between.

    Kernels of XLA do ``of_xla``, if one of the two is a single operation. A reduction does between kernels of
    as many elements, as that of a norm: the second one reads again what the first one wrote, or read.
    """
    can = work.marked(*_IN_CHAIN, REDUCE) & work.free
    kept = np.flatnonzero(~_tiny(work, can))
    first, second = kept[:-1], kept[1:]
    linked = can[first] & can[second]
    if of_xla:
        can, one = work.marked(*_OF_XLA, JOINED) & work.free, work.marked(WRAPPED, JOINED)
        linked |= can[first] & can[second] & (one[first] | one[second])
    pairs = np.flatnonzero(linked)  # each further look is at fewer of them
    here, there = first[pairs], second[pairs]
    norms = work.marked(NORM)  # one that another follows makes its statistics of all elements first
    norms = norms[here].astype(np.int8) + norms[there]
    close = (norms == 0) | ((norms == 1) & (there == here + 1))
    close &= work.stream_step(here) == work.stream_step(there)
    idle = work.between_ns(here, there)
    pairs = pairs[close & (idle >= 0) & (idle <= np.minimum(work.ns[here], work.ns[there]))]
    at = pairs[:-1][np.diff(pairs) == 1]
    at = at[work.role[second[at]] == REDUCE]
    at = at[_reduced_between(work, first[at], second[at], second[at + 1])]
    pairs = pairs[(work.role[first[pairs]] != REDUCE) & (work.role[second[pairs]] != REDUCE)]
    pairs = pairs[_alike(work, first[pairs], second[pairs])]
    pairs = ascending(np.concatenate((pairs, at, at + 1)))
    return first[pairs], second[pairs]


def _tiny(work: _Work, can: NDArray[Any]) -> NDArray[Any]:
    """Mark the rows, one or two in a row, between others that can be in a chain and are much longer.

    One that reads nothing, as that of the first gradient, is between a loss and its backward.
    """
    ns = np.zeros(len(can) + 4, np.int64)
    np.multiply(work.ns, can, out=ns[2:-2])

    def tiny(block: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        may, *times = block.values()
        around = np.minimum(np.maximum(*times[:2]), np.maximum(*times[3:]))
        return {"": may & (_TINY * times[2] <= around)}

    shifted = {str(place): ns[place : place + len(can)] for place in range(5)}
    marks = in_blocks({"may": can, **shifted}, tiny)[""]
    marked = np.flatnonzero(marks)
    marks[marked] = work.arrays(marked) > 1
    return marks


def _reduced_between(
    work: _Work, before: NDArray[Any], reduction: NDArray[Any], after: NDArray[Any]
) -> NDArray[Any]:
    """Return whether reductions read about as many elements as the elementwise rows around them have."""
    elementwise = (work.role[before] == ELEMENTWISE) & (work.role[after] == ELEMENTWISE)
    ns, ns_before = work.ns[reduction], work.ns[before]
    reads_all = (_ALIKE * ns >= ns_before / work.arrays(before)) & (ns <= _ALIKE * ns_before)
    return elementwise & reads_all & _alike(work, before, after)  # type: ignore[no-any-return]


def _alike(work: _Work, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return whether each of two rows have about as many elements; where unknown, take about as long."""
    elements, ns = (
        [work.elements(rows) for rows in (first, second)],
        [work.ns[rows] for rows in (first, second)],
    )
    few, many = np.minimum(*elements), np.maximum(*elements)
    alike: NDArray[Any] = np.where(few > 0, many <= _SAME * few, np.maximum(*ns) <= _ALIKE * np.minimum(*ns))
    return alike


def _neighbors(work: _Work, marks: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the marked rows that another kernel follows with about as many elements, and these next rows.

    One that follows itself is at another array.
    """
    at = np.flatnonzero(marks[1:] & marks[:-1])
    at = at[(work.stream_step(at) == work.stream_step(at + 1)) & (work.name(at) != work.name(at + 1))]
    at = at[_alike(work, at, at + 1)]
    return at, at + 1


def _saved_ns(work: _Work, first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the time of writing what the other row of a pair then reads, and of reading it."""
    # An array for each neighbor.
    return sum(float((work.ns[rows] / np.maximum(work.arrays(rows), 2)).sum()) for rows in (first, second))


def _finding(
    context: AdviceContext,
    work: _Work,
    kind: FindingKind,
    marks: NDArray[Any],
    *,
    share: float = 1.0,
    **numbers: Any,
) -> Iterator[Finding]:
    """Yield a finding on these rows if they are worth one; then they are not free any more.

    ``share`` is the part of their time that the cure saves: an estimate, as it makes other kernels faster or
    slower, too. Measured cures of attention, casts and copies saved 0.9 to 1.1 times as much.
    """
    took = int(work.ns[marks].sum())
    if not context.worth(int(share * took)):
        return
    decisive = decisive_ns(context, work.row[marks])
    if not context.worth(int(share * decisive)):
        return
    work.free[marks] = False
    context.claim(work.row[marks])
    yield context.finding(
        kind,
        context.running(work.row[marks]),
        _SOURCES.get(kind, "cuda_gpu_kern_sum"),
        ceiling_ns=int(share * decisive),
        status="estimate",
        kernels=int(np.count_nonzero(marks)),
        kernels_ns=took,
        **numbers,
    )


CHECKS = (memory_bound,)
# The roles of the rows that each finding can be about, in the order in which rows are given to findings.
_ROLES = {
    _attention: (SOFTMAX, *_IN_ATTENTION),
    _updates: (*_IN_UPDATE, FOREACH),
    _casts: (CAST,),
    _layout: _LAYOUT,
    _chains: (*_IN_CHAIN, *_OF_XLA, JOINED),  # reductions come between these
}
