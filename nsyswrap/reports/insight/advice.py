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

from nsyswrap.analysis.advice import advise
from nsyswrap.analysis.advice.context import WORTH_PERCENT, AdviceContext
from nsyswrap.analysis.gpu_operations import KINDS, operation_notes
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.reports.table import Column, Report, Result, Schema

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture

_LESS_PERCENT = 1.0


def compute(capture: Capture) -> Result:
    """Return one row per finding."""
    context = AdviceContext(capture)
    findings = advise(capture)
    stakes = [MISSING if finding.potential_ns is None else finding.potential_ns for finding in findings]
    shares = [
        np.nan if finding.potential_ns is None else context.percent(finding.potential_ns)
        for finding in findings
    ]
    notes = (
        *operation_notes(capture),
        *(capture.notes_on_fields("memcpy", "migration_cause") if context.operations.migration.any() else ()),
        *(() if findings else _less_notes(capture, context)),
    )
    return Result(
        {
            "finding": [finding.name for finding in findings],
            "at_stake_ns": np.array(stakes, np.int64),
            "at_stake_percent": np.array(shares),
            "what": [finding.what for finding in findings],
            "evidence": [finding.evidence for finding in findings],
            "advice": [finding.do for finding in findings],
            "unless": [finding.unless for finding in findings],
            "see": [finding.see for finding in findings],
        },
        notes,
    )


def _less_notes(capture: Capture, context: AdviceContext) -> tuple[str, ...]:
    """Return a note that names what concerns less time than a finding."""
    less = [
        f"{finding.what} ({duration(finding.potential_ns)}, {percent(context.percent(finding.potential_ns))})"
        for finding in advise(capture, _LESS_PERCENT)
        if finding.potential_ns is not None
    ]
    text = f"less than {WORTH_PERCENT:.0f} % of the time, and so no finding: {'; '.join(less)}"
    return (text,) if less else ()


SCHEMA = Schema(
    name="advice",
    title="Advice",
    layout="paragraphs",
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
)

REPORT = Report(SCHEMA, needs=(KINDS,), compute=compute)
