"""A section of the page: a heading, what stands below it, and where it cannot be, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.page.markup import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.report import Table


def section(name: str, title: str, *children: object) -> Markup:
    """Return a section with its heading."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def missing(reasons: Iterable[str]) -> Markup:
    """Say why captures cannot answer, each reason once."""
    return joined(element("p", f"Not here: {reason}.", class_="note") for reason in dict.fromkeys(reasons))


def verdicts(tables: Mapping[str, Table]) -> Markup:
    """Return what the tables of captures come to, by label where there are several."""
    labelled = len(tables) > 1
    return joined(
        element("p", element("b", f"{label}: ") if labelled else None, table.verdict, class_="lead")
        for label, table in tables.items()
        if table.verdict
    )
