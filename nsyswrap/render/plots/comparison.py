"""Plot a comparison: what grew and shrank, with its interval, above the steps of both sides by cause.

The bars are relative differences of the parts that cost most. Their colors are the verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from nsyswrap.analysis.compare.model import Comparison
from nsyswrap.base.text import without_folders
from nsyswrap.base.units import duration
from nsyswrap.render.colors import VERDICTS
from nsyswrap.render.comparison import ChangedItem, ComparedCause, ComparisonRows
from nsyswrap.render.plots.figure import (
    GRAY,
    Sheet,
    drawable,
    fitted,
    named_rows,
    paint,
    plot_settings,
    sheet,
    time_axis,
)
from nsyswrap.reports.compare.conclusion import signed
from nsyswrap.reports.wording.comparisons import obstacle_text
from nsyswrap.reports.wording.notes import note_text

_MOST_ROWS = 12
_LINE_IN, _AXIS_IN, _STEP_IN = 0.36, 0.75, 1.5
_NAME_COLUMNS = 44
_BAR = 0.6


@plot_settings()
def draw_comparison(comparison: Comparison) -> Sheet:
    """Return the figure of a comparison."""
    rows = ComparisonRows(comparison)
    shown, causes, made = rows.largest(_MOST_ROWS), rows.causes, rows.conclusion
    verdicts = {part.verdict: VERDICTS[part.verdict] for part in shown}
    heights = [*([len(shown) * _LINE_IN + _AXIS_IN] if shown else []), *([_STEP_IN] if causes else [])]
    drawn = sheet(sum(heights), made.lines[0], _notes(rows, shown), verdicts)
    drawn.figures = {mark.key: mark.value for mark in made.marks}
    if heights:
        axes = drawn.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        if shown:
            _bars(axes[0], shown, rows.unit)
        if causes:
            _causes_bars(axes[-1], causes, rows.unit)
    return drawn


def _notes(rows: ComparisonRows, items: Sequence[ChangedItem]) -> list[str]:
    comparison, more = rows.comparison, len(rows.parts) - len(items)
    base, new = comparison.base, comparison.new
    alone = len(base.runs) == len(new.runs) == 1  # the title says it
    return [
        without_folders(
            f"base: {base.name} (runs: {len(base.runs)}), new: {new.name} (runs: {len(new.runs)})"
        ),
        f"bar: new minus base in a {rows.unit}"
        + ("; line: interval of the difference" if any(part.interval for part in items) else "")
        + (f"; {more:,} smaller differences are not drawn" if more else ""),
        *([] if items else ["no part differs"]),
        *(f"the sides differ: {obstacle_text(one)}" for one in comparison.obstacles),
        *(
            [f"no verdicts: {note_text(comparison.no_verdicts)}"]
            if comparison.no_verdicts and not alone
            else []
        ),
    ]


def _bars(axes: Axes, parts: Sequence[ChangedItem], unit: str) -> None:
    names = fitted([part.name for part in parts], _NAME_COLUMNS)
    # The grid stands below the name where kernels share one.
    labels = [
        f"{name}\n{drawable(part.detail)}" if names.count(name) > 1 else name
        for name, part in zip(names, parts, strict=True)
    ]
    for row, part in enumerate(parts):
        axes.barh(row, part.cost_ns, height=_BAR, **paint(VERDICTS[part.verdict]))
        if part.interval:
            low, high = part.interval
            axes.plot([low, high], [row, row], color="black", linewidth=1.2, marker="|", markersize=6)
        text = drawable(f"{signed(part.cost_ns)}  {part.text}".strip())
        axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
    axes.axvline(0, color=GRAY, linewidth=0.8)
    named_rows(axes, range(len(parts)), labels)
    axes.set_ylim(len(parts) - 0.4, -0.6)
    longest = max((abs(part.cost_ns) for part in parts), default=1.0)
    time_axis(axes.xaxis, longest, f"new minus base in a {unit}", ticks=5)


def _causes_bars(axes: Axes, causes: Sequence[ComparedCause], unit: str) -> None:
    lefts = [0.0, 0.0]
    for cause in causes:
        times = (cause.base_ns, cause.new_ns)
        painted = {**paint(cause.style), "linewidth": 1}
        axes.barh([0, 1], times, left=lefts, height=_BAR, label=drawable(cause.name), **painted)
        lefts = [left + time for left, time in zip(lefts, times, strict=True)]
    labels = [f"{side}, {duration(whole)}" for side, whole in zip(("base", "new"), lefts, strict=True)]
    named_rows(axes, [0, 1], labels)
    axes.set_ylim(1.5, -0.5)
    time_axis(axes.xaxis, max(lefts), f"time of a {unit} by cause")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.05), fontsize=7.5)
