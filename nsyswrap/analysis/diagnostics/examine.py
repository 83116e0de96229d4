"""Examine a capture or a run folder: what it is, whether it is sound and complete, what it takes to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from nsyswrap.analysis.diagnostics import capture_checks, launch_checks, run_checks
from nsyswrap.analysis.diagnostics.check import counted, unknown
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.analysis.no_gpu_work import missing_processes, no_gpu_work
from nsyswrap.analysis.no_gpu_work.evidence import program_failed, run_facts
from nsyswrap.base import paths
from nsyswrap.base.check import Check
from nsyswrap.base.errors import CaptureError, NotInCapture
from nsyswrap.base.files import tail
from nsyswrap.base.nsys import command
from nsyswrap.base.run_folder import EXPORT, LOG, REPORT, RUN, RunFolder, ending
from nsyswrap.capture.capture import Capture, open_capture
from nsyswrap.capture.info import newer_than_known

_SHOWN = ("problem", "note", "unknown")
_PATIENCE_S = 10  # for SQLite's quick check, which takes about 1 s for 150 MB
LOG_BYTES = 1 << 20  # the end of nsys.log, which has the fault
# Measured with 1,000,000 kernels and their launches, see docs/speed.md. Python takes _START_S to start.
_START_S, _MEASURED_ROWS, _SCREEN_S = 0.3, 2e6, 7.6
# Tables that no report reads -> what they hold. The first pattern that matches counts.
_CONTENTS = {
    "COMPOSITE_EVENTS": "CPU samples",
    "SCHED_EVENTS": "thread switches on the CPU",
    "CUDA_GPU_MEMORY_POOL_EVENTS": "memory pools",
    "CUDA_GRAPH_*": "creation of CUDA graphs",
    "CUBLAS_EVENTS": "calls of cuBLAS",
    "CUDNN_EVENTS": "calls of cuDNN",
    "OSRT_FILE_ACCESS_*": "file accesses",
    "NET_*": "network metrics",
    "FECS_EVENTS": "context switches on the GPU",
    "PERF_EVENT_*": "CPU counters",
    "GENERIC_EVENT*": "events of other sources",
    "VULKAN_*": "Vulkan events",
    "OPENGL_*": "OpenGL events",
    "D?1?_*": "Direct3D events",
    "UCP_*": "UCX calls",
}


def examine_path(path: Path) -> Iterator[Check]:
    """Yield the checks of a capture, or why a run folder has none. Raises CaptureError for other files."""
    if paths.is_file(path / RUN) and not any(paths.exists(path / name) for name in (EXPORT, REPORT)):
        return _without_export(path)
    return examine(open_capture(path))


def examine(capture: Capture) -> Iterator[Check]:
    """Yield all checks of a capture."""
    yield from _run(capture)
    yield _integrity(capture)
    yield _era(capture)
    yield from _gpu_work(capture)
    yield from _numbers(capture)
    yield _unread(capture)
    yield _size(capture)


def _without_export(folder: Path) -> Iterator[Check]:
    why = ending(folder) or f"the run left no {EXPORT}"
    try:
        hint = RunFolder(folder).read_status().hint
    except CaptureError:
        hint = ""
    yield Check("problem", "run", why, hint)
    try:
        fault, cure = command.fault(tail(folder / LOG, LOG_BYTES).decode(errors="replace"))
    except OSError as error:
        yield Check("unknown", "nsys log", f"{LOG} cannot be read: {error.strerror}")
        return
    if fault:
        yield Check("problem", "nsys log", fault, cure)


def _run(capture: Capture) -> Iterator[Check]:
    if program_failed(capture.source):
        yield Check("note", "run", capture.ending)
    elif capture.ending:
        yield Check("problem", "run", f"{capture.ending}; the capture may end early", "profile again")
    elif run_facts(capture.source):
        yield Check("ok", "run", "the run ended well")


def _integrity(capture: Capture) -> Check:
    damage = capture.damage(_PATIENCE_S)
    if damage is None:
        return Check("unknown", "file", f"looking for damage took longer than {_PATIENCE_S} s")
    if damage:
        return Check("problem", "file", f"the file is damaged: {damage}", "export the .nsys-rep again")
    is_folder = paths.is_folder(capture.path)
    return Check(
        "ok", "file", "all tables can be read" if is_folder else "SQLite's quick check found no damage"
    )


def _era(capture: Capture) -> Check:
    if newer := newer_than_known(capture.info):
        return Check("note", "format", newer, "use a newer nsyswrap")
    if not capture.info.schema_version:
        return Check("unknown", "format", "nsys version unknown: before 2022, or the file was trimmed")
    version, schema = capture.info.exporter_version, capture.info.schema_version
    return Check("ok", "format", f"written by nsys {version}, schema {schema}")


def _gpu_work(capture: Capture) -> Iterator[Check]:
    counts = [counted(kind, count) for kind in KINDS if (count := capture.count(kind))]
    if counts:
        yield Check("ok", "GPU work", ", ".join(counts))
        yield from missing_processes(capture)
        return
    first, *others = no_gpu_work(capture, run_facts(capture.source))
    yield replace(first, level="problem", text=f"no GPU work: {first.text}")
    yield from others


def _numbers(capture: Capture) -> Iterator[Check]:
    """Yield the checks behind the report ``diagnostics`` that found something, or could not be made."""
    chosen: dict[str, Callable[[Capture], Iterator[Check]]] = {
        "messages": capture_checks.check_messages,
        "names": capture_checks.check_names,
        "times": launch_checks.check_times,
        "launches": launch_checks.check_launches,
        "API results": capture_checks.check_api_results,
        "conditions": run_checks.check_run,
    }
    sound = []
    for name, check in chosen.items():
        made = _made(name, check, capture)
        checks = [
            replace(check, subject="messages") if check.subject == capture_checks.MESSAGES else check
            for check in made
            if check.level in _SHOWN
        ]
        yield from checks
        if made and not checks:
            sound.append(name)
    if sound:
        yield Check("ok", "figures", f"no problem found in {', '.join(sound)}")


def _made(name: str, check: Callable[[Capture], Iterator[Check]], capture: Capture) -> list[Check]:
    try:
        return list(check(capture))
    except NotInCapture as error:  # a third party trimmed the export
        return [unknown(name, error.message)]


def _unread(capture: Capture) -> Check:
    if not capture.unread:
        return Check("ok", "contents", "every table with events is read by a report")
    parts = ", ".join(_content(*item) for item in capture.unread.items())
    return Check("note", "contents", f"no report reads {parts}", "open the .nsys-rep with nsys-ui")


def _content(table: str, count: int) -> str:
    named = next((text for pattern, text in _CONTENTS.items() if fnmatchcase(table, pattern)), "")
    rows = f"{count:,} row{'' if count == 1 else 's'}"
    return f"{table}: {named} ({rows})" if named else f"{table} ({rows})"


def _size(capture: Capture) -> Check:
    files = list(paths.matching(capture.path, "*")) or [capture.path]
    size = sum(map(paths.size, files))
    rows = sum(map(capture.count, (*KINDS, "api", "nvtx")))
    time = f"the screen takes roughly {_START_S + _SCREEN_S * rows / _MEASURED_ROWS:,.1f} s"
    events = f"{rows:,} CUDA and NVTX {'event' if rows == 1 else 'events'}"
    return Check("ok", "size", f"{size / 1e6:,.1f} MB, {events}; {time}")
