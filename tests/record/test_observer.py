"""The conditions of a run: samples of fake GPUs, of real ones where there are some, and run.json."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from conftest import Cli
from fake_nvml import FakeGpu, FakeNvml, sample_rows, use
from gpus_here import NO_GPU

from nsyswrap.base.run_facts import Conditions, conditions_of
from nsyswrap.base.run_folder import CONDITIONS, REPORT, RunFolder
from nsyswrap.record.conditions import nvml, observer
from nsyswrap.record.conditions.observer import Observer, folder_of
from nsyswrap.record.program import Program, RunSpec, resolve
from nsyswrap.record.run import execute

TOKEN = uuid.uuid4().hex
# It keeps its CUDA context for two seconds, as the processes are queried once a second.
MATMUL = """
import time, torch
a = torch.randn(2048, 2048, device="cuda")
end = time.monotonic() + 2
while time.monotonic() < end:
    a @ a
    torch.cuda.synchronize()
"""


def observing(folder: Path) -> Observer:
    """An observer of a run; no program runs."""
    spec = RunSpec(Program((sys.executable, "train.py"), "train"), folder)
    return Observer(spec, TOKEN, folder / CONDITIONS)


def observed(folder: Path) -> Conditions:
    """The conditions of a run that ends at once."""
    with observing(folder) as made:
        pass
    return made.conditions()


def test_a_hanging_driver_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu())
    use(monkeypatch, library)
    monkeypatch.setattr(observer, "versions", lambda *_: {})
    samples = tmp_path / CONDITIONS
    with observing(tmp_path) as made:
        while not samples.exists() or samples.read_text().count("\n") <= 1:  # only the header
            time.sleep(0.01)
        library.answers.clear()
        library.hangs.wait()
    conditions = made.conditions()  # while the driver hangs
    assert conditions.gpus[0].samples == len(sample_rows(samples)) > 0
    library.answers.set()  # the driver answers too late
    while library.is_open:
        time.sleep(0.01)
    assert made.conditions().gpus == conditions.gpus


def test_a_driver_that_hangs_from_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(nvml, "load", lambda: hangs.wait() and None)
    assert observed(tmp_path).gpus == ()
    hangs.set()


def test_without_threads_there_are_no_conditions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = observed(tmp_path)
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
    samples = sample_rows(folder / CONDITIONS)
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
    samples = [row for row in sample_rows(tmp_path / "run" / CONDITIONS) if row[1] == "0"]
    assert gpu.samples == len(samples) >= 5
    for _, _, sm_mhz, memory_mhz, power_mw, temperature_c, reasons in samples:
        assert 0 < int(sm_mhz) <= (gpu.max_sm_mhz or 0)
        assert int(memory_mhz) > 0
        assert 0 < int(power_mw) < 2_000_000
        assert 0 < int(temperature_c) < 120
        assert int(reasons) >= 0


@pytest.mark.parametrize(
    ("argv", "folder"),
    [
        ((sys.executable, "src/train.py", "x.py"), "src"),
        (("/opt/python3.11", "-u", "/a/b/train.py"), "/a/b"),
        (("python", "train.py"), "."),
        (("python", "-m", "package.train", "src/x.py"), "."),
        (("python",), "."),
        (("build/app", "src/x.py"), "."),
    ],
)
def test_the_folder_of_a_program(argv: tuple[str, ...], folder: str) -> None:
    assert folder_of(Program(argv, "it")) == Path(folder)


def test_the_folder_of_a_cu_file() -> None:
    assert folder_of(Program(("/cache/add",), "add", folder=Path("kernels"))) == Path("kernels")
