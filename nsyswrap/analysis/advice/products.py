"""Find kernels whose arithmetic costs more than it has to, and tell what is worth a kernel profiler.

What a name does not say is never claimed. Kernels with few blocks are left out: they cannot reach the rates
that savings are estimated by, and have a finding of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.replay import decisive_ns
from nsyswrap.analysis.arrays.groups import quantiles
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.kernel_names.arithmetic import CUDA_CORE, TENSOR_CORE, arithmetic, unit_of
from nsyswrap.analysis.occupancy import blocks_at, multiprocessors
from nsyswrap.analysis.peaks import tf32_over_fp64, tf32_speedup
from nsyswrap.analysis.program_language import framework_of
from nsyswrap.base.lazy import regex

_PRODUCTS = ("gemm", "convolution")
_WITH_CORES = (*_PRODUCTS, "attention")
_FEW = 0.5  # blocks for each multiprocessor
_ALIGNED_BYTES = 16  # what one load of a thread takes at most
_BYTES = {"f64": 8, "tf32": 4, "f32": 4, "f16": 2, "bf16": 2, "f8": 1, "i8": 1}
# Kernels of cuSOLVER and MAGMA that factor matrices or solve with factors, in FP64.
_FACTORS = regex(r"(?:potr|potf|getr|geqr|[ou][rn]gqr|larf|sytr|syev|gesv|trs[mv]_)")
_FP64_SAVES = 0.5  # of the time of kernels that memory limits: FP32 is half of the bytes
_ONE_KERNEL_PERCENT = 30.0  # of the time judged
_SAME_PERCENT = 5.0  # of the time judged: kernels with less are not looked at for drift
_LEAST_STEPS, _LEAST_LAUNCHES = 15, 100  # for thirds, and for a 99th percentile
_DRIFTS, _VARIES, _LONG = 0.1, 2.0, 1.5  # change of the median, and multiples of it
_VARIES_PERCENT = 1.0  # of the time judged that long launches take more than usual


def fp32_products(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if products or convolutions of FP32 do not use tensor cores, which have TF32."""
    speedup = tf32_speedup(context.capture.whole)
    if speedup is not None and speedup <= 1:
        return
    saves = None if speedup is None else lambda _: 1 - 1 / speedup
    yield from _costly(context, "fp32_products", _is_fp32_product, saves)


