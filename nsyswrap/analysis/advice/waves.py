"""Find kernels whose blocks leave multiprocessors idle: few blocks, or a last wave of few.

Where counters were sampled, tell how active multiprocessors, tensor cores and DRAM were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.blockers import blocked
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.replay import decisive_ns
from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_counters import LEAST_ELSEWHERE, busy_counters
from nsyswrap.analysis.gpu_operations import KERNEL, GpuOperations, communicating
from nsyswrap.analysis.kernel_names import OTHER
from nsyswrap.analysis.names import kernel_classes
from nsyswrap.analysis.occupancy import blocks_at, multiprocessors, occupancy_of
from nsyswrap.analysis.packed import packed_names
from nsyswrap.base.lazy import regex
from nsyswrap.capture.intervals import NOTHING
from nsyswrap.capture.stream import looked_up

PRODUCTS = ("gemm", "convolution", "attention")
_COMPUTING = (*PRODUCTS, "fft", OTHER)  # classes of kernels that memory need not limit
# What distributes its blocks itself, and what memory limits: gemv, and kernels of PyTorch and CUB.
_WITHOUT_WAVES = regex(r"persistent|stream_?k|gemv|at::native|\bcub::|thrust::", re.IGNORECASE)
_MOST = 0.9  # of the multiprocessors: products with more blocks leave the others idle on purpose
_WAVES = 3  # at most: the last one of more costs little
_MOST_RESIDENT = 32  # blocks on a multiprocessor
_BLOCK = 2**16  # kernels at a time, so that intermediate arrays stay in the CPU cache


def few_blocks(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if kernels have fewer blocks than the GPU has multiprocessors."""
    found = _with_few_blocks(context)
    if found is None:
        return
    rows, unused, numbers = found
    marks = context.marks(rows)
    held_up = blocked(context, marks, context.running(context.operations.computes & ~marks))
    numbers |= {} if held_up.get("same_stream", True) else held_up
    yield context.finding(
        "few_blocks", NOTHING, "cuda_gpu_kern_gb_sum", ceiling_ns=unused, status="estimate", **numbers
    )


def _with_few_blocks(context: AdviceContext) -> tuple[NDArray[Any], int, dict[str, Any]] | None:
    """Return the positions of kernels with few blocks, what they leave unused in ns, and the numbers on them.

    None if that is not worth a finding. Kernels that launching limits do not count, nor products that leave a
    few multiprocessors to others on purpose.
    """
    count = multiprocessors(context.capture.whole)
    chosen = context.long_kernels
    kernels = context.operations.of(chosen)
    if not len(kernels) or count is None:
        return None
    blocks = blocks_at(context.capture.whole, kernels.row)
    few = (blocks < count) & ~communicating(context.capture, kernels)
    few &= (blocks < _MOST * count) | ~_of_classes(context, kernels.row, PRODUCTS)
    few &= ~context.claimed[chosen]
    share = np.where(few, blocks / count, 1.0)
    # At most the rest of the GPU is idle beside each of them. Where that is too little, the sort is saved.
    if not context.worth(int(((kernels.end_ns - kernels.start_ns) * (1 - share)).sum()) + 1):
        return None
    unused = max(_unused_ns(kernels, share, rows) for *_, rows in kernels.by_device())
    if not context.worth(unused):
        return None
    small = kernels.of(few)
    took = small.end_ns - small.start_ns
    codes, texts = packed_names(context.capture.whole, KERNEL)
    numbers = {
        "median_blocks": float(np.median(blocks[few])),
        "multiprocessors": count,
        "kernels": len(small),
        "kernels_ns": int(took.sum()),
        "longest_kernel": texts[int(np.bincount(codes[small.row], took).argmax())],
    }
    return chosen[few], unused, numbers


