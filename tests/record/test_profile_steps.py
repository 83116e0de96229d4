"""``profile --steps`` with the real nsys: it records these steps alone, and says why there are none."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

from nsyswrap.base.run_folder import EXPORT, RUN, STATUS

LOOP = """
import sys, os
sys.path.insert(0, "{folder}")
import work, nvtx
for number in range(int(sys.argv[1])):
    with nvtx.annotate(f"number {{number}}"):
        work.do()
print("after", "torch" in sys.modules, flush=True)
os._exit(int(sys.argv[2]))
"""
TRAIN = """
import os, sys, torch
torch.set_num_threads(1)
is_parallel = "RANK" in os.environ
model = torch.nn.Linear(8, 8)
if is_parallel:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters())
for number in range(int(sys.argv[1])):
    model(torch.ones(8)).sum().backward()
    optimizer.step()
if is_parallel:
    torch.distributed.destroy_process_group()
"""
QUERY = """
SELECT coalesce(e.text, s.value) FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE eventType IN (59, 60) ORDER BY start, end DESC
"""
AT_CALL = ("--step-at", "call:work:do")
OPTIONS = ("--no-stats", "-o", "run")


@pytest.fixture(autouse=True)
def programs(nsys: str, tmp_path: Path) -> None:
    assert nsys
    (tmp_path / "work.py").write_text("def do(): pass\n")
    (tmp_path / "loop.py").write_text(LOOP.format(folder=tmp_path))
    (tmp_path / "train.py").write_text(TRAIN)


def ranges(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / EXPORT)) as db:
        return [text for (text,) in db.execute(QUERY)]


def counted(folder: Path) -> dict[str, Any]:
    steps: dict[str, Any] = json.loads((folder / RUN).read_text())["steps"]
    return steps


def test_these_steps_alone_are_recorded_and_the_program_runs_on(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", *OPTIONS, "--steps", "2-4", *AT_CALL, "--trace", "cuda", "loop.py", "8", "5")
    assert done.returncode == 5
    assert done.stdout.startswith("after False\n")
    # A step ends with the call: the program's own range ends in the next one.
    own = ["step 2", "number 2", "step 3", "number 3", "step 4", "number 4"]
    assert ranges(tmp_path / "run") == ["steps 2-4", *own]
    assert counted(tmp_path / "run") == {"counted": 8, "first": 2, "last": 4}
    facts = json.loads((tmp_path / "run" / RUN).read_text())["nsys"]
    assert (facts["steps"], facts["capture_range"]) == ("2-4", "nvtx:steps 2-4@nsyswrap")


def test_then_stop_ends_the_program(tmp_path: Path, cli: Cli) -> None:
    options = ("--steps", "1", *AT_CALL, "--then-stop")
    done = cli("profile", *OPTIONS, *options, "loop.py", "100000000", "5")
    assert done.returncode == 0
    assert "after" not in done.stdout
    assert json.loads((tmp_path / "run" / STATUS).read_text())["program_code"] is None
    assert {"first": 1, "last": 1}.items() <= counted(tmp_path / "run").items()


def test_a_program_that_crashes_has_the_steps_until_there(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", *OPTIONS, "--steps", "2-9", *AT_CALL, "loop.py", "5", "3")
    assert done.returncode == 3
    words = "loop ended with exit code 3; recorded steps 2-4 of 2-9: loop ended after 5 steps"
    assert words in done.stderr
    assert counted(tmp_path / "run") == {"counted": 5, "first": 2, "last": None}


@pytest.mark.parametrize(
    ("options", "program", "words"),
    [
        (
            AT_CALL,
            ("loop.py", "3", "0"),
            "loop ended after 3 steps\n  steps are numbered from 0: choose from 0-2",
        ),
        ((), ("sh", "-c", "true"), "no Python loaded nsyswrap's hook\n  it is loaded by PYTHONPATH"),
    ],
)
def test_exit_code_70_says_why_no_step_was_recorded(
    tmp_path: Path, cli: Cli, options: tuple[str, ...], program: tuple[str, ...], words: str
) -> None:
    done = cli("profile", *OPTIONS, "--steps", "7", *options, "--", *program)
    assert done.returncode == 70
    assert done.stderr.startswith(f"nsyswrap: steps 7 were not recorded: {words}")
    assert counted(tmp_path / "run")["first"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [(AT_CALL, "after 3 steps, before step 7 began"), ((), "before step 7 began")],
)
def test_a_program_that_fails_before_its_steps_is_no_failure_of_nsys(
    tmp_path: Path, cli: Cli, options: tuple[str, ...], words: str
) -> None:
    done = cli("profile", *OPTIONS, "--steps", "7", *options, "loop.py", "3", "5")
    assert done.returncode == 5
    assert done.stderr.startswith(f"nsyswrap: loop ended with exit code 5 {words}\n")
    status = json.loads((tmp_path / "run" / STATUS).read_text())
    assert (status["outcome"], status["program_code"]) == ("program_failed", 5)


@pytest.mark.slow
@pytest.mark.usefixtures("torch")
def test_all_ranks_record_the_same_steps(tmp_path: Path, environment: dict[str, str]) -> None:
    """One nsys for each rank; gloo takes the place of NCCL."""
    own = ["-m", "nsyswrap", "profile", *OPTIONS, "--steps", "1-2", "train.py", "5"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    variables = {**environment, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, sys.executable, *own]
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True)
    for rank in ("rank-0", "rank-1"):
        assert ranges(tmp_path / "run" / rank) == ["steps 1-2", "step 1", "step 2"]
        assert counted(tmp_path / "run" / rank) == {"counted": 5, "first": 1, "last": 2}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps", "4-2"), "invalid --steps '4-2': expected steps, for example 10-13"),
        (("--steps", "epoch/3"), "invalid --steps 'epoch/3'"),
        (("--steps", "1", "--delay", "2"), "--steps cannot be used with --delay"),
        (("--steps", "1", "--capture-range", "nvtx:a"), "--steps cannot be used with --capture-range"),
        (("--step-at", "module"), "--step-at needs the steps to record"),
        (("--then-stop",), "--then-stop needs the steps to record"),
        (("--steps", "1", "--step-at", "call:train"), "invalid --step-at 'call:train'"),
        (("--steps", "1", "--step-at", "call:__main__:f"), "cannot name a function of the script itself"),
        (("--modules", "x"), "x not found on PATH\n  the depth of --modules is a number"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, cli: Cli, options: tuple[str, ...], words: str) -> None:
    done = cli("profile", *OPTIONS, *options, "loop.py", "1", "0")
    assert done.returncode in (2, 127)
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_dry_run_has_the_hook(cli: Cli) -> None:
    done = cli("profile", "--dry-run", *OPTIONS, "--steps", "10-13", "--then-stop", "loop.py")
    line = done.stdout
    assert "env NSYSWRAP_HOOK_STEPS=10-13 NSYSWRAP_HOOK_GC=1 PYTHONPATH=" in line
    assert "'--nvtx-capture=steps 10-13@nsyswrap'" in line
    assert "--capture-range-end=stop-shutdown" in line
