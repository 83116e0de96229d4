"""The conclusion of a comparison: one row speaks for the run, and sentences say what is known and no more."""

from dataclasses import replace

import pytest
from made_comparison import SAME, SLOWER, UNJUDGED, comparison, judged, pair
from made_runs import exact_row

from nsyswrap.analysis.compare.judgement import SideClocks
from nsyswrap.analysis.compare.model import Comparison, Key, Obstacle
from nsyswrap.reports.compare.conclusion import Conclusion, conclude, headline

CLOCKS = SideClocks((1980.0,), (1800.0,))
CYCLES = (CLOCKS.note("clock_cycles"),)

STEP = pair("step", "'train'", 5_110_000.0, 5_520_000.0, SLOWER)
KERNEL = pair("kernel", "add", 1_000_000.0, 1_380_000.0, SLOWER, detail="grid 1 1 1, block 32 1 1")


def concluded(compared: Comparison) -> Conclusion:
    return conclude(compared, {one.key: one.key.name for one in compared.pairs})


def test_a_slower_step_and_its_cause() -> None:
    made = concluded(comparison(STEP, KERNEL, pair("total", "GPU busy time", 9e7, 9e7, count=1)))
    assert made.outcome == "slower"
    assert made.lines == (
        "Slower: step 'train' 5.11 → 5.52 ms, +8.0 % (between +7.1 and +8.9 %)",
        "Most of it: kernel add, grid 1 1 1, block 32 1 1: +380 µs of +410 µs a step",
        "Other rows: 1 slower (kernel add, grid 1 1 1, block 32 1 1, +8.0 %), 1 the same",
    )


@pytest.mark.parametrize(
    ("steps", "others"), [(20, "2 slower (above all kernel time"), (30, "1 slower (kernel add")]
)
def test_totals_of_other_numbers_of_steps_are_not_counted(steps: int, others: str) -> None:
    step = pair("step", "'train'", exact_row(5e6, 20), exact_row(5.5e6, steps), SLOWER)
    made = concluded(comparison(step, KERNEL, pair("total", "kernel time", 1e8, 1.5e8, SLOWER, count=1)))
    assert made.lines[-1].startswith(f"Other rows: {others}")


def test_idle_time_is_a_cause_and_a_class_of_kernels_is_not() -> None:
    launches = pair("budget", "idle_launch", 100_000.0, 400_000.0, SLOWER)
    gemm = pair("budget", "gemm_kernel", 100_000.0, 500_000.0, SLOWER)
    made = concluded(comparison(STEP, launches, gemm))
    assert made.lines[1] == "Most of it: GPU idle, idle_launch: +300 µs of +410 µs a step"


def test_a_row_that_grew_more_than_the_step_is_not_a_part_of_it() -> None:
    kernel = pair("kernel", "add", 1_000_000.0, 1_900_000.0, SLOWER)
    assert concluded(comparison(STEP, kernel)).lines[1] == "Largest part: kernel add: +900 µs a step"
    kernel = pair("kernel", "add", 1_000_000.0, 1_415_000.0, SLOWER)
    assert concluded(comparison(STEP, kernel)).lines[1] == "Nearly all of it: kernel add: +415 µs a step"


@pytest.mark.parametrize(("more_ns", "has_cause"), [(50_000.0, False), (52_000.0, True)])
def test_a_difference_of_one_percent_has_no_cause(more_ns: float, has_cause: bool) -> None:  # noqa: FBT001
    step = pair("step", "'train'", 5e6, 5e6 + more_ns, SLOWER)
    kernel = pair("kernel", "add", 1e6, 1e6 + more_ns, SLOWER)
    assert (
        any("kernel add: +52.0 µs" in line for line in concluded(comparison(step, kernel)).lines) == has_cause
    )


def test_a_row_that_became_faster_is_no_cause_of_a_slower_step() -> None:
    kernel = pair("kernel", "add", 1_900_000.0, 1_000_000.0)
    assert not any("part" in line or "Most" in line for line in concluded(comparison(STEP, kernel)).lines)


