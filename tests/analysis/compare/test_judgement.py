"""What one row is judged to be, from rows of exact numbers."""

from collections.abc import Sequence
from typing import Any

import pytest
from made_runs import exact_row

from nsyswrap.analysis.compare.judgement import SideClocks, judge, judge_rows
from nsyswrap.analysis.compare.model import Group, Judgement, Key, RowFigures, SlowdownLimits
from nsyswrap.analysis.compare.pairing import PairedRows
from nsyswrap.analysis.compare.step_rows import FIRST_CALL
from nsyswrap.reports.wording.notes import joined

KERNEL, STEP, API = Key("kernel", "gemm", "1x1x1 32x1x1"), Key("step", "step"), Key("api", "cudaLaunchKernel")
STABLE = (100_000, 100_300, 99_800, 100_100, 99_900)


def rows(base: Sequence[Any], new: Sequence[Any], key: Key = KERNEL) -> PairedRows:
    sides = [
        tuple(entry if isinstance(entry, RowFigures) or entry is None else exact_row(entry) for entry in side)
        for side in (base, new)
    ]
    return PairedRows(key, sides[0], sides[1])


def judged(base: Sequence[Any], new: Sequence[Any], key: Key = KERNEL, **more: Any) -> Judgement:
    return judge(rows(base, new, key), SlowdownLimits(), **more)


def times(factor: float, values: Sequence[float] = STABLE, **more: Any) -> list[RowFigures]:
    return [exact_row(value * factor, **more) for value in values]


def test_the_interval_must_lie_wholly_beyond_the_tolerance() -> None:
    assert judged(STABLE, times(1.08)).outcome == "slower"
    assert judged(STABLE, times(0.92)).outcome == "faster"
    assert judged(STABLE, times(1.01)).outcome == "same"
    assert judged(STABLE, times(1.05)).outcome == "cannot tell"


def test_the_interval_is_welchs() -> None:
    # Logs 0, .01, .02 and .1, .11, .12: means .01 and .11, variances .0001, 4 degrees of freedom: t = 2.776.
    base, new = ([100_000 * 2.718281828459045 ** (at + step) for at in (0, 0.01, 0.02)] for step in (0, 0.1))
    found = judged(base, new)
    assert found.ratio == pytest.approx(2.718281828**0.1)
    half = 2.7764451 * (2 * 0.0001 / 3) ** 0.5
    assert found.low == pytest.approx(2.718281828 ** (0.1 - half))
    assert found.high == pytest.approx(2.718281828 ** (0.1 + half))


def test_equal_runs_are_no_more_certain_than_their_launches() -> None:
    assert judged([100_000] * 3, [106_000] * 3).outcome == "slower"
    assert judged(times(1.0, [100_000] * 3, error=0.03), [106_000] * 3).outcome == "cannot tell"


def test_the_mean_of_launches_is_as_uncertain_as_their_spread() -> None:
    """The typical launch is not: other rows, such as calls, are judged by it."""
    base = times(1.0, [100_000] * 3, mean_error=0.03)
    assert judged(base, [106_000] * 3).outcome == "cannot tell"
    assert judged(base, [106_000] * 3, API).outcome == "slower"


def test_a_newton_of_two_speeds_is_not_slower() -> None:
    slow, fast = 25_500_000, 22_500_000
    found = judged([fast, slow, fast, fast, slow], [slow, fast, slow, slow, slow], STEP)
    assert found.outcome == "cannot tell"


def test_two_runs_are_not_judged() -> None:
    found = judged([100_000, 100_100], [120_000, 120_100])
    assert (found.outcome, joined(found.why), found.low) == ("not judged", "fewer than 3 base runs", None)
    assert found.ratio == pytest.approx(1.2, rel=0.01)


def test_sides_may_have_different_numbers_of_runs() -> None:
    assert judged(STABLE[:3], times(1.1, (*STABLE, *STABLE[:3]))).outcome == "slower"


def test_what_is_short_in_a_run_is_not_judged() -> None:
    found = judged(times(1, (50, 51, 52)), times(1, (90, 91, 92)))
    assert (found.outcome, joined(found.why)) == ("not judged", "under 10.0 µs a run")
    # 12 µs a run, but 15 % of it is less than 10 µs
    found = judged(times(1, (120, 120, 121)), times(1.15, (120, 120, 121)))
    assert (found.outcome, joined(found.why)) == ("not judged", "differs by under 10.0 µs a run")
    noisy = judged(times(1, (110, 120, 130)), times(1, (130, 120, 110)))
    assert (noisy.outcome, noisy.more_runs) == ("not judged", None)


def test_rows_too_short_take_no_part_of_the_error_rate() -> None:
    long = rows(STABLE, times(1.08))
    short = [rows(times(1, (50, 51, 52, 51, 50)), times(1, (52, 51, 50, 51, 50)))] * 100
    assert judge_rows([long, *short], SlowdownLimits())[0] == judge(long, SlowdownLimits())


def test_rows_share_the_error_rate_by_halves() -> None:
    kernels = [rows(STABLE, times(1.04))] * 4
    alone = judge_rows(kernels, SlowdownLimits())[0]
    with_step = judge_rows([*kernels, rows(STABLE, times(1.04), STEP)], SlowdownLimits())
    half = judge_rows(kernels, SlowdownLimits(error_rate=0.025))[0]
    assert with_step[0] == half != alone
    assert with_step[4] == judge(rows(STABLE, times(1.04), STEP), SlowdownLimits(), rate=0.025)


