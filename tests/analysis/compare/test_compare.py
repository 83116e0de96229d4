"""Comparisons as a whole: order, error rate, clocks, and when there are no verdicts."""

from dataclasses import replace

import pytest
from made_runs import KERNELS, SETUP, MadeKernel, exact_row, made_side, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import GROUPS, WHOLE_RUN, Comparison, Key, SlowdownLimits
from nsyswrap.base.errors import UsageError
from nsyswrap.base.version import version
from nsyswrap.reports.wording.notes import joined, note_text, note_texts

GEMM, ATTENTION = KERNELS[0].name, KERNELS[1].name
CLOCK = replace(SETUP, sm_clock_mhz=1782.0)


def outcomes(comparison: Comparison) -> dict[str, str]:
    return {f"{pair.key.group} {pair.key.name}": pair.judgement.outcome for pair in comparison.pairs}


def test_the_slower_kernel_is_found_and_what_it_makes_slower() -> None:
    comparison = compare(made_side(), made_side("new", factors={"gemm": 1.3}))
    found = outcomes(comparison)
    assert {name for name, outcome in found.items() if outcome == "slower"} == {
        f"kernel {GEMM}",
        "total GPU busy",
        "budget gemm_kernel",
        "step step",
        "range step",
        "range step/forward",
    }
    assert set(found.values()) == {"slower", "same"}
    assert not comparison.no_verdicts
    assert not comparison.remarks


def test_figures_of_another_version_are_a_remark_if_something_differs() -> None:
    old, slower = replace(made_side(), nsyswrap="0.2.0"), made_side("new", factors={"gemm": 1.3})
    (remark,) = note_texts(compare(old, slower).remarks)
    assert remark.startswith(f"figures computed by nsyswrap 0.2.0 / {version()}: save the baseline again")
    assert not compare(old, made_side("new")).remarks
    assert not compare(old, replace(slower, nsyswrap="0.2.0")).remarks
    assert not compare(replace(old, nsyswrap=version()), slower).remarks


def test_pairs_are_in_the_order_of_groups_then_of_their_cost() -> None:
    comparison = compare(made_side(), made_side("new", factors={"softmax": 2.0, "gemm": 0.9}))
    groups = [pair.key.group for pair in comparison.pairs]
    # No modules are recorded in these captures.
    assert list(dict.fromkeys(groups)) == [group for group in GROUPS if group != "module"]
    assert groups == sorted(groups, key=list(GROUPS).index)
    costs = [abs(pair.cost_ns) for pair in comparison.of("kernel")]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ((1, 1), "one run a side cannot tell noise from change"),
        ((2, 5), "2 and 5 runs: verdicts need at least 3 a side"),
        ((5, 1), "5 and 1 runs: verdicts need at least 3 a side"),
    ],
)
def test_fewer_than_three_runs_a_side_are_not_judged(runs: tuple[int, int], text: str) -> None:
    new = made_side("new", runs[1], factors={"gemm": 1.5})
    comparison = compare(made_side(runs=runs[0]), new)
    assert note_text(comparison.no_verdicts or "") == text
    assert set(outcomes(comparison).values()) == {"not judged"}
    ratios = [pair.judgement.ratio for pair in comparison.pairs if pair.key.name == GEMM]
    assert ratios == [pytest.approx(1.5, rel=0.05)]


def test_three_runs_are_judged_with_a_remark() -> None:
    comparison = compare(made_side(runs=3), made_side("new", 4, factors={"gemm": 1.3}))
    assert outcomes(comparison)[f"kernel {GEMM}"] == "slower"
    (remark,) = note_texts(comparison.remarks)
    assert remark == (
        "3 and 4 runs: a row with two speeds looks slower or faster by chance once in 64 comparisons. "
        "With 20 such rows it is 27 % of them. Make 5 runs a side before you act."
    )


def test_obstacles_leave_no_verdicts_unless_they_are_deliberate() -> None:
    command, driver = replace(SETUP, command=("other",)), replace(SETUP, driver="580", command=("other",))
    comparison = compare(made_side(), made_side("new", setup=command))
    assert note_text(comparison.no_verdicts or "") == "not comparable: command"
    assert set(outcomes(comparison).values()) == {"not judged"}
    comparison = compare(made_side(), made_side("new", setup=command), anyway=True)
    assert not comparison.no_verdicts
    assert [found.about for found in comparison.obstacles] == ["command"]
    comparison = compare(made_side(), made_side("new", setup=driver), anyway=True)
    assert note_text(comparison.no_verdicts or "") == "not comparable: driver"


