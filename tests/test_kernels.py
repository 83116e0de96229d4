"""The sources in kernels/ compile without a warning, and the program `add` minds its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[1] / "kernels"


@pytest.fixture(scope="module")
def nvcc() -> str:
    path = shutil.which("nvcc")
    if path is None:
        pytest.skip("nvcc is not on PATH")
    return path


def compile_strictly(nvcc: str, *arguments: str) -> None:
    # sm_80: an architecture that CUDA 11, 12 and 13 all compile for without a warning.
    strict = ("-arch=sm_80", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")
    subprocess.run([nvcc, *strict, *arguments], check=True)


@pytest.fixture(scope="module")
def program(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("add") / "add"
    compile_strictly(nvcc, str(KERNELS / "add.cu"), "-o", str(path))
    return path


def run_program(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # No GPU is visible, whether the machine has one or not.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [str(program), *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["fastest"],
        ["grid", "1x1"],
        ["--n"],
        ["--n", "0"],
        ["--n", "-1"],
        ["--n", "1e6"],
        ["--n", "2147483648"],
        ["--n", "99999999999999999999"],
    ],
)
def test_the_program_refuses_bad_arguments(program: Path, arguments: list[str]) -> None:
    result = run_program(program, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: add [1x1|1x256|grid|prefetch] [--n N]")


@pytest.mark.parametrize("arguments", [[], ["1x1"], ["1x256"], ["grid"], ["prefetch", "--n", "10"]])
def test_the_program_without_a_gpu_names_the_call_that_failed(program: Path, arguments: list[str]) -> None:
    result = run_program(program, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    place, _, error = result.stderr.partition(": cudaMallocManaged(&data, n * sizeof(float)): ")
    assert place.rpartition(":")[0].endswith("add.cu")
    assert "CUDA" in error


def test_the_extension_s_kernel_compiles(nvcc: str, tmp_path: Path) -> None:
    compile_strictly(nvcc, "-c", str(KERNELS / "add2" / "add2.cu"), "-o", str(tmp_path / "add2.o"))
