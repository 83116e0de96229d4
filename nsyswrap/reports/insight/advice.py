"""What to do about a run: findings, ranked by the time at stake, with the evidence for each.

Looked for: launches, host code, synchronises and allocations that the GPU waits for; pageable, tiny and
unhidden copies; kernels that wait for pages or have too few blocks; communication that nothing hides; NVTX
ranges that do not time what they launch; lost events.

Time at stake is the time that a finding concerns: no change can save more of it, and two findings may
concern the same. What concerns less than 5 % of the time between the first and the last operation on the
GPU is left out; where nothing else is found, a note names what concerns 1 % or more. Findings without a
time are about whether the figures hold, and come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice import WORTH_PERCENT, AdviceContext, advise
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.reports.table import Column, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Values

_LESS_PERCENT = 1.0


def compute(capture: Capture) -> Mapping[str, Values]:
    """Return one row per finding."""
    seen = AdviceContext(capture)
    found = advise(capture)
    if not found:
        _note_less(capture, seen)
    stakes = [MISSING if finding.at_stake_ns is None else finding.at_stake_ns for finding in found]
    shares = [
        np.nan if finding.at_stake_ns is None else seen.percent(finding.at_stake_ns) for finding in found
    ]
    return {
        "finding": [finding.name for finding in found],
        "at_stake_ns": np.array(stakes, np.int64),
        "at_stake_percent": np.array(shares),
        "what": [finding.what for finding in found],
        "evidence": [finding.evidence for finding in found],
        "advice": [finding.do for finding in found],
        "unless": [finding.unless for finding in found],
        "see": [finding.see for finding in found],
    }


def _note_less(capture: Capture, seen: AdviceContext) -> None:
    """Say what would be found if less time were worth it."""
    less = [
        f"{finding.what} ({duration(finding.at_stake_ns)}, {percent(seen.percent(finding.at_stake_ns))})"
        for finding in advise(capture, _LESS_PERCENT)
        if finding.at_stake_ns is not None
    ]
    if less:
        capture.note(f"less than {WORTH_PERCENT:.0f} % of the time, and so no finding: {'; '.join(less)}")


REPORT = Report(
    name="advice",
    title="Advice",
    layer="analysis",
    needs=(KINDS,),
    columns=(
        Column("finding", "Finding", Unit.TEXT, "short name of the finding"),
        Column("at_stake_ns", "At Stake", Unit.NS, "time it concerns: no change can save more"),
        Column("at_stake_percent", "Share", Unit.PERCENT, "of the time from the first to the last operation"),
        Column("what", "What", Unit.TEXT, "what was found"),
        Column("evidence", "Evidence", Unit.TEXT, "the figures that say so", drop_order=2),
        Column("advice", "Do", Unit.TEXT, "what to do about it", drop_order=2),
        Column("unless", "Unless", Unit.TEXT, "when the advice would be wrong", drop_order=3),
        Column("see", "See", Unit.TEXT, "report that has the rows behind it", drop_order=4),
    ),
    compute=compute,
)
