"""The steps of both sides on the page of a comparison: split by cause, and operation by operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nsyswrap.analysis.compare.median_step import Match, MedianStep, aligned
from nsyswrap.analysis.compare.model import RunFigures, Side
from nsyswrap.base.text import without_folders
from nsyswrap.base.units import Unit, duration
from nsyswrap.render.colors import VERDICTS, Style
from nsyswrap.render.comparison import Cause, ComparisonRows
from nsyswrap.render.page.charts import Part, filled, stacked_bar, swatch
from nsyswrap.render.page.html import Markup, element, section
from nsyswrap.render.page.tables import folded_table
from nsyswrap.render.timeline.names import kind_of, name_of, style_of
from nsyswrap.reports.compare.conclusion import signed
from nsyswrap.reports.table import Column, Schema, Table, table_of

_SHARE, _LEAST_NS = 0.05, 1_000  # a difference is marked if it is larger than both
_LANE, _MARK, _MOST_LANES = 22, 7, 4  # pixels; streams of a side
_LEAST, _MERGED = 0.05, 0.2  # percent of the width: of a box, and of neighbors that are drawn as one
_NEEDS = "a side has no capture with steady steps, or too many operations in a step"
_MARKS = {"slower": "longer in new", "faster": "shorter in new", "added or removed": "on one side"}
_OPERATIONS = Schema(
    "median_steps",
    "Operations of the median steps",
    (
        Column("base_number", "Base", Unit.NUMBER, "position in the step of the base"),
        Column("new_number", "New", Unit.NUMBER, "position in the new step"),
        Column("name", "Operation", Unit.TEXT, "kernel, copy, memset or graph", kernels=True),
        Column("difference_ns", "Difference", Unit.NS, "new minus base duration", signed=True),
        Column("base_ns", "Base Duration", Unit.NS, "duration in the step of the base"),
        Column("new_ns", "New Duration", Unit.NS, "duration in the new step"),
        Column("base_offset_ns", "Base Offset", Unit.NS, "after the first operation of the step", 1),
        Column("new_offset_ns", "New Offset", Unit.NS, "after the first operation of the step", 1),
        Column("mark", "Mark", Unit.TEXT, "longer, shorter, or on one side; else empty"),
    ),
)


def step_by_cause(rows: ComparisonRows) -> Markup | None:
    """Return a bar for each side; None without causes."""
    causes = rows.causes
    if not causes:
        return None
    return section(
        "step",
        "Time by cause",
        element(
            "p",
            f"{'The mean steady step' if rows.by_step else 'One run'} of both sides, on one scale: "
            "first what the GPU did, then why it was idle.",
            class_="note",
        ),
        _bar("Base", causes, 0),
        _bar("New", causes, 1),
    )


def _bar(title: str, causes: Sequence[Cause], side: int) -> Markup:
    """Return the bar of a side, 0 or 1."""
    both = [(cause.base_ns, cause.new_ns) for cause in causes]
    parts = [
        Part(cause.name, times[side], _time_text(side, *times), cause.style)
        for cause, times in zip(causes, both, strict=True)
    ]
    longest = max(map(sum, zip(*both, strict=True)))
    return stacked_bar(f"{title}: {duration(sum(part.size for part in parts))}", parts, longest)


def _time_text(side: int, base: float, new: float) -> str:
    """Return the time; on the new side with the difference if it can be read."""
    before, after = duration(base), duration(new)
    return f"{after} ({signed(new - base)})" if side and before != after else (before, after)[side]


def median_steps(rows: ComparisonRows) -> Markup | None:
    """Return both steps on one time axis, and the table of their operations; None without steps."""
    base, new = _run(rows.comparison.base), _run(rows.comparison.new)
    if base is None and new is None:
        return None
    if not (base and base.median_step and new and new.median_step):
        return section("median", "Median steps", element("p", f"Not drawn: {_NEEDS}.", class_="note"))
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
