"""Find the rank that the other ranks of a capture wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.arrays.intervals import NOTHING
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import communicating, gpu_operations_of
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():  # most captures have one process
    from nsyswrap.analysis.ranks import job as jobs
    from nsyswrap.analysis.ranks import members
    from nsyswrap.analysis.ranks import waiting as waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nsyswrap.analysis.judged_part import JudgedPart
    from nsyswrap.capture.capture import Capture


def waiting_for_rank(
    capture: Capture, parts: Sequence[JudgedPart], least_percent: float
) -> Iterator[Finding]:
    """Yield a finding if one process of several is regularly the last to arrive at collectives."""
    if len(parts) <= 1 or not communicating(capture, gpu_operations_of(capture)).any():
        return
    job = jobs.make_job([members.Member(f"process {part.process_id}", None, part.view) for part in parts])
    if not len(job.matched) or job.matched.doubts:
        return
    result = waits.waiting(job)
    late = int(result.last.argmax())
    most = int(result.for_ns[:, late].argmax())
    waited = min(int(result.for_ns[most, late]), parts[most].window_ns)
    if 100.0 * waited < least_percent * parts[most].window_ns or not waits.regular(
        int(result.last[late]), int(result.collectives[late]), len(parts)
    ):
        return
    names = [member.label for member in job.members]
    yield Finding(
        "waiting_for_rank",
        {
            "waits": names[most],
            "late": names[late],
            "waited_ns": waited,
            "reason": waits.waiting_verdict(job),
        },
        NOTHING,
        waited,
        "bound",
        "rank_waiting",
        parts[most].window_ns,
    )
