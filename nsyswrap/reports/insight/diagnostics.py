"""Whether the numbers can be trusted: every check of a capture and its result, the worst first.

A check that could not be made has a row that says so, without a count.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nsyswrap.analysis.diagnostics import capture_checks, launch_checks, run_checks
from nsyswrap.analysis.diagnostics.check import MakesChecks, marked, unknown
from nsyswrap.analysis.finding import CheckResult
from nsyswrap.analysis.gpu_operations import KINDS, operation_notes
from nsyswrap.base.check import Check, Level
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import counted
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.table import Column, Report, Result, Schema, Values
from nsyswrap.reports.wording.checks import worded

# The words for the levels of checks, the worst first.
_LEVELS: Mapping[Level, str] = {
    "problem": "loss",
    "note": "warning",
    "info": "info",
    "unknown": "info",
    "ok": "ok",
}
_KINDS = (*KINDS, "api", "overhead")
# Each check with its subject, for the case that the check cannot be made.
_CHECKS = (
    (capture_checks.MESSAGES, capture_checks.check_messages),
    (capture_checks.NAMES, capture_checks.check_names),
    (capture_checks.PROCESSES, capture_checks.check_processes),
    (launch_checks.TIMES, launch_checks.check_times),
    (launch_checks.LAUNCHES, launch_checks.check_launches),
    (launch_checks.ORIGINS, launch_checks.check_origins),
    (capture_checks.API_RESULTS, capture_checks.check_api_results),
    (capture_checks.GRAPHS, capture_checks.check_contents),
    (launch_checks.OVERHEAD, launch_checks.check_overhead),
    (run_checks.CLOCKS, run_checks.check_run),
)


def compute(capture: Capture) -> Result:
    """Return one row per diagnosis, the worst level first, in each level in the order of the checks."""
    chosen = () if _nothing_selected(capture) else _CHECKS
    checks = [
        worded(result) for subject, diagnose in chosen for result in _results(subject, diagnose, capture)
    ]
    checks.sort(key=_rank)
    return Result(
        {
            "level": [_LEVELS[check.level] for check in checks],
            "subject": [check.subject for check in checks],
            "count": _numbers([check.count for check in checks]),
            "time_ns": _numbers([check.time_ns for check in checks]),
            "meaning": [str(check) for check in checks],
        },
        operation_notes(capture) if chosen else (),
    )


def _nothing_selected(capture: Capture) -> bool:
    if not capture.view.selection.narrows:
        return False
    return not len(capture_checks.range_ends(capture)) and not any(map(capture.has, _KINDS))


def _rank(check: Check) -> tuple[int, bool]:
    """Return the sort key: worst level first, nsys' own messages last among infos."""
    level = _LEVELS[check.level]
    is_message = level == "info" and check.subject == capture_checks.MESSAGES
    return list(_LEVELS.values()).index(level), is_message


def _results(subject: str, diagnose: MakesChecks, capture: Capture) -> list[CheckResult]:
    checks: list[CheckResult] = []
    try:
        checks.extend(diagnose(capture))
    except NotInCapture as missing:  # a third party trimmed the export
        checks.append(unknown(subject, "not_checked", missing=missing.message))
    return checks


def _numbers(values: list[int | None]) -> Values:
    return np.array([MISSING if value is None else value for value in values], np.int64)


def conclude(_: Capture, data: Mapping[str, Values]) -> str:
    """Return a sentence on how far to trust the numbers."""
    levels, subjects = list(data["level"]), list(data["subject"])
    warned = dict.fromkeys(
        str(subject) for level, subject in zip(levels, subjects, strict=True) if level == "warning"
    )
    untold = marked(np.asarray(data["count"]) == MISSING)
    parts = ["events may be missing"] if "loss" in levels else []
    parts += [f"warnings: {', '.join(warned)}"] if warned else []
    parts = parts or ["no check found a problem"]
    parts += [f"{counted(untold, 'checks')} not possible"] if untold else []
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


SCHEMA = Schema(
    "diagnostics",
    "Diagnostics",
    Column("level", "Level", "loss: events are missing; warning: figures may mislead; info; ok"),
    Column("subject", "Check", "subject of the check"),
    Column("count", "Count", "number of occurrences; missing if the capture does not show it"),
    Column("time_ns", "Time", "time concerned: a total, or the largest deviation", 1),
    Column("meaning", "Meaning", "effect on the figures, and remedy", is_sentence=True),
)

REPORT = Report(
    SCHEMA,
    needs=(),
    compute=compute,
    reads={"api": ("correlation_id", "global_tid", *NAMED, "return_value")},
    conclude=conclude,
)
