"""Which steps a program has: drawn on paper, 10 us long, as calls, kernels and NVTX ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny_export import PID, call, domain, global_id, graph, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.steps import parse_choice, steps_of
from nsyswrap.base.errors import NotInCapture

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from tiny_export import Row

    from nsyswrap.analysis.steps import Steps

LENGTH = 10_000  # ns of a step
LAUNCH, GRAPH_LAUNCH, WAIT = "cudaLaunchKernel", "cudaGraphLaunch", "cudaStreamSynchronize"


class Drawing:
    """Rows of a program, written one call after another."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._number = 0

    def launch(self, name: str, start: int, *, tid: int = PID, api_ns: int = 5, gpu_ns: int = 20) -> None:
        self._number += 1
        begin = start + api_ns
        self.rows.append(call(LAUNCH, start, begin, self._number, tid=tid))
        self.rows.append(kernel(name, begin, begin + gpu_ns, self._number, streamId=tid))

    def replay(self, start: int) -> None:
        self._number += 1
        self.rows.append(call(GRAPH_LAUNCH, start, start + 5, self._number))
        self.rows.append(graph(start + 5, start + 50, self._number))

    def wait(self, start: int, end: int) -> None:
        self.rows.append(call(WAIT, start, end))

    def range(self, name: str, start: int, end: int, **more: object) -> None:
        self.rows.append(nvtx(name, start, end, **more))  # type: ignore[arg-type]

    def kernels(self, names: str, start: int, apart: int = 30, **more: int) -> None:
        """Launch kernels of one letter each."""
        for i, name in enumerate(names):
            self.launch(name, start + i * apart, **more)


def only(folder: Path, drawing: Drawing, steps: str = "") -> Steps:
    """Return the steps of the only process."""
    [found] = steps_of(opened(folder, *drawing.rows).viewed(steps=steps))
    return found


def starts(steps: Steps) -> list[int]:
    return steps.start_ns.tolist()  # type: ignore[no-any-return]


def every(count: int, first: int = 0, length: int = LENGTH) -> list[int]:
    return [first + i * length for i in range(count)]


def numbers(marks: NDArray[Any]) -> list[int]:
    return np.flatnonzero(marks).tolist()


def training(steps: int, names: str = "abc") -> Drawing:
    """A range 'step' around the launches of each step, with 'forward' and 'layer' in it."""
    drawing = Drawing()
    for start in every(steps):
        drawing.range("step", start, start + 5000)
        drawing.range("forward", start + 50, start + 1000)
        for i in range(3):
            drawing.range("layer", start + 100 + 200 * i, start + 250 + 200 * i)
        drawing.kernels(names, start + 110, apart=200)
    return drawing


