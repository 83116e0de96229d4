"""What nsys itself said of the capture: dropped events, other warnings, and what it did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nsyswrap.analysis.diagnostics.check import Diagnosis, ok, unknown
from nsyswrap.capture.info import message_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.capture import Capture

SUBJECT = "messages of nsys"
_LOST = " Where events are missing, counts and totals are lower bounds: record less at once."


def diagnose(capture: Capture) -> Iterator[Diagnosis]:
    """Yield each text that nsys left in the export, whatever is selected: they are about all of it."""
    capture = capture.whole
    if not capture.has("diagnostic"):
        why = "no diagnostics in this export (nsys writes them from 2024.2 on): events may have been dropped"
        yield unknown(SUBJECT, why)
        return
    said = capture.columns("diagnostic", "severity", "text")
    texts = [" ".join(str(text).split()) for text in said["text"]]
    levels = [message_level(*pair) for pair in zip(said["severity"].tolist(), texts, strict=True)]
    for (level, text), count in Counter(zip(levels, texts, strict=True)).items():
        meaning = f"{text.rstrip('.')}.{_LOST}" if level == "loss" else text
        yield Diagnosis(level, SUBJECT, count, None, f"nsys: {meaning}")
    if set(levels) == {"info"}:
        yield ok(SUBJECT, "nsys reported no warning and no dropped events")
