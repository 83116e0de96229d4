"""A comparison for people: the names of its rows, the parts that differ, the screen, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.text import counted, printable, shorten, shorten_all
from nsyswrap.render.colors import REST, Style, state_color
from nsyswrap.render.formats.markdown import escaped, grid
from nsyswrap.render.formats.text import column_cells, headed, styled, table_lines, wrapped
from nsyswrap.render.names import distinct_names
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

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison, Group, Key, Pair, Side
    from nsyswrap.render.formats.text import Line
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
_STYLES = {"slower": "red", "faster": "green", "same": "green", "cannot tell": "yellow", "clock": "yellow"}
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


class Interval(NamedTuple):
    """The ends of the interval of a difference in ns."""

    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class ChangedPart:
    """A part and its times in ns, in a step or in a run. ``interval`` is that of the difference.

    ``verdict`` is a key of a picture's styles; ``text`` says the relative change and the verdict.
    """

    name: str
    detail: str
    base_ns: float
    new_ns: float
    interval: Interval | None
    verdict: str
    text: str

    @property
    def cost_ns(self) -> float:
        """New minus base."""
        return self.new_ns - self.base_ns


@dataclass(frozen=True)
class Parts:
    """The parts that differ, those that cost most first; ``unit`` is what they are times of: step or run."""

    unit: str
    parts: tuple[ChangedPart, ...]

    def largest(self, most: int) -> tuple[ChangedPart, ...]:
        """Return at most so many parts, without those too small to be seen beside the largest."""
        least = _SEEN * max((abs(part.cost_ns) for part in self.parts), default=0.0)
        return tuple(part for part in self.parts[:most] if abs(part.cost_ns) >= least)


def parts_of(comparison: Comparison) -> Parts:
    """Return the parts of a step, or of a run if a side has no steps.

    They are kernels, copies, and idle time by cause. They do not overlap much, so that together they
    explain how a step or a run changed.
    """
    by_step = has_steps(comparison)
    names = short_names(comparison)
    pairs = {pair.key: pair for pair in (*comparison.of("kernel"), *_others(comparison, by_step=by_step))}
    parts = [_part(pair, names, by_step=by_step) for pair in pairs.values()]
    known = [part for part in parts if part is not None and part.cost_ns]
    known.sort(key=lambda part: -abs(part.cost_ns))
    return Parts("step" if by_step else "run", tuple(known))


def _others(comparison: Comparison, *, by_step: bool) -> list[Pair]:
    causes = [pair for pair in comparison.of("budget") if not pair.key.name.endswith("_kernel")]
    return causes if causes or by_step else list(comparison.of("copy"))


class Cause(NamedTuple):
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


def causes_of(comparison: Comparison) -> list[Cause]:
    """Return the time of both sides by cause: work before idle time, the longest first, then the rest."""
    pairs = comparison.of("budget")
    names, by_step = row_names(pair.key for pair in pairs), has_steps(comparison)
    found = [_cause(pair, names[pair.key], by_step=by_step) for pair in pairs]
    every = sorted((cause for cause in found if cause.most_ns > 0), key=lambda cause: -cause.most_ns)
    longest = max(sum(cause.base_ns for cause in every), sum(cause.new_ns for cause in every))
    shown = [cause for cause in every[:_MOST_CAUSES] if cause.most_ns >= _SMALL * longest]
    rest = every[len(shown) :]
    shown.sort(key=lambda cause: cause.is_idle)
    if rest:
        both = (sum(cause.base_ns for cause in rest), sum(cause.new_ns for cause in rest))
        shown.append(Cause("the rest", False, REST, *both))  # noqa: FBT003 - a field
    return shown


def _cause(pair: Pair, name: str, *, by_step: bool) -> Cause:
    is_idle = pair.key.name.startswith("idle_")
    times = (pair.base_total_ns, pair.new_total_ns)
    if by_step:
        times = (pair.base_per_step_ns or 0.0, pair.new_per_step_ns or 0.0)
    return Cause(f"idle: {name}" if is_idle else name, is_idle, state_color(pair.key.name), *times)


def has_steps(comparison: Comparison) -> bool:
    """Return True if the time by cause is that of a step, not that of a run."""
    return any(pair.new_per_step_ns is not None for pair in comparison.of("budget"))


def _part(pair: Pair, names: Mapping[Key, str], *, by_step: bool) -> ChangedPart | None:
    if by_step and step_cost_ns(pair) is None:
        return None
    base = (pair.base_per_step_ns or 0.0) if by_step else pair.base_total_ns
    new = (pair.new_per_step_ns or 0.0) if by_step else pair.new_total_ns
    word = verdict(pair)
    name = f"GPU idle: {names[pair.key]}" if pair.key.name.startswith("idle_") else names[pair.key]
    text = _text(pair, word)
    if pair.is_renamed and pair.renamed_from:
        text = f"{text}, probably renamed from {names.get(pair.renamed_from, pair.renamed_from.name)}"
    return ChangedPart(name, detail(pair), base, new, _interval(pair, base), _style_key(word), text)


def _interval(pair: Pair, base_ns: float) -> Interval | None:
    """Return the interval of the difference; None if the number of launches differs too."""
    judged = pair.judgement
    if judged.low is None or judged.high is None or pair.base_count != pair.new_count:
        return None
    return Interval(base_ns * (judged.low - 1), base_ns * (judged.high - 1))


def _style_key(word: str) -> str:
    if word in ("added", "removed"):
        return "added or removed"
    return word if word in ("slower", "faster", "same", "cannot tell", "lower clock") else "no verdict"


def _text(pair: Pair, word: str) -> str:
    """Return the verdict, and the change with its interval."""
    change = change_percent(pair)
    counts = (
        f"{pair.base_count:,.0f} → {pair.new_count:,.0f} launches"
        if pair.key.group == "kernel"
        and pair.base_count != pair.new_count
        and word not in ("added", "removed")
        else ""
    )
    within = f" ({interval(pair.judgement)})" if interval(pair.judgement) else ""
    amount = f"{percent(change / _PERCENT)} % each{within}" if change is not None and counts else ""
    if change is not None and not counts:
        amount = f"{percent(change / _PERCENT)} %{within}"
    head = f"{_SIGNS[word]} {word}" if word in _SIGNS else word
    return ", ".join(filter(None, (head, amount, counts)))


def screen(comparison: Comparison, *, width: int = 100, color: bool = False, top: int | None = None) -> str:
    """Return the text for a terminal: the conclusion first, then counts, then the rows that cost most.

    It is at most ``width`` columns wide. ``top`` replaces each table's number of rows.
    """
    names = short_names(comparison)
    made = conclude(comparison, names)
    lines = [*_left_out_lines(comparison, width), *_obstacle_lines(comparison, width)]
    verdict, *others = made.lines
    first, *rest = wrapped(verdict, width, "", "  ")
    lines.append(headed(str(first), _STYLES.get(made.outcome, ""), made.heading))
    lines += rest
    for line in others:
        lines += wrapped(line, width, "", "  ")
    lines += [*_side_lines("base", comparison.base, width), *_side_lines("new", comparison.new, width)]
    lines.append("")
    for line in made.counts:
        lines += wrapped(line, width, "", "  ")
    for group, rows in _SCREEN_ROWS.items():
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
    texts = [f"left out of {text}" for text in left_out_texts(comparison)]
    return [line for text in texts for line in wrapped(text, width, "yellow", "  ")]


def _obstacle_lines(comparison: Comparison, width: int) -> list[Line]:
    """Return what the sides differ in, a line each; no line without obstacles."""
    texts = obstacle_texts(comparison)
    lines = [line for text in texts for line in wrapped(f"  {text}", width, "yellow", "    ")]
    return [*wrapped("Besides your change, these differ:", width, "yellow"), *lines] if texts else []


def _side_lines(which: str, side: Side, width: int) -> list[Line]:
    return wrapped(f"{which}: {printable(side.name)} ({counted(len(side.runs), 'runs')})", width, "dim", "  ")


def markdown(comparison: Comparison) -> str:
    """Return Markdown for a pull request: the conclusion, the counts, and the rows that cost most.

    It has at most MOST_LINES lines. Names are escaped.
    """
    names = short_names(comparison)
    made = conclude(comparison, names)
    obstacles = obstacle_texts(comparison)
    verdict, *others = made.lines
    left_out = left_out_texts(comparison)
    parts = [
        ["Left out:", *_items(left_out, _OBSTACLES)] if left_out else [],
        ["Besides your change, these differ:", *_items(obstacles, _OBSTACLES)] if obstacles else [],
        [f"**{escaped(verdict)}**", *_items(others)],
        [*_items(made.counts), *_items(comparison.remarks, _REMARKS)],
        *(
            _table(group_table(comparison, group, names), rows)
            for group, rows in _MARKDOWN_ROWS.items()
            if comparison.of(group)
        ),
        [f"{_side('Base', comparison.base)}; {_side('new', comparison.new)}.", basis(comparison)],
    ]
    return "\n\n".join("\n".join(filter(None, part)) for part in parts if part) + "\n"


def _items(texts: Sequence[str], most: int | None = None) -> list[str]:
    """Return a list, its first items if it is long."""
    items = [f"- {escaped(shorten(text, _LONGEST))}" for text in texts[:most]]
    return [*items, f"- … and {len(texts) - most:,} more"] if most and len(texts) > most else items


def _table(table: Table, rows: int) -> list[str]:
    """Return a table whose first header is its title; its last row says how many are left out."""
    first, *others = (column for column in table.columns if column.name not in _LEFT_OUT)
    columns = (replace(first, header=table.schema.title), *others)
    shown = replace(table, schema=replace(table.schema, columns=columns))
    more = f"\n| … and {len(table) - rows:,} more |" if len(table) > rows else ""
    return ["\n".join(grid(columns, column_cells(shown, rows, "auto"))) + more]


def _side(which: str, side: Side) -> str:
    return f"{which}: {escaped(shorten(side.name, _LONGEST))}, {counted(len(side.runs), 'runs')}"
