"""The page of a history: each step and each kernel over commits, and since when it is slower or faster.

A picture has the median of a row at each point, the spread of the runs, and where it changed. Its places are
percentages, so that it fits any screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from nsyswrap.analysis.compare.history import Change, History, Point, Series, history_of, stretches
from nsyswrap.analysis.compare.model import Group, Key, Obstacle, Side
from nsyswrap.base.text import counted, without_folders
from nsyswrap.base.units import duration
from nsyswrap.render.comparison import row_names
from nsyswrap.render.page import document
from nsyswrap.render.page.html import Markup, element, folded_table, note, section
from nsyswrap.reports.compare.tables import interval, key_detail, percent
from nsyswrap.reports.table import Column, Schema, table_of
from nsyswrap.reports.wording.comparisons import worded_obstacle
from nsyswrap.reports.wording.notes import note_texts

Names = Mapping[Key, str]

# Anchor, name and groups of each section, in the order of the page.
_SECTIONS: tuple[tuple[str, str, tuple[Group, ...]], ...] = (
    ("steps", "Steps", ("step", "total", "launch")),
    ("modules", "Modules", ("module",)),
    ("kernels", "Kernels", ("kernel",)),
    ("ranges", "NVTX ranges", ("range",)),
)
_MOST_PICTURES = 40  # of a section
_MOST_NAMED = 5  # changes of a commit
_WHY = "the runs vary too much, or are too few"
_LEGEND = (
    "Line: median of the runs; band: from the fastest to the slowest run; hollow: too few runs to judge. "
    "▲ slower, ▼ faster, ◆ slower at a lower clock. Most changed first. The axes do not begin at 0."
)
_POINTS = Schema(
    "history_points",
    "Points",
    Column("label", "Commit", "commit of the program, or name of the baseline"),
    Column("started", "Started", "start of the first run"),
    Column.count("runs", "Runs", "runs of this point"),
    Column.number("sm_clock_mhz", "SM Clock (MHz)", "median SM clock of the first run while the GPU worked"),
    Column("source", "Source", "name of the baseline or batch"),
    Column("gpus", "GPUs", "GPUs of the first run"),
    Column("driver", "Driver", "driver of the first run"),
    Column("node", "Node", "node of the first run"),
)
_ROWS = Schema(
    "history_rows",
    "Rows",
    Column("name", "Name", "step, total, kernel or NVTX range", kernels=True),
    Column("detail", "Grid, Block", "grid and block of a kernel"),
    Column("outcome", "Outcome", "last change that was found"),
    Column("since", "Since", "point at which it changed"),
    Column("change_percent", "Change", "of the time of one, at the last change"),
    Column("cost_ns", "Cost/Run", "difference of the time of a run, at the last change"),
    Column("first_ns", "First", "median time of one at the first point that has the row"),
    Column("last_ns", "Last", "median time of one at the last point that has the row"),
    Column.count("undecided", "Undecided", "pairs of neighbors that cannot be told apart"),
)
_SIGNS = {"slower": "▲", "faster": "▼", "clock": "◆"}
_HEIGHT = "96"  # in pixels
_EDGE = 4.0  # percent of the width beside the first and the last point
_LEAST_SPAN = 0.1  # the axis shows at least this share of the value: noise must not fill the picture
_MARGIN = 0.12  # of the span, above and below


def history_page(sides: Sequence[Side]) -> str:
    """Return the page of the sides over time, each a point: the runs of one commit."""
    history = history_of(sides)
    names = row_names(series.key for series in history.series)
    rows = [_point_row(point) for point in history.points]
    sections = [
        ("changes", "Changes", _changes_section(history, names)),
        *(
            (anchor, name, _series_section(history, names, anchor, name, found))
            for anchor, name, groups in _SECTIONS
            if (found := history.of(*groups))
        ),
        ("points", "Points", section("points", "Points", folded_table(table_of(_POINTS, rows)))),
    ]
    points = history.points
    title = f"History of {len(points)} points: {points[0].label} to {points[-1].label}"
    return document(title, sections, styles=("page.css", "compare.css"))


def _changes_section(history: History, names: Names) -> Markup:
    """Return what changed at which commit, the newest first, and where the setup differs."""
    changed = sum(bool(series.reported_changes) for series in history.series)
    limits = history.limits
    amount = f"{100 * limits.max_slower:g} %"
    lead = "Nothing could be compared"
    if history.compared:
        lead = f"No row is found to have changed by more than {amount}"
    if changed:
        lead = f"{changed:,} of {len(history.series):,} rows changed by more than {amount}"
    undecided = sum(bool(series.undecided) and not series.reported_changes for series in history.series)
    return section(
        "changes",
        "Changes",
        element("p", element("b", lead), f" in {_span(history.points)}.", class_="lead"),
        element("ul", *_commits(history, names), class_="changed") if changed else None,
        note(f"{counted(undecided, 'rows')} cannot be judged at some points: {_WHY}." if undecided else ""),
        *(element("p", text, class_="warning") for text in _breaks(history.points)),
        *map(note, note_texts(history.remarks)),
        note(_LEGEND),
    )


def _span(points: Sequence[Point]) -> str:
    dates = [point.started[:10] for point in points]
    when = f", {dates[0]} to {dates[-1]}" if all(dates) else ""
    return f"{counted(len(points), 'points')}{when}"


def _commits(history: History, names: Names) -> Iterator[Markup]:
    for number in reversed(range(len(history.points))):
        found = [
            (series, change)
            for series in history.series
            for change in series.reported_changes
            if change.since == number
        ]
        if not found:
            continue
        shown = [
            element(
                "li",
                element("b", "NVTX range " if series.key.group == "range" else "", names[series.key]),
                " ",
                _change_text(history, series, change, at=number),
            )
            for series, change in found[:_MOST_NAMED]
        ]
        more = len(found) - _MOST_NAMED
        yield element(
            "li",
            element("span", history.points[number].label, class_="commit"),
            element("ul", *shown, element("li", f"{more:,} more below") if more > 0 else None),
        )


def _breaks(points: Sequence[Point]) -> Iterator[str]:
    for before, point in pairwise(points):
        if point.breaks:
            differs = "; ".join(_break_text(point.breaks))
            yield f"Not compared: {before.label} and {point.label}. {differs}. The lines break there."


def _series_section(
    history: History, names: Names, anchor: str, title: str, series: Sequence[Series]
) -> Markup:
    more = len(series) - _MOST_PICTURES
    return section(
        anchor,
        title,
        element(
            "div", *(_card(history, one, names[one.key]) for one in series[:_MOST_PICTURES]), class_="trends"
        ),
        note(f"{more:,} more in the table, all without a larger change." if more > 0 else ""),
        folded_table(table_of(_ROWS, [_table_row(history, one) for one in series]), title, top=len(series)),
    )


def _card(history: History, series: Series, name: str) -> Markup:
    return element(
        "article",
        element(
            "div",
            element("h3", name),
            note(key_detail(series.key)),
            *(element("p", _change_text(history, series, one)) for one in reversed(series.reported_changes)),
            note("" if series.reported_changes else _without_change(history, series)),
            *map(note, _presence(history, series)),
        ),
        _trend(history, series, name),
        class_="card",
    )


def _change_text(history: History, series: Series, change: Change, at: int | None = None) -> Markup:
    """Return what changed since when; ``at`` is the point that readers know already."""
    judgement, points = change.judgement, history.points
    before, now = (series.medians_ns[i] for i in (change.before, change.since))
    times = f", {duration(before)} → {duration(now)}" if before is not None and now is not None else ""
    ends = points[change.before].label, points[change.since].label
    since = f" since {ends[1]}" if change.since != at else ""
    where = f" from {ends[0]} to {ends[1]}, no single point stands out" if change is series.drift else since
    outcome = "slower at a lower clock, not in cycles" if judgement.outcome == "clock" else judgement.outcome
    word = element("b", f"{_SIGNS[judgement.outcome]} {outcome}{where}", class_=judgement.outcome)
    amount = "" if judgement.ratio is None else f"{percent(judgement.ratio - 1)} %"
    within = f" ({interval(judgement)})" if interval(judgement) else ""
    return element("span", word, f": {amount}{within}{times}")


def _without_change(history: History, series: Series) -> str:
    pairs = history.compared
    if not pairs:
        return "not judged"
    if series.undecided:
        return f"no change found; cannot tell at {series.undecided:,} of {pairs:,} points"
    return "no change found"


def _presence(history: History, series: Series) -> Iterator[str]:
    there = [number for number, total in enumerate(series.total_ns) if total]
    if there and there[0] > 0:
        yield f"first seen at {history.points[there[0]].label}"
    if there and there[-1] < len(history.points) - 1:
        yield f"last seen at {history.points[there[-1]].label}"


def _table_row(history: History, series: Series) -> tuple[object, ...]:
    known = [ns for ns in series.medians_ns if ns is not None]
    last = series.reported_changes[-1] if series.reported_changes else None
    ratio = last.judgement.ratio if last else None
    return (
        series.key.name,
        key_detail(series.key),
        last.judgement.outcome if last else _without_change(history, series),
        history.points[last.since].label if last else None,
        None if ratio is None else 100 * (ratio - 1),
        last.cost_ns if last else None,
        known[0],
        known[-1],
        series.undecided,
    )


def _point_row(point: Point) -> tuple[object, ...]:
    setup = point.side.runs[0].setup
    return (
        point.label,
        point.started or None,
        len(point.side.runs),
        setup.sm_clock_mhz,
        without_folders(point.side.name),
        ", ".join(setup.gpus) or None,
        setup.driver or None,
        setup.node or None,
    )


class _Scale:
    """The places of points and times, in percent of the picture from its upper left corner."""

    def __init__(self, series: Series) -> None:
        values = [value for point in series.values_ns for value in point]
        low, high = min(values), max(values)
        missing = max(_LEAST_SPAN * (low + high) / 2 - (high - low), 0)
        self.low = max(low - missing / 2, 0)
        self.high = max(high + missing / 2, self.low + 1)
        self._points = len(series.values_ns)

    def x(self, point: float) -> float:
        steps = self._points - 1
        return _EDGE + (100 - 2 * _EDGE) * point / steps if steps else 50.0

    def y(self, ns: float) -> float:
        part = (ns - self.low) / (self.high - self.low)
        return 100 * (1 - _MARGIN - (1 - 2 * _MARGIN) * part)


def _trend(history: History, series: Series, name: str) -> Markup:
    scale = _Scale(series)
    known = [
        (point.label, ns)
        for point, ns in zip(history.points, series.medians_ns, strict=True)
        if ns is not None
    ]
    (first, start), (last, end) = known[0], known[-1]
    svg = element(
        "svg",
        element(
            "svg",
            *_lines(history, series, scale),
            viewBox="0 0 100 100",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        ),
        *_break_lines(history, scale),
        *(_mark(change, history, scale) for change in series.reported_changes),
        *_points(history, series, scale),
        class_="trend",
        height=_HEIGHT,
        role="img",
        aria_label=f"{name}: {duration(start)} at {first}, {duration(end)} at {last}",
    )
    ends = [duration(scale.high), duration(scale.low)]
    labels = (history.points[0].label, history.points[-1].label) if len(history.points) > 1 else ("", "")
    return element(
        "div",
        element("div", *(element("span", text) for text in ends), class_="scale", aria_hidden="true"),
        svg,
        element("div", *(element("span", text) for text in labels), class_="span", aria_hidden="true"),
        class_="framed",
    )


def _lines(history: History, series: Series, scale: _Scale) -> Iterator[Markup]:
    """Yield the band of the runs and the line of the medians, for each part without a gap."""
    for part in _parts(history, series):
        low, high = ([(scale.x(i), scale.y(end(series.values_ns[i]))) for i in part] for end in (min, max))
        yield element("polygon", points=_corners([*low, *reversed(high)]), class_="band")
        middle = ((i, series.medians_ns[i]) for i in part)
        yield element(
            "polyline",
            points=_corners([(scale.x(i), scale.y(ns)) for i, ns in middle if ns is not None]),
            class_="line",
        )


def _parts(history: History, series: Series) -> Iterator[list[int]]:
    for stretch in stretches(history.points):
        for there, numbers in groupby(stretch, lambda i: bool(series.values_ns[i])):
            if there:
                yield list(numbers)


def _corners(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _break_lines(history: History, scale: _Scale) -> Iterator[Markup]:
    for number, point in enumerate(history.points):
        if point.breaks:
            x = f"{scale.x(number - 0.5):.2f}%"
            title = element("title", "; ".join(_break_text(point.breaks)))
            yield element("line", title, x1=x, x2=x, y1="0", y2="100%", class_="break")


def _break_text(breaks: Sequence[Obstacle]) -> list[str]:
    return [f"{one.about}: {one.base} → {one.new}" for one in map(worded_obstacle, breaks)]


def _mark(change: Change, history: History, scale: _Scale) -> Markup:
    x = f"{scale.x(change.since):.2f}%"
    outcome = change.judgement.outcome
    title = element("title", f"{outcome} since {history.points[change.since].label}")
    line = element("line", x1=x, x2=x, y1="14", y2="100%")
    return element("g", title, line, element("text", _SIGNS[outcome], x=x, y="12"), class_=f"mark-{outcome}")


def _points(history: History, series: Series, scale: _Scale) -> Iterator[Markup]:
    for number, (point, values) in enumerate(zip(history.points, series.values_ns, strict=True)):
        ns = series.medians_ns[number]
        if ns is None:
            continue
        x, low, high = f"{scale.x(number):.2f}%", *(f"{scale.y(end(values)):.2f}%" for end in (min, max))
        runs = (
            "1 run"
            if len(values) == 1
            else f"{len(values)} runs, {duration(min(values))} to {duration(max(values))}"
        )
        yield element(
            "g",
            element("title", f"{point.label}: {duration(ns)} ({runs})"),
            element("line", x1=x, x2=x, y1=low, y2=high, class_="spread"),
            element(
                "circle", cx=x, cy=f"{scale.y(ns):.2f}%", r="3", class_="" if point.is_compared else "few"
            ),
            class_="point",
        )
