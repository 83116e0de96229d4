"""Plot a comparison: what grew and shrank, with its interval, above the steps of both sides by cause.

The bars are relative differences of the parts that cost most. Their colors are the verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import without_folders
from nsyswrap.base.units import duration
from nsyswrap.render.colors import REST, VERDICTS, state_color
from nsyswrap.render.comparison_names import short_names
from nsyswrap.render.comparison_parts import has_steps, parts_of, times_by_cause
from nsyswrap.render.plots.figure import (
    GRAY,
    NAMES,
    drawable,
    fitted,
    paint,
    plot_settings,
    sheet,
    time_axis,
)
from nsyswrap.render.row_names import row_names
from nsyswrap.reports.compare.conclusion import conclude, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from nsyswrap.analysis.compare.model import Comparison, Pair
    from nsyswrap.render.colors import Style
    from nsyswrap.render.comparison_parts import ChangedPart, Parts
    from nsyswrap.render.plots.figure import Sheet

_MOST_ROWS, _MOST_CAUSES = 12, 8
_LINE_IN, _AXIS_IN, _STEP_IN = 0.36, 0.75, 1.5
_NAME_COLUMNS = 34
_BAR = 0.6


def draw_comparison(comparison: Comparison) -> Sheet:
    """Return the figure of a comparison."""
    with plot_settings():
        return _figure(comparison)


def _figure(comparison: Comparison) -> Sheet:
    found = parts_of(comparison)
    shown = found.largest(_MOST_ROWS)
    causes = _causes(comparison)
    verdicts = {part.verdict: VERDICTS[part.verdict] for part in shown}
    heights = [*([len(shown) * _LINE_IN + _AXIS_IN] if shown else []), *([_STEP_IN] if causes else [])]
    verdict = conclude(comparison, short_names(comparison)).lines[0]
    drawn = sheet(sum(heights), verdict, _notes(comparison, found, shown), verdicts)
    if heights:
        axes = drawn.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        if shown:
            _bars(axes[0], shown, found.unit)
        if causes:
            _causes_bars(axes[-1], causes, found.unit)
    return drawn


def _notes(comparison: Comparison, found: Parts, shown: Sequence[ChangedPart]) -> list[str]:
    more = len(found.parts) - len(shown)
    base, new = comparison.base, comparison.new
    return [
        without_folders(
            f"base: {base.name} (runs: {len(base.runs)}), new: {new.name} (runs: {len(new.runs)})"
        ),
        f"line: interval of the difference; bar: new minus base in a {found.unit}"
        + (f"; {more:,} smaller differences are not drawn" if more else ""),
        *([] if shown else ["no part differs"]),
        *(f"the sides differ: {one.text}" for one in comparison.obstacles),
        *([f"no verdicts: {comparison.no_verdicts}"] if comparison.no_verdicts else []),
    ]


def _bars(axes: Axes, parts: Sequence[ChangedPart], unit: str) -> None:
    """Draw new minus base of each part, the largest on top."""
    labels = fitted(_labels(parts), _NAME_COLUMNS)
    for row, part in enumerate(parts):
        axes.barh(row, part.cost_ns, height=_BAR, **paint(VERDICTS[part.verdict]))
        if part.interval:
            low, high = part.interval
            axes.plot([low, high], [row, row], color="black", linewidth=1.2, marker="|", markersize=6)
        text = drawable(f"{signed(part.cost_ns)}  {part.text}".strip())
        axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
    axes.axvline(0, color=GRAY, linewidth=0.8)
    axes.set_yticks(range(len(parts)), labels, **NAMES)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    longest = max((abs(part.cost_ns) for part in parts), default=1.0)
    time_axis(axes.xaxis, longest, f"new minus base in a {unit}", ticks=5)


def _labels(parts: Sequence[ChangedPart]) -> list[str]:
    """Return the names, with the grid where kernels share one."""
    names = [part.name for part in parts]
    return [f"{part.name} {part.detail}" if names.count(part.name) > 1 else part.name for part in parts]


def _causes(comparison: Comparison) -> list[tuple[str, Style, float, float]]:
    """Return name, style and both times of each cause, the longest first; the rest is one more."""
    pairs = comparison.of("budget")
    names = row_names(pair.key for pair in pairs)
    by_step = has_steps(comparison)
    every = [
        (
            _cause_name(pair, names[pair.key]),
            state_color(pair.key.name),
            *times_by_cause(pair, by_step=by_step),
        )
        for pair in pairs
    ]
    every = sorted((one for one in every if max(one[2:]) > 0), key=lambda one: -max(one[2:]))
    rest = every[_MOST_CAUSES:]
    return every[:_MOST_CAUSES] + (
        [("the rest", REST, sum(one[2] for one in rest), sum(one[3] for one in rest))] if rest else []
    )


def _cause_name(pair: Pair, name: str) -> str:
    return f"idle: {name}" if pair.key.name.startswith("idle_") else name


def _causes_bars(axes: Axes, causes: Sequence[tuple[str, Style, float, float]], unit: str) -> None:
    """Draw one step, or run, of both sides as stacked bars."""
    lefts = [0.0, 0.0]
    for name, style, *times in causes:
        painted = {**paint(style), "linewidth": 1}
        axes.barh([0, 1], times, left=lefts, height=_BAR, label=drawable(name), **painted)
        lefts = [left + time for left, time in zip(lefts, times, strict=True)]
    labels = [f"{side}, {duration(whole)}" for side, whole in zip(("base", "new"), lefts, strict=True)]
    axes.set_yticks([0, 1], labels, **NAMES)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(1.5, -0.5)
    axes.grid(visible=False, axis="y")
    time_axis(axes.xaxis, max(lefts), f"time of a {unit} by cause")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.05), fontsize=7.5)
