"""Checks of a capture's contents: messages of nsys, API results, CUDA graphs, NVTX ranges, format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.diagnostics.check import (
    counted,
    info,
    marked,
    ok,
    unclipped,
    unknown,
    warning,
)
from nsyswrap.analysis.names import RESULTS, strip_version
from nsyswrap.analysis.no_gpu_work import missing_processes, without_calls
from nsyswrap.analysis.nvtx_ranges import xla_broke_import
from nsyswrap.base.check import Check, Level
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.nsys.options import FIRST_GOOD_NSYS, SILENT_NVTX
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.info import message_level, newer_than_known
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.stream import narrow

MESSAGES, API_RESULTS = "nsys messages", "API results"
GRAPHS, RANGES, FORMAT = "CUDA graphs", "NVTX ranges", "export format"
PROCESSES, NAMES = "processes", "names"
_NAMED = {"kernel": "name", "api": "name", "nvtx": "text_id"}  # kind -> the field with the id of a text
_AGAIN = "reports cannot tell these events apart. Export the .nsys-rep again"
_LEVELS: dict[str, Level] = {"loss": "problem", "warning": "note", "info": "info"}  # of messages
_LOST = " Counts and totals may be too low; record less at once."
_LOST_BY_XLA = (
    " nsys could not import the NVTX ranges of XLA, and lost events with them; record with --trace cuda."
)

_CURE_OF_SILENT_NVTX = "use nsys 2025 or newer, or pip install 'nvtx<0.2.12'"
_ENDS_CONTEXT = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719}
# Codes that are an answer rather than a failure, and the functions for which they are.
_ANSWERS = {
    600: r"cu(da)?(EventQuery|StreamQuery|EventElapsedTime)",
    500: r"cu(GetProcAddress|ModuleGet|LibraryGet)|cudaGetDriverEntryPoint",
    1: r"cu(da)?PointerGetAttribute",  # for memory that CUDA does not know
    704: r"cu(daDevice|Ctx)EnablePeerAccess",
    705: r"cu(daDevice|Ctx)DisablePeerAccess",
    712: r"cu(da|Mem)HostRegister",
    713: r"cu(da|Mem)HostUnregister",
    910: r"cu(da)?GraphExecUpdate",
    4: r"cu",  # any driver call while the process exits
}
_ECHO = r"cuda(GetLast|PeekAtLast)Error"  # returns the error of an earlier call


def check_messages(capture: Capture) -> Iterator[Check]:
    """Yield each distinct message of nsys, whatever is selected: messages concern the whole capture."""
    capture = capture.whole
    if not capture.has("diagnostic"):
        why = "this export has no diagnostics (nsys writes them since 2024.2); events may have been dropped"
        yield unknown(MESSAGES, why)
        return
    messages = capture.columns("diagnostic", "timestamp_ns", "severity", "text")
    texts = [" ".join(str(text).split()) for text in messages["text"]]
    levels = [message_level(*pair) for pair in zip(messages["severity"].tolist(), texts, strict=True)]
    harmless = {one.text for one in capture.diagnostics if not one.loss}
    levels = ["warning" if text in harmless else level for text, level in zip(texts, levels, strict=True)]
    lost = _LOST_BY_XLA if xla_broke_import(capture) else _LOST
    by_time = sorted(zip(messages["timestamp_ns"].tolist(), levels, texts, strict=True))  # rows have no order
    for (level, text), count in Counter((level, text) for _, level, text in by_time).items():
        meaning = f"{text.rstrip('.')}.{lost}" if level == "loss" else text
        yield Check(_LEVELS[level], MESSAGES, f"nsys: {meaning}", count=count)
    if set(levels) == {"info"}:
        yield ok(MESSAGES, "nsys reported no warnings and no dropped events")


def check_api_results(capture: Capture) -> Iterator[Check]:
    """Yield the results other than success, grouped by function and code."""
    if not capture.has("api"):
        yield unknown(API_RESULTS, without_calls(capture))
        return
    # The column itself would take twice the memory. Every export has names, if not results.
    fields = ("name", "return_value")
    result = capture.stream("api", fields, lambda block: {"": narrow(block["return_value"])})[""]
    if (result == MISSING).all():
        yield unknown(API_RESULTS, "this export has no return values of API calls")
        return
    rows = np.flatnonzero((result != 0) & (result != MISSING))
    codes, (names, results) = group_keys(unclipped(capture, "api", "name")["name"][rows], result[rows])
    counts = np.bincount(codes, minlength=len(names)).tolist()
    checks = [
        _api_result(strip_version(capture.text(name)) or "unnamed call", code, count)
        for name, code, count in zip(names.tolist(), results.tolist(), counts, strict=True)
    ]
    yield from checks
    if not any(check.level == "note" for check in checks):
        yield ok(API_RESULTS, f"no API call failed; {counted('api', marked(result == 0))} returned success")


def _api_result(name: str, code: int, count: int) -> Check:
    result = f"{name} returned {code} ({RESULTS.get(code, 'an error')})"
    if re.match(_ANSWERS.get(code, "$"), name):
        return info(API_RESULTS, count, f"{result}: a regular result, not a failure")
    if re.match(_ECHO, name):
        return info(API_RESULTS, count, f"{result}: repeats the error of an earlier call")
    if code in _ENDS_CONTEXT:
        return warning(API_RESULTS, count, f"{result}: the CUDA context is lost; no later work ran in it")
    return warning(API_RESULTS, count, f"{result}: the call had no effect; its time still counts")


def check_names(capture: Capture) -> Iterator[Check]:
    """Yield a loss for each kind of event whose names are ids without a text: the export was cut."""
    for kind, field in _NAMED.items():
        with suppress(NotInCapture):
            known, places = distinct(capture.columns(kind, field)[field])
            lost = [i != MISSING and capture.text(i) is None for i in known.tolist()]
            if count := marked(np.array(lost, bool)[places]):
                events = f"{count:,} of {len(places):,} {schema.EVENTS[kind].title}"
                meaning = f"the export lacks the names of {events}; {_AGAIN}"
                yield Check("problem", NAMES, meaning, count=count)


def check_contents(capture: Capture) -> Iterator[Check]:
    """Yield a diagnosis of the CUDA graphs, the NVTX ranges and the export format."""
    yield _graphs(capture)
    yield _ranges(capture)
    yield _format(capture)


def check_processes(capture: Capture) -> Iterator[Check]:
    """Yield the processes of the run that used CUDA without an event in the capture, by cause."""
    for cause in missing_processes(capture):
        yield warning(PROCESSES, cause.count or 1, str(cause))


def _graphs(capture: Capture) -> Check:
    if not (count := capture.count("graph")):
        return ok(GRAPHS, "no CUDA graph is recorded as a whole")
    times = capture.columns("graph", *SPANS)
    total = int((times["end_ns"] - times["start_ns"]).sum())
    hidden = f"{counted('graph', count)}: the kernels inside are in no kernel report"
    return warning(GRAPHS, count, f"{hidden}; profile with --graphs node to record them", total)


def _ranges(capture: Capture) -> Check:
    ends = range_ends(capture)
    total, count = len(ends), marked(ends == MISSING)
    if not total:
        silent = silent_nvtx(capture)
        return (
            warning(RANGES, 0, f"{silent}; {_CURE_OF_SILENT_NVTX}")
            if silent
            else ok(RANGES, "no NVTX ranges")
        )
    if not count:
        return ok(RANGES, f"all {total:,} ranges have an end" if total > 1 else "the only range has an end")
    open_ended = f"{count:,} of {total:,} ranges have no end"
    return warning(RANGES, count, f"{open_ended}; nsys' own reports end them at the last NVTX event")


def silent_nvtx(capture: Capture) -> str:
    """Return that a Python program's package nvtx possibly recorded nothing; empty if it did.

    It creates domains, and asks whether they are enabled before it opens a range. nsys 2024 does not answer.
    """
    release = tuple(map(int, re.findall(r"\d+", capture.info.exporter_version)))
    is_python = any("python" in word or word.endswith(".py") for word in capture.info.command)
    if not is_python or not release or release >= FIRST_GOOD_NSYS or not capture.whole.has("nvtx"):
        return ""
    kinds = capture.whole.columns("nvtx", "event_type")["event_type"]
    if not len(kinds) or not np.isin(kinds, (schema.NVTX_DOMAIN, schema.NVTX_DOMAIN_END)).all():
        return ""
    package = f"the package nvtx {'.'.join(map(str, SILENT_NVTX))} or newer"
    return f"no NVTX ranges, only domains: possibly {package}, which is silent under nsys 2024"


def range_ends(capture: Capture) -> NDArray[Any]:
    """Return the end of each NVTX range in ns; MISSING if the range never ended."""
    if not capture.has("nvtx"):
        return np.empty(0, np.int64)
    events = capture.columns("nvtx", "end_ns", "event_type")
    ranges = np.isin(events["event_type"], (*schema.NVTX_PUSH_POP, *schema.NVTX_START_END))
    ends: NDArray[Any] = events["end_ns"][ranges]
    return ends


def _format(capture: Capture) -> Check:
    if newer := newer_than_known(capture.info):
        return warning(FORMAT, 1, newer)
    if not capture.info.schema_version:
        return unknown(FORMAT, "nsys version unknown: written before 2022, or the file was trimmed")
    writer = f"written by nsys {capture.info.exporter_version} (schema {capture.info.schema_version})"
    return ok(FORMAT, f"{writer}; not newer than the versions that nsyswrap was tested with")
