"""Warm-up and outliers, processes and threads, and the choice of steps."""

from pathlib import Path

import pytest
from step_drawings import LAUNCH, LENGTH, Drawing, every, numbers, only, starts, training
from tiny_export import NVTX, PID, call, changed, global_id, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.steps import parse_choice, steps_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports.wording.notes import joined_texts, note_text


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

    def test_leading_steps_that_load_are_warm_up_however_long(self, tmp_path: Path) -> None:
        drawing = self.lasting(*(1,) * 30)
        for start in every(4, 10):  # of the first four steps
            drawing.rows.append(call("cuModuleLoadData", start, start + 1500))
        assert only(tmp_path, drawing).warm_up == 4

    def test_short_calls_of_loading_are_none(self, tmp_path: Path) -> None:
        drawing = self.lasting(*(1,) * 30)
        drawing.rows += [call("cudaFuncGetAttributes", start, start + 50) for start in every(4, 10)]
        assert only(tmp_path, drawing).warm_up == 1

    def test_at_most_ten_steps_are_warm_up_because_they_are_long(self, tmp_path: Path) -> None:
        assert only(tmp_path, self.lasting(*(2,) * 20, *(1,) * 80)).warm_up == 10

    def compiling(self, *compiles: bool) -> Drawing:
        """Steps of which some compile for twice their time in host code, and load what that made at once."""
        drawing = self.lasting(*(3 if one else 1 for one in compiles))
        starts = [row.cells["start"] for row in drawing.rows if row.table == NVTX]
        for start, one in zip(starts, compiles, strict=True):
            assert isinstance(start, int)
            drawing.rows += [call("cuLibraryLoadData", start + 500, start + 550)] if one else []
        return drawing

    def test_leading_steps_that_compile_are_warm_up(self, tmp_path: Path) -> None:
        drawing = self.compiling(*(True,) * 20, *(False,) * 80)  # a shape each, before they come again
        assert only(tmp_path, drawing).warm_up == 20

    @pytest.mark.parametrize("every_one", [2, 3])
    def test_compiling_again_and_again_is_no_warm_up(self, every_one: int, tmp_path: Path) -> None:
        drawing = self.compiling(*(i % every_one == 0 for i in range(60)))
        assert only(tmp_path, drawing).warm_up == 1

    def test_of_steps_that_all_load_the_longer_ones_are_no_warm_up(self, tmp_path: Path) -> None:
        assert only(tmp_path, self.lasting(1, *(1.2,) * 8, *(1,) * 30, loads=True)).warm_up == 1

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

    @pytest.mark.parametrize(("count", "warm_up"), [(2, 0), (3, 0), (4, 1)])
    def test_few_steps_have_no_warm_up(self, count: int, warm_up: int, tmp_path: Path) -> None:
        steps = only(tmp_path, self.lasting(*(1,) * count))
        assert (len(steps), steps.warm_up, steps.has_steady) == (count, warm_up, True)


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

    def test_numbers_of_ranges_and_of_steps_are_the_same(self, tmp_path: Path) -> None:
        rows = []
        for pid, begin, length in ((100, 0, LENGTH), (200, 50 * LENGTH, 2 * LENGTH)):
            for i, start in enumerate(every(12, begin, length)):
                rows += [
                    changed(nvtx("step", start, start + length), globalTid=global_id(pid, pid)),
                    call(LAUNCH, start, start + 5, i + 1, pid=pid, tid=pid),
                    kernel("a", start + 5, start + 9, i + 1, pid=pid),
                ]
        capture = opened(tmp_path, *rows)
        for asked, which in (("step/2", slice(2, 3)), ("step/11", slice(11, 12)), ("step/3-5", slice(3, 6))):
            chosen = steps_of(capture.viewed(steps=asked))
            marked = [steps.start_ns[steps.steady].tolist() for steps in chosen]
            window = capture.select(nvtx=asked).window
            assert [steps.start_ns[which].tolist() for steps in chosen] == marked
            assert window.starts.tolist() == [time for times in marked for time in times]
        one = capture.select(nvtx="step/2", process=200).window
        assert one.starts.tolist() == [50 * LENGTH + 4 * LENGTH]
        as_nsys = capture.select(nvtx="step/13").decided(as_nsys=True).window
        assert as_nsys.starts.tolist() == [50 * LENGTH + 2 * LENGTH]
        said = capture.select(nvtx="step/2").report("gpu_time").selection
        assert said.startswith("NVTX range 'step': instance 2 of 12 of each of 2 processes; rows cut")

    def test_a_step_of_two_devices_ends_with_the_work_of_both(self, tmp_path: Path) -> None:
        """A pipeline: the second device works on what the first one did, beside the next piece."""
        drawing = Drawing()
        for start in every(12):
            drawing.range("step", start, start + LENGTH - 100)
            for piece in range(4):
                at = start + 50 * piece
                drawing.queue("first", at, (at + 1000 * piece + 10, at + 1000 * piece + 900))
                drawing.queue(
                    *("second", at + 10, (at + 1000 * piece + 1000, at + 1000 * piece + 9000)), stream=7
                )
        rows = [
            changed(row, deviceId=int(row.cells["streamId"] == 7)) if "streamId" in row.cells else row
            for row in drawing.rows
        ]
        [steps] = steps_of(opened(tmp_path, *rows))
        assert len(steps) == 12
        assert steps.start_ns[1:].tolist() == steps.end_ns[:-1].tolist()
        assert steps.runs_ahead_ns.tolist() == [3150 + 9000 - LENGTH] * 11 + [3150 + 9000 - LENGTH + 100]

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
        assert caught.value.hint == "the capture has 12 steps, numbered from 0"

    def test_a_choice_can_be_one_step(self, tmp_path: Path) -> None:
        steps = only(tmp_path, training(12), "forward/2")
        assert (numbers(steps.steady), steps.has_steady) == ([2], True)


