"""Sampling fake GPUs: how often, which, and their processes."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml, sample_rows, use
from waiting import PATIENCE_S

from nsyswrap.base.run_folder import CONDITIONS
from nsyswrap.record.conditions import nvml, observer
from nsyswrap.record.conditions.observer import Sampler

TOKEN = "mark"  # noqa: S105 - no secret


class NotedWaits(threading.Event):
    """What a sampler waits by: it notes for how long. A busy machine gives it later turns."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout or 0)
        return super().wait(timeout)


def sampled(file: Path, count: int, stopped: NotedWaits | None = None, **environment: str) -> Sampler:
    """A sampler that has sampled each GPU so often, or has ended by itself."""
    sampler = Sampler(environment, TOKEN, file)
    if stopped:
        sampler._stopped = stopped  # noqa: SLF001
    thread = threading.Thread(target=sampler.run)
    thread.start()
    while thread.is_alive() and min((gpu.samples for gpu in sampler.gpus()), default=0) < count:
        time.sleep(0.01)
    sampler.stop()
    thread.join()
    return sampler


def test_ten_samples_a_second_of_each_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b", power_mw=None, reasons=0))
    use(monkeypatch, library)
    began, stopped = time.time_ns(), NotedWaits()
    sampler = sampled(tmp_path / CONDITIONS, 8, stopped)
    first, second = sampler.gpus()
    samples = sample_rows(tmp_path / CONDITIONS)
    assert [row[1:] for row in samples[:2]] == [
        ["0", "1980", "3201", "80500", "30", "4"],
        ["1", "1980", "3201", "", "30", "0"],
    ]
    times = [int(row[0]) for row in samples]
    assert began < times[0] <= times[-1] < time.time_ns()
    assert times == sorted(times)
    assert first.samples + second.samples == len(samples)
    assert first.samples - second.samples in (0, 1)  # it can be stopped between them
    assert times[14] - began >= 7e8  # the eighth
    assert max(stopped.waits_s) < 0.5  # 0.1, unless reading takes long
    assert not library.is_open


@pytest.mark.parametrize(("later_mj", "joules"), [(7_500, 2.5), (4_000, None), (None, None)])
def test_the_energy_is_counted_before_and_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, later_mj: int | None, joules: float | None
) -> None:
    """A counter that starts again, with the driver, tells nothing."""
    monkeypatch.setattr(observer, "HANG_S", PATIENCE_S)
    gpu = FakeGpu(energy_mj=5_000)
    use(monkeypatch, FakeNvml(gpu))
    sample = nvml.Device.sample

    def spent(device: nvml.Device) -> nvml.GpuSample:
        gpu.energy_mj = later_mj
        return sample(device)

    monkeypatch.setattr(nvml.Device, "sample", spent)
    assert [one.joules for one in sampled(tmp_path / CONDITIONS, 1).gpus()] == [joules]


def slow_sample(costs_s: Iterator[float]) -> Callable[[nvml.Device], nvml.GpuSample]:
    """A reading that takes so much time of a core, each time."""
    sample = nvml.Device.sample

    def slow(device: nvml.Device) -> nvml.GpuSample:
        until = time.thread_time() + next(costs_s)
        while time.thread_time() < until:
            pass
        return sample(device)

    return slow


def test_a_slow_driver_is_sampled_less_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading takes 5 ms of a core: after three readings 1 % of a core allows a sample each 500 ms."""
    use(monkeypatch, FakeNvml(FakeGpu()))
    monkeypatch.setattr(nvml.Device, "sample", slow_sample(repeat(0.005)))
    began = time.monotonic()
    sampled(tmp_path / CONDITIONS, 5)
    assert time.monotonic() - began >= 1.2


def test_one_slow_reading_does_not_stop_sampling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As 1 % of a core, the second sample would wait for 30 s."""
    use(monkeypatch, FakeNvml(FakeGpu()))
    monkeypatch.setattr(nvml.Device, "sample", slow_sample(chain([0.3], repeat(0.0))))
    stopped = NotedWaits()
    sampled(tmp_path / CONDITIONS, 5, stopped)
    assert max(stopped.waits_s) < 10


def test_only_gpus_that_the_program_sees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b")))
    [gpu] = sampled(tmp_path / "one", 1, CUDA_VISIBLE_DEVICES="1").gpus()
    assert (gpu.uuid, gpu.index) == ("GPU-b", 1)
    assert {row[1] for row in sample_rows(tmp_path / "one")} == {"0"}  # the position, not the index
    assert sampled(tmp_path / "none", 1, CUDA_VISIBLE_DEVICES="").gpus() == ()
    assert not (tmp_path / "none").exists()


def test_processes_before_and_during_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = FakeGpu(processes=[os.getppid()])
    use(monkeypatch, FakeNvml(gpu))
    sampler = Sampler({}, TOKEN, tmp_path / CONDITIONS)
    thread = threading.Thread(target=sampler.run)
    thread.start()
    while not sampler.gpus() or not sampler.gpus()[0].processes:
        time.sleep(0.01)
    sampler.program_started()
    gpu.processes.append(os.getpid())
    sampler.stop()
    thread.join()
    began = {process.pid: process.began_before for process in sampler.gpus()[0].processes}
    assert began == {os.getppid(): True, os.getpid(): False}  # the last query is after the program's end


def test_a_process_that_is_first_listed_with_the_program_did_not_begin_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, FakeNvml(FakeGpu(processes=[os.getppid()])))
    sampler = Sampler({}, TOKEN, tmp_path / CONDITIONS)
    sampler.program_started()
    sampler.stop()
    sampler.run()
    assert [process.began_before for process in sampler.gpus()[0].processes] == [False]


@pytest.mark.parametrize("place", ["missing/conditions.csv", "full"])
def test_samples_that_cannot_be_written_are_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    use(monkeypatch, FakeNvml(FakeGpu()))
    (tmp_path / "full").symlink_to("/dev/full")
    [gpu] = sampled(tmp_path / place, 1).gpus()
    assert gpu.name == "Fake H200"
    assert gpu.samples == 0
    assert not (tmp_path / place).exists()
