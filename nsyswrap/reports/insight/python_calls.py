"""The Python lines that launched the kernels with the most time, and those that waited for the GPU.

Needs `nsyswrap profile --python-lines`. A row is a kernel, or a call that waits, with a line: the innermost
one outside of installed packages and of Python's library. Each kernel and call has at most three rows, those
with the most time. Innermost is the line that called CUDA, often of PyTorch; empty if another thread did.

Kernels that another thread launched, as autograd does, count for the line that their process came to last:
loss.backward(). Waiting calls are those that synchronize or copy, with the time that they took on the
host. Only calls with a call stack of their own count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of, selected_ns
from nsyswrap.analysis.names import CLASSES, SYNCHRONISE, call_classes, call_names, name_codes, with_name
from nsyswrap.analysis.python_lines import CallSites, Frame, call_sites_of, lacking
from nsyswrap.base.units import percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.reports.table import Column, Report, Result, Schema, Values

LAUNCH, WAIT = "kernel", "wait"
_MOST_LINES, _MOST_NAMES = 3, 10
_COPIES = re.compile("cu(da)?Memcpy")
_HOW = "record with nsyswrap profile --python-lines, or export with nsys export --include-blobs true"


class _Row(NamedTuple):
    kind: str
    name: str | None
    calls: int
    total_ns: int
    time_percent: float
    site: str
    innermost: str | None


class _Calls(NamedTuple):
    """Kernels or calls: their name as a code, the stacks of their line and of the call, and their time."""

    kind: str
    codes: NDArray[Any]
    texts: Sequence[str | None]
    stack: NDArray[Any]
    innermost: NDArray[Any]
    ns: NDArray[Any]


def compute(capture: Capture) -> Result:
    """Return the lines of kernels, then those of waits, each by time; none without stacks."""
    sites = call_sites_of(capture.whole)
    if sites is None:
        trimmed = (f"NVTX_EVENTS has no {column}" for column in lacking(capture.whole))
        notes = (f"no call stacks of Python: {_HOW}", *trimmed)
        return Result({column.name: [] for column in SCHEMA.columns}, notes)
    operations = gpu_operations_of(capture)
    kernels = np.flatnonzero((operations.kind == KINDS.index(KERNEL)) & (operations.call >= 0))
    codes, labels = name_codes(capture.whole, KERNEL)
    ns = selected_ns(capture, operations)[kernels]
    launches = operations.call[kernels]
    stack = sites.stack[launches]
    innermost = np.where(sites.borrowed[launches], -1, stack)
    calls = capture.columns("api", "row", *SPANS)
    waits = sites.traced[calls["row"] - 1]
    waits &= (call_classes(capture) == CLASSES.index(SYNCHRONISE)) | with_name(capture, _COPIES)
    called, took = call_names(capture), calls["end_ns"] - calls["start_ns"]
    waiting = sites.stack[calls["row"] - 1][waits]
    rows = [
        *_rows(_Calls(LAUNCH, codes[operations.row[kernels]], labels, stack, innermost, ns), sites),
        *_rows(_Calls(WAIT, called.codes[waits], called.texts, waiting, waiting, took[waits]), sites),
    ]
    share = percent(100 * ns[stack >= 0].sum() / max(ns.sum(), 1))
    data: dict[str, Values] = {name: [getattr(row, name) for row in rows] for name in _Row._fields}
    return Result(data, (f"{share} of kernel time has a line",))


def _rows(calls: _Calls, sites: CallSites) -> Iterator[_Row]:
    """Yield the lines with most time of each name, the name with most time first."""
    totals = np.bincount(calls.codes, calls.ns, len(calls.texts))
    numbers: dict[Frame, int] = {}
    of_stack = [numbers.setdefault(sites.site(i), len(numbers)) for i in range(len(sites.stacks))]
    line, frames = np.append(np.array(of_stack, np.int64), -1)[calls.stack], list(numbers)
    found: dict[int, list[tuple[int, int, NDArray[Any]]]] = {}
    for (code, number), rows in rows_by(calls.codes, line).items():
        if number >= 0:
            found.setdefault(code, []).append((-int(calls.ns[rows].sum()), number, rows))
    for code in sorted(found, key=lambda code: -totals[code])[:_MOST_NAMES]:
        for spent, number, rows in sorted(found[code], key=lambda one: one[:2])[:_MOST_LINES]:
            longest = calls.innermost[rows[np.argmax(calls.ns[rows])]]
            share = -100 * spent / max(float(totals[code]), 1.0)
            inner = sites.stacks[longest][0].label if longest >= 0 else None
            yield _Row(calls.kind, calls.texts[code], len(rows), -spent, share, frames[number].label, inner)


SCHEMA = Schema(
    "python_calls",
    "Python lines that launched kernels and waited",
    Column("kind", "Kind", f"{LAUNCH} or {WAIT}"),
    Column.count("calls", "Calls", "kernels, or calls that waited", 2),
    Column("total_ns", "Total Time", "time of the kernels on the GPU, or of the calls on the host"),
    Column("time_percent", "Time", "share of the time of the kernel or call", 3),
    Column("site", "Python Line", "innermost line outside of libraries"),
    Column("innermost", "Innermost", "line that called CUDA, that with the longest call", 4),
    Column("name", "Name", "kernel or CUDA API call", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",), ("api",), ("nvtx",)),
    compute=compute,
    rows_from=("kernel", "api"),
    qualifiers=("base", "mangled"),
)
