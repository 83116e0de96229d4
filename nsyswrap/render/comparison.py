"""A comparison for people: the names of its rows, the parts that differ, the screen, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted, printable, shorten, shorten_all
from nsyswrap.render.colors import REST, Style, state_color
from nsyswrap.render.formats.markdown import escaped, grid
from nsyswrap.render.formats.text import column_cells, headed, styled, table_lines, wrapped
from nsyswrap.reports.compare.conclusion import conclude, left_out_texts, obstacle_texts
from nsyswrap.reports.compare.tables import (
    basis,
    change_percent,
    detail,
    group_table,
    interval,
    percent,
    row_name,
    step_cost_ns,
    verdict,
)
from nsyswrap.reports.wording.notes import note_text

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison, Group, Key, Pair, Side
    from nsyswrap.reports.table import Table

_WIDEST = 60  # columns
_SIGNS = {"slower": "▲", "faster": "▼", "lower clock": "◆"}
_PERCENT = 100.0
_SEEN = 0.01  # of the largest difference
_MOST_CAUSES = 9  # the rest is one more
_SMALL = 0.005  # of the longer step or run: such causes are put together
# Rows of each table, in the order of the screen.
_SCREEN_ROWS: dict[Group, int] = {
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
_STYLES = {"slower": "red", "faster": "green", "same": "green", "cannot tell": "magenta", "clock": "magenta"}
DIFFER = "Besides your change, these differ:"
_ALL_ROWS = "all rows and columns: --format csv"
MOST_LINES = 60
_MARKDOWN_ROWS: dict[Group, int] = {"step": 2, "budget": 5, "total": 3, "kernel": 8}
_OBSTACLES, _REMARKS = 3, 2
_LONGEST = 300  # characters of an item
_LEFT_OUT = ("new_count",)


def row_names(keys: Iterable[Key]) -> dict[Key, str]:
    """Return a name for each row, without the grid of a kernel. Different kernels get different names."""
    every = list(keys)
    kernels = distinct_names({key.name for key in every if key.group == "kernel"})
    return {key: kernels[key.name] if key.group == "kernel" else row_name(key) for key in every}


def short_names(comparison: Comparison) -> dict[Key, str]:
    """Return a name for each row; names that differ stay different."""
    names = row_names(key for pair in comparison.pairs for key in (pair.key, pair.renamed_from) if key)
    different = list(dict.fromkeys(names.values()))
    short = dict(zip(different, shorten_all(different, _WIDEST), strict=True))
    return {key: short[name] for key, name in names.items()}


@dataclass(frozen=True)
class ChangedItem:
    """A part and its times in ns, in a step or in a run. ``interval`` has the ends of that of the difference.

    ``verdict`` is a key of a picture's styles; ``text`` says the relative change and the verdict.
    """

    name: str
    detail: str
    base_ns: float
    new_ns: float
    interval: tuple[float, float] | None
    verdict: str
    text: str

    @property
    def cost_ns(self) -> float:
        """New minus base."""
        return self.new_ns - self.base_ns


class ComparedCause(NamedTuple):
    """What the GPU did, or why it was idle, and its times in ns on both sides, in a step or in a run."""

    name: str
    is_idle: bool
    style: Style
    base_ns: float
    new_ns: float

    @property
    def most_ns(self) -> float:
        """The longer one of both times."""
        return max(self.base_ns, self.new_ns)


class ComparisonRows:
    """What people see of a comparison: the same on the screen, in Markdown, on the page and in the picture.

    ``names`` has the name that is shown for each row. Times of ``parts`` and ``causes`` are those of a step,
    or of a run if a side has no steps.
    """

    def __init__(self, comparison: Comparison) -> None:
        """Name the rows, and draw the conclusion."""
        self.comparison = comparison
        self.names = short_names(comparison)
        self.conclusion = conclude(comparison, self.names)
        self.left_out = left_out_texts(comparison)
        self.obstacles = obstacle_texts(comparison)
        self.remarks = [*map(note_text, comparison.remarks)]
        self.basis = basis(comparison)
        self.by_step = any(pair.new_per_step_ns is not None for pair in comparison.of("budget"))

    @property
    def unit(self) -> str:
        """What the times are those of: step or run."""
        return "step" if self.by_step else "run"

    def tables(self, limits: Mapping[Group, int]) -> Iterator[tuple[Table, int]]:
        """Yield the tables of these groups that have rows, with the number of rows that are shown."""
        for group, rows in limits.items():
            if self.comparison.of(group):
                yield group_table(self.comparison, group, self.names), rows

    @cached_property
    def parts(self) -> list[ChangedItem]:
        """The parts that differ, those that cost most first: kernels, copies, and idle time by cause.

        They do not overlap much, so that together they explain how a step or a run changed.
        """
        budget = [pair for pair in self.comparison.of("budget") if not pair.key.name.endswith("_kernel")]
        others = budget if budget or self.by_step else self.comparison.of("copy")
        pairs = {pair.key: pair for pair in (*self.comparison.of("kernel"), *others)}
        items = [
            item for item in map(self._changed_item, pairs.values()) if item is not None and item.cost_ns
        ]
        return sorted(items, key=lambda item: -abs(item.cost_ns))

    def largest(self, most: int) -> list[ChangedItem]:
        """Return at most so many parts, without those too small to be seen beside the largest."""
        least = _SEEN * max((abs(part.cost_ns) for part in self.parts), default=0.0)
        return [part for part in self.parts[:most] if abs(part.cost_ns) >= least]

    @cached_property
    def causes(self) -> list[ComparedCause]:
        """The time of both sides by cause: work before idle time, the longest first, then the rest."""
        found = map(self._cause, self.comparison.of("budget"))
        every = sorted((cause for cause in found if cause.most_ns > 0), key=lambda cause: -cause.most_ns)
        longest = max(sum(cause.base_ns for cause in every), sum(cause.new_ns for cause in every))
        shown = [cause for cause in every[:_MOST_CAUSES] if cause.most_ns >= _SMALL * longest]
        rest = every[len(shown) :]
        shown.sort(key=lambda cause: cause.is_idle)
        if rest:
            both = (sum(cause.base_ns for cause in rest), sum(cause.new_ns for cause in rest))
            shown.append(ComparedCause("the rest", False, REST, *both))  # noqa: FBT003 - a field
        return shown

    def _times(self, pair: Pair) -> tuple[float, float]:
        if self.by_step:
            return pair.base_per_step_ns or 0.0, pair.new_per_step_ns or 0.0
        return pair.base_total_ns, pair.new_total_ns

    def _cause(self, pair: Pair) -> ComparedCause:
        is_idle, name = pair.key.name.startswith("idle_"), row_name(pair.key)
        style = state_color(pair.key.name)
        return ComparedCause(f"idle: {name}" if is_idle else name, is_idle, style, *self._times(pair))

    def _changed_item(self, pair: Pair) -> ChangedItem | None:
        if self.by_step and step_cost_ns(pair) is None:
            return None
        base, new = self._times(pair)
        word, name, text = verdict(pair), self.names[pair.key], _change_text(pair)
        if pair.key.name.startswith("idle_"):
            name = f"GPU idle: {name}"
        if pair.is_renamed and pair.renamed_from:
            before = self.names.get(pair.renamed_from, pair.renamed_from.name)
            text = f"{text}, probably renamed from {before}"
        return ChangedItem(name, detail(pair), base, new, _interval(pair, base), _style_key(word), text)


def _interval(pair: Pair, base_ns: float) -> tuple[float, float] | None:
    """Return the interval of the difference in ns; None if the number of launches differs too."""
    judged = pair.judgement
    if judged.low is None or judged.high is None or pair.base_count != pair.new_count:
        return None
    return base_ns * (judged.low - 1), base_ns * (judged.high - 1)


def _style_key(word: str) -> str:
    if word in ("added", "removed"):
        return "added or removed"
    return word if word in ("slower", "faster", "same", "cannot tell", "lower clock") else "no verdict"


def _change_text(pair: Pair) -> str:
    change, word = change_percent(pair), verdict(pair)
    counts = (
        f"{pair.base_count:,.0f} → {pair.new_count:,.0f} launches"
        if pair.key.group == "kernel"
        and pair.base_count != pair.new_count
        and word not in ("added", "removed")
        else ""
    )
    within = f" ({interval(pair.judgement)})" if interval(pair.judgement) else ""
    each = " each" if counts else ""
    amount = "" if change is None else f"{percent(change / _PERCENT)} %{each}{within}"
    head = f"{_SIGNS[word]} {word}" if word in _SIGNS else word
    return ", ".join(filter(None, (head, amount, counts)))


def screen(comparison: Comparison, *, width: int = 100, color: bool = False, top: int | None = None) -> str:
    """Return the text for a terminal: the conclusion first, then counts, then the rows that cost most.

    It is at most ``width`` columns wide. ``top`` replaces each table's number of rows.
    """
    shown = ComparisonRows(comparison)
    made = shown.conclusion
    lines = [
        line for text in shown.left_out for line in wrapped(f"left out of {text}", width, "magenta", "  ")
    ]
    lines += wrapped(DIFFER, width, "magenta") if shown.obstacles else []
    lines += [line for text in shown.obstacles for line in wrapped(f"  {text}", width, "magenta", "    ")]
    verdict, *others = made.lines
    first, *rest = wrapped(verdict, width, "", "  ")
    lines.append(headed(str(first), _STYLES.get(made.outcome, ""), made.heading))
    lines += rest
    for line in others:
        lines += wrapped(line, width, "", "  ")
    for which, side in (("base", comparison.base), ("new", comparison.new)):
        text = f"{which}: {printable(side.name)} ({counted(len(side.runs), 'runs')})"
        lines += wrapped(text, width, "dim", "  ")
    lines.append("")
    for line in made.counts:
        lines += wrapped(line, width, "", "  ")
    limits = {group: rows for group, rows in _SCREEN_ROWS.items() if comparison.of(group) != (made.pair,)}
    for table, rows in shown.tables(limits):
        lines += ["", *table_lines(table, width, top=top or rows, whole="")]
    lines.append("")
    for remark in shown.remarks:
        lines += wrapped(f"note: {remark}", width, "magenta")
    lines += wrapped(shown.basis, width, "dim") if shown.basis else []
    lines += wrapped(_ALL_ROWS, width, "dim")
    return styled(lines, color=color)


def markdown(comparison: Comparison) -> str:
    """Return Markdown for a pull request: the conclusion, the counts, and the rows that cost most.

    It has at most MOST_LINES lines. Names are escaped.
    """
    shown = ComparisonRows(comparison)
    verdict, *others = shown.conclusion.lines
    parts = [
        ["Left out:", *_items(shown.left_out, _OBSTACLES)] if shown.left_out else [],
        [DIFFER, *_items(shown.obstacles, _OBSTACLES)] if shown.obstacles else [],
        [f"**{escaped(verdict)}**", *_items(others)],
        [*_items(shown.conclusion.counts), *_items(shown.remarks, _REMARKS)],
        *(_table(table, rows) for table, rows in shown.tables(_MARKDOWN_ROWS)),
        [f"{_side('Base', comparison.base)}; {_side('new', comparison.new)}.", shown.basis],
    ]
    return "\n\n".join("\n".join(filter(None, part)) for part in parts if part) + "\n"


def _items(texts: Sequence[str], most: int | None = None) -> list[str]:
    items = [f"- {escaped(shorten(text, _LONGEST))}" for text in texts[:most]]
    return [*items, f"- … and {len(texts) - most:,} more"] if most and len(texts) > most else items


def _table(table: Table, rows: int) -> list[str]:
    """Return a table whose first header is its title; its last row says how many are left out."""
    first, *others = (column for column in table.columns if column.name not in _LEFT_OUT)
    columns = (replace(first, header=table.schema.title), *others)
    shown = replace(table, schema=table.schema.with_columns(columns))
    more = f"\n| … and {len(table) - rows:,} more |" if len(table) > rows else ""
    return ["\n".join(grid(columns, column_cells(shown.first(rows), "auto"))) + more]


def _side(which: str, side: Side) -> str:
    return f"{which}: {escaped(shorten(side.name, _LONGEST))}, {counted(len(side.runs), 'runs')}"