@pytest.mark.parametrize(
    ("base", "new", "key", "why"),
    [
        ([None] * 3, STABLE, KERNEL, "added"),
        (STABLE, [None] * 3, KERNEL, "removed"),
        ([RowFigures(1, 50_000.0)] * 3, STABLE, KERNEL, "only first launches"),
        ((*STABLE[:3], None), STABLE, API, "absent from 1 of 4 base runs"),
        ((*STABLE[:2], None), STABLE, KERNEL, "absent from 1 of 3 base runs"),
        (STABLE, (*STABLE, 0.0), API, "no time in 1 of 6 new runs"),
    ],
)
def test_rows_that_are_not_in_all_runs(base: Sequence[Any], new: Sequence[Any], key: Key, why: str) -> None:
    found = judged(base, new, key)
    assert (found.outcome, joined(found.why)) == ("not judged", why)


def test_a_kernel_in_three_runs_of_each_side_is_judged() -> None:
    assert judged((*STABLE[:4], None), (None, *times(1.08)[:4])).outcome == "slower"


def test_more_launches_are_no_slower_kernel() -> None:
    found = judged(times(1, count=100), times(1, count=200))
    assert (found.outcome, joined(found.why)) == ("same", "time of one; 100 / 200 launches")


def test_the_first_launches_of_other_kernels_are_not_judged() -> None:
    key = Key("launch", FIRST_CALL)
    found = judged(times(1, count=4), times(1.3, count=3), key)
    assert (found.outcome, joined(found.why)) == ("not judged", "other kernels: 4 / 3 first launches")
    assert judged(times(1, count=4), times(1.3, count=4), key).outcome == "slower"


def test_copies_of_other_sizes_are_not_judged() -> None:
    found = judged(times(1, size_bytes=100 << 20), times(2, size_bytes=200 << 20), Key("copy", "H2D"))
    assert (found.outcome, joined(found.why)) == ("not judged", "copies of other sizes")
    assert judged(times(1, size_bytes=1), times(2, size_bytes=1), Key("copy", "H2D")).outcome == "slower"


def clocked(factor: float, mhz: float, samples: int = 2) -> list[RowFigures]:
    return times(factor, clock_mhz=mhz, clock_samples=samples)


def test_a_kernel_slower_in_time_but_not_in_cycles_is_a_matter_of_the_clock() -> None:
    found = judged(clocked(1, 1980), clocked(1980 / 1755, 1755))
    assert (found.outcome, joined(found.why)) == ("clock", "SM clock 1980 / 1755 MHz")
    found = judged(clocked(1, 1755), clocked(1755 / 1980, 1980))
    assert (found.outcome, joined(found.why)) == ("clock", "SM clock 1755 / 1980 MHz")


def test_a_kernel_slower_in_cycles_too_is_slower() -> None:
    assert judged(clocked(1, 1980), clocked(1.25, 1755)).outcome == "slower"


def test_cycles_that_may_differ_are_not_told() -> None:
    found = judged(clocked(1, 1980), clocked(1.05 * 1980 / 1755, 1755))
    assert (found.outcome, joined(found.why)) == (
        "cannot tell",
        "SM clock 1980 / 1755 MHz; the cycles could still differ",
    )


def test_a_memory_bound_kernel_is_no_matter_of_the_clock() -> None:
    assert judged(clocked(1, 1980), clocked(1, 1755)).outcome == "same"


def test_without_five_samples_a_side_the_clock_of_the_runs_counts() -> None:
    clocks = SideClocks((1980.0,) * 5, (1782.0,) * 5)
    base, new = clocked(1, 1980, samples=0), clocked(1980 / 1782, 1782, samples=0)
    found = judged(base, new, clocks=clocks)
    assert (found.outcome, joined(found.why)) == (
        "cannot tell",
        "SM clock 1980 / 1782 MHz could be the cause",
    )
    assert judged(base, new).outcome == "slower"  # nothing is known of the clock


@pytest.mark.parametrize("group", ["total", "step", "budget", "launch", "api", "copy", "range"])
def test_a_clock_10_percent_lower_makes_nothing_slower(group: Group) -> None:
    clocks = SideClocks((1980.0, 1975.0, 1980.0, None, 1980.0), (1782.0,) * 5)
    key = Key(group, "x")
    assert judged(STABLE, times(1.11), key, clocks=clocks).outcome == "cannot tell"
    assert (
        judged(times(1.11), STABLE, key, clocks=SideClocks(clocks.new, clocks.base)).outcome == "cannot tell"
    )
    assert judged(STABLE, times(1.25), key, clocks=clocks).outcome == "slower"  # more than the clock explains
    assert judged(STABLE, times(0.9), key, clocks=clocks).outcome == "faster"  # in spite of the clock


def test_noise_without_end_is_no_error() -> None:
    found = judged([1e5, 1e9, 1e13], [1e12, 1e5, 1e9])
    assert found.outcome == "cannot tell"
    assert found.high is not None
    assert found.high < float("inf")


@pytest.mark.parametrize("least", [0.0, -5.0])
def test_a_time_of_zero_or_less_is_not_judged(least: float) -> None:
    assert joined(judged([2e5] * 3, [2e5, 2e5, least]).why) == "no time in 1 of 3 new runs"


def test_a_change_beyond_all_bounds_is_bounded() -> None:
    judgement = judged([1e-300] * 3, [1e17] * 3)
    assert judgement.outcome == "slower"
    assert judgement.ratio == judgement.low == judgement.high
