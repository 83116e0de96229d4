"""Work on the GPU whose launch call is not recorded, or cannot be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.diagnostics.check import (
    Diagnosis,
    counted,
    info,
    marked,
    ok,
    owners,
    unclipped_work,
    unknown,
    warning,
)
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

SUBJECT, IDS = "work without its launch", "correlation ids"


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield work without its call by kind (migrations have none), then what makes the joins ambiguous."""
    operations = unclipped_work(capture)
    operations = operations.of(~operations.migration)
    if not len(operations) or not capture.whole.has("api"):
        lacks = "API call" if len(operations) else "GPU operation that a call launches"
        yield unknown(SUBJECT, f"no {lacks} to look at")
        return
    yield from _without_call(operations)
    doubts = [*_repeated(capture, operations), *_nobodys(capture, operations)]
    yield from doubts
    if not doubts:
        yield ok(IDS, "none stands for two calls of one process")


def _without_call(operations: GpuOperations) -> Iterator[Diagnosis]:
    lost = operations.call < 0
    midway = lost & _before_the_first_known(operations)
    for code, kind in enumerate(KINDS):
        mine = lost & (operations.kind == code)
        if not (count := marked(mine)):
            continue
        cause = "launched by the GPU itself, or the call was dropped or removed"
        if early := marked(mine & midway):
            which = "all" if early == count else f"{early:,} of them"
            cause = f"{which} before the first work that has one: recording seems to have begun midway"
        said = f"{counted(kind, count)} without a recorded launch call, hence without API time and NVTX range"
        yield warning(SUBJECT, count, f"{said}; {cause}")
    if not lost.any():
        yield ok(SUBJECT, "every launch call is recorded")


def _before_the_first_known(operations: GpuOperations) -> NDArray[Any]:
    """Mark what began before the first operation of its process whose call is recorded."""
    first = np.full(len(operations), MISSING)  # nothing is before that
    for process in np.unique(operations.global_pid).tolist():
        mine = operations.global_pid == process
        known = operations.start_ns[mine & (operations.call >= 0)]
        if len(known):
            first[mine] = known.min()
    return operations.start_ns < first


def _repeated(capture: Capture, operations: GpuOperations) -> Iterator[Diagnosis]:
    """Yield operations that several calls may have launched."""
    for code, kind in enumerate(KINDS):
        rows = operations.row[operations.kind == code]
        if not len(rows):
            continue
        if count := marked(np.isin(_of_several_calls(capture.whole, kind), rows)):
            said = f"{counted(kind, count)} with a correlation id that two calls of the process have"
            effect = "the API time, latency and NVTX range given for it may be the other's"
            yield warning(IDS, count, f"{said}: {effect}")


def _of_several_calls(whole: Capture, kind: str) -> NDArray[Any]:
    """Return the operations that meet calls which do not enclose each other.

    A runtime call encloses the driver call below it.
    """
    pairs = launch_pairs_of(whole, kind)
    same = pairs.operation[1:] == pairs.operation[:-1]
    shared = np.flatnonzero(np.append(same, [False]) | np.append([False], same))
    operation, call = pairs.operation[shared], pairs.api[shared]
    api = whole.columns("api", *SPANS, "global_tid")
    start, end, thread = (api[field][call] for field in (*SPANS, "global_tid"))
    order = np.lexsort((-end, start, operation))
    operation, end, thread = operation[order], end[order], thread[order]
    _, first, number = np.unique(operation, return_index=True, return_inverse=True)
    outer = first[number]
    return np.unique(operation[(end > end[outer]) | (thread != thread[outer])])


def _nobodys(capture: Capture, operations: GpuOperations) -> Iterator[Diagnosis]:
    """Yield operations that do not say their process."""
    parts = [(kind, operations.row[operations.kind == code]) for code, kind in enumerate(KINDS)]
    pids = [
        capture.whole.columns(kind, "global_pid")["global_pid"][rows] for kind, rows in parts if len(rows)
    ]
    if not (count := marked(np.concatenate(pids) == MISSING)):
        return
    processes = len(np.unique(owners(capture.whole.columns("api", "global_tid")["global_tid"])))
    said = f"the process of {count:,} operations is not recorded (globalPid): they meet calls by the id alone"
    if processes > 1:
        yield warning(IDS, count, f"{said}, and {processes} processes made calls: they may be mixed up")
    else:
        yield info(IDS, count, f"{said}, which is right as long as there was one process")
