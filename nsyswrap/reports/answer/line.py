"""A line of the answer, fitting texts into it, and percentages of the time judged that add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from nsyswrap.analysis.answer import Answer
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import clip, screen_width, wrap
from nsyswrap.reports.figures import SentenceFigure
from nsyswrap.reports.wording.states import OTHER_NAME

Kind = Literal["verdict", "shares", "finding", "detail", "fact", "doubt", "note"]
Level = Literal["good", "warning", "bad", ""]


WIDTH = 80  # columns
CELLS = 20  # of a bar
_BLOCKS = "█▒░"  # busy, idle by the largest cause, other idle time
_INDENT = "  "
_LEAST, _MOST, _ALMOST, _ALL = 1, 99, 99.9, 100  # percent
_INDENTED = ("shares", "detail")
_LEAST_PERCENT = 1.0  # smaller shares are summed


@dataclass(frozen=True)
class AnswerLine:
    """One line of the answer. Only a sentence can take more than 80 columns with its indentation.

    ``level`` says whether the figure is a good or a bad one; empty if that does not apply. ``bar`` has shares
    that add up to at most 1: busy time, time idle by the largest cause, other idle time. ``heading`` stands
    before the sentence, with a colon. ``report`` has the rows behind the sentence, and is named at its end.
    ``typed`` are the options at the end of the text: of `nsyswrap report`, on a screen the whole command.
    ``figures`` are those of the text that have a key, in order.
    """

    sentence: str
    kind: Kind
    level: Level = ""
    bar: tuple[float, ...] = ()
    heading: str = ""
    report: str = ""
    typed: str = ""
    figures: tuple[SentenceFigure, ...] = ()

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

    def blocks(self, cells: int = CELLS) -> str:
        """Return the bar as this many Unicode blocks; empty if the line has none."""
        ends = [round(sum(self.bar[: number + 1]) * cells) for number in range(len(self.bar))]
        starts = [0, *ends]
        drawn = zip(_BLOCKS, starts, ends, strict=False)
        return "".join(block * (end - start) for block, start, end in drawn)


def room(kind: Kind) -> int:
    """Return the number of columns that the text of such a line may take."""
    return WIDTH - len(_INDENT) * (kind in _INDENTED)


def with_command(lines: Iterable[AnswerLine], command: str) -> list[AnswerLine]:
    """Return lines that name a whole command where they name options. ``command`` shows the capture again."""
    return [replace(line, typed=f"{command} {line.typed}") if line.typed else line for line in lines]


def screen_texts(line: AnswerLine) -> list[str]:
    """Return the text of a line with its indentation, as lines of at most 80 columns."""
    text = str(line)
    return (
        [clip(part, WIDTH) for part in wrap(text, WIDTH, _INDENT)] if screen_width(text) > WIDTH else [text]
    )


def first_fitting(texts: Sequence[str], columns: int) -> str:
    """Return the first of these texts that fits, else the last one."""
    return next((text for text in texts if screen_width(text) <= columns), texts[-1])


def first_line(lines: Sequence[AnswerLine]) -> AnswerLine:
    """Return the first of these lines that fits on a screen, else the last one."""
    return next((line for line in lines if screen_width(line.text) <= room(line.kind)), lines[-1])


def whole_percent(value: float) -> str:
    """Return a percentage with its sign, whole from 1 to 99 %; less than all does not read 100 %."""
    if 0 < value < _LEAST:
        return f"{value:.1g} %"
    return f"{min(value, _ALMOST):.1f} %" if _MOST < value < _ALL else f"{value:.0f} %"


@dataclass(frozen=True)
class Shares:
    """Shares of the time judged in whole units, ``units`` of which are all of it; parts add up to totals.

    ``busy_parts`` and ``idle_parts`` hold the shares of 1 % or more, the largest first, then the sum of the
    others as "other".
    """

    units: int
    busy: int
    idle: int
    busy_parts: Mapping[str, int]
    idle_parts: Mapping[str, int]

    def text(self, units: int) -> str:
        """Return a share as a percentage, without the sign."""
        return f"{units}" if self.units == _ALL else f"{_ALL * units / self.units:.1f}"

    def fraction(self, units: int) -> float:
        """Return a share as a fraction of 1."""
        return units / self.units


def shares_of(answer: Answer) -> Shares:
    """Return the shares of an answer with GPU work.

    They are whole percentages; tenths if the GPU was busy or idle for less than 1 %.
    """
    busy, idle = (sum(times.values()) for times in (answer.busy_ns, answer.idle_ns))
    units = _ALL
    if 0 < _ALL * min(busy, idle) < _LEAST_PERCENT * answer.window_ns:
        units *= 10
    totals = apportioned({"busy": busy, "idle": idle}, units)
    for name, other in (("busy", "idle"), ("idle", "busy")):
        if not totals[name] and (busy if name == "busy" else idle):  # what is there does not read 0.0 %
            totals = {name: 1, other: units - 1}
    parts = (
        _parts(times, answer.window_ns, totals[name])
        for name, times in (("busy", answer.busy_ns), ("idle", answer.idle_ns))
    )
    return Shares(units, totals["busy"], totals["idle"], *parts)


def apportioned(times: Mapping[str, int], units: int) -> dict[str, int]:
    """Split whole units in proportion to times, so that they add up; the largest remainders get the rest."""
    total = sum(times.values())
    if not total:
        return dict.fromkeys(times, 0)
    exact = {name: ns * units / total for name, ns in times.items()}
    split = {name: int(value) for name, value in exact.items()}
    rest = units - sum(split.values())
    for name in sorted(exact, key=lambda name: split[name] - exact[name])[:rest]:
        split[name] += 1
    return split


def merged(parts: Mapping[str, int]) -> dict[str, int]:
    """Return parts with the smallest named one added to "other"."""
    *kept, last = (name for name in parts if name != OTHER_NAME)
    return {**{name: parts[name] for name in kept}, OTHER_NAME: parts.get(OTHER_NAME, 0) + parts[last]}


def _grouped(times: Mapping[str, int], window_ns: int) -> dict[str, int]:
    """Return times with those under 1 % summed; the largest keeps its name. ``times`` are in order."""
    shown = {name: ns for name, ns in times.items() if _ALL * ns >= _LEAST_PERCENT * window_ns}
    if not shown:
        shown = dict(list(times.items())[:1])
    rest = sum(times.values()) - sum(shown.values())
    return {**shown, OTHER_NAME: rest} if rest else shown


def _parts(times: Mapping[str, int], window_ns: int, units: int) -> dict[str, int]:
    split = apportioned(_grouped(times, window_ns), units)
    return {name: count for name, count in split.items() if count}
