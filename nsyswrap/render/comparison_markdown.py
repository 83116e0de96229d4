"""A comparison as Markdown for a pull request: at most 60 lines, whatever its size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.model import GROUPS
from nsyswrap.base.text import shorten
from nsyswrap.render.comparison_names import short_names
from nsyswrap.render.formats.markdown import escaped, grid
from nsyswrap.render.formats.text import column_cells
from nsyswrap.reports.compare.conclusion import conclude, left_out_texts, obstacle_texts
from nsyswrap.reports.compare.tables import basis, group_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.compare.model import Comparison, Group, Side
    from nsyswrap.reports.table import Table

MOST_LINES = 60
_ROWS: dict[Group, int] = {"step": 2, "budget": 5, "total": 3, "kernel": 8}
_OBSTACLES, _REMARKS = 3, 2
_LONGEST = 300  # characters of an item
_LEFT_OUT = ("base_count", "new_count")


def render(comparison: Comparison) -> str:
    """Return the conclusion, the counts, and the rows that cost most. Names are escaped."""
    names = short_names(comparison)
    made = conclude(comparison, names)
    obstacles = obstacle_texts(comparison)
    verdict, *others = made.lines
    left_out = left_out_texts(comparison)
    parts = [
        ["Left out:", *_items(left_out, _OBSTACLES)] if left_out else [],
        ["The sides differ in more than the change:", *_items(obstacles, _OBSTACLES)] if obstacles else [],
        [f"**{escaped(verdict)}**", *_items(others)],
        [*_items(made.counts), *_items(comparison.remarks, _REMARKS)],
        *(
            _table(group_table(comparison, group, names), GROUPS[group], rows)
            for group, rows in _ROWS.items()
            if comparison.of(group)
        ),
        [f"{_side('Base', comparison.base)}; {_side('new', comparison.new)}.", basis(comparison)],
    ]
    return "\n\n".join("\n".join(filter(None, part)) for part in parts if part) + "\n"


def _items(texts: Sequence[str], most: int | None = None) -> list[str]:
    """Return a list, its first items if it is long."""
    items = [f"- {escaped(shorten(text, _LONGEST))}" for text in texts[:most]]
    return [*items, f"- … and {len(texts) - most:,} more"] if most and len(texts) > most else items


def _table(table: Table, title: str, rows: int) -> list[str]:
    """Return a table whose first header is its title; its last row says how many are left out."""
    first, *others = (column for column in table.columns if column.name not in _LEFT_OUT)
    columns = (replace(first, header=title), *others)
    shown = replace(table, schema=replace(table.schema, columns=columns))
    more = f"\n| … and {len(table) - rows:,} more |" if len(table) > rows else ""
    return ["\n".join(grid(columns, column_cells(shown, rows, "auto"))) + more]


def _side(which: str, side: Side) -> str:
    runs = f"{len(side.runs):,} run{'' if len(side.runs) == 1 else 's'}"
    return f"{which}: {escaped(shorten(side.name, _LONGEST))}, {runs}"
