"""A gate fails for a slower row that was chosen, and only where tolerance, time at stake and noise say so."""

from dataclasses import replace

import pytest
from made_runs import SETUP, MadeKernel, exact_row, made_side, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import (
    WITH_WARM_UP,
    GateLimits,
    GateResult,
    chosen_groups,
    gate,
    matches,
    unmatched,
)
from nsyswrap.analysis.compare.model import ExcludedSteps, Key, RowFigures, Side
from nsyswrap.analysis.compare.step_rows import PROGRAM, QUEUE, SPAN
from nsyswrap.reports.compare.gate_lines import remark_lines, row_lines
from nsyswrap.reports.wording.notes import joined, note_text

STEP = Key("step", "step")
GEMM, ADD = Key("kernel", "void gemm<float>(float*)"), Key("kernel", "void add<4>(float*)")
QUIET = [100_000.0, 100_100.0, 99_900.0, 100_050.0, 99_950.0]
NOISY = [100_000.0, 80_000.0, 120_000.0, 70_000.0, 130_000.0]


def scaled(values: list[float], factor: float) -> list[float]:
    return [factor * value for value in values]


def gated(base: Side, new: Side, limits: GateLimits) -> GateResult:
    return gate(compare(base, new, limits.limits), limits)


def verdict_of(new: list[float], base: list[float] = QUIET, limits: GateLimits | None = None) -> str:
    return gated(side_of("base", {STEP: base}), side_of("new", {STEP: new}), limits or GateLimits()).verdict


def test_a_slower_step_fails() -> None:
    assert verdict_of(scaled(QUIET, 1.08)) == "slower"
    assert verdict_of(scaled(QUIET, 1.0)) == "passed"
    assert verdict_of(scaled(QUIET, 0.8)) == "passed"


def test_the_tolerance_has_to_be_exceeded() -> None:
    assert verdict_of(scaled(QUIET, 1.08), limits=GateLimits(max_slower=0.1)) == "passed"


def test_the_time_at_stake_has_to_be_exceeded() -> None:
    # 100 launches, each 8 us slower, are 0.8 ms a run
    assert verdict_of(scaled(QUIET, 1.08), limits=GateLimits(min_time_ns=1e6)) == "passed"
    assert verdict_of(scaled(QUIET, 1.08), limits=GateLimits(min_time_ns=0.7e6)) == "slower"


def test_noise_has_to_be_exceeded() -> None:
    assert verdict_of(scaled(NOISY, 1.08), NOISY) == "cannot tell"


def test_what_is_faster_or_the_same_passes() -> None:
    new = [0.95 * value for value in (101_000.0, 99_000.0, 100_000.0, 100_500.0, 99_500.0)]
    sides = side_of("a", {STEP: QUIET}), side_of("b", {STEP: new})
    result = gated(*sides, GateLimits())
    assert result.checked[0].judgement.outcome == "same"
    assert result.verdict == "passed"


def test_one_run_each_cannot_tell() -> None:
    result = gated(side_of("a", {STEP: QUIET[:1]}), side_of("b", {STEP: [2 * QUIET[0]]}), GateLimits())
    assert result.verdict == "cannot tell"
    assert "one run a side" in note_text(result.no_verdicts or "")
    assert result.checked


def test_steps_are_checked_or_else_totals() -> None:
    sides = made_side("a"), made_side("b", seed=1)
    assert chosen_groups(GateLimits(), *sides) == ("step",)
    without = made_side("a", steps=0)
    assert chosen_groups(GateLimits(), without, sides[1]) == ("total",)
    assert chosen_groups(GateLimits(kernels=("*",)), *sides) == ("kernel",)
    assert chosen_groups(GateLimits(metrics=("total", "launch_overhead")), *sides) == ("total", "launch")
    assert chosen_groups(GateLimits(metrics=("step",), kernels=("*",)), *sides) == ("step", "kernel")


def test_only_the_chosen_kernels_count() -> None:
    base = side_of("a", {GEMM: QUIET, ADD: QUIET})
    new = side_of("b", {GEMM: scaled(QUIET, 1.2), ADD: QUIET})
    assert [pair.key for pair in gated(base, new, GateLimits(metrics=("kernels",))).failed] == [GEMM]
    result = gated(base, new, GateLimits(kernels=("*add*",)))
    assert result.verdict == "passed"
    assert [pair.key for pair in result.checked] == [ADD]


