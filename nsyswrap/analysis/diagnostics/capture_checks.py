"""Checks of a capture's contents: messages of nsys, API results, CUDA graphs, NVTX ranges, format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.diagnostics.check import info, marked, ok, unclipped, unknown, warning
from nsyswrap.analysis.finding import CheckResult
from nsyswrap.analysis.names import strip_version
from nsyswrap.analysis.no_gpu_work import missing_processes, was_traced
from nsyswrap.analysis.nvtx_ranges import xla_broke_import
from nsyswrap.base.check import Level
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.nsys.options import FIRST_GOOD_NSYS
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.info import message_level, newer_than_known
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.stream import narrow, one_of

MESSAGES, API_RESULTS = "nsys messages", "API results"
GRAPHS, RANGES, FORMAT = "CUDA graphs", "NVTX ranges", "export format"
PROCESSES, NAMES = "processes", "names"
_NAMED = {"kernel": "name", "api": "name", "nvtx": "text_id"}  # kind -> the field with the id of a text
_LEVELS: dict[str, Level] = {"loss": "problem", "warning": "note", "info": "info"}  # of messages
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


def check_messages(capture: Capture) -> Iterator[CheckResult]:
    """Yield each distinct message of nsys, whatever is selected: messages concern the whole capture."""
    capture = capture.whole
    if not capture.has("diagnostic"):
        yield unknown(MESSAGES, "no_messages")
        return
    messages = capture.columns("diagnostic", "timestamp_ns", "severity", "text")
    texts = [" ".join(str(text).split()) for text in messages["text"]]
    levels = [message_level(*pair) for pair in zip(messages["severity"].tolist(), texts, strict=True)]
    harmless = {one.text for one in capture.diagnostics if not one.loss}
    levels = ["warning" if text in harmless else level for text, level in zip(texts, levels, strict=True)]
    lost = "loss_by_xla" if xla_broke_import(capture) else "loss"
    by_time = sorted(zip(messages["timestamp_ns"].tolist(), levels, texts, strict=True))  # rows have no order
    for (level, text), count in Counter((level, text) for _, level, text in by_time).items():
        kind, numbers = (lost, {"text": text.rstrip(".")}) if level == "loss" else ("message", {"text": text})
        yield CheckResult(_LEVELS[level], MESSAGES, kind, numbers, count)
    if set(levels) == {"info"}:
        yield ok(MESSAGES, "no_warnings")


def check_api_results(capture: Capture) -> Iterator[CheckResult]:
    """Yield the results other than success, grouped by function and code."""
    if not capture.has("api"):
        yield unknown(API_RESULTS, "no_api", was_traced=was_traced(capture, "cuda"))
        return
    # In four bytes each, half of a column. Every export has names, if not results.
    fields = ("name", "return_value")
    result = capture.stream("api", fields, lambda block: {"": narrow(block["return_value"])})[""]
    if (result == MISSING).all():
        yield unknown(API_RESULTS, "no_results")
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
        yield ok(API_RESULTS, "no_call_failed", calls=marked(result == 0))


def _api_result(name: str, code: int, count: int) -> CheckResult:
    if re.match(_ANSWERS.get(code, "$"), name):
        return info(API_RESULTS, "api_answer", count, name=name, code=code)
    if re.match(_ECHO, name):
        return info(API_RESULTS, "api_echo", count, name=name, code=code)
    kind = "context_lost" if code in _ENDS_CONTEXT else "call_failed"
    return warning(API_RESULTS, kind, count, name=name, code=code)


def check_names(capture: Capture) -> Iterator[CheckResult]:
    """Yield a loss for each kind of event whose names are ids without a text: the export was cut."""
    for kind, field in _NAMED.items():
        with suppress(NotInCapture):
            known, places = distinct(capture.columns(kind, field)[field])
            lost = [i != MISSING and capture.text(i) is None for i in known.tolist()]
            if count := marked(np.array(lost, bool)[places]):
                numbers = {"of": len(places), "title": schema.EVENTS[kind].title}
                yield CheckResult("problem", NAMES, "names_lost", numbers, count)


def check_contents(capture: Capture) -> Iterator[CheckResult]:
    """Yield a diagnosis of the CUDA graphs, the NVTX ranges and the export format."""
    yield _graphs(capture)
    yield _ranges(capture)
    yield _format(capture)


def check_processes(capture: Capture) -> Iterator[CheckResult]:
    """Yield the processes of the run that used CUDA without an event in the capture, by cause."""
    for cause in missing_processes(capture):
        yield replace(cause, level="note", subject=PROCESSES, count=cause.count or 1)


def _graphs(capture: Capture) -> CheckResult:
    if not (count := capture.count("graph")):
        return ok(GRAPHS, "no_whole_graph")
    times = capture.columns("graph", *SPANS)
    total = int((times["end_ns"] - times["start_ns"]).sum())
    return warning(GRAPHS, "whole_graphs", count, total, events="graph")


def _ranges(capture: Capture) -> CheckResult:
    ends = range_ends(capture)
    total, count = len(ends), marked(ends == MISSING)
    if not total:
        return silent_nvtx(capture) or ok(RANGES, "no_ranges")
    if not count:
        return ok(RANGES, "ranges_ended" if total > 1 else "range_ended", of=total)
    return warning(RANGES, "ranges_open", count, of=total)


def silent_nvtx(capture: Capture) -> CheckResult | None:
    """Return that a Python program's package nvtx possibly recorded nothing; None if it did.

    It creates domains, and asks whether they are enabled before it opens a range. nsys 2024 does not answer.
    """
    release = tuple(map(int, re.findall(r"\d+", capture.info.exporter_version)))
    is_python = any("python" in word or word.endswith(".py") for word in capture.info.command)
    if not is_python or not release or release >= FIRST_GOOD_NSYS or not capture.whole.has("nvtx"):
        return None
    kinds = capture.whole.columns("nvtx", "event_type")["event_type"]
    if not len(kinds) or not one_of(kinds, (schema.NVTX_DOMAIN, schema.NVTX_DOMAIN_END)).all():
        return None
    return warning(RANGES, "silent_nvtx", 0)


def range_ends(capture: Capture) -> NDArray[Any]:
    """Return the end of each NVTX range in ns; MISSING if the range never ended."""
    if not capture.has("nvtx"):
        return np.empty(0, np.int64)
    events = capture.columns("nvtx", "end_ns", "event_type")
    ranges = one_of(events["event_type"], (*schema.NVTX_PUSH_POP, *schema.NVTX_START_END))
    ends: NDArray[Any] = events["end_ns"][ranges]
    return ends


def _format(capture: Capture) -> CheckResult:
    if newer := newer_than_known(capture.info):
        return warning(FORMAT, "newer_row", 1, newer=newer)
    version, schema_version = capture.info.exporter_version, capture.info.schema_version
    if not schema_version:
        return unknown(FORMAT, "format_unknown_row")
    return ok(FORMAT, "format_known_row", nsys=version, schema=schema_version)
