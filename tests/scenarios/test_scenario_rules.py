"""scenarios/rules.py: the program, and what nsys' rules find in its recorded runs."""

import subprocess
from pathlib import Path

import pytest
from gpus_here import NO_GPU, needs_gpu
from nsys_says import RULES
from recorded import run_folder

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.record.nvcc import compile_cuda
from nsyswrap.record.scenarios import find_scenario, kernels_dir, measured

STEPS = 3  # of the recorded runs: one to warm up, two timed


@pytest.fixture(scope="module")
def program(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 - skips without nvcc
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return compile_cuda(kernels_dir() / "rules.cu", arch=None if not NO_GPU else "sm_80")


@pytest.fixture
def wasteful(tmp_path: Path) -> CaptureReader:
    return open_capture(run_folder("rules/wasteful", tmp_path))


@pytest.fixture
def careful(tmp_path: Path) -> CaptureReader:
    return open_capture(run_folder("rules/careful", tmp_path))


# The program


def test_it_names_its_variants_and_counts(program: Path) -> None:
    said = subprocess.run([program, "?"], capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert said.stderr.startswith(f"usage: rules [{'|'.join(find_scenario('rules').variants)}]...")
    for count, (least, _, _) in find_scenario("rules").constants["COUNTS"].items():
        assert f"[--{count} N>={least}]" in said.stderr


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")
def test_without_a_gpu_it_names_the_call_that_failed(program: Path) -> None:
    done = subprocess.run([program, "careful"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "scenario.h" in done.stderr


@pytest.mark.gpu
@needs_gpu
def test_both_variants_find_their_words_weighed(program: Path) -> None:
    command = [str(program), "--kib", "65", "--iterations", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The recorded runs


def test_every_rule_finds_something_in_wasteful(wasteful: CaptureReader) -> None:
    assert [rule for rule in RULES if not len(wasteful.report(rule).frame)] == []


def test_what_the_rules_find_are_the_calls_of_each_step(wasteful: CaptureReader) -> None:
    found = {rule: len(wasteful.report(rule).frame) for rule in RULES[:-1]}
    calls = {"cuda_memcpy_async": 1, "cuda_memcpy_sync": 4, "cuda_memset_sync": 2, "cuda_api_sync": 3}
    assert found == {**{rule: count * STEPS for rule, count in calls.items()}, "gpu_gaps": STEPS}


def test_copies_of_both_kinds_of_memory_are_found_in_both_directions(wasteful: CaptureReader) -> None:
    frame = wasteful.report("cuda_memcpy_sync").frame
    host = {"Pageable", "Pinned"}
    assert set(zip(frame["src_kind"], frame["dst_kind"], strict=True)) == (
        {(kind, "Device") for kind in host} | {("Device", kind) for kind in host}
    )
    assert set(wasteful.report("cuda_memset_sync").frame["mem_kind"]) == {"Managed", "Pinned"}


def test_in_careful_only_the_use_of_the_gpu_is_left(careful: CaptureReader) -> None:
    found = {rule for rule in RULES if len(careful.report(rule).frame)}
    assert found <= {"gpu_time_util"}


def test_careful_is_faster_by_more_than_the_sleeps(tmp_path: Path) -> None:
    medians = {}
    for variant in find_scenario("rules").variants:
        [timing] = measured(run_folder(f"rules/{variant}", tmp_path))["timings"]
        medians[variant] = timing["median_us"]
    assert medians["wasteful"] > 600_000 > medians["careful"]
