"""The answer of each capture, in the lines of the screen."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nsyswrap.render.answer_parts import HEADED, answer_bar, split_heading, without_reports
from nsyswrap.render.page.html import Markup, Section, element, section, side_by_side
from nsyswrap.reports.answer import with_command

if TYPE_CHECKING:
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.answer import Line


def answer(subject: Subject) -> Markup:
    """Return the answers of all captures side by side."""
    tiles = {label: [_tile(subject, label)] for label in subject.captures}
    return section("answer", "Answer", side_by_side(tiles))


def _tile(subject: Subject, label: str) -> Markup:
    """Return the lines of the answer as the screen has them; how a failed run ended comes first.

    Commands are left out that show what the page has: advice, and reports.
    """
    summary = subject.summaries[label]
    ending = element("p", summary.ending, class_="warning") if summary.ending else None
    lines = [line for line in summary.lines if not line.typed.startswith(("--advice", "-r "))]
    command = f"nsyswrap report {shlex.quote(subject.captures[label].source.name)}"
    return element("article", ending, *map(_line, with_command(lines, command)), class_="tile wide answer")


def _line(line: Line) -> Markup:
    bar = element("span", answer_bar(line), class_="blocks", aria_hidden="true") if line.bar else None
    level = "warning" if line.level == "bad" else line.level
    classes = " ".join(part for part in (f"answer-{line.kind}", level) if part)
    heading, rest = split_heading(line.text) if line.kind in HEADED else ("", line.text)
    bold = element("b", heading) if heading else None
    return element("p", bold, without_reports(rest), " " if bar else None, bar, class_=classes)


SECTION = Section("answer", "Answer", answer)