@pytest.mark.parametrize(
    ("judgement", "begins", "ends"),
    [
        (SAME, "Same within 5 %: step", "(between -1.0 and +1.0 %)"),
        (judged("faster", 0.8, 0.9), "Faster: step", "(between -20.0 and -10.0 %)"),
        (judged("cannot tell", 0.98, 1.08), "Cannot tell: step", "(between -2.0 and +8.0 %)"),
        (
            judged("cannot tell", 1.03, 1.08),
            "Slower, but cannot tell if by more than 5 %: step",
            "(between +3.0 and +8.0 %)",
        ),
        (judged("cannot tell", 0.9, 0.97), "Faster, but cannot tell if by more than 5 %: step", "-3.0 %)"),
        (judged("cannot tell", 1.0, 1.08), "Cannot tell: step", "(between 0.0 and +8.0 %)"),
        (judged("cannot tell", 0.92, 1.0), "Cannot tell: step", "(between -8.0 and 0.0 %)"),
        (judged("cannot tell", 1.05, 1.08), "Slower, but cannot tell", "(between +5.0 and +8.0 %)"),
        (judged("cannot tell", 0.9, 1 / 1.05), "Faster, but cannot tell", "-4.8 %)"),
        (judged("cannot tell", 1.08, 1.11, why=CYCLES), "Cannot tell: step", "could still differ"),
        (judged("cannot tell", 0.8, 0.9, why=CYCLES), "Cannot tell: step", "could still differ"),
        (judged("cannot tell", 0.01, 90.0), "Cannot tell: step", "(between -99.0 and over +999 %)"),
        (judged("slower", 12.0, 14.0), "Slower: step", "(between +1100.0 and +1300.0 %)"),
        (
            judged("clock", 1.06, 1.1, why=("1980 and 1755 MHz",)),
            "Slower by the clock alone: step",
            "1755 MHz",
        ),
    ],
)
def test_each_outcome_has_its_words(judgement: object, begins: str, ends: str) -> None:
    verdict = concluded(comparison(pair("step", "'s'", 5e6, 5e6, judgement))).lines[0]  # type: ignore[arg-type]
    assert verdict.startswith(begins)
    assert verdict.endswith(ends)


def test_what_would_decide_it() -> None:
    step = pair("step", "'s'", 5e6, 5.2e6, judged("cannot tell", 0.98, 1.08, more_runs=4))
    assert concluded(comparison(step)).lines[-1] == "4 more runs a side would probably tell"
    never = pair("step", "'s'", 5e6, 5.2e6, judged("cannot tell", 0.98, 1.08))
    assert concluded(comparison(never)).lines[-1].startswith("More runs would probably not tell")
    clock = judged("cannot tell", 1.08, 1.11, why=(CLOCKS.note("clock_cause"),))
    last = concluded(comparison(pair("step", "'s'", 5e6, 5.5e6, clock))).lines[-1]
    assert last == "More runs will not tell: make the runs of both sides at the same clock."


def test_two_runs_alone_get_no_verdict() -> None:
    step = pair("step", "'s'", 5e6, 5.4e6, UNJUDGED, runs=1)
    made = concluded(comparison(step, runs=1, no_verdicts="one run a side"))
    assert made.outcome == "not judged"
    assert made.lines[0] == "One run a side cannot tell noise from change: step 's' 5.00 → 5.40 ms, +8.0 %"
    assert "--run 5" in made.lines[-1]
    assert not any(word in " ".join(made.lines).lower() for word in ("slower", "faster"))


def test_sides_that_cannot_be_compared_get_no_verdict() -> None:
    step = pair("step", "'s'", 5e6, 5.4e6, UNJUDGED)
    other = Obstacle("GPU", "NVIDIA H100", "NVIDIA H200")
    made = concluded(comparison(step, obstacles=(other,), no_verdicts="not comparable: GPU"))
    assert made.lines == ("No verdict: step 's' 5.00 → 5.40 ms, +8.0 %; not comparable: GPU",)


