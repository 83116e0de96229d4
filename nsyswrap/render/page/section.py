"""A section of the page: a heading, what stands below it, and where it cannot be, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.page.html import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table


def section(name: str, title: str, *children: object) -> Markup:
    """Return a section with its heading."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def missing(reasons: Iterable[str]) -> Markup:
    """Say why captures cannot answer, each reason once."""
    return joined(element("p", f"Not here: {reason}.", class_="note") for reason in dict.fromkeys(reasons))


def empty(subject: Subject, report: str) -> Markup:
    """Say why a report has no rows, of the captures that it could be made of."""
    tables = subject.tables(report)
    reasons = {label: subject.why_empty(report, label) for label, table in tables.items() if not len(table)}
    return joined(
        element("p", element("b", f"{label}: ") if subject.several else None, f"{why[0].upper()}{why[1:]}.")
        for label, why in reasons.items()
    )


def verdicts(tables: Mapping[str, Table]) -> Markup:
    """Return what the tables of captures come to, by label where there are several."""
    labelled = len(tables) > 1
    return joined(
        element("p", element("b", f"{label}: ") if labelled else None, table.verdict, class_="lead")
        for label, table in tables.items()
        if table.verdict
    )
