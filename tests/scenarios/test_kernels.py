"""The sources in kernels/ compile without a warning, and their programs mind their arguments."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gpus_here import DEVICES, needs_gpu
from ran import ran
from scenario_scripts import load

from nsyswrap.record.in_program.script import summarize

KERNELS = Path(__file__).resolve().parents[2] / "kernels"

# What each program asks of the GPU first, when it is called without arguments.
FIRST_CALLS = {
    "copies": "cudaMalloc",
    "ladder_cuda": "cudaMallocHost",
    "storm": "cudaMalloc",
    "overlap": "cudaMallocHost",
    "p2p": "cudaGetDeviceCount",
}


def compile_strictly(nvcc: str, *arguments: str) -> None:
    # sm_80: an architecture that CUDA 11, 12 and 13 all compile for without a warning.
    strict = ("-arch=sm_80", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")
    subprocess.run([nvcc, *strict, *arguments], check=True)


@pytest.fixture(scope="module")
def add(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("add") / "add"
    compile_strictly(nvcc, str(KERNELS / "add.cu"), "-o", str(path))
    return path


@pytest.fixture(scope="module", params=FIRST_CALLS)
def program(request: pytest.FixtureRequest, nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One after the other every program on top of scenario.h but add."""
    path = tmp_path_factory.mktemp("programs") / str(request.param)
    compile_strictly(nvcc, str(KERNELS / f"{request.param}.cu"), "-o", str(path))
    return path


