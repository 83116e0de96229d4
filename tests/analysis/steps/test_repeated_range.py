"""Which NVTX range marks the steps."""

from pathlib import Path

import pytest
from step_drawings import LENGTH, Drawing, every, numbers, only, starts, training
from tiny_export import PID, domain

from nsyswrap.reports.wording.notes import joined_texts


def test_the_outer_range_is_the_step(tmp_path: Path) -> None:
    steps = only(tmp_path, training(12))
    assert (steps.label, starts(steps)) == ("'step'", every(12))
    # Each ends where the next one begins, the last one with its range.
    assert steps.end_ns.tolist() == [*every(11, LENGTH), 11 * LENGTH + 5000]
    assert (steps.warm_up, numbers(steps.steady)) == (1, list(range(1, 12)))


def test_an_outer_range_that_repeats_less_often_than_ten_times_is_an_epoch(tmp_path: Path) -> None:
    drawing = training(12)
    for i in range(3):
        drawing.range("epoch", i * 4 * LENGTH - 10, (i + 1) * 4 * LENGTH - 20)
    assert only(tmp_path, drawing).label == "'step'"


def test_few_outer_ranges_are_steps_if_nothing_in_them_repeats_more(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(5):
        drawing.range("epoch", start, start + 9000)
        drawing.range("forward", start + 100, start + 300)
        drawing.launch("a", start + 110)
    assert only(tmp_path, drawing).label == "'epoch'"


def test_of_ranges_side_by_side_the_first_begins_the_step(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(12):
        drawing.range("load", start, start + 4000)
        drawing.launch("copy", start + 100)
        drawing.range("compute", start + 5000, start + 9000)
        drawing.kernels("ab", start + 5100)
    assert only(tmp_path, drawing).label == "'load'"


def test_a_rare_range_beside_the_steps_is_in_them(tmp_path: Path) -> None:
    drawing = training(24)
    for start in every(3, 5500, 8 * LENGTH):
        drawing.range("checkpoint", start, start + 4000)
        drawing.launch("save", start + 10, gpu_ns=50)
    steps = only(tmp_path, drawing)
    assert (steps.label, len(steps)) == ("'step'", 24)


def test_a_range_of_a_thread_that_launches_nothing(tmp_path: Path) -> None:
    drawing = training(12)
    for start in every(20, length=6000):
        drawing.range("heartbeat", start, start + 5990, tid=PID + 1)
    assert only(tmp_path, drawing).label == "'step'"


def test_a_range_of_a_thread_that_launches_little(tmp_path: Path) -> None:
    drawing = training(30)
    drawing.range("main", -10, 40 * LENGTH)
    for start in every(12, length=2 * LENGTH):
        drawing.range("watch", start, start + 2 * LENGTH - 10, tid=PID + 1)
    drawing.launch("norm", 100, tid=PID + 1)  # one of 91 launches
    # With more launches on its thread, 'watch' would be the outer one.
    assert only(tmp_path, drawing).label == "'step'"


def test_a_range_of_a_library(tmp_path: Path) -> None:
    drawing = training(12)
    drawing.rows.append(domain("NCCL", 3))
    for start in every(12):
        drawing.range("outside", start - 1, start + 5001, domainId=3)
        drawing.range("unnamed", start - 2, start + 5002, domainId=4)
    assert only(tmp_path, drawing).label == "'step'"


def test_a_range_of_a_domain_of_the_program(tmp_path: Path) -> None:
    drawing = training(12)
    drawing.rows.append(domain("trainer", 3))
    for start in every(12):
        drawing.range("outside", start - 1, start + 5001, domainId=3)
    assert only(tmp_path, drawing).label == "'outside@trainer'"


def test_a_range_around_a_small_part_of_the_launches(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(40):
        drawing.kernels("abc", start)
    for i in range(4):
        drawing.range("warm", i * 100, i * 100 + 50)
    assert only(tmp_path, drawing).label == "a sequence of 3 GPU operations"


def test_ranges_inside_one_of_the_same_name(tmp_path: Path) -> None:
    drawing = training(12)
    for start in every(12):
        drawing.range("step", start + 10, start + 4000)
    assert starts(only(tmp_path, drawing)) == every(12)


def test_ranges_with_the_same_times(tmp_path: Path) -> None:
    drawing = training(12)
    for _ in range(2):
        drawing.range("layer", 100, 250)
    assert only(tmp_path, drawing).label == "'step'"


def test_backward_on_another_thread(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(12):
        drawing.range("step", start, start + 5000)
        drawing.launch("forward", start + 100)
        drawing.kernels("xyz", start + 1000, tid=PID + 1)
    steps = only(tmp_path, drawing)
    assert (steps.label, starts(steps)) == ("'step'", every(12))


def test_the_last_step_lasts_until_its_work_is_done(tmp_path: Path) -> None:
    drawing = training(11)
    last = 11 * LENGTH
    drawing.range("step", last, last + 5000)
    drawing.launch("a", last + 100, gpu_ns=19_895)  # until 20,000 after its start
    steps = only(tmp_path, drawing)
    assert steps.end_ns[-1] == last + 20_000
    assert numbers(steps.outlier) == [11]


def test_gradient_accumulation(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(12, length=4 * LENGTH):
        drawing.range("step", start, start + 4 * LENGTH - 100)
        for micro in every(4, start + 50):
            drawing.range("micro", micro, micro + 5000)
            drawing.kernels("ab", micro + 100)
        drawing.launch("optimizer", start + 4 * LENGTH - 300)
    assert starts(only(tmp_path, drawing)) == every(12, length=4 * LENGTH)


def test_variable_lengths_are_steps_without_outliers(tmp_path: Path) -> None:
    drawing, now = Drawing(), 0
    for i in range(16):
        length = LENGTH * (1 + i % 4)
        drawing.range("step", now, now + length)
        drawing.launch("a", now + 10, gpu_ns=length // 2)
        now += length
    steps = only(tmp_path, drawing)
    assert (len(steps), numbers(steps.outlier)) == (16, [])
    assert steps.has_steady


def numbered(names: list[str], apart: int = LENGTH) -> Drawing:
    """Ranges with these names, one after another, each around two kernels."""
    drawing = Drawing()
    for start, name in zip(every(len(names), length=apart), names, strict=True):
        drawing.range(name, start, start + apart - 1000)
        drawing.kernels("ab", start + 100)
    return drawing


@pytest.mark.parametrize(
    ("names", "label", "count"),
    [
        ([f"step {i}" for i in range(12)], "'step *'", 12),
        ([f"step {i}" for i in range(40, 52)], "'step *'", 12),
        ([f"batch_{i:04}" for i in range(0, 120, 10)], "'batch_*'", 12),
        ([f"run {i}" for i in (*range(10), *range(10))], "'run *'", 20),  # starts again: runs of one loop
        ([f"epoch {i // 6} step {i}" for i in range(18)], "'epoch * step *'", 18),
        ([f"step {i} loss 0.{(7 * i) % 10}" for i in range(12)], "'step * loss 0.*'", 12),
    ],
)
def test_names_whose_number_counts_are_one_range(
    names: list[str], label: str, count: int, tmp_path: Path
) -> None:
    steps = only(tmp_path, numbered(names))
    assert (steps.label, starts(steps)) == (label, every(count))


def test_numbers_that_do_not_count_tell_variants_apart(tmp_path: Path) -> None:
    names = [f"A{1 + i // 10}" for i in range(30)]  # ten of each
    assert len(only(tmp_path, numbered(names))) == 10


@pytest.mark.parametrize("names", [["1*2", "**1"], ["step \u0663", "step \u0664"], ["9" * 30, "8" * 30]])
def test_names_that_only_look_like_numbers(names: list[str], tmp_path: Path) -> None:
    steps = only(tmp_path, numbered(names * 12))
    assert (steps.label, len(steps)) == (f"'{names[0]}'", 12)


def test_layers_of_a_model_are_parts_of_a_step(tmp_path: Path) -> None:
    names = [f"layer {i % 4}" for i in range(48)]
    steps = only(tmp_path, numbered(names))
    assert (steps.label, len(steps)) == ("'layer 0'", 12)


def nested(outer: int, inner: int, *, update: str = "", more: str = "", second: str = "micro") -> Drawing:
    """Ranges 'batch' of 'micro'; an optimizer's kernel in either, or another kernel at the batch's end.

    ``second``: the name of the second half of the inner ranges.
    """
    drawing, length = Drawing(), (inner + 1) * 1000
    for start in every(outer, length=length):
        drawing.range("batch", start, start + length - 10)
        for number, micro in enumerate(every(inner, start + 10, 1000)):
            drawing.range(second if 2 * number >= inner else "micro", micro, micro + 900)
            drawing.launch("work", micro + 10, gpu_ns=400)
            if update == "micro":
                drawing.launch("multi_tensor_apply_kernel", micro + 500)
        if update == "batch":
            drawing.launch("multi_tensor_apply_kernel", start + length - 500)
        if more:
            drawing.launch(more, start + length - 500, gpu_ns=inner * 400)
    return drawing


@pytest.mark.parametrize(
    ("drawing", "label"),
    [
        (nested(6, 20), "'micro'"),  # nothing outside of them
        (nested(6, 20, second="validate"), "'micro'"),  # not in turns
        (nested(12, 20), "'batch'"),
        (nested(6, 20, update="batch"), "'batch'"),
        (nested(12, 20, update="micro"), "'micro'"),
        (nested(6, 20, more="validate"), "'batch'"),
        (nested(6, 2), "'batch'"),
    ],
)
def test_which_of_two_levels_is_the_step(drawing: Drawing, label: str, tmp_path: Path) -> None:
    assert only(tmp_path, drawing).label == label


def test_the_loop_with_most_time_is_judged(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(100, length=500):
        drawing.range("evaluate", start, start + 400)
        drawing.launch("forward", start + 10)
    for start in every(12, 100 * 500):
        drawing.range("train", start, start + 9000)
        drawing.launch("backward", start + 10, gpu_ns=8000)
    assert only(tmp_path, drawing).label == "'train'"


def test_two_ranges_with_most_of_the_time_are_steps(tmp_path: Path) -> None:
    steps = only(tmp_path, numbered(["step", "step"]))
    assert (steps.has_steady, starts(steps), numbers(steps.outlier)) == (True, every(2), [])


def test_two_ranges_around_little_are_none(tmp_path: Path) -> None:
    drawing = numbered(["check", "check"], apart=9 * LENGTH)
    drawing.launch("large", 9 * LENGTH - 500, gpu_ns=6 * LENGTH)
    assert not only(tmp_path, drawing).has_steady


@pytest.mark.parametrize("name", ["step", "step *", "ste?*", "step [0-9]*"])
def test_a_name_means_its_numbers(name: str, tmp_path: Path) -> None:
    steps = only(tmp_path, numbered([f"step {i}" for i in range(12)]), name)
    assert starts(steps) == every(12)


def test_the_name_on_the_screen_is_taken_whatever_it_holds(tmp_path: Path) -> None:
    drawing = numbered([f"layer[{i}]" for i in range(12)])
    (tmp_path / "again").mkdir()
    label = only(tmp_path, drawing).label[1:-1]
    assert (label, starts(only(tmp_path / "again", drawing, label))) == ("layer[*]", every(12))


def test_a_number_in_another_domain_is_another_name(tmp_path: Path) -> None:
    drawing = numbered([f"step {i}" for i in range(12)])
    for number, name in ((3, "train"), (4, "test")):
        drawing.rows.append(domain(name, number))
        for i, start in enumerate(every(number, 2000)):
            drawing.range(f"step {i}", start, start + 50, domainId=number)
            drawing.kernels("c", start + 10)
    assert starts(only(tmp_path, drawing, "train:step *")) == every(3, 2000)


@pytest.mark.parametrize("name", ["step@train", "train:step", "train:step *"])
def test_names_of_other_domains(name: str, tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.rows.append(domain("train", 3))
    for i, start in enumerate(every(12)):
        drawing.range(f"step {i}" if "*" in name else "step", start, start + 5000, domainId=3)
        drawing.kernels("ab", start + 100)
    assert starts(only(tmp_path, drawing, name)) == every(12)


def test_two_networks_that_update_in_turns_are_one_step(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(20):
        for place, name in enumerate(("discriminator", "generator")):
            at = start + place * LENGTH // 2
            drawing.range(name, at, at + LENGTH // 2 - 100)
            drawing.kernels("abc", at + 10, gpu_ns=500)
            drawing.launch("adam", at + 200, gpu_ns=100)
    steps = only(tmp_path, drawing)
    assert (steps.label, starts(steps)) == ("'discriminator'", every(20))
    several = "each step has several updates of an optimizer: 'discriminator', 'generator'"
    assert joined_texts([steps.remarks]) == (several,)


def test_requests_of_another_thread_are_named_and_part_no_step(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(12):
        drawing.range("train", start, start + 5000)
        drawing.kernels("abc", start + 100)
    for number, start in enumerate(every(30, 3, 4000)):
        drawing.range(f"request {number}", start, start + 1000, tid=PID + 1)
        drawing.launch("answer", start + 100, tid=PID + 1)
    steps = only(tmp_path, drawing)
    assert (steps.label, starts(steps), steps.others) == ("'train'", every(12), ())
    beside = "another thread launches its own GPU work beside 'train': 30 x 'request *'"
    assert joined_texts([steps.remarks]) == (beside,)
