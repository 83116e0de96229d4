"""One result of a check: of this machine, of a capture, or of why GPU work is missing."""

from __future__ import annotations

from typing import Literal

from nsyswrap.base.records import dataclass

CUDA_BUILD = "install a CUDA build: https://pytorch.org/get-started/locally"  # in place of one for the CPU
Level = Literal["problem", "note", "info", "unknown", "ok"]


@dataclass(frozen=True)
class Check:
    """What was checked, the result in a sentence, and what to do next: a command or a sentence.

    ``note``: a possible cause of trouble, or good to know. ``info``: it explains figures. ``unknown``: it
    could not be checked, and ``text`` says why. Of a capture, a ``problem`` is that events are missing, and a
    ``note`` that figures are wrong or misleading. ``count`` is the number of events, processes or messages
    concerned, None if it is not known. ``time_ns`` is the time concerned, in ns: a total, or the largest of
    several odd times.
    """

    level: Level
    subject: str
    text: str
    cure: str = ""
    count: int | None = None
    time_ns: int | None = None

    def __str__(self) -> str:
        """Return the text and the cure in one line."""
        return f"{self.text}; {self.cure}" if self.cure else self.text
