"""Comparisons of real runs on a real GPU: equal programs, a slower kernel, another launch, a busy GPU.

The tests of the gate leave each comparison as JSON beside its runs: ``pytest -k gate --basetemp FOLDER``.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli
from gpus_here import ON_A_GPU

pytestmark = ON_A_GPU
# Twenty kernels, each launched in every step. One can be slower by a share of its loop, one can be added.
PROGRAM = r"""
#include <cstdlib>
#include <utility>

template <int K> __global__ void work(float *x, int rounds) {
  float v = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) v = v * 1.0001f + 0.5f;
  x[threadIdx.x] = v;
}

template <int K> void launch(float *x, int slow, int percent) {
  const int rounds = 10000 + 500 * K;
  work<K><<<1, 128>>>(x, K == slow ? rounds + rounds * percent / 100 : rounds);
}

template <int... K> void each(float *x, int slow, int percent, std::integer_sequence<int, K...>) {
  (launch<K>(x, slow, percent), ...);
}

int main(int argc, char **argv) {
  const int slow = std::atoi(argv[1]), percent = std::atoi(argv[2]), steps = std::atoi(argv[3]);
  float *x;
  if (cudaMalloc(&x, 4096) != cudaSuccess) return 1;
  cudaMemset(x, 0, 4096);
  for (int step = 0; step < steps; ++step) {
    each(x, slow, percent, std::make_integer_sequence<int, 20>());
    if (argc > 4) work<99><<<1, 128>>>(x, 10000);
    cudaDeviceSynchronize();
  }
  return cudaGetLastError() != cudaSuccess;
}
"""
EQUAL = ("-1", "0", "200")


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> str:
    folder = tmp_path_factory.mktemp("twenty")
    (folder / "twenty.cu").write_text(PROGRAM)
    subprocess.run([nvcc, "-std=c++17", "-arch=native", "-o", "twenty", "twenty.cu"], cwd=folder, check=True)
    return str(folder / "twenty")


def compared(cli: Cli, folder: Path, base: tuple[str, ...], new: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON of five runs a side of two command lines, recorded in turns."""
    done = cli("compare", "--run", "5", "--into", folder, "--format", "json", "--", *base, "--", *new)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rows(comparison: dict[str, Any], *outcomes: str) -> list[tuple[str, str]]:
    """Return group and name of the rows with one of these outcomes."""
    return [(row["group"], row["name"]) for row in comparison["rows"] if row["outcome"] in outcomes]


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_a_program_and_itself(cli: Cli, tmp_path: Path, twenty: str, attempt: int) -> None:
    comparison = compared(cli, tmp_path / f"runs-{attempt}", (twenty, *EQUAL), (twenty, *EQUAL))
    assert rows(comparison, "slower", "faster", "clock") == []
    assert not [row for row in comparison["rows"] if row["group"] == "kernel" and not row["base_count"]]


def test_one_slower_kernel_of_twenty_is_named_and_only_it(cli: Cli, tmp_path: Path, twenty: str) -> None:
    comparison = compared(cli, tmp_path / "runs", (twenty, *EQUAL), (twenty, "7", "12", "200"))
    kernels = [name for group, name in rows(comparison, "slower") if group == "kernel"]
    assert len(kernels) == 1
    assert "work<(int)7>" in kernels[0] or "work<7>" in kernels[0]
    assert rows(comparison, "faster") == []
    (change,) = [row["change_percent"] for row in comparison["rows"] if row["name"] == kernels[0]]
    assert change == pytest.approx(12, abs=3)


def test_a_kernel_that_is_added_or_removed_is_listed(cli: Cli, tmp_path: Path, twenty: str) -> None:
    more = (twenty, *EQUAL, "more")
    for base, new, count in (((twenty, *EQUAL), more, "new_count"), (more, (twenty, *EQUAL), "base_count")):
        comparison = compared(cli, tmp_path / count, base, new)
        of_one = [row for row in comparison["rows"] if row["group"] == "kernel" and "99" in row["name"]]
        assert [row[count] for row in of_one] == [200]
        assert any(
            f"1 kernel {'added' if count == 'new_count' else 'removed'}" in text
            for text in comparison["counts"]
        )


def test_another_grid_is_found_with_its_factor(cli: Cli, tmp_path: Path) -> None:
    # Not "grid": the kernel then waits for pages, up to 2.5 times as long in one run as in the next.
    program = str(ROOT / "kernels" / "add.cu")
    comparison = compared(cli, tmp_path / "runs", (program, "1x256"), (program, "prefetch"))
    (add,) = [row for row in comparison["rows"] if row["group"] == "kernel"]
    assert add["outcome"] == "faster"
    factor = add["new_total_ns"] / add["base_total_ns"]
    assert 1 + add["change_percent"] / 100 == pytest.approx(factor, rel=0.3)
    assert add["renamed_from_detail"] == "grid 1 1 1, block 256 1 1"


