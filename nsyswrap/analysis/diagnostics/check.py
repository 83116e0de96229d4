"""What the checks of a capture share: the results, and quantities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    GpuOperations,
    clipped,
    gpu_operations_of,
)
from nsyswrap.base.check import Check
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS

_NOUNS = {
    KERNEL: ("kernel", "kernels"),
    MEMCPY: ("copy", "copies"),
    MEMSET: ("memset", "memsets"),
    GRAPH: ("whole-graph execution", "whole-graph executions"),
    "api": ("API call", "API calls"),
}


def warning(subject: str, count: int, text: str, time_ns: int | None = None) -> Check:
    """Return a check that found what makes numbers wrong or misleading."""
    return Check("note", subject, text, count=count, time_ns=time_ns)


def info(subject: str, count: int, text: str, time_ns: int | None = None) -> Check:
    """Return a check that found what is good to know."""
    return Check("info", subject, text, count=count, time_ns=time_ns)


def ok(subject: str, text: str) -> Check:
    """Return a check that found no problem."""
    return Check("ok", subject, text, count=0)


def unknown(subject: str, why: str) -> Check:
    """Return a check for which the capture lacks the data."""
    return Check("unknown", subject, why)


def marked(marks: NDArray[Any]) -> int:
    """Return the number of True values."""
    return int(np.count_nonzero(marks))


def counted(kind: str, count: int) -> str:
    """Return a number of events with their noun: ``1 copy``, ``1,000 copies``."""
    one, more = _NOUNS[kind]
    return f"{count:,} {one if count == 1 else more}"


def unclipped(capture: Capture, kind: str, *fields: str) -> dict[str, NDArray[Any]]:
    """Return fields of the selected rows with whole times, not clipped to the selected window."""
    if not capture.view.selection.narrows:
        return capture.columns(kind, *fields)
    rows = capture.columns(kind, "row")["row"] - 1
    return {field: values[rows] for field, values in capture.whole.columns(kind, *fields).items()}


def unclipped_work(capture: Capture) -> GpuOperations:
    """Return the selected operations with whole times, not clipped to the selected window."""
    operations = gpu_operations_of(capture)
    if not clipped(capture):
        return operations
    start, end = operations.start_ns.copy(), operations.end_ns.copy()
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            times = capture.whole.columns(kind, *SPANS)
            start[mine], end[mine] = (times[field][operations.row[mine]] for field in SPANS)
    return operations.of(np.arange(len(operations)), start_ns=start, end_ns=end)
