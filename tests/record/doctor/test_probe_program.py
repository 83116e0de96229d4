"""The probe's program: on a stand-in for the driver that computes on the CPU, and on a real GPU."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fake_cuda
import pytest
from gpus_here import needs_gpu
from ran import ran

from nsyswrap.record.doctor.programs import probe


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_cuda.build(tmp_path_factory.mktemp("driver"))


def run(device: str, **variables: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return ran([sys.executable, "-I", probe.__file__, device], env=environment)


def test_it_does_what_it_says(driver: Path, tmp_path: Path) -> None:
    done = run("gpu", LD_LIBRARY_PATH=driver, FAKE_CUDA_COUNTS=tmp_path / "counts")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    counts = Counter((tmp_path / "counts").read_text().split())
    assert counts["cuLaunchKernel"] == probe.ROUNDS
    assert counts["cuMemcpyHtoD_v2"] + counts["cuMemcpyDtoH_v2"] == probe.COPIES


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"FAKE_CUDA_WRONG": "1"}, "the sum on the GPU differs from the CPU's"),
        ({"FAKE_CUDA_FAILS": "cuInit"}, "cuInit returned CUDA error 700"),
        ({"FAKE_CUDA_FAILS": "cuLaunchKernel"}, "cuLaunchKernel returned CUDA error 700"),
    ],
)
def test_what_fails_is_one_line(driver: Path, variables: dict[str, str], message: str) -> None:
    done = run("gpu", LD_LIBRARY_PATH=driver, **variables)
    assert (done.returncode, done.stderr) == (1, f"{message}\n")


def test_without_a_gpu_it_works_on_the_cpu() -> None:
    assert run("cpu").returncode == 0


@pytest.mark.gpu
@needs_gpu
def test_on_a_real_gpu() -> None:
    assert (run("gpu").returncode, run("gpu").stderr) == (0, "")
