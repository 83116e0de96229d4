"""One result of `nsyswrap doctor`, about this machine or about a capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem", "unknown"]


@dataclass(frozen=True)
class Check:
    """What was checked, the result in a sentence, and what to do next: a command or a sentence.

    ``note``: good to know, or a possible cause of trouble. ``unknown``: it could not be checked,
    and ``text`` says why.
    """

    level: Level
    subject: str
    text: str
    cure: str = ""
