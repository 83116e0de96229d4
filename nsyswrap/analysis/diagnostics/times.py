"""Times that cannot be: work on the GPU before its launch call, ends before starts, times that are missing.

nsys converts the GPU's times to those of the CPU. Where that is off, all that lies between both is off too:
launch latency, queue time, and on which side of a range's end a kernel ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.diagnostics.check import (
    Diagnosis,
    counted,
    marked,
    ok,
    unclipped,
    unclipped_work,
    unknown,
    warning,
)
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration
from nsyswrap.capture.schema import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

SUBJECT, CLOCKS = "times", "clocks of GPU and CPU"


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield what is odd of each kind of operation, and of API calls."""
    operations = unclipped_work(capture)
    yield from _before_launch(capture, operations)
    odd: list[Diagnosis] = []
    for code, kind in enumerate(KINDS):
        mine = operations.kind == code
        odd += _impossible(kind, operations.start_ns[mine], operations.end_ns[mine])
    if capture.has("api"):
        odd += _impossible("api", *unclipped(capture, "api", *SPANS).values())
    yield from odd
    if not odd and (len(operations) or capture.has("api")):
        yield ok(SUBJECT, "every operation and API call has its times, and none ended before it started")


def _before_launch(capture: Capture, operations: GpuOperations) -> Iterator[Diagnosis]:
    """Compare the start of each operation with that of the outermost call that launched it."""
    launched = operations.of((operations.call >= 0) & (operations.start_ns != MISSING))
    if not len(launched):
        yield unknown(CLOCKS, "no operation with its launch call to look at: they cannot be compared")
        return
    called = capture.whole.columns("api", "start_ns")["start_ns"][launched.call]
    ahead = np.where(called == MISSING, launched.start_ns, called) - launched.start_ns
    for code, kind in enumerate(KINDS):
        early = ahead[(launched.kind == code) & (ahead > 0)]
        if len(early):
            most = int(early.max())
            said = f"{counted(kind, len(early))} began before the launch call, by up to {duration(most)}"
            advice = "the clocks differ by as much, so trust no shorter latency or queue time"
            yield warning(CLOCKS, len(early), f"{said}: {advice}", most)
    if not (ahead > 0).any():
        soonest = duration(-int(ahead.max()))
        said = f"no operation began before its launch call; the soonest {soonest} after that began"
        yield ok(CLOCKS, said)


def _impossible(kind: str, start: NDArray[Any], end: NDArray[Any]) -> Iterator[Diagnosis]:
    missing = (start == MISSING) | (end == MISSING)
    backwards = np.flatnonzero(~missing & (end < start))
    early = marked((start != MISSING) & (start <= 0))
    if len(backwards):
        most = int((start[backwards] - end[backwards]).max())
        said = f"{counted(kind, len(backwards))} ended before the start, by up to {duration(most)}"
        effect = "negative durations make totals and means too small"
        yield warning(SUBJECT, len(backwards), f"{said}: {effect}", most)
    if lacking := marked(missing):
        said = f"{counted(kind, lacking)} without a start or an end"
        yield warning(SUBJECT, lacking, f"{said}: what is said of durations is wrong")
    if early:
        said = f"{counted(kind, early)} started at 0 ns or before"
        yield warning(SUBJECT, early, f"{said}: no time that was measured, recording begins at 0")
