"""The plot of a comparison: bars as long as the differences, and texts that are whole."""

from dataclasses import replace

import pytest
from drawn import drawn
from made_comparison import SLOWER, comparison, pair
from made_runs import KERNELS, SETUP, MadeKernel, made_side
from matplotlib.patches import Rectangle

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.render.comparison import ComparisonRows
from nsyswrap.render.page.compare import compare_page
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
    assert widths == [part.cost_ns for part in ComparisonRows(comparison).largest(12)]
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


def test_causes_are_in_the_order_of_the_page() -> None:
    idle = (pair("budget", f"idle_{cause}", 3e6, 4e6) for cause in ("host", "launch"))
    work = (pair("budget", f"{kind}_kernel", time, time) for kind, time in (("gemm", 1e6), ("norm", 2e6)))
    small = (pair("budget", state, 10.0, 10.0) for state in ("memcpy", "idle_call"))
    compared = comparison(pair("step", "'s'", 9e6, 11e6), *idle, *work, *small)
    names = ["norm", "gemm", "idle: host code", "idle: launch latency", "the rest"]
    assert [cause.name for cause in ComparisonRows(compared).causes] == names
    legend = draw_comparison(compared).axes[-1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == names
    page = compare_page(compared)
    places = [page.index(f"{name} <b>") for name in names]
    assert places == sorted(places)


def test_kernels_of_one_name_have_their_grid_below_it() -> None:
    grids = ("grid 320 1 1, block 512 1 1", "grid 260 1 1, block 512 1 1")
    name = "void a_kernel_with_a_long_name_number_one<float, 128>(int)"
    figure = draw_comparison(
        comparison(*(pair("kernel", name, 1e6, 2e6, SLOWER, detail=one) for one in grids))
    )
    labels = [label.get_text().split("\n") for label in figure.axes[0].get_yticklabels()]
    assert {below for _, below in labels} == {*grids}
    assert len({above for above, _ in labels}) == 1
    assert drawn(figure).cut_off() == []


def test_a_title_without_a_verdict_is_not_said_again() -> None:
    shown = drawn(draw_comparison(compare(made_side("before", 1), made_side("after", 1, seed=2))))
    assert sum("tell noise from change" in text for text in shown.texts) == 1  # the title
    assert not any("line: interval" in text for text in shown.texts)