def fp64_kernels(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if kernels compute in FP64 although the framework computes in FP32 by default."""
    if framework_of(context.capture.whole):
        of_products = 1 - 1 / (tf32_over_fp64(context.capture.whole) or _BYTES["f64"] / _BYTES["f32"])
        yield from _costly(
            context,
            "fp64_kernels",
            _is_fp64,
            lambda name: of_products if _is_product(name) else _FP64_SAVES,
            unless=_wants_fp64,
        )


def _wants_fp64(context: AdviceContext) -> bool:
    """Return True if the program chooses its types itself, or factors matrices: FP32 has too few digits."""
    if not framework_of(context.capture.whole):
        return True
    _, _, names, total_ns = context.kernels
    used = (name for name, ns in zip(names, total_ns, strict=True) if ns and "double" in name)
    return any(map(_FACTORS.search, used))


def misaligned_products(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if products on tensor cores load less than 16 bytes at a time."""
    yield from _costly(context, "misaligned_products", _is_misaligned, None)


def _is_product(name: str) -> bool:
    """Return True for a product that memory does not limit."""
    kind = classify(name)
    return kind in _PRODUCTS and unit_of(name, kind) in (CUDA_CORE, TENSOR_CORE)


def _is_fp32_product(name: str) -> bool:
    kind = classify(name)
    cuda_cores = kind in _PRODUCTS and unit_of(name, kind) == CUDA_CORE
    return cuda_cores and arithmetic(name).input_type == "f32"


def _is_fp64(name: str) -> bool:
    return ("double" in name or "64" in name or "gemm" in name) and arithmetic(name).input_type == "f64"


def _is_misaligned(name: str) -> bool:
    if classify(name) not in _PRODUCTS or "tensorop" not in name:
        return False
    read = arithmetic(name)
    size = read.alignment * _BYTES.get(read.input_type, _ALIGNED_BYTES)
    return bool(read.tensor_cores) and read.input_type != "f64" and 0 < size < _ALIGNED_BYTES


def _costly(
    context: AdviceContext,
    kind: FindingKind,
    matches: Callable[[str], bool],
    saves: Callable[[str], float] | None,
    *,
    unless: Callable[[AdviceContext], bool] = lambda _: False,
) -> Iterator[Finding]:
    """Yield a finding about the kernels whose name matches; ``saves`` is the part of its time."""
    rows = _kernels(context, matches)
    if not len(rows) or unless(context):
        return
    by_name = context.by_name(rows)
    took = sum(by_name.values())
    saved = took if saves is None else sum(ns * saves(name) for name, ns in by_name.items())
    ceiling = int(decisive_ns(context, rows) * saved / took)
    if not context.worth(ceiling):
        return
    context.claim(rows)
    yield context.finding(
        kind,
        context.running(rows),
        "cuda_gpu_kern_sum",
        ceiling_ns=ceiling,
        status="unknown" if saves is None else "estimate",
        kernels=len(rows),
        kernels_ns=took,
        longest_kernel=max(by_name, key=lambda name: by_name[name]),
    )


def _kernels(context: AdviceContext, matches: Callable[[str], bool]) -> NDArray[Any]:
    """Return the positions of the kernels whose name matches; none if they take too little time.

    Names are read with the most time first, until what is left cannot make it enough.
    """
    named = context.kernels
    chosen, known, left = np.zeros(len(named.names), bool), 0, int(named.total_ns.sum())
    order = np.argsort(-named.total_ns, kind="stable")
    for code, took in zip(order.tolist(), named.total_ns[order].astype(np.int64).tolist(), strict=True):
        if not took or not context.worth(known + left):
            break
        left -= took
        if matches(named.names[code]):
            chosen[code] = True
            known += took
    if not context.worth(known):
        return named.rows[:0]
    rows: NDArray[Any] = named.rows[chosen[named.code]]
    if (count := multiprocessors(context.capture.whole)) is not None:
        rows = rows[blocks_at(context.capture.whole, context.operations.row[rows]) >= _FEW * count]
    free: NDArray[Any] = rows[~context.claimed[rows]]
    return free


def fp64_fact(context: AdviceContext) -> Iterator[Finding]:
    """Yield the share of FP64 kernels in programs that seem to want them."""
    if len(rows := _kernels(context, _is_fp64)) and _wants_fp64(context):
        yield context.fact("uses_fp64", context.running(rows), "cuda_gpu_kern_sum")


def unknown_products(context: AdviceContext) -> Iterator[Finding]:
    """Yield the share of products whose names do not tell whether they use tensor cores."""
    if len(rows := _kernels(context, _is_unknown)):
        yield context.fact("unknown_products", context.running(rows), "cuda_gpu_kern_sum")


def _is_unknown(name: str) -> bool:
    return classify(name) in _WITH_CORES and arithmetic(name).tensor_cores is None


def one_kernel(context: AdviceContext) -> Iterator[Finding]:
    """Yield the kernel that takes most of the time judged, if it takes more than 30 %."""
    named = context.kernels
    worst = int(named.total_ns.argmax()) if len(named.rows) else 0
    if 100.0 * named.total_ns[worst : worst + 1].sum() > _ONE_KERNEL_PERCENT * context.window_ns:
        cover = context.running(named.rows[named.code == worst])
        fact = context.fact("one_kernel", cover, "cuda_gpu_kern_sum", kernel=named.names[worst])
        if named.names[worst] and (fact.time_percent or 0.0) > _ONE_KERNEL_PERCENT:
            yield fact


def uneven_kernels(context: AdviceContext) -> Iterator[Finding]:
    """Yield the kernel that becomes slower or faster most, and the one with the longest long launches.

    Launches are compared with those at the same place in other steps, with as many blocks: they do the same.
    """
    named, found = context.kernels, dict[FindingKind, tuple[float, Finding]]()
    worst = np.argsort(-named.total_ns, kind="stable")
    for code in worst[100.0 * named.total_ns[worst] >= _SAME_PERCENT * context.window_ns].tolist():
        rows = named.rows[named.code == code]
        launches = _by_step(context, rows)
        if launches is None or not named.names[code]:
            continue
        for fact, weight in _uneven(context, named.names[code], rows, launches):
            if weight > found.get(fact.kind, (0.0,))[0]:
                found[fact.kind] = weight, fact
    yield from (fact for _, fact in found.values())


def _by_step(context: AdviceContext, rows: NDArray[Any]) -> NDArray[Any] | None:
    """Return the durations of a kernel by step and place in it; None if the steps differ in its launches."""
    steps = len(context.judged.typical[0])
    if not context.judged.steps.has_steady or steps < _LEAST_STEPS or len(rows) % steps:
        return None
    each = len(rows) // steps
    step = np.searchsorted(context.judged.typical[0], context.operations.start_ns[rows], "right") - 1
    if (step != np.repeat(np.arange(steps), each)).any():
        return None
    blocks = blocks_at(context.capture.whole, context.operations.row[rows]).reshape(steps, each)
    return context.duration_ns(rows).reshape(steps, each) if (blocks == blocks[0]).all() else None


def _uneven(
    context: AdviceContext, name: str, rows: NDArray[Any], took: NDArray[Any]
) -> Iterator[tuple[Finding, float]]:
    """Yield the facts about a kernel, each with its weight. ``took`` are the durations by step."""
    usual = np.maximum(np.median(took, axis=0), 1.0)
    relative = took / usual
    first, _, last = (quantiles(third, (0.25, 0.5, 0.75)) for third in np.array_split(relative, 3))
    cover, source = context.running(rows), "cuda_kern_exec_trace"
    median, change = float(np.median(took)), float(last[1] / max(first[1], 1e-9) - 1)
    if abs(change) >= _DRIFTS and (first[2] < last[0] or last[2] < first[0]):  # half of each third lies apart
        numbers = {"kernel": name, "first_ns": float(first[1]) * median, "last_ns": float(last[1]) * median}
        yield context.fact("kernel_drifts", cover, source, **numbers), abs(change) * float(took.sum())
    more = float(((relative - 1) * usual)[relative >= _LONG].sum())
    slowest = float(quantiles(relative, (0.99,))[0])
    much = 100.0 * more >= _VARIES_PERCENT * context.window_ns
    if much and took.size >= _LEAST_LAUNCHES and slowest >= _VARIES:
        numbers = {"kernel": name, "median_ns": median, "p99_ns": slowest * median}
        yield context.fact("kernel_varies", cover, source, **numbers), more


CHECKS = (fp64_kernels, fp32_products, misaligned_products)
FACTS = (fp64_fact, unknown_products, one_kernel, uneven_kernels)
