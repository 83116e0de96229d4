"""Events that nsys says are missing: whatever is computed from the rest is incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.advice import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.advice import Situation


def lost_events(seen: Situation) -> Iterator[Finding]:
    """Diagnostics about dropped events."""
    losses = [diagnostic.text for diagnostic in seen.capture.diagnostics if diagnostic.loss]
    if not losses:
        return
    yield Finding(
        "lost_events",
        "events may be missing from this capture: counts and times may be too small",
        None,
        "; ".join(losses),
        "record less at once (--duration, --capture-range, fewer --trace kinds), and again",
        "what is missing is not about the GPU",
        "diagnostics",
    )


LOOKS = (lost_events,)
