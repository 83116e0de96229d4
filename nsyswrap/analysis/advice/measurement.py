"""Find what puts the figures in doubt: lost events, and NVTX ranges that do not time their GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, range_labels
from nsyswrap.analysis.timing_audit import EARLIER, LAUNCH_ONLY, MIXED, VERDICTS, audit
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.timing_audit import Audit


_TOLERANCE = 0.1  # of the right time: a smaller error is accepted
_MOST_TIMED_NAMES = 20  # with more names the ranges are taken for annotations, not for timings
_MOST_NAMES = 3  # in the evidence


def lost_events(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if nsys reported lost events."""
    losses = [diagnostic.text for diagnostic in context.capture.diagnostics if diagnostic.loss]
    if not losses:
        return
    yield Advice(
        "lost_events",
        "events may be missing from this capture: counts and times may be too small",
        None,
        "; ".join(losses),
        "record less at once (--duration, --capture-range, fewer --trace kinds), and again",
        "what is missing is not about the GPU",
        "diagnostics",
    )


def ends_too_early(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if ranges end before the GPU work launched in them: their times are too short."""
    timings = _audited(context)
    if timings is None:
        return
    short = _wrong(context, timings, LAUNCH_ONLY, MIXED) & (
        timings.should_ns > timings.host_ns * (1 + _TOLERANCE)
    )
    if not short.any():
        return
    yield Advice(
        "timed_launch_only",
        "NVTX ranges end before the GPU work launched in them: their time is not that of the work",
        None,
        _ranges(context, timings, short),
        "to time the work, synchronise before the range ends, or read CUDA events",
        "the range is not meant as a timing, or meant as the host's share alone",
        "timing_audit",
    )


def starts_too_early(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if ranges wait for GPU work launched before them: their times are too long."""
    timings = _audited(context)
    if timings is None:
        return
    long = _wrong(context, timings, EARLIER) & (timings.host_ns > timings.should_ns * (1 + _TOLERANCE))
    if not long.any():
        return
    yield Advice(
        "timed_earlier_work",
        "NVTX ranges wait for GPU work that was launched before them: their time includes it",
        None,
        _ranges(context, timings, long),
        "to time the range's own work, synchronise before the range begins",
        "the range is meant to wait for all that came before it, as one around a step's end is",
        "timing_audit",
    )


def _audited(context: AdviceContext) -> Audit | None:
    capture = context.capture
    if not (capture.has("nvtx") and capture.whole.has("api") and len(context.operations)):
        return None
    return audit(capture)


def _wrong(context: AdviceContext, timings: Audit, *verdicts: str) -> NDArray[Any]:
    """Mark the ranges with these verdicts that launch GPU work and may be meant as timings.

    Ranges of nsyswrap.measure are timings. So are ranges of the default domain whose name comes more than
    once: libraries use domains of their own. With very many names the ranges annotate operators instead.
    """
    wrong = np.isin(timings.verdict, [VERDICTS.index(verdict) for verdict in verdicts])
    wrong &= ~timings.warm_up & (timings.launches > 0)
    measured = timings.reported_ns != MISSING
    domain = context.capture.whole.columns("nvtx", "domain_id")["domain_id"][timings.row]
    codes, _ = range_labels(context.capture.whole, timings.row)
    own = wrong & (np.bincount(codes)[codes] > 1) & np.isin(domain, MAIN_DOMAIN)
    if len(np.unique(codes[own & ~measured])) > _MOST_TIMED_NAMES:
        own &= measured
    return own | (wrong & measured)  # type: ignore[no-any-return]


def _ranges(context: AdviceContext, timings: Audit, rows: NDArray[Any]) -> str:
    """Name the ranges with the largest errors, each with its median time and the right one."""
    codes, texts = range_labels(context.capture.whole, timings.row)
    off = np.abs(timings.should_ns - timings.host_ns)
    parts = []
    for code in sorted(np.unique(codes[rows]).tolist(), key=lambda code: -off[rows & (codes == code)].sum()):
        mine = rows & (codes == code)
        host, should = (float(np.median(values[mine])) for values in (timings.host_ns, timings.should_ns))
        of = f"{int(mine.sum()):,} of {int(((codes == code) & ~timings.warm_up).sum()):,}"
        name = "ranges without a name" if texts[code] is None else repr(texts[code])
        parts.append(f"{name} ({of}): {duration(host)}, should be {duration(should)}")
    more = f"; and {len(parts) - _MOST_NAMES} more names" if len(parts) > _MOST_NAMES else ""
    return f"by more than {100 * _TOLERANCE:.0f} %, after the warm-up: {'; '.join(parts[:_MOST_NAMES])}{more}"


CHECKS = (
    lost_events,
    ends_too_early,
    starts_too_early,
)