def test_a_clock_10_percent_lower_alone_is_never_slower() -> None:
    slow = made_side(
        "new", setup=CLOCK, factors={"": 1980 / 1782}, launch_us=6 * 1980 / 1782, host_us=90 * 1980 / 1782
    )
    found = outcomes(compare(made_side(), slow))
    assert "slower" not in found.values()
    assert {found[f"kernel {kernel.name}"] for kernel in KERNELS} == {"clock"}
    assert found["step step"] == found["total GPU busy"] == "cannot tell"
    found = outcomes(compare(slow, made_side("base")))
    assert "faster" not in found.values()


def test_a_slower_kernel_is_found_at_a_lower_clock() -> None:
    new = made_side("new", setup=CLOCK, factors={"": 1980 / 1782, "attention": 1.12})
    found = outcomes(compare(made_side(), new))
    assert [name for name, outcome in found.items() if outcome == "slower"] == [f"kernel {ATTENTION}"]


def test_memory_bound_kernels_are_the_same_at_a_lower_clock() -> None:
    found = outcomes(compare(made_side(), made_side("new", setup=CLOCK)))
    assert {found[f"kernel {kernel.name}"] for kernel in KERNELS} == {"same"}


def test_added_removed_and_renamed_kernels_stay_in_the_list() -> None:
    kernels = [*KERNELS[1:], MadeKernel(GEMM.replace("128", "256"), 380.0), MadeKernel("extra", 50.0, 300)]
    comparison = compare(made_side(), made_side("new", kernels=kernels))
    changed = {pair.key.name: pair for pair in comparison.of("kernel") if pair.judgement.why}
    assert {name: joined(pair.judgement.why) for name, pair in changed.items()} == {
        GEMM.replace("128", "256"): f"base: {GEMM}",
        "extra": "added",
    }
    assert changed[GEMM.replace("128", "256")].renamed_from == Key("kernel", GEMM, KERNELS[0].grid)
    assert changed["extra"].renamed_from is None
    assert changed["extra"].is_added
    assert changed[GEMM.replace("128", "256")].is_renamed
    assert changed[GEMM.replace("128", "256")].judgement.ratio == pytest.approx(0.95, rel=0.03)


def test_a_row_that_may_have_been_left_out_is_not_called_added() -> None:
    base, key = made_side(), Key("kernel", "extra", KERNELS[0].grid)
    base = replace(base, runs=tuple(replace(run, left_out={"kernel": 12}) for run in base.runs))
    comparison = compare(base, made_side("new", kernels=[*KERNELS, MadeKernel("extra", 50.0)]))
    (pair,) = (pair for pair in comparison.pairs if pair.key == key)
    assert joined(pair.judgement.why) == "base may have it among the rows left out"
    assert note_texts(comparison.remarks) == ("base: rows with the least time were left out: Kernels (12)",)


def test_the_time_of_a_step_by_cause_is_judged_for_the_same_steps_alone() -> None:
    new = made_side("new", steps=30)
    others = tuple(
        replace(
            run,
            rows={
                key._replace(name="other") if key.group == "step" else key: row
                for key, row in run.rows.items()
            },
        )
        for run in new.runs
    )
    comparison = compare(made_side(), replace(new, runs=others))
    assert {pair.key.detail for pair in comparison.of("budget")} == {WHOLE_RUN}
    assert {pair.base_per_step_ns for pair in comparison.pairs} == {None}
    assert any("different steps" in remark for remark in note_texts(comparison.remarks))
    assert outcomes(comparison)[f"kernel {GEMM}"] == "same"


def test_modes_taken_together_are_told() -> None:
    keys = [Key("kernel", "gemm", "g", mode) for mode in (1, 2)]
    stable = [exact_row(1e5, 50), exact_row(1.001e5, 50), exact_row(0.999e5, 50)]
    other = [exact_row(1e5, 80), exact_row(1.001e5, 80), exact_row(0.999e5, 80)]
    sides = (
        side_of("base", {keys[0]: stable, keys[1]: stable}),
        side_of("new", {keys[0]: stable, keys[1]: other}),
    )
    (pair,) = compare(*sides).pairs
    assert pair.judgement.outcome == "same"
    assert (
        joined(pair.judgement.why)
        == "time of one; 100 / 130 launches; modes differ between runs: taken together"
    )


@pytest.mark.parametrize("share", [5.0, 1.0, -0.1, float("nan")])
def test_a_tolerance_is_a_share_below_one(share: float) -> None:
    with pytest.raises(UsageError, match="a share below 1"):
        SlowdownLimits(max_slower=share)
