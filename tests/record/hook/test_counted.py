"""What ends a step of a PyTorch program, and what is marked around it. A GPU is not needed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nsyswrap

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
PROGRAMS = Path(__file__).with_name("counted_programs.py")
LAST = 3  # a program's marks end with its number after the step


def run(*words: str) -> list[list[Any]]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "NVTX_INJECTION64_PATH": ""}
    command = [sys.executable, str(PROGRAMS), str(HOOK), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def counted(torch: object) -> dict[str, tuple[list[object], dict[str, object]]]:
    assert torch
    return {name: (marks, facts) for name, marks, facts in run()}


def steps(first: int, last: int, between: dict[int, list[object]], end: list[object]) -> list[object]:
    """Return the marks of recorded steps; ``between`` has what the program marks in each."""
    marks: list[object] = [f"+steps {first}-{last}"]
    for number in range(first, last + 1):
        marks += [f"+step {number}", *between.get(number, ()), f"-step {number}"]
    return [*marks, f"-steps {first}-{last}", *end]


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("accumulation", steps(1, 2, {1: [0], 2: [1]}, [2, 3])),
        ("first_step", [-1, *steps(0, 0, {}, [0, 1])]),  # it begins with the first forward
        ("two_optimizers", [100, *steps(1, 1, {1: [0, 101]}, [1, 102, 2])]),
        ("unhooked", steps(1, 2, {1: [0], 2: [1]}, [2, 3])),
        ("closures", steps(0, 1, {1: [0]}, [1, 2])),
        ("scaler", steps(1, 2, {1: [0], 2: [1]}, [2, 3])),  # steps 0 and 2 are skipped by the scaler
        ("graph", steps(1, 2, {1: ["replay", "replay"], 2: [0, "replay", "replay"]}, [1])),
        ("modules", steps(1, 2, {1: [0], 2: [1]}, [2, 3])),
        ("failing_module", steps(1, 1, {1: ["failed", 0]}, [1, 2])),
        ("worker", steps(1, 1, {1: [0]}, [])),
    ],
)
def test_where_steps_end(
    counted: dict[str, tuple[list[object], dict[str, object]]], name: str, marks: list[object]
) -> None:
    own, facts = counted[name]
    assert own == marks
    assert facts["failures"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("torch")
def test_the_compiler_does_the_same_with_the_hook() -> None:
    with_hook, without, _ = (marks for _, marks, _ in run("compiled"))
    assert with_hook[0] == without[0]
    assert (with_hook[1] > 0, without[1]) == (True, 0)
