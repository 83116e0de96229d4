"""The hook in the user's Python: it goes first, chains the next sitecustomize, and never stops a program."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nsyswrap
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.record.hooked import read

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
TELL = "import sys, json; print(json.dumps([sys.path, sorted(sys.modules), sys.meta_path.__len__()]))"
AT_CALL = "call:nowhere:absent"  # nothing of torch is touched
FAKE_TORCH = "print('torch runs')\nversion = 1\n"


def run(code: str, folder: Path, *, hooked: bool, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new Python. The test's folder is on PYTHONPATH, and the hook before it."""
    path = os.pathsep.join([*([str(HOOK)] if hooked else []), str(folder)])
    environment = {**os.environ, "PYTHONPATH": path, "NSYSWRAP_HOOK_NOTES": str(folder), **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def notes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("[0-9]*.json")]


@pytest.mark.parametrize("following", ["", "print('the next')\nMINE = 1\n", "import nothing_of_this_name\n"])
def test_python_is_as_without_us(tmp_path: Path, following: str) -> None:
    if following:
        (tmp_path / "sitecustomize.py").write_text(following)
    without, with_hook = (run(TELL, tmp_path, hooked=hooked) for hooked in (False, True))
    assert (with_hook.returncode, with_hook.stderr) == (without.returncode, without.stderr)
    before, after = (json.loads(done.stdout.splitlines()[-1]) for done in (without, with_hook))
    assert (after[0], after[2]) == (before[0], before[2])
    assert set(after[1]) - set(before[1]) <= {"nsyswrap_hook", "__future__"}
    assert ("the next" in with_hook.stdout) == ("the next" in following)


def test_the_next_sitecustomize_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("MINE = __file__\n")
    done = run("import sitecustomize; print(sitecustomize.MINE)", tmp_path, hooked=True)
    assert done.stdout == f"{tmp_path / 'sitecustomize.py'}\n"


def test_torch_is_noted_when_it_has_been_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    code = "import torch; print(torch.version, vars(torch.__loader__))"
    without, with_hook = (
        run(code, tmp_path, hooked=hooked, NSYSWRAP_HOOK_STEP_AT=AT_CALL) for hooked in (False, True)
    )
    assert (with_hook.stdout, with_hook.stderr) == (without.stdout, without.stderr)
    assert [sorted(one) for one in notes(tmp_path)] == [["pid", "torch"]]


def test_a_torch_that_cannot_be_imported_is_the_programs_affair(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no libtorch')\n")
    done = run("import torch", tmp_path, hooked=True, NSYSWRAP_HOOK_STEP_AT=AT_CALL)
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: no libtorch\n")
    assert "nsyswrap_hook" not in done.stderr.splitlines()[-2]
    assert [sorted(one) for one in notes(tmp_path)] == [["pid"]]


def test_a_failure_of_the_hook_is_noted_and_the_program_runs_on(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)  # it has no optimizers
    done = run("import torch; print('on')", tmp_path, hooked=True, NSYSWRAP_HOOK_STEPS="1-1")
    assert done.stdout == "torch runs\non\n"
    assert notes(tmp_path)[0]["failures"] == ["KeyError: 'torch.optim.optimizer'"]


def test_the_hook_needs_the_standard_library_alone() -> None:
    named: set[str] = set()
    for path in HOOK.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for node in ast.walk(tree):
            named |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            named |= {node.module or ""} if isinstance(node, ast.ImportFrom) and not node.level else set()
    assert {name.partition(".")[0] for name in named} - sys.stdlib_module_names == {
        "nsyswrap_hook",
        "sitecustomize",
    }


TORCH_WITH_MEMORY = """
class cuda:
    is_initialized = staticmethod(lambda: {initialized})
    device_count = staticmethod(lambda: 2)
    memory_stats = staticmethod(lambda gpu: {{}} if gpu else {stats})
"""
STATS = {
    "allocated_bytes.all.peak": 70,
    "reserved_bytes.all.peak": 90,
    "num_alloc_retries": 5,
    "num_ooms": 1,
    "other": 3,
}
NOTED = {"device": 0, "allocated_bytes": 70, "reserved_bytes": 90, "retries": 5, "failures": 1}


@pytest.mark.parametrize(
    ("initialized", "stats", "noted"),
    [
        (True, STATS, {"memory": [NOTED]}),
        (False, STATS, {}),
        (True, {"reserved_bytes.all.peak": 1}, {"failures": ["KeyError: 'allocated_bytes.all.peak'"]}),
    ],
)
def test_the_memory_of_pytorch_is_noted_at_the_end(
    tmp_path: Path, stats: dict[str, int], noted: dict[str, Any], *, initialized: bool
) -> None:
    (tmp_path / "torch.py").write_text(TORCH_WITH_MEMORY.format(initialized=initialized, stats=stats))
    done = run("import torch; print('ran')", tmp_path, hooked=True, NSYSWRAP_HOOK_MEMORY="1")
    assert (done.stdout, done.stderr) == ("ran\n", "")
    (facts,) = notes(tmp_path)
    assert {name: fact for name, fact in facts.items() if name != "pid"} == noted
    memory = [{"process_id": facts["pid"], **NOTED}]
    facts_of_run = read(tmp_path).facts(RecordingOptions(memory=True))
    assert facts_of_run.get("pytorch_memory", []) == (memory if "memory" in noted else [])
