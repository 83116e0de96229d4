"""Render a comparison as one self-contained HTML page that needs no network."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nsyswrap.analysis.compare.median_step import Match, MedianStep, aligned
from nsyswrap.analysis.compare.model import GROUPS, Comparison, Group, RunFigures, Setup, Side
from nsyswrap.base.text import counted, without_folders
from nsyswrap.base.units import duration
from nsyswrap.render.colors import VERDICTS, Style
from nsyswrap.render.comparison import DIFFER, ChangedItem, ComparedCause, ComparisonRows, row_names
from nsyswrap.render.page import document
from nsyswrap.render.page.html import (
    BarPart,
    Markup,
    Section,
    element,
    filled,
    folded_table,
    marked,
    note,
    open_table,
    section,
    stacked_bar,
    swatch,
)
from nsyswrap.render.timeline.names import kind_of, name_of, style_of
from nsyswrap.reports.compare.conclusion import signed
from nsyswrap.reports.compare.tables import group_table
from nsyswrap.reports.table import Column, Schema, Table, table_of
from nsyswrap.reports.wording.comparisons import obstacle_text

_SHARE, _LEAST_NS = 0.05, 1_000  # a difference is marked if it is larger than both
_LANE, _MARK, _MOST_LANES = 22, 7, 4  # pixels; streams of a side
_LEAST, _MERGED = 0.05, 0.2  # percent of the width: of a box, and of neighbors that are drawn as one
_NEEDS = "a side has no capture with steady steps, or too many operations in a step"
_MARKS = {"slower": "longer in new", "faster": "shorter in new", "added or removed": "on one side"}
_OPERATIONS = Schema(
    "median_steps",
    "Operations of the median steps",
    Column("base_number", "Base", "position in the step of the base"),
    Column("new_number", "New", "position in the new step"),
    Column("name", "Operation", "kernel, copy, memset or graph", kernels=True),
    Column("difference_ns", "Difference", "new minus base duration", signed=True),
    Column("base_ns", "Base Duration", "duration in the step of the base"),
    Column("new_ns", "New Duration", "duration in the new step"),
    Column("base_offset_ns", "Base Offset", "after the first operation of the step", 1),
    Column("new_offset_ns", "New Offset", "after the first operation of the step", 1),
    Column("mark", "Mark", "longer, shorter, or on one side; else empty"),
)


def step_by_cause(rows: ComparisonRows) -> Markup | None:
    """Return a bar for each side; None without causes."""
    causes = rows.causes
    if not causes:
        return None
    return section(
        "step",
        "Time by cause",
        note(
            f"{'The mean steady step' if rows.by_step else 'One run'} of both sides, on one scale: "
            "first what the GPU did, then why it was idle."
        ),
        _step_bar("Base", causes, 0),
        _step_bar("New", causes, 1),
    )


def _step_bar(title: str, causes: Sequence[ComparedCause], side: int) -> Markup:
    both = [(cause.base_ns, cause.new_ns) for cause in causes]
    parts = [
        BarPart(cause.name, times[side], _time_text(side, *times), cause.style)
        for cause, times in zip(causes, both, strict=True)
    ]
    longest = max(map(sum, zip(*both, strict=True)))
    return stacked_bar(f"{title}: {duration(sum(part.size for part in parts))}", parts, longest)


def _time_text(side: int, base: float, new: float) -> str:
    before, after = duration(base), duration(new)
    return f"{after} ({signed(new - base)})" if side and before != after else (before, after)[side]


def median_steps(rows: ComparisonRows) -> Markup | None:
    """Return both steps on one time axis, and the table of their operations; None without steps."""
    base, new = _run(rows.comparison.base), _run(rows.comparison.new)
    if base is None and new is None:
        return None
    if not (base and base.median_step and new and new.median_step):
        return section("median", "Median steps", note(f"Not drawn: {_NEEDS}."))
    steps = (base.median_step, new.median_step)
    pairs = aligned(*steps)
    marks = [_mark(*steps, pair) for pair in pairs]
    length = max(max(int((step.start_ns + step.length_ns).max()), 1) for step in steps)
    drawn = zip(("Base", "New"), (base, new), steps, strict=True)
    of_side = [{pair[side]: mark for pair, mark in zip(pairs, marks, strict=True)} for side in (0, 1)]
    return section(
        "median",
        "Median steps",
        element("p", _text(steps, marks), class_="lead"),
        *(
            _picture(f"{name}: step {step.number} of {run.label}", step, of_side[side], length)
            for side, (name, run, step) in enumerate(drawn)
        ),
        _legend(steps, marks),
        folded_table(_table(steps, pairs, marks)),
    )


def _run(side: Side) -> RunFigures | None:
    """Return the run whose median step has the lower median duration of the runs that have one."""
    runs = [run for run in side.runs if run.median_step]
    runs.sort(key=lambda run: run.median_step.duration_ns if run.median_step else 0)
    return runs[(len(runs) - 1) // 2] if runs else None


def _mark(base: MedianStep, new: MedianStep, pair: Match) -> str:
    i, j = pair
    if i is None or j is None:
        return "added or removed"
    before, after = int(base.length_ns[i]), int(new.length_ns[j])
    if abs(after - before) <= max(_SHARE * before, _LEAST_NS):
        return ""
    return "slower" if after > before else "faster"


def _text(steps: tuple[MedianStep, MedianStep], marks: Sequence[str]) -> str:
    base, new = steps
    counts = {text: marks.count(mark) for mark, text in _MARKS.items() if mark in marks}
    found = ", ".join(f"{count:,} {text}" for text, count in counts.items()) or "none differs"
    gap = signed(new.duration_ns - base.duration_ns)
    return (
        f"{duration(base.duration_ns)} → {duration(new.duration_ns)} ({gap}). "
        f"Of {len(marks):,} operations: {found}. Marked: differences of more than {100 * _SHARE:.0f} % and "
        f"{duration(_LEAST_NS)}. This is one step of each side, not a verdict."
    )


def _picture(title: str, step: MedianStep, marks: Mapping[int | None, str], length: int) -> Markup:
    """Return the lanes of the streams of a step, with the marks above each operation."""
    streams = list(dict.fromkeys(step.stream.tolist()))
    tops = [min(streams.index(stream), _MOST_LANES - 1) * (_LANE + _MARK) for stream in step.stream.tolist()]
    operations = (
        (style_of(kind_of(*kind)), tops[i] + _MARK, _LANE - 2, i) for i, kind in enumerate(step.kinds)
    )
    signs = ((VERDICTS[mark], tops[i], _MARK - 1, i) for i, mark in marks.items() if mark and i is not None)
    boxes: dict[tuple[Style, int, int], list[list[float]]] = {}  # left and right ends in percent
    for style, top, height, i in (*operations, *signs):
        left = 100 * int(step.start_ns[i]) / length
        right = max(left + 100 * int(step.length_ns[i]) / length, left + _LEAST)
        row = boxes.setdefault((style, top, height), [])
        if row and left - row[-1][1] < _LEAST and right - row[-1][0] < _MERGED:
            row[-1][1] = max(right, row[-1][1])
        else:
            row.append([left, right])
    drawn = (
        part
        for (style, top, height), row in boxes.items()
        for left, right in row
        for part in filled(
            style, x=f"{left:.3f}%", y=str(top), width=f"{right - left:.3f}%", height=str(height)
        )
    )
    label = f"{title}; the table below has its operations"
    svg = element(
        "svg", *drawn, class_="bar", height=str(max(tops) + _LANE + _MARK), role="img", aria_label=label
    )
    return element("div", element("h3", without_folders(title)), svg, class_="stacked step-drawn")


def _legend(steps: Iterable[MedianStep], marks: Sequence[str]) -> Markup:
    kinds = dict.fromkeys(kind_of(*kind) for step in steps for kind in step.kinds)
    items = [(style_of(kind), name_of(kind)) for kind in kinds]
    items += [(VERDICTS[mark], text) for mark, text in _MARKS.items() if mark in marks]
    return element("ul", *(element("li", swatch(style), text) for style, text in items), class_="legend")


def _table(steps: tuple[MedianStep, MedianStep], pairs: Sequence[Match], marks: Sequence[str]) -> Table:
    rows = []
    for pair, mark in zip(pairs, marks, strict=True):
        sides = [None if at is None else (step, at) for step, at in zip(steps, pair, strict=True)]
        step, at = next(side for side in sides if side)
        lengths = [None if side is None else int(side[0].length_ns[side[1]]) for side in sides]
        starts = [None if side is None else int(side[0].start_ns[side[1]]) for side in sides]
        both = None not in lengths
        difference = lengths[1] - lengths[0] if both else None  # type: ignore[operator]
        rows.append((*pair, step.names[at], difference, *lengths, *starts, _MARKS.get(mark)))
    return table_of(_OPERATIONS, rows)


_CLASSES = {"slower": "slower", "faster": "faster"}
_MOST = 16  # bars
_MIDDLE, _HALF = 50.0, 47.0  # percent of the width; the longest bar or interval is as wide as the half
_TIMES = {"step": "Mean times of a steady step."}
_OPEN: tuple[Group, ...] = ("kernel",)
_WHOLE = "nsyswrap compare --format csv"
_RUNS = Schema(
    "compared_runs",
    "Runs",
    Column("side", "Side", "base or new"),
    Column("run", "Run", "label of the run"),
    Column("started", "Started", "start of the run"),
    Column("node", "Node", "node of the run"),
    Column.count("steps", "Steps", "steady steps"),
    Column.number("sm_clock_mhz", "SM Clock (MHz)", "median SM clock while the GPU worked"),
    Column("throttled_percent", "Throttled", "samples with a lowered clock while the GPU worked"),
    Column("step_joules", "Step Energy", "energy of a step"),
)


def conclusion(rows: ComparisonRows) -> Markup:
    """Return the conclusion in the words of the screen."""
    comparison, made = rows.comparison, rows.conclusion
    level = _CLASSES.get(made.outcome, "")
    heading = (element("b", made.heading, class_=level), ":", " ") if made.heading else ()
    left_out = [element("li", without_folders(text)) for text in rows.left_out]
    obstacles = [element("li", without_folders(obstacle_text(one))) for one in comparison.obstacles]
    return section(
        "conclusion",
        "Conclusion",
        element("p", "Left out:", class_="warning") if left_out else None,
        element("ul", *left_out, class_="changed warning") if left_out else None,
        element("p", DIFFER, class_="warning") if obstacles else None,
        element("ul", *obstacles, class_="changed warning") if obstacles else None,
        element(
            "article",
            element("p", *heading, *marked(made.figures, made.marks), class_="answer-verdict"),
            *(element("p", line) for line in (*made.more, *made.counts)),
            *(element("p", without_folders(f"Note: {remark}"), class_="note") for remark in rows.remarks),
            class_="tile answer",
        ),
    )


def growth(rows: ComparisonRows) -> Markup | None:
    """Return the bars, those that cost most first; None if nothing differs."""
    shown = rows.largest(_MOST)
    if not shown:
        return None
    longest = max(abs(end) for part in shown for end in (part.cost_ns, *(part.interval or ())))
    verdicts = [name for name in VERDICTS if name in {part.verdict for part in shown}]
    more = len(rows.parts) - len(shown)
    return section(
        "growth",
        "What grew and shrank",
        note(_TIMES.get(rows.unit, f"Times of a {rows.unit}.")),
        element(
            "ul",
            *(element("li", swatch(VERDICTS[name]), name) for name in verdicts),
            element("li", "line: interval of the difference")
            if any(part.interval for part in shown)
            else None,
            class_="legend",
        ),
        element("p", "← less time", element("span", "more time →"), class_="directions", aria_hidden="true"),
        element("div", *(_bar(part, longest) for part in shown), class_="bars grown"),
        note(f"Smaller differences: {more:,}, in the tables below." if more > 0 else ""),
    )


def _bar(item: ChangedItem, longest: float) -> Markup:
    before, after = duration(item.base_ns), duration(item.new_ns)
    return element(
        "div",
        element(
            "span",
            item.name,
            element("span", item.detail, class_="note block") if item.detail else None,
            class_="label",
        ),
        element("svg", *_drawn(item, longest), class_="bar", aria_hidden="true"),
        element(
            "span",
            element("b", signed(item.cost_ns)),
            f" · {before} → {after}",
            element("span", item.text, class_=f"block {item.verdict}") if item.text else None,
            class_="value",
        ),
    )


def _drawn(item: ChangedItem, longest: float) -> Iterator[Markup]:
    scale = _HALF / longest
    left, width = _MIDDLE + min(item.cost_ns, 0) * scale, abs(item.cost_ns) * scale
    yield from filled(VERDICTS[item.verdict], x=f"{left:.3f}%", y="3", width=f"{width:.3f}%", height="16")
    if item.interval:
        low, high = (f"{_MIDDLE + end * scale:.3f}%" for end in item.interval)
        yield element("line", x1=low, x2=high, y1="11", y2="11", class_="whisker")
        for end in (low, high):
            yield element("line", x1=end, x2=end, y1="7", y2="15", class_="whisker")
    yield element("line", x1=f"{_MIDDLE}%", x2=f"{_MIDDLE}%", y1="0", y2="22", class_="zero")


def all_rows(rows: ComparisonRows) -> Markup:
    """Return a table for each group that has rows, that of kernels open."""
    comparison = rows.comparison
    return section(
        "rows",
        "All rows",
        note(rows.basis),
        *(_group_table(comparison, group) for group in GROUPS if comparison.of(group)),
    )


def _group_table(comparison: Comparison, group: Group) -> Markup:
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
    return replace(table, schema=table.schema.with_columns((replace(first, kernels=True), *others)))


def runs(rows: ComparisonRows) -> Markup:
    """Return a card for each side, and the table of runs."""
    sides = (("Base", rows.comparison.base), ("New", rows.comparison.new))
    of_runs = [_row(name, run) for name, side in sides for run in side.runs]
    return section(
        "runs",
        "Runs and machine",
        element("div", *(_card(name, side) for name, side in sides), class_="cards"),
        folded_table(table_of(_RUNS, of_runs)),
    )


def _card(name: str, side: Side) -> Markup:
    return element(
        "article",
        element("h3", without_folders(f"{name}: {side.name}")),
        element("p", counted(len(side.runs), "runs")),
        *(element("p", text) for text in _facts(side.runs[0].setup)),
        class_="card",
    )


def _facts(setup: Setup) -> Iterator[str]:
    if setup.command:
        yield without_folders(shlex.join(setup.command))
    parts = (
        ", ".join(setup.gpus),
        f"driver {setup.driver}" if setup.driver else "",
        f"nsys {setup.nsys}" if setup.nsys else "",
        f"commit {setup.commit}" if setup.commit else "",
        *(f"{library} {version}" for library, version in setup.versions.items()),
    )
    if text := " · ".join(filter(None, parts)):
        yield text


def _row(side: str, run: RunFigures) -> tuple[object, ...]:
    setup = run.setup
    return (
        side,
        without_folders(run.label),
        setup.started or None,
        setup.node or None,
        run.steps or None,
        setup.sm_clock_mhz,
        setup.throttled_percent,
        setup.step_joules,
    )


def compare_page(comparison: Comparison) -> str:
    """Return the page: the conclusion, both steps by cause and aligned, what grew, and all rows."""
    rows = ComparisonRows(comparison)
    made = ((one.anchor, one.name, one.make(rows)) for one in SECTIONS)
    return document(
        without_folders(f"{comparison.base.name} → {comparison.new.name}"),
        [(anchor, name, markup) for anchor, name, markup in made if markup is not None],
        styles=("page.css", "compare.css"),
    )


# The sections from the top of the page to the bottom.
SECTIONS = (
    Section("conclusion", "Conclusion", conclusion),
    Section("step", "Time by cause", step_by_cause),
    Section("median", "Median steps", median_steps),
    Section("growth", "What grew and shrank", growth),
    Section("rows", "All rows", all_rows),
    Section("runs", "Runs and machine", runs),
)
