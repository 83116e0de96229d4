"""What the lines of an answer are made of: a heading in bold, and a bar of Unicode blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.reports.answer import Line

_BLOCKS = "█▒░"  # busy, idle by the largest cause, other idle time
CELLS = 20
HEADED = ("verdict", "finding")  # kinds of lines that begin with a heading
_REPORT = re.compile(r" \(-r \w+\)")


def split_heading(text: str) -> tuple[str, str]:
    """Return the heading of a verdict or a finding, which ends with its first colon, and the rest."""
    heading, colon, rest = text.partition(":")
    return (heading + colon, rest) if rest.startswith(" ") else ("", text)


def without_reports(text: str) -> str:
    """Return a text without the names of reports in brackets, for a page that has their tables."""
    return _REPORT.sub("", text)


def answer_bar(line: Line, cells: int = CELLS) -> str:
    """Return the bar of a line with this many characters; empty if the line has none."""
    ends = [round(sum(line.bar[: number + 1]) * cells) for number in range(len(line.bar))]
    starts = [0, *ends]
    return "".join(block * (end - start) for block, start, end in zip(_BLOCKS, starts, ends, strict=False))
