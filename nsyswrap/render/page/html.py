"""Make HTML from plain values, and the sections of the page.

Every text is escaped on its way in, so no name in a capture becomes a tag.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.render.formats.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table


_VOID = {"br", "input", "link", "meta"}  # elements that have no end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor, its name in the list at the top, and the function that makes it.

    ``make`` returns None where there is nothing to show. ``reads`` names the reports that it asks for.
    """

    anchor: str
    name: str
    make: Callable[[Subject], Markup | None]
    reads: tuple[str, ...] = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element; children that are no Markup are texts, and None is left out.

    ``data_value`` stands for the attribute ``data-value``, ``class_`` for ``class``. What is None or False is
    left out, and True has no value.
    """
    given = "".join(_attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{given}>" + ("" if name in _VOID else f"{joined(children)}</{name}>"))


def joined(children: Iterable[object]) -> Markup:
    """Return children one after another."""
    return Markup("".join(_child(child) for child in children if child is not None))


def plain(text: str) -> str:
    """Write what is no character, or moves or turns the text around it, as an escape."""
    return printable(text).encode("utf-8", "backslashreplace").decode()


def data(value: object, name: str) -> Markup:
    """Return a value for the page's script, as JSON that cannot end its element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{name}">{content}</script>')


def _child(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(plain(str(child)), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{html.escape(plain(str(value)))}"'


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