def test_the_queue_time_is_no_launch_overhead() -> None:
    rows = {Key("launch", "repeat launch call"): QUIET, Key("launch", QUEUE): QUIET}
    limits = GateLimits(metrics=("launch_overhead",))
    result = gated(side_of("a", rows), side_of("b", rows), limits)
    assert [pair.key.name for pair in result.checked] == ["repeat launch call"]


def test_fewer_chosen_rows_decide_smaller_changes() -> None:
    kernels = [MadeKernel(f"kernel_{n}", spread=0.02) for n in range(60)]
    base, new = (
        made_side(name, kernels=kernels, seed=seed, factors={"kernel_7": 1.12} if seed else None, steps=0)
        for name, seed in (("a", 0), ("b", 1))
    )

    def low(limits: GateLimits) -> float:
        pairs = gated(base, new, limits).checked
        return next(pair.judgement.low or 0 for pair in pairs if pair.key.name == "kernel_7")

    assert low(GateLimits(kernels=("kernel_7",))) > low(GateLimits(metrics=("kernels",)))


@pytest.mark.parametrize(
    ("added", "verdict"), [(scaled(QUIET, 0.04), "passed"), (scaled(QUIET, 0.08), "cannot tell")]
)
def test_an_added_kernel_is_named_and_what_it_takes_is_not_compared(added: list[float], verdict: str) -> None:
    base, new = side_of("a", {GEMM: QUIET}), side_of("b", {GEMM: QUIET, ADD: added})
    result = gated(base, new, GateLimits(metrics=("kernels",)))
    assert [pair.key for pair in result.absent] == [ADD]
    assert result.coverage == pytest.approx((1.0, 1 / (1 + added[0] / QUIET[0])))
    assert result.verdict == verdict


def test_of_a_kernel_with_more_launches_only_as_many_as_before_are_compared() -> None:
    base = side_of("a", {GEMM: [exact_row(1e5, 100)] * 5, ADD: [exact_row(1e5, 100)] * 5})
    new = side_of("b", {GEMM: [exact_row(1e5, 200)] * 5, ADD: [exact_row(1e5, 100)] * 5})
    result = gated(base, new, GateLimits(metrics=("kernels",)))
    assert result.coverage == pytest.approx((1.0, 2 / 3))
    assert result.verdict == "cannot tell"
    gone = side_of("a", {GEMM: [exact_row(1e5, 100)] * 5, ADD: [exact_row(1e5, 100)] * 5})
    less = side_of("b", {GEMM: [exact_row(1e5, 200)] * 5})
    assert gated(gone, less, GateLimits(metrics=("kernels",))).coverage == pytest.approx((1 / 2, 1 / 2))


def totals(span: list[float]) -> dict[Key, list[RowFigures | float | None]]:
    rows = [RowFigures(1, one * 100, one * 100) for one in span]
    return {Key("total", SPAN): rows, Key("total", PROGRAM): rows}  # type: ignore[dict-item]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "passed"), (1.2, "slower")])
def test_totals_speak_for_what_the_steps_do_not_cover(factor: float, verdict: str) -> None:
    base = side_of("a", {STEP: scaled(QUIET, 0.8), **totals(QUIET)})
    new = side_of("b", {STEP: scaled(QUIET, 0.8), **totals(scaled(QUIET, factor))})
    result = gated(base, new, GateLimits())
    assert [pair.key.name for pair in result.checked] == ["step", SPAN]
    assert result.coverage == pytest.approx((0.8, 0.8 / factor), rel=1e-3)
    assert result.verdict == verdict
    covered = side_of("a", {STEP: QUIET, **totals(QUIET)})
    assert [pair.key.name for pair in gated(covered, covered, GateLimits()).checked] == ["step"]


def test_totals_are_by_step_where_the_sides_have_another_number_of_steps() -> None:
    base = side_of("a", {STEP: [exact_row(8e4, 100)] * 5, **totals(QUIET)})
    new = side_of("b", {STEP: [exact_row(8e4, 200)] * 5, **totals(scaled(QUIET, 2))})
    assert gated(base, new, GateLimits()).verdict == "passed"


