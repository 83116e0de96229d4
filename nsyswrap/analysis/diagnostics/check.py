"""What was checked of a capture, and what came out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nsyswrap.analysis.gpu_operations import COPY, GRAPH, KERNEL, KINDS, SET, gpu_operations_of
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PROCESS_MASK, SPANS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Level = Literal["loss", "warning", "info", "ok"]

LEVELS = ("loss", "warning", "info", "ok")  # the worst first
_NOUNS = {
    KERNEL: ("kernel", "kernels"),
    COPY: ("copy", "copies"),
    SET: ("memset", "memsets"),
    GRAPH: ("whole-graph execution", "whole-graph executions"),
    "api": ("API call", "API calls"),
}


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at, and a sentence on what it means for the numbers.

    ``count``: how often it was found; None where the capture cannot tell. ``time_ns``: the time it is about.
    """

    level: Level
    subject: str
    count: int | None
    time_ns: int | None
    meaning: str


def warning(subject: str, count: int, meaning: str, time_ns: int | None = None) -> Diagnosis:
    """Return what makes numbers wrong, or easy to misread."""
    return Diagnosis("warning", subject, count, time_ns, meaning)


def info(subject: str, count: int, meaning: str, time_ns: int | None = None) -> Diagnosis:
    """Return what is good to know."""
    return Diagnosis("info", subject, count, time_ns, meaning)


def ok(subject: str, meaning: str) -> Diagnosis:
    """Return that something was looked at and is in order."""
    return Diagnosis("ok", subject, 0, None, meaning)


def unknown(subject: str, why: str) -> Diagnosis:
    """Return that the capture cannot tell."""
    return Diagnosis("info", subject, None, None, why)


def marked(marks: NDArray[Any]) -> int:
    """Return how many are marked."""
    return int(np.count_nonzero(marks))


def counted(kind: str, count: int) -> str:
    """Write how many events of a kind there are: ``1 copy``, ``1,000 copies``."""
    one, more = _NOUNS[kind]
    return f"{count:,} {one if count == 1 else more}"


def unclipped(capture: Capture, kind: str, *fields: str) -> dict[str, NDArray[Any]]:
    """Return fields of the selected rows, whose times are not cut off at the window's ends."""
    if not capture.view.selection.narrows:
        return capture.columns(kind, *fields)
    rows = capture.columns(kind, "row")["row"] - 1
    return {field: values[rows] for field, values in capture.whole.columns(kind, *fields).items()}


def unclipped_work(capture: Capture) -> GpuOperations:
    """Return the selected operations, whose times are not cut off at the window's ends."""
    operations = gpu_operations_of(capture)
    if not (capture.view.selection.clip and capture.view.selection.windowed):
        return operations
    start, end = operations.start_ns.copy(), operations.end_ns.copy()
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            times = capture.whole.columns(kind, *SPANS)
            start[mine], end[mine] = (times[field][operations.row[mine]] for field in SPANS)
    return replace(operations, start_ns=start, end_ns=end)


def owners(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the global process id inside each global thread or process id; MISSING where that is missing."""
    return np.where(global_ids == MISSING, MISSING, global_ids & PROCESS_MASK)
