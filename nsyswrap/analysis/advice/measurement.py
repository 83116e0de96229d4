"""Find what makes the figures doubtful: lost events, and NVTX ranges that do not time their GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice import Advice
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, range_labels
from nsyswrap.analysis.timing_audit import EARLIER, LAUNCH_ONLY, MIXED, VERDICTS, audit
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice import AdviceContext
    from nsyswrap.analysis.timing_audit import Audit


_OFF = 0.1  # of what it should be: nearer is near enough
_TIMED_NAMES = 20  # nobody times more by hand
_NAMED = 3


def lost_events(seen: AdviceContext) -> Iterator[Advice]:
    """Diagnostics about dropped events."""
    losses = [diagnostic.text for diagnostic in seen.capture.diagnostics if diagnostic.loss]
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


def ends_too_early(seen: AdviceContext) -> Iterator[Advice]:
    """Ranges that end before the work they launched: taken for its time, they are too short."""
    found = _audited(seen)
    if found is None:
        return
    short = _timings(seen, found, LAUNCH_ONLY, MIXED) & (found.should_ns > found.host_ns * (1 + _OFF))
    if not short.any():
        return
    yield Advice(
        "timed_launch_only",
        "NVTX ranges end before the GPU work launched in them: their time is not that of the work",
        None,
        _ranges(seen, found, short),
        "to time the work, synchronise before the range ends, or read CUDA events",
        "the range is not meant as a timing, or meant as the host's share alone",
        "timing_audit",
    )


def starts_too_early(seen: AdviceContext) -> Iterator[Advice]:
    """Ranges that wait for work launched before them: taken for the time of their own, they are too long."""
    found = _audited(seen)
    if found is None:
        return
    long = _timings(seen, found, EARLIER) & (found.host_ns > found.should_ns * (1 + _OFF))
    if not long.any():
        return
    yield Advice(
        "timed_earlier_work",
        "NVTX ranges wait for GPU work that was launched before them: their time includes it",
        None,
        _ranges(seen, found, long),
        "to time the range's own work, synchronise before the range begins",
        "the range is meant to wait for all that came before it, as one around a step's end is",
        "timing_audit",
    )


def _audited(seen: AdviceContext) -> Audit | None:
    capture = seen.capture
    if not (capture.has("nvtx") and capture.whole.has("api") and len(seen.operations)):
        return None
    return audit(capture)


def _timings(seen: AdviceContext, found: Audit, *verdicts: str) -> NDArray[Any]:
    """Mark ranges of these verdicts that launch something and may be timings.

    That is what nsyswrap.measure opened, and what comes again in the program's own domain: libraries mark
    their calls in domains of theirs. Ranges of very many names mark every operator, and time nothing.
    """
    wrong = np.isin(found.verdict, [VERDICTS.index(verdict) for verdict in verdicts])
    wrong &= ~found.warm_up & (found.launches > 0)
    measured = found.reported_ns != MISSING
    domain = seen.capture.whole.columns("nvtx", "domain_id")["domain_id"][found.row]
    codes, _ = range_labels(seen.capture.whole, found.row)
    own = wrong & (np.bincount(codes)[codes] > 1) & np.isin(domain, MAIN_DOMAIN)
    if len(np.unique(codes[own & ~measured])) > _TIMED_NAMES:
        own &= measured
    return own | (wrong & measured)  # type: ignore[no-any-return]


def _ranges(seen: AdviceContext, found: Audit, rows: NDArray[Any]) -> str:
    """Name the ranges that are off by the most, with what they took and should have taken."""
    codes, texts = range_labels(seen.capture.whole, found.row)
    off = np.abs(found.should_ns - found.host_ns)
    parts = []
    for code in sorted(np.unique(codes[rows]).tolist(), key=lambda code: -off[rows & (codes == code)].sum()):
        mine = rows & (codes == code)
        host, should = (float(np.median(values[mine])) for values in (found.host_ns, found.should_ns))
        of = f"{int(mine.sum()):,} of {int(((codes == code) & ~found.warm_up).sum()):,}"
        name = "ranges without a name" if texts[code] is None else repr(texts[code])
        parts.append(f"{name} ({of}): {duration(host)}, should be {duration(should)}")
    more = f"; and {len(parts) - _NAMED} more names" if len(parts) > _NAMED else ""
    return f"by more than {100 * _OFF:.0f} %, after the warm-up: {'; '.join(parts[:_NAMED])}{more}"


CHECKS = (
    lost_events,
    ends_too_early,
    starts_too_early,
)
