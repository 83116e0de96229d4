"""The result of one check of a capture, and helpers that several checks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, MEMCPY, MEMSET, clipped, gpu_operations_of
from nsyswrap.capture.schema import SPANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Level = Literal["loss", "warning", "info", "ok"]

LEVELS = ("loss", "warning", "info", "ok")  # the worst first
_NOUNS = {
    KERNEL: ("kernel", "kernels"),
    MEMCPY: ("copy", "copies"),
    MEMSET: ("memset", "memsets"),
    GRAPH: ("whole-graph execution", "whole-graph executions"),
    "api": ("API call", "API calls"),
}


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check, with a sentence on what it means for the numbers.

    ``count`` is the number of events concerned, None if the capture cannot tell. ``time_ns`` is the time
    concerned, in ns: a total, or the largest of several odd times.
    """

    level: Level
    subject: str
    count: int | None
    time_ns: int | None
    meaning: str


def warning(subject: str, count: int, meaning: str, time_ns: int | None = None) -> Diagnosis:
    """Return a diagnosis of something that makes numbers wrong or misleading."""
    return Diagnosis("warning", subject, count, time_ns, meaning)


def info(subject: str, count: int, meaning: str, time_ns: int | None = None) -> Diagnosis:
    """Return a diagnosis that is good to know."""
    return Diagnosis("info", subject, count, time_ns, meaning)


def ok(subject: str, meaning: str) -> Diagnosis:
    """Return the diagnosis that a check found no problem."""
    return Diagnosis("ok", subject, 0, None, meaning)


def unknown(subject: str, why: str) -> Diagnosis:
    """Return the diagnosis that the capture lacks the data for a check."""
    return Diagnosis("info", subject, None, None, why)


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
