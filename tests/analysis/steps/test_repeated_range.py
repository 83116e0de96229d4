"""Which NVTX range marks the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from step_drawings import LENGTH, Drawing, every, numbers, only, starts, training
from tiny_export import PID, domain

if TYPE_CHECKING:
    from pathlib import Path


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


def test_of_ranges_side_by_side_the_one_with_more_launches(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in every(12):
        drawing.range("load", start, start + 4000)
        drawing.launch("copy", start + 100)
        drawing.range("compute", start + 5000, start + 9000)
        drawing.kernels("ab", start + 5100)
    assert only(tmp_path, drawing).label == "'compute'"


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
    drawing.rows.append(domain("library", 3))
    for start in every(12):
        drawing.range("outside", start - 1, start + 5001, domainId=3)
    assert only(tmp_path, drawing).label == "'step'"


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
    assert numbers(steps.outlier) == []  # draining the queue is no outlier


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
    assert steps.found
