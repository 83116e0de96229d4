"""A cause of missing GPU work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """What explains that GPU work is missing, and what to do about it.

    ``is_certain``: the evidence shows it. Otherwise it is one of several explanations. ``count`` is the
    number of processes or messages concerned.
    """

    text: str
    cure: str = ""
    is_certain: bool = True
    count: int = 1

    def __str__(self) -> str:
        """Return the cause and its cure in one line."""
        words = self.text if self.is_certain else f"possibly {self.text}"
        return f"{words}; {self.cure}" if self.cure else words
