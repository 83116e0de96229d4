"""What the diagnostics report finds in a tiny export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiny_export import PID, Row, call, kernel, row

if TYPE_CHECKING:
    from nsyswrap.api import CaptureReader

    Found = tuple[object, ...]

LAUNCH = "cudaLaunchKernel_v7000"
ELSEWHERE = row("TARGET_INFO_GPU", id=0, name="GPU")  # makes it an nsys export


def found(capture: CaptureReader, subject: str) -> list[Found]:
    """Level, count, time and meaning of the rows on one subject."""
    return [(level, *rest) for level, what, *rest in capture.report("diagnostics").rows() if what == subject]


def launch(correlation: int, start: int, pid: int = PID) -> list[Row]:
    """A call of 10 ns, and its kernel 20 ns after that began."""
    return [
        call(LAUNCH, start, start + 10, correlation, pid=pid),
        kernel("k", start + 20, start + 30, correlation, pid=pid),
    ]
