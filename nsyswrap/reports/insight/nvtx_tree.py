"""GPU time in NVTX ranges, or in the modules of PyTorch, as a tree.

A kernel belongs to the innermost range around its launch on the launching thread. GPU time is the sum of the
durations of kernels and whole-graph executions. The time of a row is its own time and that of its children,
which are below it. Own times of all rows add up to the time of all kernels. With ``depth``, those of the last
level have what is below them. A row in parentheses stands for several smaller children, or for what is in no
range. With ``report --steps``, these steps alone are in the tree.

Where module ranges are recorded (profile --modules), a kernel belongs to its module: the outermost module is
a root, whatever ranges are around it. A kernel of a backward pass belongs to the module, or the range, of its
forward operation. Autograd's sequence number tells which that is. What autograd launches after a function of
the backward, such as a sum of gradients, belongs where the function does. A backward kernel whose forward is
not known belongs to the ranges of its own thread.

Forward is the time of kernels that were launched in the forward of a module, or by operations that autograd
records. Other kernels, such as those of an optimizer, are in neither phase. Names that JAX gives to XLA
are read, too: jvp is forward, transpose is backward.

Idle is the time between two GPU operations of a process on a device whose launches are both in this range,
or in children of it: in the same instance of a range, or in one backward pass. Steps that are numbered in
their names are one row, as in "step *". So are other ranges inside one range that differ in a number at the
end of their names, if each is there once. A range that was open when the recording ended is "(not ended)".

With recorded allocations (profile --memory), the table has GPU memory, too. An allocation belongs to the
innermost range around its call, and counts if it was made in the selected time. A range that only allocates
has a row as well. PyTorch caches freed memory: it allocates only where its cache grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import chosen_views
from nsyswrap.analysis.nvtx_ranges import moved_notes
from nsyswrap.analysis.range_tree import NOWHERE, READS, TreeFigures, tree_figures_of
from nsyswrap.analysis.range_tree.figures import with_children
from nsyswrap.analysis.range_tree.memory import NodeMemory, node_memory_of
from nsyswrap.analysis.range_tree.tree import outside_label
from nsyswrap.analysis.usage import MEMORY_USE, allocation_notes
from nsyswrap.analysis.utilization import WorkSums, summed
from nsyswrap.base.units import percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import (
    FLOP_PER_S,
    PEAK_PERCENT,
    Column,
    Report,
    ReportOption,
    Result,
    Schema,
    Values,
)

_ALL = 100.0
_FIGURES = ("total_ns", "own_ns", "forward_ns", "backward_ns", "kernels", "idle_ns")


class _Row(NamedTuple):
    """Name, number of ranges around, path, nodes and figures of a row."""

    name: str
    depth: int
    path: str
    nodes: list[int]
    figures: tuple[int, ...]


class _Waiting(NamedTuple):
    """A row to come: its nodes, the names from the root to it, and whether it is one range."""

    nodes: list[int]
    path: tuple[str, ...]
    is_range: bool


def compute(capture: Capture, depth: int, min: int) -> Result:  # noqa: A002 - as users ask for it
    """Return the rows from the roots down, siblings by GPU time."""
    whole, figures, memory = capture.whole, tree_figures_of(capture), node_memory_of(capture)
    used = figures.total_ns > 0
    large = used & (figures.total_ns >= figures.whole_ns * min / _ALL)
    if memory:
        allocated = memory.allocated_bytes
        used |= allocated > 0
        large |= (allocated > 0) & (allocated >= memory.held.bytes.sum() * min / _ALL)
    rows = [*_rows(figures, depth, used, large), *_outside(figures, memory)]
    left_out = int(used[:-1].sum()) - sum(not row.name.startswith("(") for row in rows)
    columns = zip(*(row.figures for row in rows), strict=True) if rows else [()] * len(_FIGURES)
    values = dict(zip(_FIGURES, (np.array(column, np.int64) for column in columns), strict=True))
    flop_per_s, peak_percent = _work(capture, figures, rows).rates()
    share = values["total_ns"] * _ALL / figures.whole_ns if figures.whole_ns else np.full(len(rows), np.nan)
    return Result(
        {
            "range": ["  " * row.depth + row.name for row in rows],
            "time_percent": share,
            **values,
            "depth": np.array([row.depth for row in rows], np.int64),
            "path": [row.path for row in rows],
            "flop_per_s": flop_per_s,
            "peak_percent": peak_percent,
            **_memory(memory, rows),
        },
        (*operation_notes(capture), *moved_notes(whole), *allocation_notes(whole), *_notes(capture, figures)),
        left_out=max(left_out, 0),
    )


def _work(capture: Capture, figures: TreeFigures, rows: list[_Row]) -> WorkSums:
    """Return the work of each row, with that of the rows below it."""
    tree, count = figures.tree, len(figures.own_ns)
    node = np.where(tree.node == NOWHERE, count - 1, tree.node)
    work = summed(chosen_views(capture), node, count).each(partial(with_children, tree))
    return work.each(lambda values: np.array([values[row.nodes].sum() for row in rows]))


def _memory(memory: NodeMemory | None, rows: list[_Row]) -> dict[str, Values]:
    """Return the columns on memory, if allocations were recorded."""
    if memory is None:
        return {}
    values = {
        "memory_peak_bytes": [memory.peak_bytes(row.nodes) for row in rows],
        "retained_bytes": [int(memory.retained_bytes[row.nodes].sum()) for row in rows],
        "transient_bytes": [int(memory.transient_bytes[row.nodes].sum()) for row in rows],
    }
    return {name: np.array(column, np.int64) for name, column in values.items()}


def _rows(
    figures: TreeFigures, most: int, used: NDArray[np.bool_], large: NDArray[np.bool_]
) -> Iterator[_Row]:
    """Yield the rows from the roots down. Ranges can be nested deeper than Python functions."""
    waiting = _below(figures, NOWHERE, used, large)
    while waiting:
        nodes, path, is_range = waiting.pop()
        total, own, *others = _figures(figures, nodes)
        has_rows_below = is_range and len(path) != most
        values = (total, own if has_rows_below else total, *others)
        yield _Row(path[-1], len(path) - 1, "/".join(path), nodes, values)
        if has_rows_below:
            waiting += _below(figures, nodes[0], used, large)


def _below(
    figures: TreeFigures, node: int, used: NDArray[np.bool_], large: NDArray[np.bool_]
) -> list[_Waiting]:
    """Return the rows below a node, the last one first."""
    children = figures.children(node, used)
    rows = [_Waiting([child], figures.tree.path(child), is_range=True) for child in children if large[child]]
    if small := [child for child in children if not large[child]]:
        path = (*figures.tree.path(node), f"({len(small):,} more)")
        rows.append(_Waiting(small, path, is_range=False))
    return rows[::-1]


def _outside(figures: TreeFigures, memory: NodeMemory | None) -> Iterator[_Row]:
    values = _figures(figures, [NOWHERE])
    if any(values) or (memory and memory.allocated_bytes[NOWHERE] > 0):
        name = outside_label(figures.tree)
        yield _Row(name, 0, name, [NOWHERE], values)


def _figures(figures: TreeFigures, nodes: list[int]) -> tuple[int, ...]:
    return tuple(int(getattr(figures, name)[nodes].sum()) for name in _FIGURES)


def _notes(capture: Capture, figures: TreeFigures) -> Iterator[str]:
    tree = figures.tree
    if graphs := int((gpu_operations_of(capture).kind == KINDS.index(GRAPH)).sum()):
        yield f"whole-graph executions ({graphs:,}) count as one kernel each"
    if unmatched := tree.unmatched:
        yield (
            f"backward operations without a known forward: {unmatched:,}; their kernels belong to the ranges "
            "of their own thread"
        )
    if tree.has_operations and not tree.has_modules:
        yield "no modules recorded; nsyswrap profile --modules records the modules of PyTorch"


def conclude(capture: Capture, _: Mapping[str, Values]) -> str:
    """Return the range with the most GPU time of its own, in rows or not, and the share of the backward."""
    figures = tree_figures_of(capture)
    whole, own = figures.whole_ns, figures.own_ns[:-1]
    if not whole:
        return ""
    parts = []
    if own.any():
        most = int(own.argmax())
        names = " > ".join(figures.tree.path(most))  # with slashes it would look like a folder
        parts.append(f"most GPU time of its own: {names} {percent(_ALL * own[most] / whole)}")
    roots = np.append(figures.tree.parent == NOWHERE, [True])  # the last is what belongs to no range
    if backward := int(figures.backward_ns[roots].sum()):
        parts.append(f"backward passes {percent(_ALL * backward / whole)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


SCHEMA = Schema(
    "nvtx_tree",
    "GPU time by NVTX range or module, as a tree",
    Column("range", "Range", "name of the range or module, indented below what is around it", -1),
    Column("time_percent", "Time", "share of the GPU time of all kernels", -1),
    Column("total_ns", "Total Time", "GPU time of its kernels, with all children", -1),
    Column("own_ns", "Own Time", "GPU time without the rows below it", 1),
    Column("forward_ns", "Forward", "part of the total time: forward of modules or operations", 3),
    Column("backward_ns", "Backward", "part of the total time: backward of these", 2),
    Column.count("kernels", "Kernels", "executed kernels and whole graphs, with children", 4),
    Column("idle_ns", "Idle Inside", "time between its GPU operations in which none ran", 2),
    Column.number("depth", "Depth", "rows around it", 6),
    Column("path", "Path", "names from the root to the range, with slashes between", 7),
    FLOP_PER_S,
    PEAK_PERCENT,
    Column(
        "memory_peak_bytes",
        "Memory",
        "most GPU memory that its allocations held at a time, with all children; with --memory only",
        2,
        only_with=MEMORY_USE,
    ),
    Column(
        "retained_bytes",
        "Retained",
        "GPU memory that it allocated and that outlived it, the sum of all its runs; with --memory only",
        3,
        only_with=MEMORY_USE,
    ),
    Column(
        "transient_bytes",
        "Transient",
        "GPU memory that it allocated and freed before it ended, the sum of its runs; with --memory only",
        4,
        only_with=MEMORY_USE,
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), (KERNEL, GRAPH), ("api",)),
    compute=compute,
    rows_from=(KERNEL, GRAPH),
    options=(
        ReportOption("depth", 0, "levels of the tree; 0: all", least=0),
        ReportOption(
            "min", 1, "percent of GPU time or memory: ranges with less are added up", least=0, most=100
        ),
    ),
    reads=READS,
    conclude=conclude,
    judges_steps=True,
)
