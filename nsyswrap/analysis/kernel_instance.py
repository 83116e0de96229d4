"""Choose one launch of a kernel that stands for all of them, and count the launches before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.judged_process import judged_processes, main_process
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.occupancy import blocks_at, multiprocessors
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.capture import Capture


@dataclass(frozen=True)
class KernelInstance:
    """The launch of a kernel with the median duration among ``launches`` in the part that is judged.

    ``function`` is the name without namespaces and arguments. ``earlier`` counts the launches of kernels of
    this function, whatever their template arguments, that its process made before. ``few_blocks`` is True if
    it has fewer blocks than the GPU has multiprocessors.
    """

    name: str
    function: str
    kernel_class: str
    launches: int
    median_ns: int
    earlier: int
    few_blocks: bool


def judged_kernels(capture: Capture) -> dict[str, str]:
    """Return the function of each kernel by its full name, that with the most time in the judged part first.

    The part is that of the process with the most GPU work. Empty without kernels in it. Raises NotInCapture
    if none of them has a name.
    """
    if (context := _context(capture)) is None:
        return {}
    named, whole = context.kernels, context.capture.whole
    codes, first = np.unique(named.code, return_index=True)
    functions = whole.columns(KERNEL, "base_name")["base_name"][context.operations.row[named.rows[first]]]
    each = dict(zip(codes.tolist(), functions.tolist(), strict=True))
    by_time = sorted(filter(named.names.__getitem__, each), key=lambda code: -named.total_ns[code])
    if not by_time:
        raise NotInCapture(f"no kernel in {capture.source} has a name", "export the capture again")
    return {named.names[code]: whole.text(each[code]) or named.names[code] for code in by_time}


def median_instance(capture: Capture, name: str) -> KernelInstance:
    """Return the launch with the median duration of one of ``judged_kernels``, given by its full name."""
    if (context := _context(capture)) is None:
        raise KeyError(name)
    whole, named = context.capture.whole, context.kernels
    codes = [code for code, text in enumerate(named.names) if text == name]  # damaged exports repeat names
    rows = named.rows[np.isin(named.code, codes)]
    took = context.duration_ns(rows)
    at = int(np.argsort(took, kind="stable")[(len(rows) - 1) // 2])
    row, count = int(context.operations.row[rows[at]]), multiprocessors(whole)
    return KernelInstance(
        name,
        judged_kernels(capture)[name],
        classify(name, capture.view.classes),
        len(rows),
        int(took[at]),
        _earlier(whole, row),
        count is not None and int(blocks_at(whole, np.array([row]))[0]) < count,
    )


def _context(capture: Capture) -> AdviceContext | None:
    part = main_process(judged_processes(capture)) if capture.has(KERNEL) else None
    context = AdviceContext(part) if part else None
    return context if context and len(context.kernels.rows) else None


def _earlier(whole: Capture, row: int) -> int:
    """Return how many kernels of the same function its process launched before the kernel in this row.

    Kernels of one call, such as the launch of a graph, are in the order in which they ran.
    """
    every, functions = gpu_operations_of(whole), whole.columns(KERNEL, "base_name")["base_name"]
    mine = np.flatnonzero(every.kind == KINDS.index(KERNEL))
    mine = mine[functions[every.row[mine]] == functions[row]]
    owner, call, launched = every.global_pid[mine], every.call[mine], every.start_ns[mine]
    if whole.has("api"):
        calls = whole.columns("api", "start_ns")["start_ns"]
        launched = np.where(call >= 0, calls[call], launched)
    at = int(np.flatnonzero(every.row[mine] == row)[0])
    before = (launched < launched[at]) | ((launched == launched[at]) & (np.arange(len(mine)) < at))
    return int(np.count_nonzero(before & ((owner == owner[at]) | (owner[at] == MISSING))))
