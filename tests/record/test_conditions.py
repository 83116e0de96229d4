"""The conditions of a run: samples of fake GPUs, of real ones where there are some, and run.json."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from fake_nvml import FakeGpu, FakeNvml

from nsyswrap.base.conditions import COLUMNS, Conditions, conditions_of
from nsyswrap.base.run_folder import CONDITIONS, REPORT, RunFolder
from nsyswrap.record import gpus
from nsyswrap.record.conditions import nvml, observer
from nsyswrap.record.conditions.observer import Observer
from nsyswrap.record.conditions.sampler import Sampler
from nsyswrap.record.program import Program, resolve
from nsyswrap.record.run import execute
from nsyswrap.record.spec import RunSpec

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cli

TOKEN = uuid.uuid4().hex
NO_GPU = gpus.query().error
MATMUL = """
import torch
a = torch.randn(2048, 2048, device="cuda")
for _ in range(300):
    a @ a
torch.cuda.synchronize()
"""


def use(monkeypatch: pytest.MonkeyPatch, library: FakeNvml) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "load", lambda: nvml.Nvml(library))


def rows(file: Path) -> list[list[str]]:
    with file.open(encoding="ascii", newline="") as lines:
        header, *samples = csv.reader(lines)
    assert tuple(header) == COLUMNS
    return samples


def sampled(file: Path, seconds: float, **environment: str) -> Sampler:
    """A sampler that has run for so long."""
    sampler = Sampler(environment, TOKEN, file)
    timer = threading.Timer(seconds, sampler.stop)
    timer.start()
    sampler.run()
    timer.join()
    return sampler


def test_ten_samples_a_second_of_each_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b", power_mw=None, reasons=0))
    use(monkeypatch, library)
    began = time.time_ns()
    sampler = sampled(tmp_path / CONDITIONS, 0.75)
    first, second = sampler.gpus()
    samples = rows(tmp_path / CONDITIONS)
    assert [row[1:] for row in samples[:2]] == [
        ["0", "1980", "3201", "80500", "30", "4"],
        ["1", "1980", "3201", "", "30", "0"],
    ]
    times = [int(row[0]) for row in samples]
    assert began < times[0] <= times[-1] < time.time_ns()
    assert times == sorted(times)
    assert first.samples == second.samples == len(samples) / 2
    assert 2 <= first.samples <= 8  # fewer on a busy machine
    assert not library.is_open


def test_a_slow_driver_is_sampled_less_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading takes 5 ms of a core, so 1 % of a core allows a sample each 500 ms."""
    use(monkeypatch, FakeNvml(FakeGpu()))
    sample = nvml.Device.sample

    def slow(device: nvml.Device) -> nvml.Sample:
        until = time.thread_time() + 0.005
        while time.thread_time() < until:
            pass
        return sample(device)

    monkeypatch.setattr(nvml.Device, "sample", slow)
    assert sampled(tmp_path / CONDITIONS, 0.8).gpus()[0].samples in (1, 2)


def test_only_gpus_that_the_program_sees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b")))
    [gpu] = sampled(tmp_path / "one", 0.2, CUDA_VISIBLE_DEVICES="1").gpus()
    assert (gpu.uuid, gpu.index) == ("GPU-b", 1)
    assert {row[1] for row in rows(tmp_path / "one")} == {"0"}  # the position, not the index
    assert sampled(tmp_path / "none", 0.2, CUDA_VISIBLE_DEVICES="").gpus() == ()
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
    [gpu] = sampled(tmp_path / place, 0.3).gpus()
    assert gpu.name == "Fake H200"
    assert gpu.samples == 0
    assert not (tmp_path / place).exists()


def observed(folder: Path, seconds: float) -> Conditions:
    """The conditions of a run of so many seconds; no program runs."""
    spec = RunSpec(Program((sys.executable, "train.py"), "train"), folder)
    with Observer(spec, TOKEN, folder / CONDITIONS) as made:
        time.sleep(seconds)
    return made.conditions()


