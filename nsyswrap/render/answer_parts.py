"""The bar of an answer in Unicode blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.reports.answer import Line

_BLOCKS = "█▒░"  # busy, idle by the largest cause, other idle time
CELLS = 20


def answer_bar(line: Line, cells: int = CELLS) -> str:
    """Return the bar of a line with this many characters; empty if the line has none."""
    ends = [round(sum(line.bar[: number + 1]) * cells) for number in range(len(line.bar))]
    starts = [0, *ends]
    return "".join(block * (end - start) for block, start, end in zip(_BLOCKS, starts, ends, strict=False))