class TestRange:
    """The steps of a range that repeats."""

    def test_the_outer_range_is_the_step(self, tmp_path: Path) -> None:
        steps = only(tmp_path, training(12))
        assert (steps.label, starts(steps)) == ("'step'", every(12))
        # Each ends where the next one begins, the last one with its range.
        assert steps.end_ns.tolist() == [*every(11, LENGTH), 11 * LENGTH + 5000]
        assert (steps.warm_up, numbers(steps.steady)) == (1, list(range(1, 12)))

    def test_an_outer_range_that_repeats_less_often_than_ten_times_is_an_epoch(self, tmp_path: Path) -> None:
        drawing = training(12)
        for i in range(3):
            drawing.range("epoch", i * 4 * LENGTH - 10, (i + 1) * 4 * LENGTH - 20)
        assert only(tmp_path, drawing).label == "'step'"

    def test_few_outer_ranges_are_steps_if_nothing_in_them_repeats_more(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(5):
            drawing.range("epoch", start, start + 9000)
            drawing.range("forward", start + 100, start + 300)
            drawing.launch("a", start + 110)
        assert only(tmp_path, drawing).label == "'epoch'"

    def test_of_ranges_side_by_side_the_one_with_more_launches(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(12):
            drawing.range("load", start, start + 4000)
            drawing.launch("copy", start + 100)
            drawing.range("compute", start + 5000, start + 9000)
            drawing.kernels("ab", start + 5100)
        assert only(tmp_path, drawing).label == "'compute'"

    def test_a_range_of_a_thread_that_launches_nothing(self, tmp_path: Path) -> None:
        drawing = training(12)
        for start in every(20, length=6000):
            drawing.range("heartbeat", start, start + 5990, tid=PID + 1)
        assert only(tmp_path, drawing).label == "'step'"

    def test_a_range_of_a_library(self, tmp_path: Path) -> None:
        drawing = training(12)
        drawing.rows.append(domain("library", 3))
        for start in every(12):
            drawing.range("outside", start - 1, start + 5001, domainId=3)
        assert only(tmp_path, drawing).label == "'step'"

    def test_a_range_around_a_small_part_of_the_launches(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(40):
            drawing.kernels("abc", start)
        for i in range(4):
            drawing.range("warm", i * 100, i * 100 + 50)
        assert only(tmp_path, drawing).label == "a sequence of 3 GPU operations"

    def test_ranges_inside_one_of_the_same_name(self, tmp_path: Path) -> None:
        drawing = training(12)
        for start in every(12):
            drawing.range("step", start + 10, start + 4000)
        assert starts(only(tmp_path, drawing)) == every(12)

    def test_ranges_with_the_same_times(self, tmp_path: Path) -> None:
        drawing = training(12)
        for _ in range(2):
            drawing.range("layer", 100, 250)
        assert only(tmp_path, drawing).label == "'step'"

    def test_backward_on_another_thread(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(12):
            drawing.range("step", start, start + 5000)
            drawing.launch("forward", start + 100)
            drawing.kernels("xyz", start + 1000, tid=PID + 1)
        steps = only(tmp_path, drawing)
        assert (steps.label, starts(steps)) == ("'step'", every(12))

    def test_the_last_step_lasts_until_its_work_is_done(self, tmp_path: Path) -> None:
        drawing = training(11)
        last = 11 * LENGTH
        drawing.range("step", last, last + 5000)
        drawing.launch("a", last + 100, gpu_ns=19_895)  # until 20,000 after its start
        steps = only(tmp_path, drawing)
        assert steps.end_ns[-1] == last + 20_000
        assert numbers(steps.outlier) == []  # draining the queue is no outlier

    def test_gradient_accumulation(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(12, length=4 * LENGTH):
            drawing.range("step", start, start + 4 * LENGTH - 100)
            for micro in every(4, start + 50):
                drawing.range("micro", micro, micro + 5000)
                drawing.kernels("ab", micro + 100)
            drawing.launch("optimizer", start + 4 * LENGTH - 300)
        assert starts(only(tmp_path, drawing)) == every(12, length=4 * LENGTH)

    def test_variable_lengths_are_steps_without_outliers(self, tmp_path: Path) -> None:
        drawing, now = Drawing(), 0
        for i in range(16):
            length = LENGTH * (1 + i % 4)
            drawing.range("step", now, now + length)
            drawing.launch("a", now + 10, gpu_ns=length // 2)
            now += length
        steps = only(tmp_path, drawing)
        assert (len(steps), numbers(steps.outlier)) == (16, [])
        assert steps.found


class TestSequence:
    """The steps of a sequence of launches that repeats."""

    def loop(self, steps: int, names: str = "abc") -> Drawing:
        drawing = Drawing()
        for start in every(steps):
            drawing.kernels(names, start)
        return drawing

    def test_the_longest_pause_begins_a_step(self, tmp_path: Path) -> None:
        steps = only(tmp_path, self.loop(20))
        assert (steps.label, starts(steps)) == ("a sequence of 3 GPU operations", every(20))
        assert steps.end_ns[-1] == 19 * LENGTH + 85  # the end of the third kernel
        assert (steps.warm_up, numbers(steps.steady)) == (1, list(range(1, 20)))

    def test_a_prologue_of_other_launches_is_no_step(self, tmp_path: Path) -> None:
        drawing = self.loop(20)
        drawing.kernels("pqrstu", -5000)
        assert starts(only(tmp_path, drawing)) == every(20)

    def test_a_checkpoint_every_25th_step_is_an_outlier(self, tmp_path: Path) -> None:
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

    def test_a_single_break_ends_the_steady_part(self, tmp_path: Path) -> None:
        # 20 steps, other work for 50 steps' time in the 20th, then 30 steps.
        drawing = self.loop(20)
        drawing.kernels("other", 19 * LENGTH + 100)
        for start in every(30, 70 * LENGTH):
            drawing.kernels("abc", start)
        steps = only(tmp_path, drawing)
        assert len(steps) == 50
        assert numbers(steps.steady) == list(range(20, 50))
        assert (steps.warm_up, numbers(steps.outlier)) == (1, [])

    def test_of_equal_runs_the_later_one_is_steady(self, tmp_path: Path) -> None:
        drawing = self.loop(21)
        drawing.launch("other", 20 * LENGTH + 100)
        for start in every(19, 70 * LENGTH):
            drawing.kernels("abc", start)
        assert numbers(only(tmp_path, drawing).steady) == list(range(21, 40))

    def test_a_long_step_with_the_usual_calls_is_no_break(self, tmp_path: Path) -> None:
        drawing = self.loop(20)
        for start in every(30, 70 * LENGTH):
            drawing.kernels("abc", start)
        steps = only(tmp_path, drawing)
        assert (numbers(steps.steady), numbers(steps.outlier)) == (list(range(1, 50)), [19])

    def test_three_breaks_are_outliers(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for run in range(4):
            for start in every(10, run * 60 * LENGTH):
                drawing.kernels("abc", start)
            drawing.launch("other", run * 60 * LENGTH + 9 * LENGTH + 100)
        steps = only(tmp_path, drawing)
        assert numbers(steps.steady) == list(range(1, 40))
        assert numbers(steps.outlier) == [9, 19, 29]

    def test_one_kernel_has_no_outliers(self, tmp_path: Path) -> None:
        drawing, now = Drawing(), 0
        for i in range(40):
            drawing.launch("a", now)
            now += 3 * LENGTH if i == 20 else LENGTH
        steps = only(tmp_path, drawing)
        assert (steps.label, numbers(steps.outlier)) == ("one GPU operation", [])

    def test_replays_of_a_graph(self, tmp_path: Path) -> None:
        drawing, now = Drawing(), 0
        for i in range(40):
            drawing.replay(now)
            now += 3 * LENGTH if i == 20 else LENGTH
        steps = only(tmp_path, drawing)
        assert (steps.label, len(steps), numbers(steps.outlier)) == ("one CUDA graph", 40, [20])

    def test_a_sequence_in_a_sequence(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(20):  # eight layers, then the optimizer
            for layer in range(8):
                drawing.kernels("ab", start + 100 * layer)
            drawing.launch("optimizer", start + 900)
        steps = only(tmp_path, drawing)
        assert (steps.label, len(steps)) == ("a sequence of 17 GPU operations", 20)

    def test_waits_alone_are_no_steps(self, tmp_path: Path) -> None:
        drawing = Drawing()
        drawing.launch("a", 0)
        for start in every(20, 100):
            drawing.wait(start, start + 50)
        steps = only(tmp_path, drawing)
        assert (len(steps), steps.found) == (0, False)

    def test_alternating_train_and_eval(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(20, length=2 * LENGTH):
            drawing.kernels("abc", start)
            drawing.kernels("xy", start + LENGTH)
        steps = only(tmp_path, drawing)
        assert (steps.label, len(steps)) == ("a sequence of 5 GPU operations", 20)

    def test_launches_in_no_order_are_no_steps(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for i, letter in enumerate("abcadbdcbbadcacdbadcbaabcddcbcab"):
            drawing.launch(letter, i * 100)
        steps = only(tmp_path, drawing)
        assert (steps.found, steps.why_none) == (False, "no NVTX range or launch sequence repeats")

    def test_an_incomplete_last_sequence_is_no_step(self, tmp_path: Path) -> None:
        drawing = self.loop(20)
        drawing.kernels("ab", 20 * LENGTH)
        steps = only(tmp_path, drawing)
        assert (starts(steps), steps.end_ns[-1]) == (every(20), 19 * LENGTH + 85)


class TestWarmUp:
    """Which leading steps are not steady."""

    def lasting(self, *lengths: float, loads: bool = False) -> Drawing:
        drawing, now = Drawing(), 0
        for length in lengths:
            drawing.range("step", now, now + int(length * LENGTH))
            if loads:
                drawing.rows.append(call("cuModuleLoadData", now + 10, now + 500))
            drawing.launch("a", now + 1000, gpu_ns=100)
            now += int(length * LENGTH)
        return drawing

    @pytest.mark.parametrize(
        ("lengths", "warm_up"),
        [
            ((1,) * 12, 1),  # the first launch of a kernel
            ((9, 5, 2, *(1,) * 9), 3),
            ((9, 1, 5, *(1,) * 9), 3),  # one usual step between slow ones
            ((9, 1, 1, 5, *(1,) * 8), 1),  # two usual ones end the warm-up
            ((*(5,) * 6, *(1,) * 6), 1),  # half of the steps are no warm-up
        ],
    )
    def test_leading_slow_steps(self, lengths: tuple[int, ...], warm_up: int, tmp_path: Path) -> None:
        steps = only(tmp_path, self.lasting(*lengths))
        assert (steps.warm_up, numbers(steps.steady)) == (warm_up, list(range(warm_up, 12)))

    def test_loading_in_every_step_is_no_warm_up(self, tmp_path: Path) -> None:
        assert only(tmp_path, self.lasting(*(1,) * 12, loads=True)).warm_up == 1

    def test_outliers_have_numbers(self, tmp_path: Path) -> None:
        steps = only(tmp_path, self.lasting(3, 1, 1, 1, 2, 1, 1, 1, 1, 3, 1, 1))
        assert (steps.warm_up, numbers(steps.outlier)) == (1, [4, 9])

    @pytest.mark.parametrize(("length", "outliers"), [(1.5, []), (1.6, [6])])
    def test_how_long_an_outlier_is(self, length: float, outliers: list[int], tmp_path: Path) -> None:
        steps = only(tmp_path, self.lasting(*(1,) * 6, length, *(1,) * 6))
        assert numbers(steps.outlier) == outliers

    def test_a_step_is_no_outlier_if_the_gpu_keeps_its_pace(self, tmp_path: Path) -> None:
        # The host waits in the 7th step for room in the queue; the GPU completes a step each 10 us all along.
        drawing, launched = Drawing(), 0
        for i in range(12):
            length = 65_000 if i == 6 else 2000
            drawing.range("step", launched, launched + length)
            drawing.launch("a", launched, gpu_ns=(i + 2) * LENGTH - launched - 5)
            launched += length
        assert numbers(only(tmp_path, drawing).outlier) == []

    def test_many_long_steps_are_no_outliers(self, tmp_path: Path) -> None:
        assert numbers(only(tmp_path, self.lasting(*(1, 1, 2) * 5)).outlier) == []

    @pytest.mark.parametrize("count", [3, 4])
    def test_fewer_than_three_steady_steps(self, count: int, tmp_path: Path) -> None:
        steps = only(tmp_path, self.lasting(*(1,) * count))
        assert (len(steps), steps.found) == (count, count == 4)
        assert bool(steps.why_none) == (count == 3)


class TestProcesses:
    """Several processes and threads."""

    def test_each_process_has_its_own(self, tmp_path: Path) -> None:
        rows = []
        for pid, length in ((100, LENGTH), (200, 3 * LENGTH)):
            for i, start in enumerate(every(20, length=length)):
                rows += [
                    call(LAUNCH, start, start + 5, i + 1, pid=pid),
                    kernel("a", start + 5, start + 9, i + 1, pid=pid),
                ]
        one, other = steps_of(opened(tmp_path, *rows))
        assert [steps.global_pid for steps in (one, other)] == [global_id(100), global_id(200)]
        assert (starts(one), starts(other)) == (every(20), every(20, length=3 * LENGTH))

    def test_a_process_without_launches_has_none(self, tmp_path: Path) -> None:
        assert steps_of(opened(tmp_path, memcpy(11, 0, 10, 8))) == ()

    def test_two_threads_with_ranges_of_their_own(self, tmp_path: Path) -> None:
        drawing = Drawing()
        for start in every(12):
            drawing.range("train", start, start + 5000)
            drawing.kernels("abc", start + 100)
        for start in every(30, 3, 4000):
            drawing.range("serve", start, start + 1000, tid=PID + 1)
            drawing.launch("x", start + 100, tid=PID + 1)
        steps = only(tmp_path, drawing)
        assert (steps.label, starts(steps)) == ("'train'", every(12))


class TestChoice:
    """--steps."""

    @pytest.mark.parametrize(
        ("text", "choice"),
        [
            ("10-13", ("", (10, 13))),
            ("7", ("", (7, 7))),
            ("train/10-13", ("train", (10, 13))),
            ("a/b/2", ("a/b", (2, 2))),
            ("a/b", ("a/b", None)),
            ("step 3-4", ("step 3-4", None)),
        ],
    )
    def test_forms(self, text: str, choice: tuple[str, tuple[int, int] | None]) -> None:
        assert parse_choice(text) == choice

    def test_a_range_by_name(self, tmp_path: Path) -> None:
        steps = only(tmp_path, training(12), "forward")
        assert (steps.label, starts(steps)) == ("'forward'", every(12, 50))

    def test_numbers(self, tmp_path: Path) -> None:
        steps = only(tmp_path, training(12), "3-5")
        assert (len(steps), numbers(steps.steady), steps.warm_up) == (12, [3, 4, 5], 0)
        assert steps.window == (3 * LENGTH, 6 * LENGTH)

    def test_a_name_that_no_range_has(self, tmp_path: Path) -> None:
        with pytest.raises(NotInCapture, match="no NVTX range named 'nope' holds GPU work") as caught:
            only(tmp_path, training(12), "nope")
        assert "--steps 10-13" in caught.value.hint

    def test_numbers_that_no_step_has(self, tmp_path: Path) -> None:
        with pytest.raises(NotInCapture, match="no steps 12-20") as caught:
            only(tmp_path, training(12), "12-20")
        assert caught.value.hint == "there are 12, from 0"

    def test_a_choice_can_be_one_step(self, tmp_path: Path) -> None:
        steps = only(tmp_path, training(12), "forward/2")
        assert (numbers(steps.steady), steps.found) == ([2], True)