def test_the_steps_with_most_time_speak_for_the_run() -> None:
    small, large = pair("step", "eval", 1e6, 1e6), pair("step", "'train'", 5e6, 5e6)
    span = pair("total", "first to last GPU operation", 9e9, 9e9, count=1)
    assert headline(comparison(small, large, span)) == large


def test_without_common_steps_the_whole_run_is_compared() -> None:
    gone, come = pair("step", "a", 1e6, None), pair("step", "b", None, 1e6)
    program = pair("total", "program time", 9e9, 9e9, count=1)
    span = pair("total", "first to last GPU operation", 5e9, 5e9, count=1)
    made = concluded(comparison(gone, come, program, span))
    assert made.pair == span
    assert "Steps with other labels: a → b; so the whole run is compared" in made.counts


def test_a_call_explains_a_run_if_nothing_on_the_gpu_does() -> None:
    span = pair("total", "first to last GPU operation", 4e7, 5e7, SLOWER, count=1)
    waits = pair("api", "cudaDeviceSynchronize", 1e6, 11e6, SLOWER, count=1)
    loads = pair("api", "cuModuleLoadData", 1e6, 9e6, SLOWER, count=1)
    made = concluded(comparison(span, waits, loads))
    assert made.lines[1] == "Largest difference of CUDA calls: cuModuleLoadData: +8.00 ms a run"


def test_nothing_in_common_is_no_verdict() -> None:
    made = concluded(comparison(pair("step", "a", 1e6, None), pair("kernel", "k", None, 1e6)))
    assert (made.outcome, made.pair) == ("not judged", None)
    assert made.lines == ("No GPU work in before: nsyswrap doctor says why",)
    made = concluded(comparison(pair("kernel", "j", 1e6, None), pair("kernel", "k", None, 1e6)))
    assert made.lines == ("No row is in the runs of both sides.",)


def test_counts_come_from_the_kernels() -> None:
    old, gone, come = Key("kernel", "old"), pair("kernel", "gone", 1e3, None), "come"
    made = concluded(
        comparison(
            pair("kernel", "k", 1e3, 1e3, count=100),
            gone,
            pair("kernel", "new", 1e3, 1e3, renamed_from=old),
            *(pair("kernel", f"{come}{n}", None, 1e3) for n in range(5)),
        )
    )
    assert made.counts == (
        "Launches: 140 → 220 (+57.1 %)",
        "5 kernels added: come0, come1, come2 and 2 more",
        "1 kernel removed: gone",
        "1 kernel probably renamed: old → new",
    )


def test_another_number_of_launches_is_counted() -> None:
    more = pair("kernel", "k", exact_row(1e3, 100), exact_row(1e3, 110))
    assert concluded(comparison(more)).counts == (
        "Launches: 100 → 110 (+10.0 %)",
        "1 kernel with another number of launches: k 100 → 110",
    )
    assert concluded(comparison(STEP)).counts == ("No kernels on either side",)


def test_steps_with_another_label_are_told() -> None:
    step = replace(
        pair("step", "a sequence of 38 GPU operations", 5e6, 4e6), renamed_from=Key("step", "of 40")
    )
    assert (
        "Steps, taken as the same: of 40 → a sequence of 38 GPU operations"
        in concluded(comparison(step)).counts
    )


def test_a_kernel_with_another_grid_is_told() -> None:
    add = replace(pair("kernel", "add", 5e6, 4e6), renamed_from=Key("kernel", "add", "grid 1, block 2"))
    counts = concluded(comparison(add)).counts
    assert f"1 kernel with another grid or block: add grid 1, block 2 → {add.key.detail}" in counts


def test_a_renamed_kernel_is_a_cause_by_the_difference_of_both_names() -> None:
    new = pair("kernel", "new", 1_000_000.0, 1_300_000.0, renamed_from=Key("kernel", "old"))
    other = pair("kernel", "other", 100_000.0, 200_000.0)
    line = concluded(comparison(STEP, new, other)).lines[1]
    assert line == "Most of it: kernel new, renamed: +300 µs of +410 µs a step"
