"""Render a comparison as one self-contained HTML page that needs no network."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from nsyswrap.analysis.compare.model import GROUPS, Comparison, Group, RunFigures, Setup, Side
from nsyswrap.base.text import counted, without_folders
from nsyswrap.base.units import Unit, duration
from nsyswrap.render.colors import VERDICTS
from nsyswrap.render.comparison import DIFFER, ChangedPart, ComparisonRows, row_names
from nsyswrap.render.page import document
from nsyswrap.render.page.charts import filled, swatch
from nsyswrap.render.page.compare_steps import median_steps, step_by_cause
from nsyswrap.render.page.html import Markup, Section, element, marked, section
from nsyswrap.render.page.tables import folded_table, open_table
from nsyswrap.reports.compare.conclusion import signed
from nsyswrap.reports.compare.tables import group_table
from nsyswrap.reports.table import Column, Schema, Table, table_of

_CLASSES = {"slower": "slower", "faster": "faster"}
_MOST = 16  # bars
_MIDDLE, _HALF = 50.0, 47.0  # percent of the width; the longest bar or interval is as wide as the half
_TIMES = {"step": "Mean times of a steady step."}
_OPEN: tuple[Group, ...] = ("kernel",)
_WHOLE = "nsyswrap compare --format csv"
_RUNS = Schema(
    "compared_runs",
    "Runs",
    (
        Column("side", "Side", Unit.TEXT, "base or new"),
        Column("run", "Run", Unit.TEXT, "label of the run"),
        Column("started", "Started", Unit.TEXT, "start of the run"),
        Column("node", "Node", Unit.TEXT, "node of the run"),
        Column("steps", "Steps", Unit.COUNT, "steady steps"),
        Column("sm_clock_mhz", "SM Clock (MHz)", Unit.NUMBER, "median SM clock while the GPU worked"),
        Column(
            "throttled_percent",
            "Throttled",
            Unit.PERCENT,
            "samples with a lowered clock while the GPU worked",
        ),
    ),
)


def conclusion(rows: ComparisonRows) -> Markup:
    """Return the conclusion in the words of the screen."""
    comparison, made = rows.comparison, rows.conclusion
    level = _CLASSES.get(made.outcome, "")
    heading = (element("b", made.heading, class_=level), ":", " ") if made.heading else ()
    left_out = [element("li", without_folders(text)) for text in rows.left_out]
    obstacles = [element("li", without_folders(one.text)) for one in comparison.obstacles]
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
            *(
                element("p", without_folders(f"Note: {remark}"), class_="note")
                for remark in comparison.remarks
            ),
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
        element("p", _TIMES.get(rows.unit, f"Times of a {rows.unit}."), class_="note"),
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
        element("p", f"Smaller differences: {more:,}, in the tables below.", class_="note")
        if more > 0
        else None,
    )


def _bar(part: ChangedPart, longest: float) -> Markup:
    before, after = duration(part.base_ns), duration(part.new_ns)
    return element(
        "div",
        element(
            "span",
            part.name,
            element("span", part.detail, class_="note block") if part.detail else None,
            class_="label",
        ),
        element("svg", *_drawn(part, longest), class_="bar", aria_hidden="true"),
        element(
            "span",
            element("b", signed(part.cost_ns)),
            f" · {before} → {after}",
            element("span", part.text, class_=f"block {part.verdict}") if part.text else None,
            class_="value",
        ),
    )


def _drawn(part: ChangedPart, longest: float) -> Iterator[Markup]:
    scale = _HALF / longest
    left, width = _MIDDLE + min(part.cost_ns, 0) * scale, abs(part.cost_ns) * scale
    yield from filled(VERDICTS[part.verdict], x=f"{left:.3f}%", y="3", width=f"{width:.3f}%", height="16")
    if part.interval:
        low, high = (f"{_MIDDLE + end * scale:.3f}%" for end in part.interval)
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
        element("p", rows.basis, class_="note") if rows.basis else None,
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
    """Yield what is known of the first run."""
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
    )


def compare_page(comparison: Comparison) -> str:
    """Return the page: the conclusion, what grew and shrank, both steps by cause, and all rows."""
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
    Section("growth", "What grew and shrank", growth),
    Section("step", "Time by cause", step_by_cause),
    Section("median", "Median steps", median_steps),
    Section("rows", "All rows", all_rows),
    Section("runs", "Runs and machine", runs),
)