def run_program(program: Path, *arguments: str, gpu: bool = False) -> subprocess.CompletedProcess[str]:
    # Unless asked for no GPU is visible, whether the machine has one or not.
    environment = os.environ if gpu else {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return ran([str(program), *arguments], env=environment)


# The program add


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
def test_add_refuses_bad_arguments(add: Path, arguments: list[str]) -> None:
    result = run_program(add, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: add [1x1|1x256|grid|prefetch] [--n N]")


@pytest.mark.parametrize("arguments", [[], ["1x1"], ["1x256"], ["grid"], ["prefetch", "--n", "10"]])
def test_add_without_a_gpu_names_the_call_that_failed(add: Path, arguments: list[str]) -> None:
    result = run_program(add, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    place, _, error = result.stderr.partition(": cudaMallocManaged(&data, n * sizeof(float)): ")
    assert place.rpartition(":")[0].endswith("add.cu")
    assert "CUDA" in error


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("arguments", [[], ["1x1"], ["1x256"], ["prefetch"]])
def test_add_adds(add: Path, arguments: list[str]) -> None:
    result = run_program(add, *arguments, "--n", "10000", gpu=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Max error: 0\n", "")


# The other programs


@pytest.mark.parametrize(
    "arguments",
    [["fastest"], ["--warmup"], ["--warmup", "-1"], ["--warmup", "1e6"], ["--warmup", "2147483648"]],
)
def test_a_program_answers_bad_arguments_with_what_its_script_passes(
    program: Path, arguments: list[str]
) -> None:
    script = load(program.name)
    counts = " ".join(f"[--{name} N>={least}]" for name, (least, _, _) in script.COUNTS.items())
    result = run_program(program, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    expected = f"usage: {program.name} [{'|'.join(script.VARIANTS)}]... {counts}  (N: at most 2147483647)\n"
    assert result.stderr == expected


def test_a_program_takes_several_variants_and_its_counts(program: Path) -> None:
    script = load(program.name)
    counts = [part for name, (least, _, _) in script.COUNTS.items() for part in (f"--{name}", str(least))]
    # The arguments are fine: it is the GPU that is missing.
    assert run_program(program, *script.VARIANTS, *script.VARIANTS, *counts).returncode == 1


def test_a_program_without_a_gpu_names_the_call_that_failed_in_one_line(program: Path) -> None:
    result = run_program(program)
    assert (result.returncode, result.stdout) == (1, "")
    place, call, error = result.stderr.split(": ")
    assert place.partition(":")[0].endswith((f"{program.name}.cu", "scenario.h"))
    assert call.partition("(")[0] == FIRST_CALLS[program.name]
    assert "CUDA" in error
    assert error.count("\n") == 1


@pytest.mark.gpu
@needs_gpu
def test_a_program_on_a_gpu_ends_with_its_samples(program: Path) -> None:
    if program.name == "p2p" and len(DEVICES.names) < 2:
        assert run_program(program, gpu=True).returncode == 69
        return
    smaller = {"copies": ("--most", "4096"), "storm": ("--launches", "2000"), "overlap": ("--n", "100001")}
    result = run_program(program, "--warmup", "1", *smaller.get(program.name, ()), gpu=True)
    assert (result.returncode, result.stderr) == (0, "")
    said = json.loads(result.stdout)
    assert said["scenario"] == program.name
    assert said["warmup"] == 1
    assert list(dict.fromkeys(timing["variant"] for timing in said["timings"])) == list(
        load(program.name).VARIANTS
    )
    for timing in said["timings"]:
        assert timing["range"] == f"{timing['variant']}/{timing['operator']}"
        assert len(timing["samples_us"]) == said.get("iterations", said.get("repeat"))
        assert 0 < timing["min_us"] <= timing["median_us"] <= timing["max_us"]


@pytest.mark.gpu
@needs_gpu
def test_p2p_with_one_gpu_says_so_in_one_line(nvcc: str, tmp_path: Path) -> None:
    compile_strictly(nvcc, str(KERNELS / "p2p.cu"), "-o", str(tmp_path / "p2p"))
    result = ran([tmp_path / "p2p"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"})
    assert (result.returncode, result.stdout) == (69, "")
    assert result.stderr == "p2p: two GPUs are needed, and CUDA found one\n"


# What they share, in a program that needs no GPU

SHARED = """
#include <thread>

#include "scenario.h"

int main(int argc, char **argv) {
  int n = 1;
  scenario::Repeats repeats{2, 3};
  scenario::CommandLine line{
      "shared", {"one", "two"}, {{"n", 1, &n}, {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);
  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    std::string calls;
    const auto prepare = [&] {
      const scenario::Range range("prepare");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      calls += 'p';
    };
    timings.push_back(
        scenario::time_operation(variant, "copy 4 KiB", repeats, prepare, [&] { calls += 'o'; }));
    std::printf("%s\\n", calls.c_str());
  }
  timings.push_back({"one", "odd", 5, {3.0, 1.0, 10.5}});
  timings.push_back({"two", "even", 7, {2000000000.125, 0.001, 0.0, 4.0}});
  scenario::print_result(line, "GPU", 12010, timings);
  for (const std::size_t bytes : scenario::copy_sizes(n)) std::puts(scenario::sized("h2d", bytes).c_str());
}
"""


@pytest.fixture(scope="module")
def shared(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("shared") / "shared.cu"
    source.write_text(SHARED, encoding="utf-8")
    compile_strictly(nvcc, "-I", str(KERNELS), str(source), "-o", str(source.with_suffix("")))
    return source.with_suffix("")


def result_of(shared: Path, *arguments: str) -> dict[str, Any]:
    lines = run_program(shared, *arguments).stdout.splitlines()
    found: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
    return found


def test_a_sample_is_taken_of_every_operation_but_the_warm_up_s(shared: Path) -> None:
    assert run_program(shared, "one").stdout.splitlines()[0] == "po" * 5
    timed = result_of(shared, "one")["timings"][0]
    assert (timed["range"], timed["launches"], len(timed["samples_us"])) == ("one/copy 4 KiB", 5, 3)
    assert timed["median_us"] < 20000, "what prepares an operation is no part of its sample"


def test_variants_are_run_once_and_in_the_order_given(shared: Path) -> None:
    timings = result_of(shared, "two", "one", "two")["timings"]
    assert [timing["variant"] for timing in timings[:-2]] == ["two", "one"]


def test_the_result_has_the_keys_and_the_figures_that_python_gives_it(shared: Path) -> None:
    result = result_of(shared, "one", "--n", "7")
    *_, odd, even = result.pop("timings")
    assert result == {"scenario": "shared", "n": 7, "iterations": 3, "device": "GPU", "cuda": "12.1"}
    samples = [3e-6, 1e-6, 10.5e-6]
    assert odd == summarize("one", "odd", samples, span="one/odd", launches=5)
    samples = [2000.000000125, 1e-9, 0.0, 4e-6]
    assert even == summarize("two", "even", samples, span="two/even", launches=7)


def test_blocks_are_named_by_their_size(shared: Path) -> None:
    assert run_program(shared, "--n", "4096").stdout.splitlines()[3:] == [
        "h2d 4 KiB",
        "h2d 64 KiB",
        "h2d 1 MiB",
        "h2d 4 MiB",
    ]
    assert run_program(shared, "--n", "3").stdout.splitlines()[3:] == []


def test_nsys_sees_a_range_for_each_sample_and_one_for_the_warm_up(
    shared: Path, nsys: str, tmp_path: Path
) -> None:
    command = [nsys, "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--export=sqlite"]
    done = subprocess.run(
        [*command, f"--output={tmp_path}/ranges", str(shared), "two"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    with closing(sqlite3.connect(tmp_path / "ranges.sqlite")) as export:
        names = "coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
        ranges = export.execute(f"SELECT start, end, {names} WHERE end > 0 ORDER BY start").fetchall()
    warm_up = ["warm-up two/copy 4 KiB", "prepare", "prepare"]
    assert [name for _, _, name in ranges] == [*warm_up, *["prepare", "two/copy 4 KiB"] * 3]
    # The warm-up's holds two, the others follow on one another.
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(ranges[1:]))


def test_the_extension_s_kernel_compiles(nvcc: str, tmp_path: Path) -> None:
    compile_strictly(nvcc, "-c", str(KERNELS / "add2" / "add2.cu"), "-o", str(tmp_path / "add2.o"))
