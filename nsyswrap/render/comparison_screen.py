"""A comparison as text for a terminal: the conclusion first, then counts, then what costs most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import printable
from nsyswrap.render.comparison_names import short_names
from nsyswrap.render.formats.text import headed, styled, table_lines, wrapped
from nsyswrap.reports.compare import conclusion as conclusions
from nsyswrap.reports.compare.tables import basis, group_table

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison, Group, Side
    from nsyswrap.render.formats.text import Line

# Rows of each table, in the order of the screen.
_ROWS: dict[Group, int] = {
    "step": 3,
    "budget": 6,
    "total": 4,
    "module": 8,
    "kernel": 10,
    "launch": 4,
    "api": 5,
    "copy": 4,
    "range": 5,
}
_STYLES = {"slower": "red", "faster": "green", "same": "green", "cannot tell": "yellow", "clock": "yellow"}
_ALL_ROWS = "all rows and columns: --format csv"


def render(comparison: Comparison, *, width: int = 100, color: bool = False, top: int | None = None) -> str:
    """Return the screen, at most ``width`` columns wide. ``top`` replaces each table's number of rows."""
    names = short_names(comparison)
    made = conclusions.conclude(comparison, names)
    lines = [*_left_out_lines(comparison, width), *_obstacle_lines(comparison, width)]
    verdict, *others = made.lines
    first, *rest = wrapped(verdict, width, "", "  ")
    lines.append(headed(str(first), _STYLES.get(made.outcome, "")))
    lines += rest
    for line in others:
        lines += wrapped(line, width, "", "  ")
    lines += [*_side_lines("base", comparison.base, width), *_side_lines("new", comparison.new, width)]
    lines.append("")
    for line in made.counts:
        lines += wrapped(line, width, "", "  ")
    for group, rows in _ROWS.items():
        if comparison.of(group) not in ((), (made.pair,)):
            table = group_table(comparison, group, names)
            lines += ["", *table_lines(table, width, top=top or rows, whole="")]
    lines.append("")
    for remark in comparison.remarks:
        lines += wrapped(f"note: {remark}", width, "yellow")
    lines += wrapped(basis(comparison), width, "dim") if basis(comparison) else []
    lines += wrapped(_ALL_ROWS, width, "dim")
    return styled(lines, color=color)


def _left_out_lines(comparison: Comparison, width: int) -> list[Line]:
    """Return the runs that are not compared, a line each."""
    texts = [f"left out of {text}" for text in conclusions.left_out_texts(comparison)]
    return [line for text in texts for line in wrapped(text, width, "yellow", "  ")]


def _obstacle_lines(comparison: Comparison, width: int) -> list[Line]:
    """Return what the sides differ in, a line each; no line without obstacles."""
    texts = conclusions.obstacle_texts(comparison)
    lines = [line for text in texts for line in wrapped(f"  {text}", width, "yellow", "    ")]
    return [*wrapped("The sides differ in more than the change:", width, "yellow"), *lines] if texts else []


def _side_lines(which: str, side: Side, width: int) -> list[Line]:
    runs = f"{len(side.runs):,} run{'' if len(side.runs) == 1 else 's'}"
    return wrapped(f"{which}: {printable(side.name)} ({runs})", width, "dim", "  ")
