"""What to do: findings, ranked by the time that a change can save, with the evidence for each.

The steady part is judged: the repeated steps, without start-up and warm-up. If there is none, the whole
capture is judged, or what is selected.

Searched for: launches, synchronizing, host code, input, allocating and loading that the GPU waits for;
pageable and tiny copies; copies and communication with no kernel beside them; kernels that wait for pages or
have few blocks; ranks that others wait for; unusually long steps; idle time with another cause; NVTX ranges
that the program measures with and that do not time their GPU work; lost events.

At stake is the time of the judged part that a finding concerns: no change can save more. Time on several
devices counts once. Two findings can concern the same time; then they name each other. A finding of less than
5 % of the judged time is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice import ONCE, PREPARED, READS, WORTH_PERCENT, advice_of, advise_parts, prepare
from nsyswrap.analysis.answer import withheld_because
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_part import judged_parts
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.capture.per_capture import discard
from nsyswrap.reports.table import Column, Report, Result, Schema, spend

if TYPE_CHECKING:
    from nsyswrap.analysis.advice import Advice
    from nsyswrap.capture.capture import Capture

_LESS_PERCENT = 1.0


def free(capture: Capture) -> None:
    """Free the largest columns once what findings take of them is computed."""
    prepare(capture.whole)
    spend(capture, PREPARED)
    spend(capture, ONCE)
    if not capture.whole.has("nvtx"):  # ranges are joined to launches, too
        discard(capture.whole, launch_pairs_of)


def compute(capture: Capture) -> Result:
    """Return one row per finding."""
    findings, notes = advice_of(capture)
    migrates = gpu_operations_of(capture).migration.any()
    if withheld := withheld_because(capture):
        findings = [finding for finding in findings if finding.name == "lost_events"]
        notes = [f"no verdict: {withheld}"]
    elif not findings:
        less, _ = advise_parts(capture, judged_parts(capture), _LESS_PERCENT)
        notes = [*_less_notes(less), *notes]
    stakes = [MISSING if finding.potential_ns is None else finding.potential_ns for finding in findings]
    shares = [
        np.nan if finding.potential_percent is None else finding.potential_percent for finding in findings
    ]
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
            "example": [finding.example for finding in findings],
            "shares": [", ".join(finding.shares) or None for finding in findings],
        },
        (
            *operation_notes(capture),
            *(capture.notes_on_fields("memcpy", "migration_cause") if migrates else ()),
            *notes,
        ),
    )


def _less_notes(findings: list[Advice]) -> list[str]:
    """Return a note that names what concerns less time than a finding."""
    less = [
        f"{finding.what} ({duration(finding.potential_ns)}, {percent(finding.potential_percent or 0)})"
        for finding in findings
        if finding.potential_ns is not None
    ]
    return [f"below {WORTH_PERCENT:.0f} % of the time, so not a finding: {'; '.join(less)}"] if less else []


SCHEMA = Schema(
    name="advice",
    title="Findings",
    layout="paragraphs",
    columns=(
        Column("finding", "Finding", Unit.TEXT, "short name of the finding"),
        Column("at_stake_ns", "Max Saving", Unit.NS, "most time that a change can save"),
        Column("at_stake_percent", "Max Saving", Unit.PERCENT, "the same as a share of the judged time"),
        Column("what", "Conclusion", Unit.TEXT, "conclusion with its figure"),
        Column("evidence", "Evidence", Unit.TEXT, "figures behind the conclusion", drop_order=2),
        Column("advice", "Advice", Unit.TEXT, "recommended change", drop_order=2),
        Column("unless", "Unless", Unit.TEXT, "case in which the advice does not apply", drop_order=3),
        Column("see", "Report", Unit.TEXT, "report with the rows behind the figures", drop_order=4),
        Column("example", "Code", Unit.TEXT, "line of code that makes the change", drop_order=4),
        Column(
            "shares", "Shares With", Unit.TEXT, "findings that concern part of the same time", drop_order=4
        ),
    ),
)

REPORT = Report(SCHEMA, needs=(KINDS,), compute=compute, reads=READS, judges_steps=True, alone=free)
