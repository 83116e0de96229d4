"""Which sequence of launches is a step, without an NVTX range that repeats."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from step_drawings import LENGTH, Drawing, every, numbers, only, starts

from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.steps.loops import _candidates


def loop(steps: int, names: str = "abc") -> Drawing:
    drawing = Drawing()
    for start in every(steps):
        drawing.kernels(names, start)
    return drawing


def test_the_longest_pause_begins_a_step(tmp_path: Path) -> None:
    steps = only(tmp_path, loop(20))
    assert (steps.label, starts(steps)) == ("a sequence of 3 GPU operations", every(20))
    assert steps.end_ns[-1] == 19 * LENGTH + 85  # the end of the third kernel
    assert (steps.warm_up, numbers(steps.steady)) == (1, list(range(1, 20)))


def test_a_prologue_of_other_launches_is_no_step(tmp_path: Path) -> None:
    drawing = loop(20)
    drawing.kernels("pqrstu", -5000)
    assert starts(only(tmp_path, drawing)) == every(20)


@pytest.mark.parametrize("alone", [-LENGTH, 20 * LENGTH])
def test_a_first_or_last_part_of_a_sequence_is_no_step(alone: int, tmp_path: Path) -> None:
    drawing = loop(20, "abcdef")
    drawing.launch("a", alone)
    assert starts(only(tmp_path, drawing)) == every(20)


def test_a_checkpoint_every_25th_step_is_an_outlier(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for i in range(100):
        drawing.kernels("abc", now)
        if i % 25 == 24:
            drawing.launch("save", now + 100, gpu_ns=500_000)
            drawing.wait(now + 110, now + 500_110)
            now += 500_000
        now += LENGTH
    steps = only(tmp_path, drawing)
    assert (len(steps), numbers(steps.outlier)) == (100, [24, 49, 74])  # the last one drains
    assert numbers(steps.steady) == list(range(1, 100))


def test_steps_that_are_long_for_what_else_they_launch_do_not_differ_in_turn(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for i in range(40):
        drawing.kernels("abc", now)
        if i % 7 in (2, 5):
            drawing.launch("other", now + LENGTH, gpu_ns=9 * LENGTH)
            drawing.wait(now + LENGTH + 10, now + 10 * LENGTH + 10)
            now += 10 * LENGTH
        now += LENGTH
    why = only(tmp_path, drawing).why_none
    assert (why and why.kind) == "steps_vary"


def test_a_step_that_begins_without_a_pause_is_one(tmp_path: Path) -> None:
    # The host prints a result after each 12th step; waiting for it takes the pause before the next one.
    drawing, now = Drawing(), 0
    for i in range(60):
        drawing.kernels("abcabd", now)
        if i % 12 == 11:
            drawing.wait(now + 200, now + LENGTH - 20)
        now += LENGTH
    steps = only(tmp_path, drawing)
    assert len(steps) in (59, 60)
    assert numbers(steps.outlier) == []
    assert steps.duration_ns.max() <= LENGTH


def test_a_single_break_ends_the_steady_part(tmp_path: Path) -> None:
    # 20 steps, other work for 50 steps' time in the 20th, then 30 steps.
    drawing = loop(20)
    drawing.kernels("other", 19 * LENGTH + 100)
    for start in every(30, 70 * LENGTH):
        drawing.kernels("abc", start)
    steps = only(tmp_path, drawing)
    assert len(steps) == 50
    assert numbers(steps.steady) == list(range(20, 50))
    assert (steps.warm_up, numbers(steps.outlier)) == (1, [])


def test_a_break_that_is_short_beside_all_steps_ends_nothing(tmp_path: Path) -> None:
    # A solver that prints for 25 steps' time, once in 3,000.
    drawing = loop(1000)
    drawing.kernels("other", 999 * LENGTH + 100)
    for start in every(2000, 1025 * LENGTH):
        drawing.kernels("abc", start)
    steps = only(tmp_path, drawing)
    assert (steps.warm_up, numbers(steps.steady)) == (1, list(range(1, 3000)))
    assert numbers(steps.outlier) == [999]


def test_of_equal_runs_the_later_one_is_steady(tmp_path: Path) -> None:
    drawing = loop(21)
    drawing.launch("other", 20 * LENGTH + 100)
    for start in every(19, 70 * LENGTH):
        drawing.kernels("abc", start)
    assert numbers(only(tmp_path, drawing).steady) == list(range(21, 40))


def test_a_long_step_with_the_usual_calls_is_no_break(tmp_path: Path) -> None:
    drawing = loop(20)
    for start in every(30, 70 * LENGTH):
        drawing.kernels("abc", start)
    steps = only(tmp_path, drawing)
    assert (numbers(steps.steady), numbers(steps.outlier)) == (list(range(1, 50)), [19])


def test_a_long_last_step_with_the_usual_calls_is_no_break(tmp_path: Path) -> None:
    drawing = loop(20)
    drawing.kernels("ab", 20 * LENGTH)
    drawing.launch("c", 20 * LENGTH + 60, api_ns=50 * LENGTH)
    assert numbers(only(tmp_path, drawing).steady) == list(range(1, 21))


def test_three_breaks_are_outliers(tmp_path: Path) -> None:
    drawing = Drawing()
    for run in range(4):
        for start in every(10, run * 60 * LENGTH):
            drawing.kernels("abc", start)
        drawing.launch("other", run * 60 * LENGTH + 9 * LENGTH + 100)
    steps = only(tmp_path, drawing)
    assert numbers(steps.steady) == list(range(1, 40))
    assert numbers(steps.outlier) == [9, 19, 29]


def test_one_kernel_has_no_outliers(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for i in range(40):
        drawing.launch("a", now)
        now += 3 * LENGTH if i == 20 else LENGTH
    steps = only(tmp_path, drawing)
    assert (steps.label, numbers(steps.outlier)) == ("one GPU operation", [])


def test_replays_of_a_graph(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for i in range(40):
        drawing.replay(now)
        now += 3 * LENGTH if i == 20 else LENGTH
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps), numbers(steps.outlier)) == ("one CUDA graph", 40, [20])


def test_a_longer_sequence_has_to_hold_as_much(tmp_path: Path) -> None:
    """Of 60 steps with five launches, 45 have a pause in their middle."""
    drawing, now = Drawing(), 0
    for i in range(60):
        drawing.kernels("ab", now)
        now += 60 + (0 if i % 4 == 3 else 5000)
        drawing.kernels("cde", now)
        now += 90
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 5 GPU operations", 59)  # from one pause to the next


def test_a_sequence_in_a_sequence(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(20):  # eight layers, then the optimizer
        for layer in range(8):
            drawing.kernels("ab", start + 100 * layer)
        drawing.launch("optimizer", start + 900)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 17 GPU operations", 20)


@pytest.mark.parametrize(("start_up_ns", "count"), [(180, 19), (1_000_000, 0)])  # a small part is chance
def test_a_step_that_makes_each_call_several_times(start_up_ns: int, count: int, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.launch("start-up", -start_up_ns, gpu_ns=start_up_ns)
    for start in every(20, length=6 * 30):  # no pause tells where it begins
        drawing.kernels("aabbab", start)
    steps = only(tmp_path, drawing)
    assert len(steps) == count  # it begins within the first one
    assert steps.label == ("a sequence of 6 GPU operations" if count else "")


def test_an_inner_sequence_holds_what_it_holds_and_not_its_median_each_time(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for _ in range(20):
        drawing.launch("head", now)
        for i in range(20):  # the same calls, 11 of them with long kernels
            drawing.launch("a", now + 30, gpu_ns=1000 if i < 11 else 1)
            drawing.launch("b", now + 1050, gpu_ns=1)
            now += 1060
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 41 GPU operations", 20)


def test_replays_after_longer_tuning_are_the_steps(tmp_path: Path) -> None:
    drawing = Drawing()
    for i in range(400):
        drawing.launch(f"candidate {i}", 30 * i, gpu_ns=25)
    for start in every(40, 20_000):
        drawing.replay(start)  # 18 % of the GPU time
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("one CUDA graph", 40)


def test_copies_alone_are_no_steps(tmp_path: Path) -> None:
    drawing = loop(10)
    for start in every(40, 20 * LENGTH):
        drawing.copy(start, gpu_ns=5000)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 3 GPU operations", 10)


def test_waits_alone_are_no_steps(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.launch("a", 0)
    for start in every(20, 100):
        drawing.wait(start, start + 50)
    steps = only(tmp_path, drawing)
    assert (len(steps), steps.has_steady) == (0, False)


def test_alternating_train_and_eval(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(20, length=2 * LENGTH):
        drawing.kernels("abc", start)
        drawing.kernels("xy", start + LENGTH)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 5 GPU operations", 20)


def test_launches_in_no_order_are_no_steps(tmp_path: Path) -> None:
    drawing = Drawing()
    for i, letter in enumerate("abcadbdcbbadcacdbadcbaabcddcbcab"):
        drawing.launch(letter, i * 100)
    steps = only(tmp_path, drawing)
    assert (steps.has_steady, steps.why_none) == (False, Note("nothing_repeats", {}))


def test_a_sequence_that_is_a_small_part_of_the_program(tmp_path: Path) -> None:
    drawing = loop(5)
    for i in range(60):
        drawing.launch(f"once {i}", 6 * LENGTH + 50 * i)
    steps = only(tmp_path, drawing)
    assert (len(steps), steps.why_none) == (0, Note("nothing_repeats", {}))


def test_an_incomplete_last_sequence_is_no_step(tmp_path: Path) -> None:
    drawing = loop(20)
    drawing.kernels("ab", 20 * LENGTH)
    steps = only(tmp_path, drawing)
    assert (starts(steps), steps.end_ns[-1]) == (every(20), 19 * LENGTH + 85)


@pytest.mark.parametrize("seed", range(20))
def test_no_code_with_mostly_equal_intervals_is_passed_over(seed: int) -> None:
    """The calls of a random program with a loop in it; each code is looked at by itself."""
    draw = np.random.default_rng(seed)
    loop, most = draw.integers(0, 5, draw.integers(2, 6)), int(draw.integers(3, 12))
    codes = np.concatenate(
        [np.insert(loop, 0, 5) if draw.random() < 0.7 else loop[::-1] for _ in range(most)]
    )
    rows = np.flatnonzero(draw.random(len(codes)) < 0.9)
    sums = np.append(0, np.cumsum(codes * codes + 1))
    usual = []
    for code in range(6):
        positions = rows[codes[rows] == code]
        intervals = np.diff(sums[positions])
        if len(intervals) > 1 and np.bincount(intervals).max() >= 0.6 * len(intervals):
            usual.append(positions.tolist())
    offered = [positions.tolist() for positions in _candidates(codes, sums, rows)]
    assert [positions for positions in usual if positions not in offered] == []
    assert all(len(set(codes[positions])) == 1 and len(positions) > 2 for positions in offered)


def optimized(lengths: list[int]) -> Drawing:
    """Steps of so many kernels, each other ones, that end with two kernels of an optimizer."""
    drawing, now = Drawing(), 0
    for number, length in enumerate(lengths):
        for i in range(length):
            drawing.launch(f"k{(number * 7 + i * i) % 11}", now)
            now += 30
        for name in ("multi_tensor_apply", "adam"):
            drawing.launch(name, now)
            now += 30
        now += 500
    return drawing


def test_steps_of_other_launches_end_with_the_update_of_the_optimizer(tmp_path: Path) -> None:
    lengths = [30, 41, 26, 55, 38, 47, 33, 60]
    steps = only(tmp_path, optimized(lengths))
    assert (steps.label, len(steps)) == ("optimizer step", 7)  # where the first one begins is not known
    first = 30 * 32 + 500
    assert steps.start_ns[0] == first
    assert steps.duration_ns[:-1].tolist() == [30 * (length + 2) + 500 for length in lengths[1:-1]]


@pytest.mark.parametrize(("before_ns", "count"), [(29_500, 4), (29_700, 0)])
def test_steps_between_updates_hold_a_tenth_of_the_gpu_time(
    before_ns: int, count: int, tmp_path: Path
) -> None:
    drawing = optimized([30, 41, 26, 55, 38])  # 32 kernels of 20 ns, then the steps with 168: 4000 ns
    drawing.launch("before", -before_ns - 1000, gpu_ns=before_ns)
    assert len(only(tmp_path, drawing)) == count


def test_a_longer_cycle_holds_several_updates(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for _ in range(12):
        for names in ("abcdefghijklmnopqrstuvw", "ABCDEFGHIJKLMNOPQRSTUVW"):  # two networks in turns
            drawing.kernels(names, now)
            drawing.launch("adam", now + 30 * len(names))
            now += 30 * len(names) + 100
    assert only(tmp_path, drawing).label == "a sequence of 48 GPU operations"


@pytest.mark.parametrize(
    ("between", "label"), [(2, "optimizer step"), (9, "a sequence of 117 GPU operations")]
)
def test_equal_steps_of_an_epoch_are_steps(between: int, label: str, tmp_path: Path) -> None:
    """Twelve epochs of four steps with 26 kernels and an update; some more kernels come between epochs."""
    drawing, now = Drawing(), 0
    for _ in range(12):
        for names in (*4 * ["abcdefghijklmnopqrstuvwxyz+"], "0123456789"[:between]):
            drawing.kernels(names.replace("+", ""), now)
            now += 30 * len(names)
            if "+" in names:
                drawing.launch("adam", now - 30)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == (label, 47 if between == 2 else 11)


def test_steps_whose_waits_alone_differ_are_one_loop(tmp_path: Path) -> None:
    drawing = Drawing()
    for i, start in enumerate(every(60)):
        drawing.kernels("abcd", start)
        if i >= 10:  # from there the host waits for the step before
            drawing.wait(start + 200, start + 300)
    steps = only(tmp_path, drawing)
    assert (steps.label, steps.others) == ("a sequence of 4 GPU operations", ())
    assert len(steps) == 60


def test_kernels_of_an_optimizer_anywhere_are_no_updates(tmp_path: Path) -> None:
    drawing, random = Drawing(), Random(1)  # noqa: S311 - no secret
    for i in range(2000):
        drawing.launch("adam" if random.random() < 0.02 else f"k{random.randrange(40)}", 30 * i)
    assert len(only(tmp_path, drawing)) == 0
