"""Find kernels whose blocks leave multiprocessors idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.blockers import blocked
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.arrays.intervals import NOTHING, difference
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, GpuOperations, communicating
from nsyswrap.analysis.packed import packed_names
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

GRID = ("grid_x", "grid_y", "grid_z")
FEW = 0.5  # blocks for each multiprocessor
_BLOCK = 2**16  # kernels at a time, so that intermediate arrays stay in the CPU cache


def few_blocks(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if kernels have less than half as many blocks as the GPU has multiprocessors."""
    count = multiprocessors(context)
    chosen = context.operations.kind == KINDS.index(KERNEL)
    chosen &= context.typical.holds(context.operations.start_ns)
    kernels = context.operations.of(chosen)
    if not len(kernels) or count is None:
        return
    whole = context.capture.whole
    blocks = blocks_of(whole)[kernels.row]
    few = (blocks < FEW * count) & ~communicating(context.capture, kernels)
    share = np.where(few, blocks / count, 1.0)
    # At most the rest of the GPU is idle beside each of them. Where that is too little, the sort is saved.
    if not context.worth(int(((kernels.end_ns - kernels.start_ns) * (1 - share)).sum()) + 1):
        return
    unused = max(_unused_ns(kernels, share, rows) for *_, rows in kernels.by_device())
    if not context.worth(unused):
        return
    small = kernels.of(few)
    took = small.end_ns - small.start_ns
    codes, texts = packed_names(whole, KERNEL)
    worst = int(np.bincount(codes[small.row], took).argmax())
    marks = context.marks(np.flatnonzero(chosen)[few])
    alone = difference(context.running(marks), context.running(context.operations.computes & ~marks))
    held_up = blocked(context, marks, alone)
    yield context.finding(
        "few_blocks",
        NOTHING,
        "cuda_gpu_kern_gb_sum",
        ceiling_ns=unused,
        status="estimate",
        median_blocks=float(np.median(blocks[few])),
        multiprocessors=count,
        kernels=len(small),
        kernels_ns=int(took.sum()),
        longest_kernel=texts[worst],
        **({} if held_up.get("same_stream", True) else held_up),
    )


@per_capture
def blocks_of(whole: Capture) -> NDArray[Any]:
    """Return the number of blocks of each kernel, at most 2^31 - 1."""

    def product(size: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        x, y, z = (size[axis] for axis in GRID)
        return {"blocks": np.clip(x.astype(float) * y * z, -1, np.iinfo(np.int32).max).astype(np.int32)}

    return whole.stream(KERNEL, GRID, product)["blocks"]


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


def multiprocessors(context: AdviceContext) -> int | None:
    """Return the number of multiprocessors of a GPU; None if it is not recorded or the GPUs differ."""
    whole = context.capture.whole
    if not whole.has("gpu"):
        return None
    counts = set(whole.columns("gpu", "multiprocessors")["multiprocessors"].tolist()) - {MISSING, 0}
    return counts.pop() if len(counts) == 1 else None


CHECKS = (few_blocks,)
