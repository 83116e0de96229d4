"""A gate fails for a slower row that was chosen, and only where tolerance, time at stake and noise say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import SETUP, MadeKernel, made_side, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import (
    GateLimits,
    GateResult,
    chosen_groups,
    gate,
    is_chosen,
    matches,
    unmatched,
)
from nsyswrap.analysis.compare.model import Key, Side
from nsyswrap.analysis.compare.step_rows import QUEUE
from nsyswrap.reports.compare.gate_lines import remark_lines

STEP = Key("step", "step")
GEMM, ADD = Key("kernel", "void gemm<float>(float*)"), Key("kernel", "void add<4>(float*)")
QUIET = [100_000.0, 100_100.0, 99_900.0, 100_050.0, 99_950.0]
NOISY = [100_000.0, 80_000.0, 120_000.0, 70_000.0, 130_000.0]


def scaled(values: list[float], factor: float) -> list[float]:
    return [factor * value for value in values]


def gated(base: Side, new: Side, limits: GateLimits) -> GateResult:
    chosen = is_chosen(limits, chosen_groups(limits, base, new))
    return gate(compare(base, new, limits.limits, family=chosen), limits)


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
    assert result.checked[0].judgement.outcome == "cannot tell"
    assert result.verdict == "passed"


def test_one_run_each_cannot_tell() -> None:
    result = gated(side_of("a", {STEP: QUIET[:1]}), side_of("b", {STEP: [2 * QUIET[0]]}), GateLimits())
    assert result.verdict == "cannot tell"
    assert "one run a side" in result.no_verdicts
    assert result.undecided == result.checked != ()


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


def test_rows_outside_the_gate_get_no_verdict_and_still_teach_noise() -> None:
    base, new = made_side("a"), made_side("b", seed=1)
    comparison = compare(base, new, family=lambda key: key.group == "step")
    outcomes = {pair.key.group: pair.judgement.outcome for pair in comparison.pairs}
    assert outcomes["step"] != "not judged"
    assert outcomes["kernel"] == outcomes["total"] == "not judged"


def test_an_added_kernel_is_told_and_does_not_fail() -> None:
    base, new = side_of("a", {GEMM: QUIET}), side_of("b", {GEMM: QUIET, ADD: QUIET})
    result = gated(base, new, GateLimits(metrics=("kernels",)))
    assert [pair.key for pair in result.absent] == [ADD]
    assert result.verdict == "passed"
    alone = gated(
        side_of("a", {GEMM: QUIET}), side_of("b", {ADD: scaled(QUIET, 9)}), GateLimits(metrics=("kernels",))
    )
    assert alone.verdict == "cannot tell"


def test_a_lower_clock_alone_passes_and_is_told() -> None:
    kernels = (MadeKernel("gemm", 400.0),)
    base = made_side("a", kernels=kernels)
    new = made_side(
        "b", kernels=kernels, seed=1, factors={"gemm": 1.15}, setup=replace(SETUP, sm_clock_mhz=1980 / 1.15)
    )
    result = gated(base, new, GateLimits(kernels=("gemm",)))
    assert result.verdict == "passed"
    assert [pair.key.name for pair in result.clock] == ["gemm"]


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


def test_a_pattern_without_a_kernel_is_named() -> None:
    sides = side_of("a", {GEMM: QUIET}), side_of("b", {GEMM: QUIET})
    limits = GateLimits(kernels=("*gemm*", "*softmax*"))
    assert unmatched(gated(*sides, limits), limits) == ("*softmax*",)


def test_what_some_runs_lack_is_not_passed() -> None:
    slow = [2 * value for value in QUIET]
    base, new = side_of("a", {STEP: QUIET}), side_of("b", {STEP: [*slow[:4], None], GEMM: slow})
    result = gated(base, new, GateLimits(metrics=("step",)))
    assert result.checked[0].judgement.why == "absent from 1 of 5 new runs"
    assert result.verdict == "cannot tell"
    assert gated(base, new, GateLimits(metrics=("step",), min_time_ns=1e9)).verdict == "passed"


def test_few_runs_are_told_with_a_failure() -> None:
    base, new = side_of("a", {STEP: QUIET[:3]}), side_of("b", {STEP: scaled(QUIET[:3], 1.5)})
    result = gated(base, new, GateLimits())
    assert result.verdict == "slower"
    assert any("3 and 3 runs: a row with two speeds" in line for line in remark_lines(result))
    assert not remark_lines(gated(base, base, GateLimits()))