def test_a_second_process_on_the_gpu_cannot_be_compared(cli: Cli, tmp_path: Path, twenty: str) -> None:
    # NVML is asked ten times a second: both programs last longer.
    for name in ("base", "new"):
        beside = subprocess.Popen([twenty, "-1", "0", "100000"]) if name == "new" else None
        try:
            done = cli("profile", "--no-stats", "-o", tmp_path / name, twenty, "-1", "0", "2000")
        finally:
            if beside:
                beside.kill()
                beside.wait()
        assert done.returncode == 0, done.stderr
    done = cli("compare", tmp_path / "base", tmp_path / "new")
    assert done.returncode == 65
    assert "process" in done.stderr


# Steps of four kernels. A step can stall, a kernel can have another name, and the host can run ahead.
LOOP = r"""
#include <chrono>
#include <string>
#include <thread>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#define nvtxRangePushA(name)
#define nvtxRangePop()
#endif

template <int K> __global__ void work(float *x, int rounds) {
  float v = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) v = v * 1.0001f + 0.5f;
  x[threadIdx.x] = v;
}

__global__ void other(float *x, int rounds) {
  float v = x[threadIdx.x];
  for (int i = 0; i < rounds; ++i) v = v * 1.0001f + 0.5f;
  x[threadIdx.x] = v;
}

int main(int argc, char **argv) {
  const std::string mode = argv[1];
  const int rounds = mode == "ahead-twice" ? 40000 : 20000;
  const bool ahead = mode.rfind("ahead", 0) == 0;
  float *x;
  if (cudaMalloc(&x, 4096) != cudaSuccess) return 1;
  cudaMemset(x, 0, 4096);
  for (int step = 0; step < 120; ++step) {
    nvtxRangePushA("step");
    work<0><<<1, 128>>>(x, rounds);
    work<1><<<2, 128>>>(x, rounds + 2000);
    if (mode == "renamed") other<<<3, 128>>>(x, 2 * rounds);
    else work<2><<<3, 128>>>(x, rounds);
    work<3><<<4, 128>>>(x, rounds - 2000);
    if (!ahead) cudaDeviceSynchronize();
    if (mode == "stall" && step % 10 == 9) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    nvtxRangePop();
  }
  cudaDeviceSynchronize();
  return cudaGetLastError() != cudaSuccess;
}
"""


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> str:
    folder = tmp_path_factory.mktemp("loop")
    (folder / "loop.cu").write_text(LOOP)
    subprocess.run([nvcc, "-std=c++17", "-arch=native", "-o", "loop", "loop.cu"], cwd=folder, check=True)
    return str(folder / "loop")


def gated(
    cli: Cli, folder: Path, base: tuple[str, ...], new: tuple[str, ...], *options: str
) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a gate over five runs a side, and the JSON of the comparison."""
    into = ("--into", folder / "runs", "--format", "json", "-o", folder / "comparison.json")
    done = cli("compare", "--run", "5", "--gate", "--strict", *options, *into, "--", *base, "--", *new)
    print(done.stderr)
    return done.returncode, json.loads((folder / "comparison.json").read_text())


@pytest.mark.parametrize("mode", ["plain", "ahead"])
def test_the_gate_never_fails_equal_runs(cli: Cli, tmp_path: Path, loop: str, mode: str) -> None:
    code, _ = gated(cli, tmp_path, (loop, mode), (loop, mode))
    assert code in (0, 3)


def test_the_gate_sees_a_stall_in_each_tenth_step(cli: Cli, tmp_path: Path, loop: str) -> None:
    code, _ = gated(cli, tmp_path, (loop, "plain"), (loop, "stall"))
    assert code == 1


def test_the_gate_sees_a_kernel_that_is_renamed_and_slower(cli: Cli, tmp_path: Path, loop: str) -> None:
    code, _ = gated(cli, tmp_path, (loop, "plain"), (loop, "renamed"), "--metric", "kernels")
    assert code == 1


def test_the_gate_sees_twice_the_work_of_a_host_that_runs_ahead(cli: Cli, tmp_path: Path, loop: str) -> None:
    code, comparison = gated(cli, tmp_path, (loop, "ahead"), (loop, "ahead-twice"))
    assert code == 1
    assert comparison["outcome"] == "slower"
    assert comparison["headline"]["change_percent"] == pytest.approx(100, abs=15)
