"""The screens of ``--nvcc``: a program that is built or cannot be built, and options that are refused."""

from pathlib import Path

import pytest
from conftest import Cli

import nsyswrap
from nsyswrap.base.errors import UsageError

MAIN = """
#include <cstdio>
__global__ void kernel() {}
int answer();
int main() { int unused; std::printf("%d\\n", answer()); }
"""


@pytest.fixture(autouse=True)
def sources(tmp_path: Path) -> Path:
    (tmp_path / "main.cu").write_text(MAIN)
    (tmp_path / "answer.cpp").write_text("int answer() { return ANSWER; }")
    return tmp_path


@pytest.mark.usefixtures("nsys", "nvcc")
def test_a_program_of_two_sources_runs_and_the_warnings_are_noted(cli: Cli, tmp_path: Path) -> None:
    options = "-arch=sm_90 -DANSWER=42 answer.cpp"
    done = cli("profile", "-o", "run", "--nvcc", options, "main.cu", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42\n")
    assert done.stderr.startswith("nsyswrap: nvcc built main.cu and printed:\nmain.cu(5): warning #177-D:")


def test_a_source_that_does_not_compile(cli: Cli, nvcc: str, tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text("int main() { return undeclared; }")
    done = cli("profile", "--arch", "sm_90", "--nvcc", "-I 'my inc'", "main.cu")
    first, second, *_, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first == "nsyswrap: nvcc could not build main.cu:"
    assert second == 'main.cu(1): error: identifier "undeclared" is undefined'
    assert last == f"  {nvcc} main.cu -O3 -lineinfo -I 'my inc' -arch=sm_90 -o main"
    assert not (tmp_path / "nsyswrap-runs").exists()


@pytest.mark.parametrize(
    ("options", "program", "message"),
    [
        (
            "-lm -c",
            "main.cu",
            "--nvcc: -c cannot be used: nsyswrap builds a program and runs it\n  give sources,",
        ),
        ("-lm", "train.py", "--nvcc needs a .cu file as PROGRAM, not train.py\n  further sources are given"),
        ("-I 'my", "main.cu", '--nvcc "-I \'my" cannot be split into words: No closing quotation\n'),
    ],
)
def test_options_that_cannot_be_used(cli: Cli, options: str, program: str, message: str) -> None:
    for command, where in (("profile",), ""), (("batch", "sweep"), "sweep: "):
        done = cli(*command, "--dry-run", "--nvcc", options, program)
        assert (done.returncode, done.stdout) == (2, "")
        prefix = "" if "quotation" in message else where
        assert done.stderr.startswith(f"nsyswrap: {prefix}{message}")


def test_a_sweep_over_a_constant_of_the_source(cli: Cli) -> None:
    done = cli("batch", "sweep", "--dry-run", "-p", "n=1,2", "--nvcc", "-DANSWER={n} -lm", "--", "main.cu")
    assert done.stdout.splitlines() == [
        "00001-n=1: --nvcc '-DANSWER=1 -lm' main.cu",
        "00002-n=2: --nvcc '-DANSWER=2 -lm' main.cu",
    ]


def test_python_takes_the_same_options() -> None:
    with pytest.raises(UsageError, match="--nvcc: -ptx cannot be used"):
        nsyswrap.profile("main.cu", nvcc="-lm -ptx")
    with pytest.raises(UsageError, match="--nvcc: -ptx cannot be used"):
        nsyswrap.profile("main.cu", nvcc=["-lm", "-ptx"])


def test_the_short_form_for_an_architecture_is_not_in_the_help(cli: Cli) -> None:
    assert "--arch" not in cli("profile", "--help").stdout