def lasting(lengths: list[int]) -> Drawing:
    """Ranges 'step' of these lengths in ns, one after the other, with a kernel each."""
    drawing, now = Drawing(), 0
    for length in lengths:
        drawing.range("step", now, now + length)
        drawing.launch("a", now + 100, gpu_ns=100)
        now += length
    return drawing


class TestVaryingSteps:
    """Steps of which many take more than five times as long as others."""

    @pytest.mark.parametrize(
        "lengths",
        [
            [10_000, 100_000] * 20,
            [10_000, 10_000, 100_000] * 12,
            # Two loaders that begin together and drift apart until one batch is always there.
            [10_000 + 4000 * i if i % 2 else 100_000 - 4000 * i for i in range(20)] + [10_000, 100_000] * 10,
            [10_000, 100_000] * 20 + [5_000_000] + [10_000, 100_000] * 20,
        ],
    )
    def test_steps_that_differ_in_turn_are_steady(self, lengths: list[int], tmp_path: Path) -> None:
        steps = only(tmp_path, lasting(lengths))
        assert (steps.has_steady, int(steps.steady.sum())) == (True, len(lengths) - 1)

    @pytest.mark.parametrize(
        "lengths",
        [
            [10_000, 100_000] * 3,  # too few to tell
            [10_000, 100_000] * 10 + [10_000] * 20 + [100_000] * 20,
            [10_000 if bit == "0" else 100_000 for bit in f"{3**36:b}"],  # in no order
        ],
    )
    def test_steps_that_vary_are_none(self, lengths: list[int], tmp_path: Path) -> None:
        why = only(tmp_path, lasting(lengths)).why_none
        assert why
        assert note_text(why).startswith("'step' varies from ")


class TestTrend:
    """Steps that grow or shrink all the time."""

    def test_steps_that_shrink_are_no_warm_up(self, tmp_path: Path) -> None:
        steps = only(tmp_path, lasting([80_000 - 600 * i for i in range(100)]))
        assert (steps.warm_up, steps.has_steady) == (1, True)
        assert numbers(steps.outlier) == []
        assert joined_texts([steps.remarks]) == ("steps shrink from 72.5 µs to 27.5 µs",)

    def test_an_outlier_exceeds_those_around_it(self, tmp_path: Path) -> None:
        lengths = [10_000 + 1000 * i for i in range(60)]
        lengths[10] += 15_000  # 35 us, where the last steps take 69
        steps = only(tmp_path, lasting(lengths))
        assert numbers(steps.outlier) == [10]
        assert joined_texts([steps.remarks]) == ("steps grow from 17.5 µs to 62.5 µs",)

    def test_a_large_trend_is_judged(self, tmp_path: Path) -> None:
        assert only(tmp_path, lasting([1000 * (1 + i * i) for i in range(40)])).has_steady

    @pytest.mark.parametrize("lengths", [[10_000 + 20 * i for i in range(60)], [10_000, 20_000] * 30])
    def test_a_drift_of_little_and_turns_are_no_trend(self, lengths: list[int], tmp_path: Path) -> None:
        assert only(tmp_path, lasting(lengths)).remarks == ()


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (2, "comes twice and holds only 9 % of the GPU time, 7 % of the time"),
        (3, "holds only 15 % of the GPU time, 14 % of the time"),
    ],
)
def test_why_a_range_is_no_step(count: int, why: str, tmp_path: Path) -> None:
    drawing = Drawing()
    for i in range(30):
        drawing.launch(f"k{i}", i * LENGTH, gpu_ns=20 + i)
    for start in every(count, 10 * LENGTH - 10, 2 * LENGTH):
        drawing.range("part", start, start + 100)
    none = only(tmp_path, drawing).why_none
    assert none
    assert note_text(none) == f"'part' {why}"


@pytest.mark.filterwarnings("error")
def test_steps_without_duration(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.launch("a", 0, gpu_ns=100)
    for _ in range(6):
        drawing.range("step", 50, 50)
        drawing.launch("a", 50, api_ns=0, gpu_ns=0)
    only(tmp_path, drawing)
