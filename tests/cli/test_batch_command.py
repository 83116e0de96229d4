"""The command line of `nsyswrap batch`: plans, wrong options, and what is told when nothing can be run."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from conftest import Cli
from local_batches import PROGRAM, RECORDING, outcomes, states, sweep
from ran import ran

from nsyswrap.base.run_folder import RunFolder
from nsyswrap.record.batch.folder import open_batch

pytestmark = pytest.mark.usefixtures("nsys")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prog.py").write_text(PROGRAM)
    return tmp_path


def test_a_plan_file(folder: Path, cli: Cli) -> None:
    (folder / "plan.toml").write_text(
        'nsys = { trace = "nvtx", stats = false }\n'
        "[[runs]]\n"
        'command = "prog.py {s} {c}"\n'
        "grid = { s = [0, 0.1], c = [0] }\n"
    )
    dry = cli("batch", "run", "plan.toml", "--dry-run")
    assert dry.stdout.splitlines() == ["00001-s=0-c=0: prog.py 0 0", "00002-s=0.1-c=0: prog.py 0.1 0"]
    assert not (folder / "nsyswrap-runs").exists()
    assert cli("batch", "run", "plan.toml").returncode == 0
    found = open_batch(folder / "nsyswrap-runs/plan").survey().values()
    assert [state.state for state in found] == ["done", "done"]


def test_a_wrong_plan_runs_nothing(folder: Path, cli: Cli) -> None:
    (folder / "plan.toml").write_text('[[run]]\ncommand = "x"\n')
    done = cli("batch", "run", "plan.toml", "-o", "b")
    assert done.returncode == 78
    assert "'run'" in done.stderr
    assert "runs" in done.stderr
    assert not (folder / "b").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "speed"], "kernel_ns"),
        (["--max-running", "2"], "--max-running requires --executor slurm"),
        (["--executor", "slurm", "--gpus", "0"], "--gpus requires --executor local"),
        (["--env", "X"], "invalid --env 'X': expected K=V"),
    ],
)
def test_wrong_options_run_nothing(folder: Path, cli: Cli, options: list[str], said: str) -> None:
    done = cli(*sweep(*options))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (folder / "b").exists()


def test_waiting_for_a_batch_that_was_not_started_writes_nothing(folder: Path, cli: Cli) -> None:
    assert cli(*sweep(), NSYSWRAP_NSYS="/no/such/nsys").returncode == 69
    before = sorted((folder / "b").rglob("*"))
    waited = cli("batch", "wait", "b")
    assert waited.returncode == 1
    assert waited.stdout == ""
    assert waited.stderr.splitlines() == [
        "nsyswrap: b: 1 planned",
        "nsyswrap: b: no run was started: nothing to collect",
        "nsyswrap: the same `nsyswrap batch run` starts 1 more run",
    ]
    assert sorted((folder / "b").rglob("*")) == before


def test_without_an_nsys_nothing_is_run(folder: Path, cli: Cli) -> None:
    done = cli(*sweep(), NSYSWRAP_NSYS="/no/such/nsys")
    assert done.returncode == 69
    assert outcomes(folder) == ["planned"]


def test_when_nothing_could_be_started_the_outcomes_are_told(folder: Path, cli: Cli) -> None:
    done = cli("batch", "sweep", *RECORDING, "--", "absent.py")
    assert done.returncode == 1
    assert "absent.py not found" in done.stderr
    assert outcomes(folder) == ["not_started"]
    assert RunFolder(states(folder)[1].folder).read_status().exit_code == 127


def test_status_of_what_is_no_batch(cli: Cli) -> None:
    for command in ("status", "cancel"):
        done = cli("batch", command, ".")
        assert done.returncode == 73
        assert "is not a batch folder: batch.json is missing" in done.stderr


def test_a_folder_that_nobody_named_has_the_runs_of_one_program(folder: Path, cli: Cli) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "train.py").touch()
    alone = RECORDING[:-2]  # without its -o
    assert cli("batch", "sweep", *alone, "--", "a/train.py").returncode == 0
    other = cli("batch", "sweep", *alone, "--", "b/train.py")
    assert other.returncode == 73
    assert other.stderr.splitlines()[0].endswith(
        f"train has the runs of another program: {folder}/a/train.py"
    )
    assert cli("batch", "sweep", *alone, "--name", "b", "--", "b/train.py").returncode == 0
    assert (folder / "nsyswrap-runs/b/batch.json").exists()


def test_the_dry_run_of_a_sweep_can_be_typed(folder: Path, cli: Cli) -> None:
    done = cli("batch", "sweep", "--dry-run", "--env", "A=b c", "-p", "v=x y", "--", "prog.py", "{v}", "'")
    line = done.stdout.partition(": ")[2]
    assert shlex.split(line) == ["A=b c", "prog.py", "x y", "'"]
    assert line.startswith("A='b c' prog.py ")  # 'A=b c' would be a program
    assert list(folder.iterdir()) == [folder / "prog.py"]


@pytest.mark.usefixtures("folder")
def test_a_dry_run_says_what_is_done_and_how_the_rest_is_submitted(cli: Cli) -> None:
    assert cli(*sweep(seconds="0")).returncode == 0
    done = cli(*sweep("--dry-run", "--executor", "slurm", "--max-running", "2", seconds="0.1,0,0.2,0.3"))
    runs, submitting, script = done.stdout.split("\n\n")
    assert runs.splitlines() == [
        "00001-s=0-c=0: prog.py 0 0  # done",
        "00002-s=0.1-c=0: prog.py 0.1 0",
        "00003-s=0.2-c=0: prog.py 0.2 0",
        "00004-s=0.3-c=0: prog.py 0.3 0",
    ]
    assert re.search(r" --array=2-4%2 /\S*/b/slurm/job-2\.sh nsyswrap:\w+:0\)\n", submitting)
    assert script.startswith("#!/bin/bash\n")
    assert "4 runs planned, 1 done; 3 to run" in done.stderr


def test_a_plan_started_in_another_folder_is_another(folder: Path, cli: Cli) -> None:
    assert cli(*sweep()).returncode == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    again = ran(
        [sys.executable, "-m", "nsyswrap", *sweep("-o", "../b", "--dry-run")], cwd=elsewhere, check=True
    )
    assert again.stdout.startswith("00002-")
    assert f"finished runs that are not part of this plan: 1; they were started in {folder}, " in again.stderr


def test_what_a_plan_says_of_nodes_is_not_for_here(folder: Path, cli: Cli) -> None:
    (folder / "plan.toml").write_text("node = { setup = ['x'] }\n[[runs]]\ncommand = 'prog.py 0 0'\n")
    for options in ([], ["--executor", "slurm"]):
        done = cli("batch", "run", "plan.toml", "--dry-run", *options)
        assert ("[node] setup: used only with --executor slurm" in done.stderr) == (not options)


def test_a_folder_of_somebody_else_is_left_as_it_is(folder: Path, cli: Cli) -> None:
    (folder / "b").mkdir()
    (folder / "b/mine").touch()
    assert "is not empty and is not a batch folder" in cli(*sweep()).stderr
    assert [path.name for path in (folder / "b").iterdir()] == ["mine"]