def test_stalls_are_cost_although_the_typical_step_is_the_same() -> None:
    def side(name: str, stalls: int, ns: float) -> Side:
        rows = [
            replace(
                exact_row(one, 60, error=0.001),
                total_ns=one * 60 + stalls * ns,
                mean_error=0.1 if stalls else 0.0,
                aside=ExcludedSteps(outliers=stalls, outlier_ns=stalls * (ns + one)),
            )
            for one in QUIET
        ]
        return side_of(name, {STEP: rows})

    result = gated(side("a", 0, 0), side("b", 10, 1e6), GateLimits())
    assert result.verdict == "slower"
    assert result.failed[0].judgement.typical == pytest.approx(1)
    (line,) = row_lines(result)
    assert "100 µs -> 267 µs" in line
    assert "typical 100 → 100 µs; outliers 0 (0 ns) → 10 (11.0 ms)" in line
    assert gated(side("a", 10, 1e6), side("b", 0, 0), GateLimits()).verdict == "passed"


def test_a_typical_time_that_is_slower_does_not_pass_for_fewer_stalls() -> None:
    base = [replace(exact_row(one), total_ns=one * 100 * 1.1) for one in QUIET]
    new = [exact_row(one * 1.1) for one in QUIET]
    result = gated(side_of("a", {STEP: base}), side_of("b", {STEP: new}), GateLimits())
    assert result.verdict == "cannot tell"
    assert joined(result.undecided[0].judgement.why) == "typical time +10.0 %"


def test_a_longer_warm_up_is_cost() -> None:
    rows = [replace(exact_row(one), aside=ExcludedSteps(1, one)) for one in QUIET]
    slow = [replace(exact_row(one), aside=ExcludedSteps(25, 750 * one)) for one in QUIET]
    result = gated(side_of("a", {STEP: rows}), side_of("b", {STEP: slow}), GateLimits())
    assert result.verdict == "slower"
    assert [pair.key.detail for pair in result.failed] == [WITH_WARM_UP]
    assert [pair.key.detail for pair in result.checked] == ["", WITH_WARM_UP]
    same = gated(side_of("a", {STEP: rows}), side_of("b", {STEP: rows}), GateLimits())
    assert same.verdict == "passed"


def test_slower_steps_fail_beside_a_warm_up_that_takes_longer_than_all_of_them() -> None:
    def side(name: str, factor: float) -> Side:
        warm_ups = (9e7, 1.1e8, 1e8, 0.95e8, 1.05e8)
        rows = [
            replace(exact_row(factor * one), aside=ExcludedSteps(1, ns))
            for one, ns in zip(QUIET, warm_ups, strict=True)
        ]
        return side_of(name, {STEP: rows})

    assert gated(side("a", 1), side("b", 1.15), GateLimits()).verdict == "slower"


def test_a_warm_up_that_varies_too_much_is_named() -> None:
    rows = [
        replace(exact_row(one), aside=ExcludedSteps(1, ns))
        for one, ns in zip(QUIET, (1e8, 2e8, 3e8, 1e8, 2e8), strict=True)
    ]
    result = gated(side_of("a", {STEP: rows}), side_of("b", {STEP: rows}), GateLimits())
    assert result.verdict == "cannot tell"
    assert any(line.startswith("warm-up alone varies too much") for line in remark_lines(result))
    decided = gated(side_of("a", {STEP: QUIET}), side_of("b", {STEP: QUIET}), GateLimits())
    assert not any(line.startswith("warm-up") for line in remark_lines(decided))


def test_four_runs_a_side_that_lie_apart_are_slower_whatever_their_noise() -> None:
    base = [100_000.0, 101_000.0, 99_000.0, 100_000.0]
    new = [110_000.0, 400_000.0, 1_700_000.0, 120_000.0]
    result = gated(side_of("a", {STEP: base}), side_of("b", {STEP: new}), GateLimits())
    assert result.failed[0].judgement.low is not None
    assert result.failed[0].judgement.low < 1
    assert result.verdict == "slower"
    fewer = gated(side_of("a", {STEP: base[:3]}), side_of("b", {STEP: new[:3]}), GateLimits())
    assert fewer.verdict == "cannot tell"
    closer = [104_000.0, *new[1:]]
    assert gated(side_of("a", {STEP: base}), side_of("b", {STEP: closer}), GateLimits()).verdict != "slower"


def test_a_baseline_without_cost_is_not_judged_in_cost() -> None:
    old = side_of("a", {STEP: [exact_row(one, mean_error=None) for one in QUIET]})
    result = gated(old, side_of("b", {STEP: QUIET}), GateLimits())
    assert result.verdict == "cannot tell"
    assert joined(result.undecided[0].judgement.why) == "the baseline lacks the cost of a run: save it again"
    assert gated(old, side_of("b", {STEP: scaled(QUIET, 1.2)}), GateLimits()).verdict == "slower"


