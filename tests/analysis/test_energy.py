"""The energy of a run and of a step, from samples of the power and the counter of the GPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conditioned import H200, MS, Sample, recorded, sample
from tiny_export import PID, Row, call, changed, kernel, nvml_samples, nvtx, opened, row

from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.energy import Energy
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_facts import Conditions
from nsyswrap.reports.summary import summarize

WORK = kernel("k", 500 * MS, 3500 * MS)  # 3 s
A100 = row("TARGET_INFO_GPU", id=0, name="A100", computeMajor=8, computeMinor=0)


def energy(capture: CaptureReader) -> Energy | None:
    return answer_of(capture).energy


def about(number: float) -> Any:  # noqa: ANN401 - pytest has no type for it
    return pytest.approx(number)


def sampled(*power_w: float, every_ms: int = 1000) -> list[Sample]:
    return [sample(i * every_ms, power_w=power) for i, power in enumerate(power_w)]


def lines(capture: CaptureReader) -> list[str]:
    return [str(line) for line in summarize(capture).lines if "Energy" in str(line)]


def test_means_of_the_last_second_tell_the_energy_of_a_part(tmp_path: Path) -> None:
    # 100 W until 0.5 s, 600 W from then on: the mean of the last second takes a second to rise.
    means = [100 + 500 * min(max(ms - 500, 0), 1000) / 1000 for ms in range(0, 4001, 100)]
    capture = recorded(tmp_path / "run", [WORK], sampled(*means, every_ms=100))
    # In 3.9 s to the last step of 0.1 s: 50 J before the work, 3.4 s at 600 W from its start on.
    assert energy(capture) == Energy(about(600), None, about(50 + 3.4 * 600), counted=False)
    assert lines(capture) == ["Energy about 2.09 kJ a run: mean power 600 W"]


def test_what_ran_as_the_recording_began_does_not_count_later(tmp_path: Path) -> None:
    # 700 W until 0.5 s before the first sample, then 100 W; 600 W from 0.5 s on, with the work.
    idle = [max(700 - 600 * (ms + 500) / 1000, 100) for ms in range(0, 501, 100)]
    means = [*idle, *(100 + 500 * min((ms - 500) / 1000, 1) for ms in range(600, 4001, 100))]
    work = kernel("k", 500 * MS, 3200 * MS)  # 2.7 s: what is wrong in each second does not cancel out
    known = energy(recorded(tmp_path / "run", [work], sampled(*means, every_ms=100)))
    assert known is not None
    assert known.mean_power_w == about(600)


def test_power_of_the_moment_is_taken_as_it_is(tmp_path: Path) -> None:
    # 100 W at 0 s, 300 W from 1 s on: 200 J in the first second, half of it before the work; then 300 W.
    capture = recorded(tmp_path / "run", [WORK, A100], sampled(100, 300, 300, 300, 300))
    assert energy(capture) == Energy(about(850 / 3), None, 1100, counted=False)


def test_gpus_of_both_kinds_have_no_energy(tmp_path: Path) -> None:
    """Beside an A100 whose power is that of the moment, a GPU has the mean of the last second."""
    gpus = [A100, changed(A100, id=1, computeMajor=9)]
    assert energy(recorded(tmp_path / "run", [WORK, *gpus], sampled(*[300] * 41, every_ms=100))) is None


@pytest.mark.parametrize("last_ms", [0, -5000, 10**12])
def test_samples_of_a_clock_that_was_set_have_no_energy(tmp_path: Path, last_ms: int) -> None:
    samples = [sample(0, power_w=300), sample(last_ms, power_w=300)]
    assert energy(recorded(tmp_path / "run", [WORK], samples)) is None


def test_the_run_is_by_the_counter_of_the_gpu(tmp_path: Path) -> None:
    facts = Conditions((replace(H200, joules=1234.5),))
    capture = recorded(tmp_path / "run", [WORK], sampled(*[300] * 41, every_ms=100), facts)
    assert energy(capture) == Energy(about(300), None, 1234.5, counted=True)
    assert lines(capture) == ["Energy 1.23 kJ a run: mean power 300 W"]


@pytest.mark.parametrize("joules", [0.0, -5.0])
def test_a_counter_that_stood_still_counts_nothing(tmp_path: Path, joules: float) -> None:
    facts = Conditions((replace(H200, joules=joules),))
    capture = recorded(tmp_path / "run", [WORK], sampled(*[300] * 41, every_ms=100), facts)
    assert energy(capture) == Energy(about(300), None, about(3.9 * 300), counted=False)


def test_a_step_has_the_mean_power_for_its_time(tmp_path: Path) -> None:
    steps = [nvtx("step", i * 250 * MS, (i * 250 + 200) * MS) for i in range(16)]
    calls = [call("cudaLaunchKernel", (i * 250 + 10) * MS, (i * 250 + 20) * MS, i) for i in range(16)]
    work = [kernel("k", (i * 250 + 50) * MS, (i * 250 + 150) * MS, i) for i in range(16)]
    capture = recorded(tmp_path / "run", [*steps, *calls, *work], sampled(*[400] * 41, every_ms=100))
    known, judged = energy(capture), answer_of(capture).steps
    assert known is not None
    assert judged is not None
    assert known.step_joules == about(400 * judged.mean_ns / 1e9)
    assert lines(capture) == [
        "Energy about 98.7 J a step: mean power 400 W (estimate); the run about 1.56 kJ"
    ]


@pytest.mark.parametrize(
    ("work", "samples", "mig"),
    [
        (kernel("k", 500 * MS, 2499 * MS), sampled(*[300] * 5), None),  # less than 2 s
        (WORK, sampled(*[300] * 4), None),  # samples end 0.5 s before the work
        (WORK, sampled(300), None),
        (WORK, sampled(300, 300, every_ms=30_000), None),  # a recorder that stood still
        (WORK, [sample(ms, power_w=300) for ms in (0, 500, 3000, 4000)], None),  # for most of the work
        (WORK, [(ms, 0, 1980, 3201, "", 50, 0) for ms in (0, 4000)], None),
        (WORK, sampled(*[300] * 5), True),  # power is that of the whole GPU
    ],
)
def test_it_is_withheld(tmp_path: Path, work: Row, samples: Sequence[Sample], mig: object) -> None:
    capture = recorded(tmp_path / "run", [work], samples, Conditions((replace(H200, mig=bool(mig)),)))
    assert energy(capture) is None
    assert not lines(capture)


def test_each_gpu_counts_with_the_time_in_which_it_was_sampled(tmp_path: Path) -> None:
    """The samples of the second GPU begin 0.2 s after the work."""
    gpus = [
        row("TARGET_INFO_GPU", id=i, name="H200", computeMajor=9, computeMinor=0, uuid=f"GPU-{name}")
        for i, name in enumerate("AB")
    ]
    ordinals = [row("TARGET_INFO_CUDA_DEVICE", gpuId=i, cudaId=i, pid=PID) for i in range(2)]
    samples = [sample(ms, power_w=300) for ms in range(0, 4001, 100)]
    samples += [sample(ms, power_w=300, gpu=1) for ms in range(700, 4001, 100)]
    work = [WORK, changed(WORK, deviceId=1), *gpus, *ordinals]
    known = energy(recorded(tmp_path / "run", work, samples, Conditions((H200, replace(H200, uuid="GPU-B")))))
    assert known is not None
    assert known.mean_power_w == about(600)


def test_a_capture_without_a_run_folder_has_the_power_of_the_plugin(tmp_path: Path) -> None:
    curve = nvml_samples((100, 40), *[(300, 40)] * 4, every=1000 * MS)
    assert energy(opened(tmp_path, WORK, *curve)) == Energy(about(850 / 3), None, 1100, counted=False)
    (tmp_path / "two").mkdir()
    two = opened(tmp_path / "two", WORK, *curve, *nvml_samples((80, 36), (90, 36), type_id=9))
    assert energy(two) is None  # which of the GPUs worked is not known