def last_wave(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the last wave of blocks leaves much of the GPU idle.

    A multiprocessor with one more block than the others works for longer, by the share of that block in its
    work: blocks at once share its units, so the last one is faster with fewer beside it.

    Only kernels of one to three waves that are not known to be limited by memory count, and none that share
    their work among resident blocks themselves.
    """
    whole = context.capture.whole
    rows, count = context.long_kernels, multiprocessors(whole)
    row, ns = context.operations.row[rows], (context.operations.end_ns - context.operations.start_ns)[rows]
    if not len(rows) or count is None:
        return
    blocks = blocks_at(whole, row)
    chosen = (blocks > count) & (blocks <= _WAVES * count * _MOST_RESIDENT) & ~context.claimed[rows]
    chosen[chosen] &= _of_classes(context, row[chosen], _COMPUTING)
    rows, row, ns, blocks = (values.compress(chosen) for values in (rows, row, ns, blocks))
    if not context.worth(int(ns.sum() / 2)):  # more than half of a kernel is never lost
        return
    codes, texts = packed_names(whole.viewed(names="full"), KERNEL)
    group, (name, size) = group_keys(codes[row], blocks)
    _, first = np.unique(group, return_index=True)
    occupancy = occupancy_of(whole, row[first])
    waves = occupancy.waves
    alone = [not _WITHOUT_WAVES.search(texts[one] or "") for one in name.tolist()]
    each = np.round(waves * occupancy.blocks, 6)  # clusters leave multiprocessors out
    lost = np.where((waves > 1) & (waves <= _WAVES) & alone, 1 - each / np.ceil(each), 0.0)
    lost_ns = ns * lost[group]
    last = lost_ns > 0
    if not context.worth(int(lost_ns.sum())):
        return
    saved = decisive_ns(context, rows[last]) * float(lost_ns.sum() / ns[last].sum())
    if not context.worth(int(saved)):
        return
    worst = int(np.bincount(group, lost_ns).argmax())
    yield context.finding(
        "last_wave",
        NOTHING,
        "cuda_gpu_kern_gb_sum",
        ceiling_ns=int(saved),
        status="estimate",
        kernels=int(np.count_nonzero(last)),
        kernels_ns=int(ns[last].sum()),
        kernel=texts[name[worst]],
        blocks=int(size[worst]),
        waves=float(waves[worst]),
        resident=int(occupancy.blocks[worst]),
        multiprocessors=round(size[worst] / each[worst]),
    )


def _of_classes(context: AdviceContext, rows: NDArray[Any], names: Collection[str]) -> NDArray[Any]:
    """Mark the kernels at these rows whose full name is of one of these classes."""
    codes, classes = kernel_classes(context.capture.whole.viewed(classes=()))
    return looked_up(np.array([name in names for name in classes], bool), codes[rows])


def _unused_ns(kernels: GpuOperations, share: NDArray[Any], rows: NDArray[Any]) -> int:
    """Return the time that multiprocessors were idle beside kernels with few blocks alone, in ns.

    ``rows`` are the positions of the kernels of one device. Each moment counts with the idle share of the
    GPU. ``share`` is what each kernel can use of it; those of kernels that run at the same time add up.
    """
    if len(rows) == len(kernels):
        start, end = kernels.start_ns, kernels.end_ns
    else:
        start, end, share = (values[rows] for values in (kernels.start_ns, kernels.end_ns, share))
    # Kernels that run alone need no order of ends.
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    alone = np.append(True, apart) & np.append(apart, True)
    unused = float(((end - start) * (1 - share)).sum(where=alone))
    others = np.flatnonzero(~alone)
    return int(unused + _unused_at_once(start[others], end[others], share[others]))


def _unused_at_once(start: NDArray[Any], end: NDArray[Any], share: NDArray[Any]) -> float:
    """Return the idle time beside kernels, some of which run at the same time, in ns."""
    if not len(start):
        return 0.0
    by_end = np.argsort(end, kind="stable").astype(np.int32)
    end = end[by_end]
    edges = start[_BLOCK::_BLOCK]
    begun, ended = ([0, *np.searchsorted(times, edges).tolist(), len(times)] for times in (start, end))
    used, running, last, unused = 0.0, 0, int(min(start[0], end[0])), 0.0
    for started, over in zip(map(slice, begun, begun[1:]), map(slice, ended, ended[1:]), strict=True):
        times = np.concatenate([start[started], end[over]])
        order = np.argsort(times, kind="stable")
        changes = np.concatenate([share[started], -share[by_end[over]]])[order]
        shares = np.cumsum(np.append(used, changes))
        kernels_now = running + np.cumsum(np.append(0, np.where(order < started.stop - started.start, 1, -1)))
        idle = np.where(kernels_now > 0, np.maximum(1 - shares, 0), 0)
        before = np.diff(times[order], prepend=last)
        unused += float((before * idle[:-1]).sum())
        if len(times):
            used, running, last = shares[-1], kernels_now[-1], int(times[order[-1]])
    return unused


def gpu_counters(context: AdviceContext) -> Iterator[Finding]:
    """Yield the counters of the busy time, unless another program uses the GPU, too."""
    busy = busy_counters(context.capture)
    names = {"sm_percent": "sm_active", "tensor_percent": "tensor_active", "dram_percent": "dram"}
    parts = {key: busy.get(name, -1.0) for key, name in names.items()}
    if all(value >= 0 for value in parts.values()) and not busy["elsewhere"] >= LEAST_ELSEWHERE:
        yield context.fact("gpu_counters", context.judged.window, "gpu_metrics", **parts)


CHECKS = (few_blocks, last_wave)
FACTS = (gpu_counters,)
