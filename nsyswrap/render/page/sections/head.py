"""Where the captures come from: a card for each, and the checks of the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.answer_parts import without_reports
from nsyswrap.render.page.html import Markup, Section, element, section
from nsyswrap.render.page.subject import part_shown
from nsyswrap.render.page.tables import folded_table

if TYPE_CHECKING:
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.summary import Summary


def head(subject: Subject) -> Markup:
    """Return a card for each capture and the table of all checks."""
    cards = (_card(subject, label, subject.summaries[label]) for label in subject.captures)
    checks = subject.table("diagnostics")
    return section(
        "program",
        "Program and checks",
        element("div", *cards, class_="cards"),
        folded_table(checks, "Checks of the recording") if checks is not None else None,
    )


def _card(subject: Subject, label: str, summary: Summary) -> Markup:
    contents, *warnings = summary.trust
    selected = part_shown(subject.captures[label])
    return element(
        "article",
        element("h3", label),
        element("p", element("code", summary.command), class_="command") if summary.command else None,
        element("p", summary.origin),
        element("p", f"selected: {selected}", class_="warning") if selected else None,
        element("p", without_reports(contents), class_="trust"),
        *(element("p", text.strip(), class_="warning") for text in (*warnings, *subject.remarks(label))),
        class_="card",
    )


SECTION = Section("program", "Program and checks", head, reads=("diagnostics",))
