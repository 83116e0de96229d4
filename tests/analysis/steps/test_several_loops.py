"""The loops of a program: those that come in turns, and those before and after the one that is judged."""

from pathlib import Path

import pytest
from report_tables import records_of
from step_drawings import LENGTH, Drawing, every, only, training
from tiny_export import call, changed, diagnostic, memcpy, opened, row

from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.steps import steps_of
from nsyswrap.reports.answer.lines import loop_lines, start_up_lines

EPOCH, TRAIN, EVALUATE = 20 * LENGTH, 12, 6  # ns of an epoch, and its steps of each kind


def epochs(count: int = 4) -> Drawing:
    """Epochs of training steps of 10 us, then evaluation steps of 5 us, and a pause."""
    drawing = Drawing()
    for epoch in every(count, length=EPOCH):
        for start in every(TRAIN, epoch):
            drawing.range("train", start, start + LENGTH - 100)
            drawing.launch("a", start + 10, gpu_ns=6000)
        for start in every(EVALUATE, epoch + TRAIN * LENGTH, LENGTH // 2):
            drawing.range("eval", start, start + LENGTH // 2 - 100)
            drawing.launch("b", start + 10, gpu_ns=2000)
    return drawing


def test_training_and_evaluation_in_turns_are_two_loops(tmp_path: Path) -> None:
    steps = only(tmp_path, epochs())
    assert (steps.label, len(steps)) == ("'train'", 4 * TRAIN)
    [other] = steps.others
    assert (other.label, len(other)) == ("'eval'", 4 * EVALUATE)


@pytest.mark.parametrize(
    ("counts", "labels"), [([4] * 12, ["'decode'"]), ([4, 5, 7, 3] * 3, ["'decode'", "'prefill'"])]
)
def test_rarer_ranges_at_irregular_times_are_a_loop(
    tmp_path: Path, counts: list[int], labels: list[str]
) -> None:
    drawing, now = Drawing(), 0
    for count in counts:
        drawing.range("prefill", now, now + LENGTH)
        drawing.launch("a", now + 10, gpu_ns=6000)
        for start in every(count, now + LENGTH, LENGTH // 2):
            drawing.range("decode", start, start + LENGTH // 2)
            drawing.launch("b", start + 10, gpu_ns=2000)
        now += LENGTH + count * LENGTH // 2
    steps = only(tmp_path, drawing)
    assert [one.label for one in (steps, *steps.others)] == labels


def unmarked(train: str, evaluate: str, counts: tuple[int, int] = (TRAIN, EVALUATE)) -> Drawing:
    """Four epochs of training steps of 10 us, then evaluation steps of 5 us, without ranges."""
    drawing, now = Drawing(), 0
    for names, count, length in 4 * ((train, counts[0], LENGTH), (evaluate, counts[1], LENGTH // 2)):
        for start in every(count, now, length):
            drawing.kernels(names, start, gpu_ns=length // 10)
        now += count * length
    return drawing


def test_training_and_evaluation_in_turns_are_told_apart_by_what_they_launch(tmp_path: Path) -> None:
    steps = only(tmp_path, unmarked("abc", "xy"))
    assert (steps.label, len(steps)) == ("a sequence of 3 GPU operations", 4 * TRAIN)
    [other] = steps.others
    assert (other.label, len(other)) == ("a sequence of 2 GPU operations", 4 * EVALUATE)
    assert not steps.outlier.any()
    between = steps.start_ns[TRAIN::TRAIN] - steps.end_ns[TRAIN - 1 :: TRAIN][:-1]
    assert between.tolist() == [EVALUATE * LENGTH // 2] * 3


def test_prompts_and_tokens_in_turns_are_one_request_if_there_are_ten(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(10, length=20 * LENGTH):
        drawing.kernels("abcdefg", start)
        for token in every(12, start + LENGTH):
            drawing.kernels("xy", token)
    assert only(tmp_path, drawing).label == "a sequence of 31 GPU operations"


def test_what_follows_a_step_and_does_not_repeat_stays_with_it(tmp_path: Path) -> None:
    steps = only(tmp_path, unmarked("abc", "uvwxyz", (TRAIN, 1)))
    assert (len(steps), steps.others) == (4 * TRAIN, ())
    assert steps.start_ns[1:].tolist() == steps.end_ns[:-1].tolist()


def test_a_step_ends_where_another_loop_begins(tmp_path: Path) -> None:
    steps = only(tmp_path, epochs())
    lasting = [*[LENGTH] * (TRAIN - 1), LENGTH - 100] * 4
    assert steps.duration_ns.tolist() == lasting
    assert steps.others[0].duration_ns.tolist() == [*[LENGTH // 2] * (EVALUATE - 1), LENGTH // 2 - 100] * 4


def test_the_time_between_belongs_to_no_step(tmp_path: Path) -> None:
    capture = opened(tmp_path, *epochs().rows)
    [part] = judged_processes(capture)
    assert part.window_ns == part.steps.duration_ns[part.steps.steady].sum()
    [device] = answer_of(capture).devices
    assert (device.window_ns, sum(device.busy_ns.values())) == (part.window_ns, (4 * TRAIN - 1) * 6000)


def test_a_loop_that_is_named_has_the_times_that_are_listed(tmp_path: Path) -> None:
    capture = opened(tmp_path, *epochs().rows)
    [[listed]] = [steps.others for steps in steps_of(capture)]
    for name in ("eval", "ev*"):
        [named] = steps_of(capture.viewed(steps=name))
        assert named.duration_ns.tolist() == listed.duration_ns.tolist()


def test_each_step_has_its_work_in_the_budget(tmp_path: Path) -> None:
    rows = records_of(opened(tmp_path, *epochs().rows).report("step_budget"))
    steps = [row for row in rows if row["row"] == "step"]
    assert [row["busy_ns"] for row in steps] == [6000] * 4 * TRAIN  # the warm-up step, too
    [steady] = [row for row in rows if row["row"] == "steady part"]
    assert steady["duration_ns"] == sum(row["duration_ns"] for row in steps[1:])


def test_work_that_ends_late_delays_the_next_loop(tmp_path: Path) -> None:
    drawing = epochs(2)
    last = (TRAIN - 1) * LENGTH
    drawing.launch("late", last + 500, gpu_ns=15_000)
    steps = only(tmp_path, drawing)
    assert steps.end_ns[TRAIN - 1] == last + 505 + 15_000
    assert steps.others[0].start_ns[0] == steps.end_ns[TRAIN - 1]


def test_a_checkpoint_after_some_steps_stays_with_them(tmp_path: Path) -> None:
    drawing = training(30)
    for start in every(2, 14 * LENGTH + 6000, 15 * LENGTH):
        drawing.range("checkpoint", start, start + 3000)
        drawing.launch("save", start + 10)
    steps = only(tmp_path, drawing)
    assert (len(steps), steps.others) == (30, ())


def test_phases_that_are_not_listed_stay_with_the_step_before(tmp_path: Path) -> None:
    drawing = Drawing()
    for epoch in every(4, length=EPOCH):
        for start in every(TRAIN, epoch):
            drawing.range("train", start, start + LENGTH - 100)
            drawing.launch("a", start + 10, gpu_ns=6000)
        for start in every(3, epoch + TRAIN * LENGTH, 100):  # 3 x 4 x 90 ns of 800 us
            drawing.range("log", start, start + 90)
            drawing.launch("b", start + 10, gpu_ns=20)
    steps = only(tmp_path, drawing)
    assert steps.others == ()
    assert steps.start_ns[1:].tolist() == steps.end_ns[:-1].tolist()


def test_what_repeats_after_the_ranges_is_a_loop(tmp_path: Path) -> None:
    drawing = training(20)
    for start in every(60, 25 * LENGTH, 1000):
        drawing.kernels("pqr", start)
    steps = only(tmp_path, drawing)
    assert [(one.label, len(one)) for one in (steps, *steps.others)] == [
        ("'step'", 20),
        ("a sequence of 3 GPU operations", 60),
    ]


def test_a_short_loop_is_not_named(tmp_path: Path) -> None:
    drawing = training(200)
    for start in every(15, 205 * LENGTH, 500):
        drawing.kernels("pq", start)
    assert only(tmp_path, drawing).others == ()


def test_what_a_step_repeats_is_no_other_loop_before_the_steps(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.kernels("ab" * 100, -LENGTH)
    for start in every(20):
        drawing.kernels("ab" * 20, start)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps), steps.others) == ("a sequence of 40 GPU operations", 21, ())


def test_copies_are_no_loop(tmp_path: Path) -> None:
    drawing = training(20)
    for i, start in enumerate(every(30, -40 * LENGTH)):
        drawing.rows.append(call("cudaMemcpyAsync", start, start + 100, 5000 + i))
        drawing.rows.append(memcpy(1, start + 10, start + 90, 8, correlationId=5000 + i))
    assert only(tmp_path, drawing).others == ()


def test_a_loop_with_most_time_is_judged_before_small_ranges(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(4, length=1000):
        drawing.range("warm", start, start + 900)
        drawing.launch("w", start + 10)
    for start in every(40, 10 * LENGTH):
        drawing.launch("a", start, gpu_ns=8000)
        drawing.launch("b", start + 50, gpu_ns=1000)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("a sequence of 2 GPU operations", 40)


def test_start_up_ends_with_the_first_loop_whichever_is_judged(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(40, length=1000):
        drawing.kernels("pqr", start)
    for start in every(30, 10 * LENGTH):
        drawing.range("step", start, start + LENGTH - 100)
        drawing.launch("a", start + 10, gpu_ns=9000)
    answer = answer_of(opened(tmp_path, *drawing.rows))
    assert answer.steps is not None
    assert (answer.steps.label, [loop.before for loop in answer.other_loops]) == ("'step'", [True])
    assert answer.start_up is not None
    assert answer.start_up.duration_ns < 10 * LENGTH
    assert all(" before step" not in str(line) for line in start_up_lines(answer))


def test_start_up_counts_from_the_beginning_of_the_recording(tmp_path: Path) -> None:
    """nsys also writes when it began, since the machine started: that is no time of an event."""
    drawing = Drawing()
    for start in every(30, 10 * LENGTH):
        drawing.range("step", start, start + LENGTH - 100)
        drawing.launch("a", start + 10, gpu_ns=9000)
    drawing.rows.append(row("ANALYSIS_DETAILS", duration=50 * LENGTH, startTime=10**15))
    answer = answer_of(opened(tmp_path, *drawing.rows))
    assert answer.start_up is not None
    assert answer.start_up.duration_ns == 11 * LENGTH  # the first step is warm-up


def test_start_up_ends_before_steps_that_other_work_parts_from_those_judged(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in (*every(20, 10 * LENGTH), *every(30, 80 * LENGTH)):
        drawing.kernels("abc", start)
    drawing.kernels("other", 29 * LENGTH + 100)
    answer = answer_of(opened(tmp_path, *drawing.rows))
    assert answer.steps is not None
    assert answer.start_up is not None
    assert (answer.steps.first, answer.steps.count) == (20, 30)
    assert answer.start_up.duration_ns == 11 * LENGTH
    assert str(list(start_up_lines(answer))[-1]).startswith("19 steps left out: other work lies between")


def test_a_program_that_ran_before_its_recording_has_no_start_up(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(30, 10 * LENGTH):
        drawing.range("step", start, start + LENGTH - 100)
        drawing.launch("a", start + 10, gpu_ns=9000)
    text = "Process was launched by the profiler, see /tmp/stdout.log for program output"
    drawing.rows.append(changed(diagnostic(text, severity=1), timestamp=-5_000_000_000))
    answer = answer_of(opened(tmp_path, *drawing.rows))
    assert [str(line) for line in start_up_lines(answer)] == ["1 warm-up step left out"]


def test_the_screen_names_each_loop(tmp_path: Path) -> None:
    answer = answer_of(opened(tmp_path, *epochs().rows))
    [loop] = answer.other_loops
    mean = (EVALUATE - 1 + 0.98) / EVALUATE * LENGTH / 2
    assert (loop.label, loop.count, round(loop.mean_ns)) == ("'eval'", 24, round(mean))
    assert loop.busy_percent == 100 * 2000 / loop.mean_ns
    assert loop.gpu_percent == 100 * 24 * 2000 / (48 * 6000 + 24 * 2000)
    [line] = loop_lines(answer)
    assert str(line) == "Another loop: 24 x 'eval', mean 4.98 µs (120 µs): GPU busy 40 % (-r loops)"


def variants(count: int, *, with_other: bool = False) -> Drawing:
    """Ten steps of each of many variants, one variant after another; and a loop longer than any of them."""
    drawing, now = Drawing(), 0
    for number in range(count, 0, -1):
        for start in every(10, now, 1000 + 10 * number):
            drawing.range(f"A{number:02}", start, start + 900)
            drawing.launch(f"variant {number}", start + 10, gpu_ns=800)
        now += 10 * (1000 + 10 * number)
    for start in every(10 * with_other, now, 3 * LENGTH // 10):
        drawing.range("other", start, start + 2900)
        drawing.launch("other", start + 10, gpu_ns=2600)
    return drawing


def test_variants_of_a_family_count_together(tmp_path: Path) -> None:
    capture = opened(tmp_path, *variants(26).rows)
    [steps] = steps_of(capture)
    assert (steps.label, len(steps)) == ("'A26'", 10)
    assert {other.label for other in steps.others} == {f"'A{number:02}'" for number in range(1, 26)}
    [line] = loop_lines(answer_of(capture))
    assert str(line) == "Other loops: 25 variants 'A*', 999 ns to 1.22 µs each (277 µs)"


def test_variants_together_outweigh_a_loop_that_is_longer_than_each(tmp_path: Path) -> None:
    steps = only(tmp_path, variants(3, with_other=True))  # by the first of them
    assert steps.label == "'A03'"
