"""A line of the answer, and fitting texts into it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nsyswrap.base.text import clip, screen_width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Kind = Literal["verdict", "shares", "finding", "detail", "fact", "doubt", "note"]
    Level = Literal["good", "warning", "bad", ""]

WIDTH = 80  # columns
_INDENT = "  "
_LEAST, _MOST, _ALMOST, _ALL = 1, 99, 99.9, 100  # percent
_INDENTED = ("shares", "detail")


@dataclass(frozen=True)
class Line:
    """One line of the answer. Only a sentence can take more than 80 columns with its indentation.

    ``level`` says whether the figure is a good or a bad one; empty if that does not apply. ``bar`` has shares
    that add up to at most 1: busy time, time idle by the largest cause, other idle time. ``heading`` stands
    before the sentence, with a colon. ``report`` has the rows behind the sentence, and is named at its end.
    ``typed`` are the options at the end of the text: of `nsyswrap report`, on a screen the whole command.
    """

    sentence: str
    kind: Kind
    level: Level = ""
    bar: tuple[float, ...] = ()
    heading: str = ""
    report: str = ""
    typed: str = ""

    @property
    def indented(self) -> bool:
        """Whether the line belongs to the line above it."""
        return self.kind in _INDENTED

    @property
    def text(self) -> str:
        """The whole line without its indentation and the bar."""
        return f"{self.begin}{self.rest}"

    @property
    def begin(self) -> str:
        """The heading with its colon."""
        return f"{self.heading}:" if self.heading else ""

    @property
    def rest(self) -> str:
        """What follows the heading."""
        report = f" (-r {self.report})" if self.report else ""
        typed = f": {self.typed}" if self.typed else ""
        return f"{' ' if self.heading else ''}{self.sentence}{report}{typed}"

    def __str__(self) -> str:
        """Return the line with its indentation, without the bar."""
        return f"{_INDENT}{self.text}" if self.indented else self.text


def room(kind: Kind) -> int:
    """Return the number of columns that the text of such a line may take."""
    return WIDTH - len(_INDENT) * (kind in _INDENTED)


def with_command(lines: Iterable[Line], command: str) -> list[Line]:
    """Return lines that name a whole command where they name options. ``command`` shows the capture again."""
    return [replace(line, typed=f"{command} {line.typed}") if line.typed else line for line in lines]


def screen_texts(line: Line) -> list[str]:
    """Return the text of a line with its indentation, as lines of at most 80 columns."""
    text = str(line)
    return (
        [clip(part, WIDTH) for part in wrap(text, WIDTH, _INDENT)] if screen_width(text) > WIDTH else [text]
    )


def first_fitting(texts: Sequence[str], columns: int) -> str:
    """Return the first of these texts that fits, else the last one."""
    return next((text for text in texts if screen_width(text) <= columns), texts[-1])


def first_line(lines: Sequence[Line]) -> Line:
    """Return the first of these lines that fits on a screen, else the last one."""
    return next((line for line in lines if screen_width(line.text) <= room(line.kind)), lines[-1])


def whole_percent(value: float) -> str:
    """Return a percentage with its sign, whole from 1 to 99 %; less than all does not read 100 %."""
    if 0 < value < _LEAST:
        return f"{value:.1g} %"
    return f"{min(value, _ALMOST):.1f} %" if _MOST < value < _ALL else f"{value:.0f} %"
