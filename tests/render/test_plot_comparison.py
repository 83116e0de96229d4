"""The plot of a comparison: bars as long as the differences, and texts that are whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn import drawn
from made_runs import KERNELS, SETUP, MadeKernel, made_side
from matplotlib.patches import Rectangle

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.render.comparison_parts import parts_of
from nsyswrap.render.plots.comparison import draw_comparison

OTHERS = tuple(
    MadeKernel(f"void a_kernel_with_a_long_name_number_{i}<float, 128>(int)", 20.0 + i, 50) for i in range(8)
)


def test_bars_are_the_differences_and_texts_are_whole() -> None:
    base = made_side("before", kernels=(*KERNELS, *OTHERS), seed=1)
    new = made_side("after", kernels=(*KERNELS, *OTHERS), seed=2, factors={"gemm": 1.3, "long_name": 1.2})
    comparison = compare(base, new)
    figure = draw_comparison(comparison)
    bars, steps = figure.axes
    widths = [bar.get_width() for bar in bars.patches if isinstance(bar, Rectangle)]
    assert widths == [part.cost_ns for part in parts_of(comparison).largest(12)]
    whole = [
        max(bar.get_x() + bar.get_width() for bar in side) for side in zip(*steps.containers, strict=True)
    ]
    assert whole == pytest.approx(
        [
            sum(pair.base_per_step_ns or 0 for pair in comparison.of("budget")),
            sum(pair.new_per_step_ns or 0 for pair in comparison.of("budget")),
        ]
    )
    shown = drawn(figure)
    assert shown.cut_off() == []
    assert shown.overlapping() == []
    assert any("▲ slower, +2" in text for text in shown.texts)


def test_without_verdicts_it_says_why() -> None:
    base = made_side("before", steps=0, seed=1)
    new = made_side("after", steps=0, seed=2, setup=replace(SETUP, driver="575.51.03"))
    shown = drawn(draw_comparison(compare(base, new)))
    assert any("no verdicts: not comparable: driver" in text for text in shown.texts)
    assert shown.cut_off() == []
