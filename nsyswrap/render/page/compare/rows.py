"""All rows of both sides: a table for each group, those that cost most first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.model import GROUPS
from nsyswrap.render.comparison import row_names
from nsyswrap.render.page.html import Section, element, section
from nsyswrap.render.page.tables import folded_table, open_table
from nsyswrap.reports.compare.tables import basis, group_table

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison, Group
    from nsyswrap.render.page.html import Markup
    from nsyswrap.reports.table import Table

_OPEN: tuple[Group, ...] = ("kernel",)
_WHOLE = "nsyswrap compare --format csv"


def make(comparison: Comparison) -> Markup:
    """Return a table for each group that has rows, that of kernels open."""
    return section(
        "rows",
        "All rows",
        element("p", basis(comparison), class_="note") if basis(comparison) else None,
        *(_shown(comparison, group) for group in GROUPS if comparison.of(group)),
    )


def _shown(comparison: Comparison, group: Group) -> Markup:
    table = _sortable(comparison, group)
    if group in _OPEN:
        return element("div", element("h3", GROUPS[group]), open_table(table, whole=_WHOLE))
    return folded_table(table, whole=_WHOLE)


def _sortable(comparison: Comparison, group: Group) -> Table:
    """Return the rows of a group, with the whole names of kernels, which the page shortens."""
    names = row_names(pair.key for pair in comparison.pairs)
    if group != "kernel":
        return group_table(comparison, group, names, sortable=True)
    full = {pair.key: pair.key.name for pair in comparison.pairs}
    table = group_table(comparison, group, full, sortable=True)
    first, *others = table.schema.columns
    return replace(table, schema=replace(table.schema, columns=(replace(first, kernels=True), *others)))


SECTION = Section("rows", "All rows", make)
