"""Find what puts the figures in doubt: lost events, and NVTX ranges that do not time their GPU work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.diagnostics.launch_checks import check_launches
from nsyswrap.analysis.finding import CheckResult, Finding, FindingKind
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, gpu_operations_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, range_labels, xla_broke_import
from nsyswrap.analysis.range_texts import MODULES_DOMAIN
from nsyswrap.analysis.steps.loops import marked_numbers
from nsyswrap.analysis.timing_audit import EARLIER, LAUNCH_ONLY, MIXED, VERDICTS, Audit, audit
from nsyswrap.analysis.timing_audit.purpose import seems_measured
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.info import each_handed_over
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import BUFFERS, DROPPED, LAUNCHED, NVTX_DOMAIN, STOPPED_WARNING
from nsyswrap.capture.stream import one_of

_TOLERANCE = 0.1  # of the right time: a smaller error is accepted
_MOST_BUFFERS = 2  # of CUPTI that a process has not handed over: nsys 2025.3 kept one of 50 each time
_MOST_LOST = 0.01  # of the launches: as many can be under way when nsys stops


def doubts(capture: Capture) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """Return doubts about all figures, findings on ranges that time wrongly, and notes on other ranges."""
    wrong, notes = [], list(_slowed_by_marks(capture.whole))
    if capture.has("nvtx") and capture.whole.has("api") and len(gpu_operations_of(capture)):
        try:
            timings = audit(capture)
        except NotInCapture as error:
            refused = Finding.doubt("ranges_not_judged", "timing_audit", reason=error.message)
            return list(lost_events(capture)), [], [*notes, refused]
        measured = seems_measured(capture)
        own, other = own_ranges(capture, timings), np.zeros(len(timings), dtype=bool)
        wrongly: tuple[tuple[FindingKind, NDArray[Any]], ...] = (
            ("timed_launch_only", _short(timings)),
            ("timed_earlier_work", _long(timings)),
        )
        for kind, marks in wrongly:
            off = marks & own
            if (off & measured).any():
                wrong.append(_wrong(kind, capture, timings, off & measured))
            other |= off & ~measured
        if other.any():
            codes, texts = range_labels(capture.whole, timings.row)
            names = tuple(texts[code] for code in ascending(codes[other]).tolist())
            notes.append(Finding.doubt("ranges_differ", "timing_audit", names=names))
    return list(lost_events(capture)), wrong, notes


def _slowed_by_marks(whole: Capture) -> Iterator[Finding]:
    """Yield a note if the hook of ``profile --modules`` had PyTorch mark its operations."""
    if whole.has("nvtx"):
        events = whole.columns("nvtx", "event_type", "text")
        if MODULES_DOMAIN in events["text"][events["event_type"] == NVTX_DOMAIN].tolist():
            yield Finding.doubt("slowed_by_marks", "diagnostics")


def lost_events(capture: Capture) -> Iterator[Finding]:
    """Yield a finding if nsys reported lost events, and name the marked steps."""
    losses = tuple(diagnostic.text for diagnostic in capture.diagnostics if diagnostic.loss)
    if losses:
        first, last = marked_numbers(capture.whole)
        numbers = {"losses": losses, "first_step": first, "last_step": last}
        numbers["xla_broke_import"] = xla_broke_import(capture)
        if lacks_kernels(capture.whole) and began_before(capture.whole):
            numbers["session_lost_kernels"] = True
        elif is_cut_at_its_end(capture.whole, losses) and _all_late(capture.whole):
            numbers["cut_at_its_end"] = True
        yield Finding.doubt("lost_events", "diagnostics", **numbers)


def is_cut_at_its_end(whole: Capture, losses: Sequence[str]) -> bool:
    """Return True if nsys stopped a program at work, of which only the last events can be missing.

    Each process has handed over its buffers but the last ones, nsys has all that it counted, and nearly all
    launches have their work, and the other way round.
    """
    if not all(re.match(STOPPED_WARNING, loss) for loss in losses):
        return False
    messages = whole.columns("diagnostic", "global_pid", "text")
    texts = list(map(str, messages["text"].tolist()))
    if not each_handed_over(zip(messages["global_pid"].tolist(), texts, strict=True)):
        return False
    buffers = [match for text in texts for match in re.findall(BUFFERS, text)]
    dropped = sum(int(count.replace(",", "")) for text in texts for count in re.findall(DROPPED, text))
    if any(int(asked) - int(given) > _MOST_BUFFERS for given, asked in buffers):
        return False
    events = whole.all_cuda_events
    if not events or dropped > _MOST_LOST * events:
        return False
    operations = gpu_operations_of(whole)
    orphans = int(np.count_nonzero((operations.call < 0) & ~operations.migration))
    lost = sum(check.count or 0 for check in _lost_launches(whole))
    return bool(max(lost, orphans) <= _MOST_LOST * len(launches_of(whole)))


def _all_late(whole: Capture) -> bool:
    """Return True if no launch call before the last one with recorded work lacks its work."""
    return all(check.numbers["late"] == check.count for check in _lost_launches(whole))


@per_capture
def _lost_launches(whole: Capture) -> list[CheckResult]:
    return [check for check in check_launches(whole) if check.kind == "launches_lost"]


def lacks_kernels(whole: Capture) -> bool:
    """Return True if a program launched kernels, and none is recorded."""
    if not whole.has("api") or any(map(whole.has, (KERNEL, GRAPH))):
        return False
    return bool(_lost_launches(whole))


def began_before(whole: Capture) -> bool:
    """Return True if the program ran before it was recorded, as a server."""
    if not whole.has("diagnostic"):
        return False
    messages = whole.columns("diagnostic", "timestamp_ns", "text")
    launched = np.array([str(text).startswith(LAUNCHED) for text in messages["text"].tolist()], bool)
    return bool((messages["timestamp_ns"][launched] < 0).any())


def _short(timings: Audit) -> NDArray[Any]:
    """Mark ranges that end before their GPU work, so that their time is too short."""
    marks = _with_verdict(timings, LAUNCH_ONLY, MIXED)
    marks &= timings.should_ns > timings.host_ns * (1 + _TOLERANCE)
    return marks


def _long(timings: Audit) -> NDArray[Any]:
    """Mark ranges that wait for earlier GPU work, so that their time is too long."""
    marks = _with_verdict(timings, EARLIER)
    marks &= timings.host_ns > timings.should_ns * (1 + _TOLERANCE)
    return marks


def _with_verdict(timings: Audit, *verdicts: str) -> NDArray[Any]:
    marks: NDArray[Any] = one_of(timings.verdict, [VERDICTS.index(verdict) for verdict in verdicts])
    marks &= ~timings.warm_up & (timings.launches > 0)
    return marks


def own_ranges(capture: Capture, timings: Audit) -> NDArray[Any]:
    """Mark ranges of the program: those of nsyswrap.measure, and repeated ones in the default domain."""
    domain = capture.whole.columns("nvtx", "domain_id")["domain_id"][timings.row]
    codes, _ = range_labels(capture.whole, timings.row)
    repeated = one_of(domain, MAIN_DOMAIN) & (np.bincount(codes)[codes] > 1)
    marks: NDArray[Any] = repeated | (timings.reported_ns != MISSING)
    return marks


def _wrong(kind: FindingKind, capture: Capture, timings: Audit, rows: NDArray[Any]) -> Finding:
    """Return a finding on ranges, those with the largest errors first: name, how many of how many, and times.

    The times in ns are the median duration and the median of the right ones.
    """
    codes, texts = range_labels(capture.whole, timings.row)
    off = np.abs(timings.should_ns - timings.host_ns)
    ranges = []
    for code in sorted(ascending(codes[rows]).tolist(), key=lambda code: -off[rows & (codes == code)].sum()):
        mine = rows & (codes == code)
        host, should = (float(np.median(values[mine])) for values in (timings.host_ns, timings.should_ns))
        of = int(((codes == code) & ~timings.warm_up).sum())
        ranges.append((texts[code], int(mine.sum()), of, host, should))
    return Finding.doubt(kind, "timing_audit", tolerance_percent=100 * _TOLERANCE, ranges=tuple(ranges))
