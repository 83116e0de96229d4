"""Find communication that no compute hides."""

from __future__ import annotations

from collections.abc import Iterator

from nsyswrap.analysis.advice.blockers import blocked
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import communicating
from nsyswrap.capture.intervals import difference


def exposed_communication(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if communication kernels are exposed: no other kernel runs at the same time."""
    operations = context.operations
    communicates = communicating(context.capture, operations)
    if not communicates.any():
        return
    running = context.running(communicates)
    beside = context.running(operations.computes & ~communicates)
    cover = difference(running, beside)
    if not context.worth(cover.length):
        return
    yield context.finding(
        "exposed_communication",
        cover,
        "gpu_time",
        exposed_ns=cover.length,
        running_ns=running.length,
        overlapped_ns=running.length - cover.length,
        **blocked(context, communicates, beside),
    )


CHECKS = (exposed_communication,)
