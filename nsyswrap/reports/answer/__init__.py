"""The answer of a capture as lines for people, and as data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nsyswrap.analysis.answer import Answer, DeviceTime, JudgedSteps
from nsyswrap.analysis.finding import Finding
from nsyswrap.base.constants import MISSING
from nsyswrap.reports.answer.line import WIDTH, AnswerLine, screen_texts, with_command
from nsyswrap.reports.answer.lines import answer_lines
from nsyswrap.reports.figures import figures_of
from nsyswrap.reports.wording.advice import words
from nsyswrap.reports.wording.notes import joined_texts, note_text

FORMAT = "nsyswrap-answer"
VERSION = 1  # raised with every key that is removed or changes its meaning, and every one not at an end
# The reports that have the rows behind the figures.
SOURCES = {
    "steps": "step_budget",
    "busy": "step_budget",
    "idle": "gpu_idle",
    "findings": "advice",
    "recording": "diagnostics",
}


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return the answer as numbers, texts, lists and dicts. Times are in ns; what is not known is None."""
    figures = figures_of(answer)
    return {
        "format": FORMAT,
        "version": VERSION,
        "part": answer.scope if answer.devices else None,
        "no_steady_part_because": note_text(answer.why_whole) if answer.why_whole else None,
        "steps": _steps(answer.steps) if answer.steps else None,
        "start_up": asdict(answer.start_up) if answer.start_up else None,
        "window_ns": answer.window_ns,
        "busy_percent": figures.get("busy_percent"),
        "busy_ns": dict(answer.busy_ns),
        "idle_percent": figures.get("idle_percent"),
        "idle_ns": dict(answer.idle_ns),
        "devices": [_device(device) for device in answer.devices],
        "withheld_because": words(answer.withheld).what if answer.withheld else None,
        "findings": [_finding(finding) for finding in answer.findings],
        "notes": [*joined_texts(answer.remarks), *(words(note).what for note in answer.notes)],
        "sources": dict(SOURCES),
        "other_loops": [asdict(loop) for loop in answer.other_loops],
        "figures": figures,
        "facts": [_fact(fact) for fact in answer.facts],
        "utilization": asdict(answer.utilization) if answer.utilization else None,
        "energy": asdict(answer.energy) if answer.energy else None,
        **({"ranks": [asdict(rank) for rank in answer.ranks]} if answer.ranks else {}),
    }


def _steps(steps: JudgedSteps) -> dict[str, Any]:
    return {
        "label": steps.label,
        "count": steps.count,
        "first": steps.first,
        "last": steps.last,
        "warm_up_count": steps.warm_up,
        "total_count": steps.total,
        "chosen": steps.chosen,
        "mean_ns": steps.mean_ns,
        "median_ns": steps.median_ns,
        "outliers": [{**asdict(outlier), "filled_ns": dict(outlier.filled_ns)} for outlier in steps.outliers],
        "gpu_percent": steps.gpu_percent,
    }


def _device(device: DeviceTime) -> dict[str, Any]:
    return {
        "process_id": None if device.process_id == MISSING else device.process_id,
        "device_id": device.device_id,
        "window_ns": device.window_ns,
        "busy_ns": dict(device.busy_ns),
        "idle_ns": dict(device.idle_ns),
        "shared_with": list(device.shared_with),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    wording = words(finding)
    return {
        "name": finding.kind,
        "what": wording.what,
        "potential_ns": finding.saved_ns,
        "potential_percent": finding.saved_percent,
        "window_ns": finding.window_ns,
        "remedy": wording.remedy,
        "evidence": wording.evidence,
        "do": wording.do,
        "example": wording.example,
        "unless": wording.unless,
        "report": finding.source,
        "shares_time_with": list(finding.shares),
        "status": finding.status,
        "time_ns": finding.evidence.length or None,
        "time_percent": finding.time_percent,
    }


def _fact(fact: Finding) -> dict[str, Any]:
    return {
        "name": fact.kind,
        "what": words(fact).what,
        "kernel": fact.numbers.get("kernel"),
        "time_ns": fact.evidence.length,
        "time_percent": fact.time_percent,
        "window_ns": fact.window_ns,
        "report": fact.source,
        **({"rank": fact.numbers["rank"]} if "rank" in fact.numbers else {}),
    }


__all__ = ["WIDTH", "AnswerLine", "answer_lines", "as_dict", "screen_texts", "with_command"]
