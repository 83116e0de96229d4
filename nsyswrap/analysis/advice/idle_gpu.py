"""Kernels that leave most of the GPU idle, and communication that nothing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice import Finding
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, communicating
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice import Situation
    from nsyswrap.analysis.gpu_operations import Work

_GRID = ("grid_x", "grid_y", "grid_z")


def few_blocks(seen: Situation) -> Iterator[Finding]:
    """Kernels of fewer blocks than the GPU has multiprocessors: the others stand idle."""
    kernels = seen.work.of(seen.work.kind == KINDS.index(KERNEL))
    count = _multiprocessors(seen)
    if not len(kernels) or count is None:
        return
    sizes = seen.capture.whole.columns(KERNEL, *_GRID)
    blocks = np.prod([sizes[axis][kernels.row] for axis in _GRID], axis=0)
    took = kernels.end_ns - kernels.start_ns
    few = (blocks < count) & ~communicating(seen.capture, kernels)
    unused = sum(
        _unused_ns(kernels.of(rows), blocks[rows] / count, few[rows]) for *_, rows in kernels.by_device()
    )
    if not seen.worth(unused):
        return
    codes, texts = name_codes(seen.capture.whole, KERNEL)
    names = codes[kernels.row]
    worst = int(np.bincount(names[few], took[few]).argmax())
    yield Finding(
        "few_blocks",
        "kernels have fewer blocks than the GPU has multiprocessors: the others have nothing to do",
        unused,
        f"kernel executions: {int(few.sum()):,}, {duration(took[few].sum())} in all, median "
        f"{np.median(blocks[few]):g} blocks for {count} multiprocessors; most of it in {texts[worst]}",
        "give the kernel more blocks: more elements at once, smaller blocks, or batch small problems",
        "other streams fill the GPU meanwhile, or one block is all that the problem allows",
        "cuda_gpu_kern_gb_sum",
    )


def _unused_ns(kernels: Work, part: NDArray[Any], few: NDArray[Any]) -> int:
    """Return for how long how much of a GPU had nothing to do while a kernel of few blocks ran on it.

    ``part`` is how much of the GPU each kernel's blocks can take; of those at the same time it adds up.
    """
    times = np.concatenate([kernels.start_ns, kernels.end_ns])
    order = np.argsort(times, kind="stable")
    used, running = (np.cumsum(np.concatenate([now, -now])[order])[:-1] for now in (part, few.astype(int)))
    idle = np.where(running > 0, np.maximum(1 - used, 0), 0)
    return int((np.diff(times[order]) * idle).sum())


def communication_not_hidden(seen: Situation) -> Iterator[Finding]:
    """Communication during which nothing is computed."""
    total = hidden = 0
    for _, _, rows in seen.work.by_device():
        mine = seen.work.of(rows)
        kernels = mine.of(mine.kind == KINDS.index(KERNEL))
        if not len(kernels):
            continue
        talks = communicating(seen.capture, kernels)
        graphs = mine.of(mine.kind == KINDS.index(GRAPH))
        talk = union(kernels.start_ns[talks], kernels.end_ns[talks])
        starts, ends = ((getattr(kernels, at)[~talks], getattr(graphs, at)) for at in ("start_ns", "end_ns"))
        compute = union(np.concatenate(starts), np.concatenate(ends))
        total, hidden = total + talk.length, hidden + intersection(talk, compute).length
    if not seen.worth(total - hidden):
        return
    yield Finding(
        "communication_not_hidden",
        "the GPU communicates, and computes nothing meanwhile",
        total - hidden,
        f"communication kernels (NCCL) ran for {duration(total)}, of which other kernels hid "
        f"{duration(hidden)}; waiting for slower ranks is part of that",
        "overlap it with compute (buckets, an own stream), communicate less, or find the rank that is late",
        "the compute that could hide it needs its result",
        "gpu_time",
    )


def _multiprocessors(seen: Situation) -> int | None:
    """Return how many a GPU has; None where the export does not say, or GPUs differ."""
    if not seen.capture.whole.has("gpu"):
        return None
    counts = set(seen.capture.whole.columns("gpu", "multiprocessors")["multiprocessors"].tolist()) - {
        MISSING,
        0,
    }
    return counts.pop() if len(counts) == 1 else None


LOOKS = (few_blocks, communication_not_hidden)
