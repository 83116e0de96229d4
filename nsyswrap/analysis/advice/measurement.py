"""Find what puts the figures in doubt: lost events, and NVTX ranges that do not time their GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, range_labels
from nsyswrap.analysis.range_tree.range_texts import MODULES_DOMAIN
from nsyswrap.analysis.steps.marked import marked_numbers
from nsyswrap.analysis.timing_audit import EARLIER, LAUNCH_ONLY, MIXED, VERDICTS, audit
from nsyswrap.analysis.timing_audit.purpose import seems_measured
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration
from nsyswrap.capture.schema import NVTX_DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.timing_audit import Audit
    from nsyswrap.capture.capture import Capture


_TOLERANCE = 0.1  # of the right time: a smaller error is accepted
_MOST_NAMES = 3  # in the evidence


def doubts(capture: Capture) -> tuple[list[Advice], list[Advice], list[str]]:
    """Return doubts about all figures, findings on ranges that time wrongly, and notes on other ranges."""
    wrong, notes = [], list(_slowed_by_marks(capture.whole))
    if capture.has("nvtx") and capture.whole.has("api") and len(gpu_operations_of(capture)):
        try:
            timings = audit(capture)
        except NotInCapture as error:
            return list(lost_events(capture)), [], [*notes, error.message]
        measured = seems_measured(capture)
        own, other = _own_ranges(capture, timings), np.zeros(len(timings), dtype=bool)
        for wrongly, make in ((_short(timings), _ends_too_early), (_long(timings), _starts_too_early)):
            off = wrongly & own
            if (off & measured).any():
                wrong.append(make(_ranges(capture, timings, off & measured)))
            other |= off & ~measured
        if other.any():
            notes.append(_note(capture, timings, other))
    return list(lost_events(capture)), wrong, notes


def _slowed_by_marks(whole: Capture) -> Iterator[str]:
    """Yield a note if the hook of ``profile --modules`` had PyTorch mark its operations."""
    if whole.has("nvtx"):
        events = whole.columns("nvtx", "event_type", "text")
        if MODULES_DOMAIN in events["text"][events["event_type"] == NVTX_DOMAIN].tolist():
            yield "the marks of --modules slow host code: judge idle time in a run without them"


def lost_events(capture: Capture) -> Iterator[Advice]:
    """Yield a finding if nsys reported lost events."""
    losses = [diagnostic.text for diagnostic in capture.diagnostics if diagnostic.loss]
    if losses:
        do, option = _recording_less(capture.whole)
        yield Advice(
            "lost_events",
            "Events are missing from this capture: counts and times may be too low",
            None,
            "; ".join(losses),
            "Recording less at once",
            f"record again, with less at once: {do} or fewer --trace kinds",
            f"nsyswrap profile {option} -- ...",
            "the missing events are not GPU events",
            "diagnostics",
        )


def _recording_less(whole: Capture) -> tuple[str, str]:
    """Return which options record less at once, and an example. With marked steps it is fewer of these."""
    first, last = marked_numbers(whole)
    if first is None or last is None:
        return "--duration, --capture-range", "--duration 10"
    return "fewer steps" if first < last else "another of the --steps", f"--steps {(first + last) // 2}"


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
    marks: NDArray[Any] = np.isin(timings.verdict, [VERDICTS.index(verdict) for verdict in verdicts])
    marks &= ~timings.warm_up & (timings.launches > 0)
    return marks


def _own_ranges(capture: Capture, timings: Audit) -> NDArray[Any]:
    """Mark ranges of the program: those of nsyswrap.measure, and repeated ones in the default domain."""
    domain = capture.whole.columns("nvtx", "domain_id")["domain_id"][timings.row]
    codes, _ = range_labels(capture.whole, timings.row)
    repeated = np.isin(domain, MAIN_DOMAIN) & (np.bincount(codes)[codes] > 1)
    marks: NDArray[Any] = repeated | (timings.reported_ns != MISSING)
    return marks


def _ends_too_early(evidence: str) -> Advice:
    return Advice(
        "timed_launch_only",
        "NVTX timing: ranges end before the GPU work launched in them",
        None,
        evidence,
        "Timing the work",
        "synchronize before the range ends, or use CUDA events",
        "torch.cuda.synchronize()  # as the last line of the range",
        "the range is meant to measure host time only",
        "timing_audit",
    )


def _starts_too_early(evidence: str) -> Advice:
    return Advice(
        "timed_earlier_work",
        "NVTX timing: ranges include waiting for GPU work launched before them",
        None,
        evidence,
        "Timing the work",
        "synchronize before the range begins",
        "torch.cuda.synchronize()  # as the last line before the range",
        "the range is meant to include earlier work",
        "timing_audit",
    )


def _note(capture: Capture, timings: Audit, off: NDArray[Any]) -> str:
    codes, texts = range_labels(capture.whole, timings.row)
    names = [repr(texts[code]) for code in np.unique(codes[off]).tolist()]
    listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"NVTX ranges and their GPU work differ in duration: {listed} (-r timing_audit)"


def _ranges(capture: Capture, timings: Audit, rows: NDArray[Any]) -> str:
    """Name the ranges with the largest errors, each with its median time and the right one."""
    codes, texts = range_labels(capture.whole, timings.row)
    off = np.abs(timings.should_ns - timings.host_ns)
    parts = []
    for code in sorted(np.unique(codes[rows]).tolist(), key=lambda code: -off[rows & (codes == code)].sum()):
        mine = rows & (codes == code)
        host, should = (float(np.median(values[mine])) for values in (timings.host_ns, timings.should_ns))
        of = f"{int(mine.sum()):,} of {int(((codes == code) & ~timings.warm_up).sum()):,}"
        name = "unnamed ranges" if texts[code] is None else repr(texts[code])
        parts.append(f"{name} ({of}): {duration(host)}, expected {duration(should)}")
    more = f"; and {len(parts) - _MOST_NAMES} more names" if len(parts) > _MOST_NAMES else ""
    return f"off by more than {100 * _TOLERANCE:.0f} % after warm-up: {'; '.join(parts[:_MOST_NAMES])}{more}"
