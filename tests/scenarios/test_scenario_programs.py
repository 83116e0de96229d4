"""The scripts of scenarios that are CUDA programs: what they hand to the program, and how they build it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from scenario_scripts import SCENARIOS, load

# What the program is given where nothing is asked for.
DEFAULTS = {
    "copies": "pageable pinned managed prefetch faults --most 65536 --warmup 2 --iterations 10",
    "storm": "empty busy --launches 20000 --warmup 1 --repeat 3",
    "overlap": "one_stream four_streams --n 16777216 --chunks 8 --warmup 2 --iterations 10",
    "p2p": "direct staged host --most 65536 --warmup 2 --iterations 10",
    "rules": "wasteful careful --kib 4096 --warmup 1 --iterations 2",
}
each = pytest.mark.parametrize("name", DEFAULTS)


def run(name: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCENARIOS / f"{name}.py", *arguments],
        env={**os.environ, "PYTHONPATH": str(SCENARIOS.parent), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def echo() -> str:
    """A program that prints its arguments, in place of the one that the script would have built."""
    path = shutil.which("echo")
    assert path
    return path


@each
def test_the_program_is_given_all_variants_and_every_count(name: str, echo: str) -> None:
    assert run(name, "--built", echo).stdout == f"{DEFAULTS[name]}\n"


@each
def test_the_program_is_given_what_was_asked_for(name: str, echo: str) -> None:
    script = load(name)
    first, *_, last = script.VARIANTS
    asked = {count: str(default + 1) for count, (_, default, _) in script.COUNTS.items()}
    flags = [part for count, value in asked.items() for part in (f"--{count}", value)]
    variants = ["--variant", last, "--variant", first, "--variant", last]
    assert run(name, "--built", echo, *variants, *flags).stdout.split() == [last, first, *flags]


@each
@pytest.mark.slow
def test_a_count_that_is_too_small_is_a_usage_error(name: str, echo: str) -> None:
    counts: Mapping[str, tuple[int, int, str]] = load(name).COUNTS
    for count, (least, _, _) in [*counts.items()][-1:]:  # the others are checked by the same code
        result = run(name, "--built", echo, f"--{count}", str(least - 1))
        assert (result.returncode, result.stdout) == (2, "")
        assert f"argument --{count}: must be at least {least}" in result.stderr


@each
def test_the_script_becomes_the_program(name: str, tmp_path: Path) -> None:
    """Under nsys the process that uses CUDA must be the one that nsys started."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "$$"\nexit 3\n', encoding="utf-8")
    program.chmod(0o755)
    command = [sys.executable, str(SCENARIOS / f"{name}.py"), "--built", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(SCENARIOS.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert (process.returncode, int(said)) == (3, process.pid)


@pytest.mark.parametrize("name", ["p2p"])  # test_kernels.py compiles them all
@pytest.mark.usefixtures("nvcc")
def test_build_compiles_the_program_of_that_name_and_runs_nothing(name: str, tmp_path: Path) -> None:
    built = run(name, "--build", "--arch", "sm_80,sm_90", XDG_CACHE_HOME=str(tmp_path))
    assert built.returncode == 0, built.stderr
    program = Path(built.stdout.splitlines()[-1])
    assert program.name == name
    assert program.is_relative_to(tmp_path)
    # That it is the right program shows in its usage.
    said = subprocess.run([program, "?"], capture_output=True, text=True, check=False).stderr
    assert said.startswith(f"usage: {name} [{'|'.join(load(name).VARIANTS)}]...")
    if tool := cuobjdump():
        listed = subprocess.run([tool, "--list-elf", "--list-ptx", program], capture_output=True, check=True)
        code = re.findall(r"\.(sm_\d+)\.(cubin|ptx)", listed.stdout.decode())
        assert set(code) == {("sm_80", "cubin"), ("sm_90", "cubin"), ("sm_90", "ptx")}


def cuobjdump() -> str | None:
    """Return the path of the tool, which Triton brings along as well."""
    if found := shutil.which("cuobjdump"):
        return found
    triton = importlib.util.find_spec("triton")
    folders = triton.submodule_search_locations if triton else None
    return shutil.which("cuobjdump", path=f"{folders[0]}/backends/nvidia/bin") if folders else None


@each
@pytest.mark.usefixtures("nvcc")
def test_without_a_gpu_to_compile_for_it_says_how_to_name_one(name: str) -> None:
    result = run(name, CUDA_VISIBLE_DEVICES="")
    assert (result.returncode, result.stdout) == (69, "")
    assert result.stderr.startswith(f"{name}: no GPU to compile for")
    assert result.stderr.count("\n") == 1
