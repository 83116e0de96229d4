"""What the checks of a capture share: the results, and quantities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import CheckResult
from nsyswrap.analysis.gpu_operations import KINDS, GpuOperations, clipped, gpu_operations_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS

MakesChecks = Callable[[Capture], Iterator[CheckResult]]


def warning(subject: str, kind: str, count: int, time_ns: int | None = None, **numbers: Any) -> CheckResult:
    """Return a check that found what makes numbers wrong or misleading."""
    return CheckResult("note", subject, kind, numbers, count, time_ns)


def info(subject: str, kind: str, count: int, time_ns: int | None = None, **numbers: Any) -> CheckResult:
    """Return a check that found what is good to know."""
    return CheckResult("info", subject, kind, numbers, count, time_ns)


def ok(subject: str, kind: str, **numbers: Any) -> CheckResult:
    """Return a check that found no problem."""
    return CheckResult("ok", subject, kind, numbers, count=0)


def unknown(subject: str, kind: str, **numbers: Any) -> CheckResult:
    """Return a check for which the capture lacks the data."""
    return CheckResult("unknown", subject, kind, numbers)


def marked(marks: NDArray[Any]) -> int:
    """Return the number of True values."""
    return int(np.count_nonzero(marks))


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
