"""Build HTML from plain values.

All text is escaped when it is added, so no name in a capture can become a tag.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nsyswrap.base.text import printable
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports.figures import SentenceFigure
from nsyswrap.reports.table import Table

S = TypeVar("S")  # what a page is about
_VOID = {"br", "input", "link", "meta"}  # elements without an end tag


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


@dataclass(frozen=True)
class Section(Generic[S]):
    """A part of the page: its anchor, its name in the navigation, and the function that makes it.

    ``make`` returns None if there is nothing to show.
    ``of_gpu``: it is left out where no capture has GPU work, as the answer says why.
    ``turn``: those with a higher number are made later, as they take much memory, which others free.
    """

    anchor: str
    name: str
    make: Callable[[S], Markup | None]
    of_gpu: bool = False
    turn: int = 0


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element. Children that are not Markup are escaped; None is left out.

    The attribute ``data-value`` is passed as ``data_value``, and ``class`` as ``class_``. An attribute that
    is None or False is left out. An attribute that is True is written without a value.
    """
    attribute_text = "".join(
        _attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup(f"<{name}{attribute_text}>" + ("" if name in _VOID else f"{joined(children)}</{name}>"))


def joined(children: Iterable[object]) -> Markup:
    """Concatenate children. Children that are not Markup are escaped; None is left out."""
    return Markup("".join(_child(child) for child in children if child is not None))


def plain(text: str) -> str:
    """Escape control characters, lone surrogates and characters that change the direction of text."""
    if text.isascii() and text.isprintable():
        return text
    return printable(text).encode("utf-8", "backslashreplace").decode()


def data(value: object, name: str) -> Markup:
    """Return a JSON value for the page's script. The JSON cannot close its script element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{name}">{content}</script>')


def _child(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(plain(str(child)), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{html.escape(plain(str(value)))}"'


def marked(text: str, figures: Sequence[SentenceFigure]) -> list[str]:
    """Return a text in parts: those that are one of these figures, in their order, with key and value.

    A figure that the text does not say is left out.
    """
    parts: list[str] = []
    for figure in figures:
        before, same, after = text.partition(figure.text)
        if same:
            parts += [before, element("data", same, value=repr(figure.value), data_figure=figure.key)]
            text = after
    return [*parts, text]


def section(name: str, title: str, *children: object) -> Markup:
    """Return a ``section`` element with a heading. ``name`` is its id."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def side_by_side(tiles: Mapping[str, Iterable[Markup | None]]) -> Markup:
    """Return a column of tiles for each capture, with its label if there are several."""
    several = len(tiles) > 1
    columns = (
        element("div", element("h3", label) if several else None, *column) for label, column in tiles.items()
    )
    return element("div", *columns, class_="tiles several" if several else "tiles")


def in_parts(steady: object, whole: object) -> Markup:
    """Return what a page shows of the steady part and of the whole capture; a switch chooses one."""
    of = (("of-whole", whole), ("of-steady", steady))
    return joined(element("div", shown, class_=name) for name, shown in of)


def both_parts(subject: Subject, make: Callable[[Subject], Iterable[Markup | None]]) -> Markup:
    """Return what ``make`` yields of the whole captures, and of their steady parts if there are any."""
    whole = joined(make(subject))
    return whole if subject.steady is None else in_parts(joined(make(subject.steady)), whole)


def missing(reasons: Iterable[str]) -> Markup:
    """Return a note for each distinct reason why a report is missing."""
    return joined(
        element("p", f"Not available: {reason}.", class_="note") for reason in dict.fromkeys(reasons)
    )


def empty(subject: Subject, report: str) -> Markup:
    """Return why a report has no rows, for each capture whose table is empty."""
    tables = subject.tables(report)
    reasons = {label: subject.why_empty(report, label) for label, table in tables.items() if not len(table)}
    return joined(
        element("p", element("b", f"'{label}': ") if subject.several else None, f"{why[0].upper()}{why[1:]}.")
        for label, why in reasons.items()
    )


def verdict_paragraphs(tables: Mapping[str, Table]) -> Markup:
    """Return the verdict of each table, with the capture's label if there are several.

    No percentage is broken at the end of a line.
    """
    verdicts = {label: table.verdict.replace(" %", "\N{NO-BREAK SPACE}%") for label, table in tables.items()}
    return joined(
        element("p", element("b", f"'{label}': ") if len(tables) > 1 else None, verdict, class_="lead")
        for label, verdict in verdicts.items()
        if verdict
    )
