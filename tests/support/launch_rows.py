"""Launches for tiny exports: a call and its kernel, by the times of both."""

from tiny_export import PID, Row, call, kernel


def launch(  # noqa: PLR0913, PLR0917 - what a launch is
    number: int, start: int, end: int, at: int, until: int, pid: int = PID, tid: int = 0, **more: int
) -> list[Row]:
    """A call from ``start`` to ``end``, and its kernel from ``at`` to ``until``."""
    return [
        call("cudaLaunchKernel", start, end, number, pid=pid, tid=tid),
        kernel("k", at, until, number, pid=pid, **more),
    ]
