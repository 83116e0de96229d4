"""A comparison as plain data. Its JSON Schema is ``docs/compare.schema.json``."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from nsyswrap.analysis.compare.gate import GateLimits, GateResult
from nsyswrap.analysis.compare.model import Comparison, Side
from nsyswrap.base.version import version
from nsyswrap.reports.compare import gate_lines
from nsyswrap.reports.compare.conclusion import conclude
from nsyswrap.reports.compare.tables import PERCENT, all_rows, row_name
from nsyswrap.reports.wording.comparisons import worded_obstacle
from nsyswrap.reports.wording.notes import note_text

FORMAT = "nsyswrap-comparison"
VERSION = 1  # raised if a key is removed or changes its meaning; new keys come at the end


def as_dict(comparison: Comparison, gate: tuple[GateResult, GateLimits] | None = None) -> dict[str, Any]:
    """Return the comparison, and what a gate said, with unrounded values and full names.

    What is not known is None.
    """
    conclusion = conclude(comparison, {pair.key: row_name(pair.key) for pair in comparison.pairs})
    limits, head = comparison.limits, conclusion.pair
    rows = [{name: _known(value) for name, value in row.items()} for row in all_rows(comparison).records()]
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool": {"name": "nsyswrap", "version": version()},
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "limits": {
            "max_slower_percent": limits.max_slower * PERCENT,
            "min_time_ns": limits.min_time_ns,
            "error_rate_percent": limits.error_rate * PERCENT,
        },
        "obstacles": [asdict(worded_obstacle(obstacle)) for obstacle in comparison.obstacles],
        "outcome": conclusion.outcome,
        "headline": None if head is None else rows[comparison.pairs.index(head)],
        "conclusion": list(conclusion.lines),
        "counts": list(conclusion.counts),
        "no_verdicts_because": note_text(comparison.no_verdicts) if comparison.no_verdicts else None,
        "notes": list(map(note_text, comparison.remarks)),
        "rows": rows,
        "gate": None if gate is None else _gate(*gate),
        "left_out": [*_left_out("base", comparison.base), *_left_out("new", comparison.new)],
        "figures": {mark.key: _known(mark.value) for mark in conclusion.marks},
    }


def _left_out(which: str, side: Side) -> list[dict[str, Any]]:
    return [
        {
            "side": which,
            "label": run.label,
            "path": run.path,
            "reason": run.reason,
            "exit_code": run.exit_code,
        }
        for run in side.left_out
    ]


def _gate(result: GateResult, limits: GateLimits) -> dict[str, Any]:
    return {
        "verdict": result.verdict,
        "conclusion": gate_lines.conclusion(result, limits),
        "rows": gate_lines.row_lines(result),
        "notes": gate_lines.remark_lines(result),
    }


def _side(side: Side) -> dict[str, Any]:
    runs = [
        {"label": run.label, "steps_count": run.steps, "setup": _setup(asdict(run.setup))}
        for run in side.runs
    ]
    return {"name": side.name, "runs": runs, "nsyswrap": side.nsyswrap or version()}


def _setup(setup: dict[str, Any]) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else None if value == "" else value
        for key, value in setup.items()
    }


def _known(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
