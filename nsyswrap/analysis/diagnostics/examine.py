"""Examine a capture or a run folder: what it is, whether it is sound and complete, what it takes to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nsyswrap.analysis.diagnostics import capture_checks, launch_checks, run_checks
from nsyswrap.analysis.diagnostics.check import MakesChecks, ok, unknown
from nsyswrap.analysis.finding import CheckResult
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.analysis.no_gpu_work import missing_processes, no_gpu_work, program_failed
from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, NotInCapture
from nsyswrap.base.files import tail
from nsyswrap.base.nsys import command
from nsyswrap.base.run_folder import EXPORT, LOG, REPORT, RUN, RunFolder, ending
from nsyswrap.capture.capture import Capture, open_capture
from nsyswrap.capture.info import newer_than_known

_SHOWN = ("problem", "note", "unknown")
_PATIENCE_S = 10  # for SQLite's quick check, which takes about 1 s for 150 MB
LOG_BYTES = 1 << 20  # the end of nsys.log, which has the fault
# Measured with the capture of 1,000,000 kernels in docs/speed.md: its screen took _SCREEN_S after Python
# had started, and it has _MEASURED_ROWS of the rows counted here.
_START_S, _MEASURED_ROWS, _SCREEN_S = 0.3, 2.6e6, 2.4


def examine_path(path: Path) -> Iterator[CheckResult]:
    """Yield the checks of a capture, or why a run folder has none. Raises CaptureError for other files."""
    if paths.is_file(path / RUN) and not any(paths.exists(path / name) for name in (EXPORT, REPORT)):
        return _without_export(path)
    return examine(open_capture(path))


def examine(capture: Capture) -> Iterator[CheckResult]:
    """Yield all checks of a capture."""
    numbers = {"ending": capture.ending}
    if program_failed(capture.source):
        yield CheckResult("note", "run", "run_failed", numbers)
    elif capture.ending:
        yield CheckResult("problem", "run", "run_cut_short", numbers)
    elif capture.run_facts:
        yield ok("run", "run_ended")
    yield _integrity(capture)
    yield _era(capture)
    yield from _gpu_work(capture)
    yield from _numbers(capture)
    yield _unread(capture)
    files = list(paths.matching(capture.path, "*")) or [capture.path]
    size = sum(map(paths.size, files))
    rows = sum(map(capture.count, (*KINDS, "api", "nvtx")))
    yield ok("size", "size", bytes=size, rows=rows, screen_s=_START_S + _SCREEN_S * rows / _MEASURED_ROWS)


def _without_export(folder: Path) -> Iterator[CheckResult]:
    try:
        hint = RunFolder(folder).read_status().hint
    except CaptureError:
        hint = ""
    yield CheckResult("problem", "run", "no_export", {"ending": ending(folder), "hint": hint})
    try:
        fault, cure = command.fault(tail(folder / LOG, LOG_BYTES).decode(errors="replace"))
    except OSError as error:
        yield unknown("nsys log", "log_unreadable", log=LOG, error=error.strerror)
        return
    if fault:
        yield CheckResult("problem", "nsys log", "nsys_fault", {"fault": fault, "cure": cure})


def _integrity(capture: Capture) -> CheckResult:
    damage = capture.damage(_PATIENCE_S)
    if damage is None:
        return unknown("file", "damage_unknown", patience_s=_PATIENCE_S)
    if damage:
        return CheckResult("problem", "file", "damaged", {"damage": damage})
    return ok("file", "tables_readable" if paths.is_folder(capture.path) else "undamaged")


def _era(capture: Capture) -> CheckResult:
    if newer := newer_than_known(capture.info):
        return CheckResult("note", "format", "newer_format", {"newer": newer})
    if not capture.info.schema_version:
        return unknown("format", "format_unknown")
    version, schema = capture.info.exporter_version, capture.info.schema_version
    return ok("format", "format_known", nsys=version, schema=schema)


def _gpu_work(capture: Capture) -> Iterator[CheckResult]:
    if counts := {kind: count for kind in KINDS if (count := capture.count(kind))}:
        yield ok("GPU work", "gpu_work", counts=counts)
        yield from missing_processes(capture)
        return
    first, *others = no_gpu_work(capture, capture.run_facts)
    yield CheckResult("problem", "GPU work", "no_gpu_work", {"cause": first}, first.count)
    yield from others


def _numbers(capture: Capture) -> Iterator[CheckResult]:
    """Yield the checks behind the report ``diagnostics`` that found something, or could not be made."""
    chosen: dict[str, MakesChecks] = {
        "messages": capture_checks.check_messages,
        "names": capture_checks.check_names,
        "times": launch_checks.check_times,
        "launches": launch_checks.check_launches,
        "API results": capture_checks.check_api_results,
        "conditions": run_checks.check_run,
    }
    sound = []
    for name, check in chosen.items():
        results = _results(name, check, capture)
        checks = [
            replace(check, subject="messages") if check.subject == capture_checks.MESSAGES else check
            for check in results
            if check.level in _SHOWN
        ]
        yield from checks
        if results and not checks:
            sound.append(name)
    if sound:
        yield ok("figures", "no_problem", checks=sound)


def _results(name: str, check: MakesChecks, capture: Capture) -> list[CheckResult]:
    try:
        return list(check(capture))
    except NotInCapture as error:  # a third party trimmed the export
        return [unknown(name, "not_made", missing=error.message)]


def _unread(capture: Capture) -> CheckResult:
    if not capture.unread:
        return ok("contents", "all_read")
    return CheckResult("note", "contents", "unread", {"tables": capture.unread})
