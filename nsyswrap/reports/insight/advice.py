"""What to do: findings, ranked by the time that a change can save, with the evidence for each.

The steady part is judged: the repeated steps, without start-up and warm-up. If there is none, the whole
capture is judged, or what is selected.

Searched for: launches, synchronizing, host code, input, allocating, loading and garbage collection that the
GPU waits for; pageable and tiny copies; copies and communication with no kernel beside them; copies that the
link limits; kernels that wait for pages, have few blocks, or a last wave of few; FP32 products that leave the
tensor cores unused, FP64, misaligned products; casts, copies to another layout, attention, chains of
elementwise kernels and updates of parameters that could be fused or left out; ranks that others wait for;
unusually long steps; idle time with another cause; NVTX ranges that the program measures with and that do not
time their GPU work; lost events.

A change saves at most the time of the judged part that the finding concerns. For blocks, arithmetic and
kernels that only move data this time is an estimate. Time on several devices counts once. Two findings can
concern the same time; then they name each other. A finding of less than 5 % of the judged time is left out.
"""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.advice import (
    READS,
    WORTH_PERCENT,
    advice_of,
    advise_processes,
    prepare,
    release_tables,
)
from nsyswrap.analysis.answer import withheld_because
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of, operation_notes
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import Column, Paragraph, Report, Result, Schema
from nsyswrap.reports.wording.advice import SAVINGS, words

_LESS_PERCENT = 1.0


def free(capture: Capture) -> None:
    """Free the largest columns once what findings take of them is computed."""
    prepare(capture)
    release_tables(capture.whole)


def compute(capture: Capture) -> Result:
    """Return one row per finding."""
    findings, notes, _ = advice_of(capture)
    migrates = gpu_operations_of(capture).migration.any()
    remarks = [words(note).what for note in notes]
    if withheld := withheld_because(capture):
        findings = [finding for finding in findings if finding.kind == "lost_events"]
        remarks = [f"no verdict: {words(withheld).what}"]
    elif not findings:
        less = advise_processes(capture, judged_processes(capture), _LESS_PERCENT).findings
        remarks = [*_less_notes(less), *remarks]
    wordings = [words(finding) for finding in findings]
    titles = {one.kind: text.heading or text.what for one, text in zip(findings, wordings, strict=True)}
    stakes = [MISSING if finding.saved_ns is None else finding.saved_ns for finding in findings]
    shares = [np.nan if finding.saved_percent is None else finding.saved_percent for finding in findings]
    return Result(
        {
            "finding": [finding.kind for finding in findings],
            "at_stake_ns": np.array(stakes, np.int64),
            "at_stake_percent": np.array(shares),
            "what": [wording.what for wording in wordings],
            "evidence": [wording.evidence for wording in wordings],
            "advice": [wording.do for wording in wordings],
            "unless": [wording.unless for wording in wordings],
            "see": [finding.source for finding in findings],
            "example": [wording.example for wording in wordings],
            "shares": [", ".join(finding.shares) or None for finding in findings],
        },
        (
            *operation_notes(capture),
            *(capture.notes_on_fields("memcpy", "migration_cause") if migrates else ()),
            *remarks,
        ),
        paragraphs=tuple(
            Paragraph(
                wording.heading, tuple(titles[kind] for kind in finding.shares), SAVINGS[finding.status]
            )
            for finding, wording in zip(findings, wordings, strict=True)
        ),
    )


def _less_notes(findings: list[Finding]) -> list[str]:
    """Return a note that names what concerns less time than a finding."""
    less = [
        f"{words(finding).what} ({duration(finding.ceiling_ns)}, {percent(finding.ceiling_percent or 0)})"
        for finding in findings
        if finding.ceiling_ns is not None
    ]
    return [f"below {WORTH_PERCENT:.0f} % of the time, so not a finding: {'; '.join(less)}"] if less else []


SCHEMA = Schema(
    "advice",
    "Findings",
    Column("finding", "Finding", "short name of the finding"),
    Column("at_stake_ns", "Max Saving", "most time that a change can save"),
    Column("at_stake_percent", "Max Saving", "the same as a share of the judged time"),
    Column("what", "Conclusion", "conclusion with its figure"),
    Column("evidence", "Evidence", "figures behind the conclusion", 2),
    Column("advice", "Advice", "recommended change", 2),
    Column("unless", "Unless", "case in which the advice does not apply", 3),
    Column("see", "Report", "report with the rows behind the figures", 4),
    Column("example", "Code", "line of code that makes the change", 4),
    Column("shares", "Shares With", "findings that concern part of the same time", 4),
    layout="paragraphs",
)

REPORT = Report(SCHEMA, needs=(KINDS,), compute=compute, reads=READS, judges_steps=True, alone=free)