def test_a_lower_clock_alone_is_not_judged_and_is_told() -> None:
    kernels = (MadeKernel("gemm", 400.0),)
    base = made_side("a", kernels=kernels)
    new = made_side(
        "b", kernels=kernels, seed=1, factors={"gemm": 1.15}, setup=replace(SETUP, sm_clock_mhz=1980 / 1.15)
    )
    result = gated(base, new, GateLimits(kernels=("gemm",)))
    assert result.verdict == "cannot tell"
    assert joined(result.undecided[0].judgement.why) == "SM clock 1980 / 1722 MHz could be the cause"


# 25 % slower, at least 7 % by the interval of the difference.
@pytest.mark.parametrize(("clock_mhz", "verdict"), [(1850, "slower"), (1800, "cannot tell")])
def test_what_a_lower_clock_leaves_has_to_exceed_the_noise(clock_mhz: float, verdict: str) -> None:
    new = [111_000.0, 118_000.0, 125_000.0, 132_000.0, 139_000.0]
    lower = side_of("b", {STEP: new}, setup=replace(SETUP, sm_clock_mhz=clock_mhz))
    assert gated(side_of("a", {STEP: QUIET}), lower, GateLimits()).verdict == verdict


def test_what_a_lower_clock_leaves_has_to_exceed_the_tolerance() -> None:
    lower = side_of("b", {STEP: scaled(QUIET, 1.12)}, setup=replace(SETUP, sm_clock_mhz=1850))
    assert gated(side_of("a", {STEP: QUIET}), lower, GateLimits()).verdict == "cannot tell"  # 4.7 % are left
    assert gated(side_of("a", {STEP: QUIET}), lower, GateLimits(max_slower=0.04)).verdict == "slower"


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("gemm", True),
        ("ns::gemm", True),
        ("*gemm*", True),
        ("void ns::gemm<float>(float*)", True),
        ("GEMM", False),
        ("ns", False),
    ],
)
def test_a_pattern_is_for_full_names_and_for_functions(pattern: str, fits: bool) -> None:  # noqa: FBT001
    assert matches("void ns::gemm<float>(float*)", pattern) is fits


@pytest.mark.parametrize("pattern", ["old", "new", "*"])
def test_a_pattern_is_for_either_name_of_a_renamed_kernel(pattern: str) -> None:
    sides = (
        side_of("a", {Key("kernel", "old", "grid 1"): QUIET}),
        side_of("b", {Key("kernel", "new", "grid 1"): scaled(QUIET, 1.2)}),
    )
    limits = GateLimits(kernels=(pattern,))
    result = gated(*sides, limits)
    assert result.verdict == "slower"
    assert unmatched(result, limits) == ()


def test_a_pattern_without_a_kernel_is_named() -> None:
    sides = side_of("a", {GEMM: QUIET}), side_of("b", {GEMM: QUIET})
    limits = GateLimits(kernels=("*gemm*", "*softmax*"))
    assert unmatched(gated(*sides, limits), limits) == ("*softmax*",)


def test_what_some_runs_lack_is_not_passed() -> None:
    slow = [2 * value for value in QUIET]
    base, new = side_of("a", {STEP: QUIET}), side_of("b", {STEP: [*slow[:4], None], GEMM: slow})
    result = gated(base, new, GateLimits(metrics=("step",)))
    assert joined(result.checked[0].judgement.why) == "absent from 1 of 5 new runs"
    assert result.verdict == "cannot tell"
    assert gated(base, new, GateLimits(metrics=("step",), min_time_ns=1e9)).verdict == "passed"
    base = side_of("a", {GEMM: QUIET, ADD: [*[None] * 4, 50.0]})  # too small to be judged
    new = side_of("b", {GEMM: QUIET, ADD: [50.0] * 5})
    assert gated(base, new, GateLimits(metrics=("kernels",))).verdict == "passed"


def test_few_runs_are_told_with_a_failure() -> None:
    base, new = side_of("a", {STEP: QUIET[:3]}), side_of("b", {STEP: scaled(QUIET[:3], 1.5)})
    result = gated(base, new, GateLimits())
    assert result.verdict == "slower"
    assert any("3 and 3 runs: a row with two speeds" in line for line in remark_lines(result))
    assert not any("two speeds" in line for line in remark_lines(gated(base, base, GateLimits())))