def test_a_hanging_driver_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu())
    use(monkeypatch, library)
    monkeypatch.setattr(observer.interpreter, "versions", lambda *_: {})
    threading.Timer(0.3, library.answers.clear).start()
    began = time.monotonic()
    made = observed(tmp_path, 0.6)
    assert time.monotonic() < began + 0.6 + observer.HANG_S + 1
    assert made.gpus[0].samples == len(rows(tmp_path / CONDITIONS)) > 0
    library.answers.set()  # the driver answers too late
    while library.is_open:
        time.sleep(0.01)
    assert made.gpus[0].samples == len(rows(tmp_path / CONDITIONS))


def test_a_driver_that_hangs_from_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(nvml, "load", lambda: hangs.wait() and None)
    assert observed(tmp_path, 0).gpus == ()
    hangs.set()


def test_without_threads_there_are_no_conditions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = observed(tmp_path, 0)
    assert made == Conditions(host=made.host)
    assert made.host.node


@pytest.mark.usefixtures("nsys")
def test_a_run_has_its_machine_commit_and_versions(tmp_path: Path, cli: Cli) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    (tmp_path / "train.py").write_text("pass")
    git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(tmp_path))
    for arguments in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    done = cli("profile", "--no-stats", "-o", "run", "train.py")
    assert done.returncode == 0, done.stderr
    made = conditions_of(json.loads((tmp_path / "run/run.json").read_text()))
    assert made is not None
    assert made.git is not None
    assert (len(made.git.commit), made.git.dirty) == (40, False)
    assert made.host.cores == len(os.sched_getaffinity(0))
    assert len(made.host.load) == 2
    assert made.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    if nvml.load() is None:
        assert made.gpus == ()
        assert not (tmp_path / "run" / CONDITIONS).exists()


@pytest.mark.usefixtures("nsys")
def test_samples_are_a_file_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The GPU is a fake, nsys and the program are real. The program writes a file of the same name."""
    use(monkeypatch, FakeNvml(FakeGpu()))
    folder = tmp_path / "run"
    program = f"open({str(folder / CONDITIONS)!r}, 'w').write('mine'); import time; time.sleep(0.5)"
    status = execute(RunSpec(resolve([sys.executable, "-c", program]), folder))
    assert status.outcome == "done"
    assert f"own {CONDITIONS}" in status.message
    made = conditions_of(RunFolder(folder).read_run())
    assert made is not None
    samples = rows(folder / CONDITIONS)
    assert made.gpus[0].samples == len(samples) >= 3
    assert (folder / CONDITIONS).stat().st_mode & 0o777 == 0o600
    assert int(samples[-1][0]) < (folder / REPORT).stat().st_mtime_ns  # not while nsys writes


@pytest.mark.gpu
@pytest.mark.usefixtures("nsys", "torch")
@pytest.mark.skipif(bool(NO_GPU), reason=f"needs a GPU: {NO_GPU}")
def test_a_real_gpu(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "--", sys.executable, "-c", MATMUL)
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    made = conditions_of(run)
    assert made is not None
    gpu = made.gpus[0]
    assert gpu.uuid.startswith("GPU-")
    assert gpu.name in run["gpus"]
    assert any(process.in_run and not process.began_before for process in gpu.processes)
    samples = [row for row in rows(tmp_path / "run" / CONDITIONS) if row[1] == "0"]
    assert gpu.samples == len(samples) >= 5
    for _, _, sm_mhz, memory_mhz, power_mw, temperature_c, reasons in samples:
        assert 0 < int(sm_mhz) <= (gpu.max_sm_mhz or 0)
        assert int(memory_mhz) > 0
        assert 0 < int(power_mw) < 2_000_000
        assert 0 < int(temperature_c) < 120
        assert int(reasons) >= 0
