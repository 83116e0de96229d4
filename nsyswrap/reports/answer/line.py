"""A line of the answer, and fitting texts into it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nsyswrap.base.text import printable, screen_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Kind = Literal["verdict", "shares", "finding", "detail", "fact", "doubt", "note"]
    Level = Literal["good", "warning", "bad", ""]

WIDTH = 80  # columns
_INDENT = "  "
_LEAST, _MOST, _ALL = 1, 99, 100  # percent
_INDENTED = ("shares", "detail")


@dataclass(frozen=True)
class Line:
    """One line of the answer, at most 80 columns with its indentation.

    ``level`` says whether the figure is a good or a bad one; empty if that does not apply. ``bar`` has shares
    that add up to at most 1: busy time, time idle by the largest cause, other idle time.
    """

    text: str
    kind: Kind
    level: Level = ""
    bar: tuple[float, ...] = ()

    @property
    def indented(self) -> bool:
        """Whether the line belongs to the line above it."""
        return self.kind in _INDENTED

    def __str__(self) -> str:
        """Return the line with its indentation, without the bar."""
        return f"{_INDENT}{self.text}" if self.indented else self.text


def room(kind: Kind) -> int:
    """Return the number of columns that the text of such a line may take."""
    return WIDTH - len(_INDENT) * (kind in _INDENTED)


def wrapped_lines(text: str, kind: Kind, level: Level = "") -> Iterator[Line]:
    """Yield a sentence as lines. All but the first are details."""
    first, *rest = textwrap.wrap(printable(text), room("detail")) or [""]
    yield Line(first, kind, level)
    for part in rest:
        yield Line(part, "detail", level)


def first_fitting(texts: Sequence[str], columns: int) -> str:
    """Return the first of these texts that fits, else the last one."""
    return next((text for text in texts if screen_width(text) <= columns), texts[-1])


def whole_percent(value: float) -> str:
    """Return a percentage with its sign, without decimals from 1 % on; less than all does not read 100 %."""
    if 0 < value < _LEAST:
        return f"{value:.1g} %"
    return "over 99 %" if _MOST < value < _ALL else f"{value:.0f} %"
