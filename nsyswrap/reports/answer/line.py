"""A line of the answer, and fitting texts into it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nsyswrap.base.text import clip, printable, screen_width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Kind = Literal["verdict", "shares", "finding", "detail", "fact", "doubt", "note"]
    Level = Literal["good", "warning", "bad", ""]

WIDTH = 80  # columns
_INDENT = "  "
_LEAST, _MOST, _ALMOST, _ALL = 1, 99, 99.9, 100  # percent
_INDENTED = ("shares", "detail")


@dataclass(frozen=True)
class Line:
    """One line of the answer, at most 80 columns with its indentation.

    ``level`` says whether the figure is a good or a bad one; empty if that does not apply. ``bar`` has shares
    that add up to at most 1: busy time, time idle by the largest cause, other idle time. ``continues`` marks
    the rest of a sentence that the line above begins. ``typed`` are the options at the end of the text: of
    `nsyswrap report`, on a screen the whole command.
    """

    text: str
    kind: Kind
    level: Level = ""
    bar: tuple[float, ...] = ()
    continues: bool = False
    typed: str = ""

    @property
    def indented(self) -> bool:
        """Whether the line belongs to the line above it."""
        return self.kind in _INDENTED or self.continues

    def __str__(self) -> str:
        """Return the line with its indentation, without the bar."""
        return f"{_INDENT}{self.text}" if self.indented else self.text


def room(kind: Kind) -> int:
    """Return the number of columns that the text of such a line may take."""
    return WIDTH - len(_INDENT) * (kind in _INDENTED)


def command_line(text: str, options: str, kind: Kind) -> Line:
    """Return a line that ends with options of `nsyswrap report`."""
    return Line(f"{text}: {options}", kind, typed=options)


def with_command(lines: Iterable[Line], command: str) -> list[Line]:
    """Return lines that name a whole command where they name options. ``command`` shows the capture again."""
    whole = ((line, f"{command} {line.typed}") for line in lines)
    return [
        replace(line, text=f"{line.text.removesuffix(line.typed)}{typed}", typed=typed)
        if line.typed
        else line
        for line, typed in whole
    ]


def wrapped_lines(text: str, kind: Kind, level: Level = "") -> Iterator[Line]:
    """Yield a sentence as lines."""
    parts = wrap(printable(text), WIDTH, _INDENT)
    for number, part in enumerate(parts):
        yield Line(clip(part, WIDTH).strip(), kind, level, continues=number > 0)


def sentences(lines: Iterable[Line]) -> list[Line]:
    """Return lines of any width: each continued sentence in one."""
    whole: list[Line] = []
    for line in lines:
        if line.continues:
            whole[-1] = replace(whole[-1], text=f"{whole[-1].text} {line.text}")
        else:
            whole.append(line)
    return whole


def first_fitting(texts: Sequence[str], columns: int) -> str:
    """Return the first of these texts that fits, else the last one."""
    return next((text for text in texts if screen_width(text) <= columns), texts[-1])


def whole_percent(value: float) -> str:
    """Return a percentage with its sign, whole from 1 to 99 %; less than all does not read 100 %."""
    if 0 < value < _LEAST:
        return f"{value:.1g} %"
    return f"{min(value, _ALMOST):.1f} %" if _MOST < value < _ALL else f"{value:.0f} %"
