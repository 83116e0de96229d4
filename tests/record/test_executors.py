"""The executors of a batch: a new one is one file and its name, and none runs another one's commands."""

import ast
import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Cli
from local_batches import PROGRAM, outcomes, sweep
from releases import lay_batch
from test_imports import MODULES

from nsyswrap.base.errors import UsageError
from nsyswrap.record.batch.executors.local import _check_gpus
from nsyswrap.record.batch.executors.slurm.jobs import submitted
from nsyswrap.record.batch.folder import open_batch

OLD = "0.1.0"  # it began a batch whose third run was not begun
COMMANDS = ("squeue", "sacct", "sbatch", "scontrol", "scancel", "sinfo")
ONE_BY_ONE = '''
"""A whole executor: it runs one task after the other, and can say so."""
import subprocess, sys
from nsyswrap.base.errors import PlanError
from nsyswrap.base.nsys.options import BATCH, OptionSpec
from nsyswrap.record.batch.executors import Executor, Interruption
from nsyswrap.record.batch.folder import read_state

class OneByOne(Executor):
    options = {"greeting": OptionSpec("--greeting", "one_by_one: say TEXT first.", BATCH, metavar="TEXT")}
    settings_help = "A setting of one_by_one."

    def check_settings(self, table):
        if "speed" not in table.content:
            table.refuse("there is no speed", "write speed = 1")
        return table.content

    def run(self, request, numbers, on_progress):
        speed = request.plan.settings["one_by_one"]["speed"]
        states = request.batch.survey()
        on_progress(states, f"{request.options['greeting']} at speed {speed}")
        for number in numbers:
            folder = request.batch.run_folder(number)
            subprocess.run([sys.executable, "-m", "nsyswrap", "run-folder", folder.absolute()], check=False)
            states[number] = read_state(folder, number)
            on_progress(states, "")
        return Interruption(2, "that was all") if str(speed) == "2" else None

    def preview(self, request, numbers):
        return f"one by one: {list(numbers)}\\n"

EXECUTOR = OneByOne()
'''
WITH_ONE_BY_ONE = """
import sys
from nsyswrap.record.batch import executors
executors.__path__.append(sys.argv.pop(1))
executors.NAMES += ("one_by_one",)
from nsyswrap.cli import main
main()
"""
PLAN = """
nsys = { trace = "nvtx", stats = false }
one_by_one = { speed = 1 }
[[runs]]
command = "prog.py {s} 0"
grid = { s = [0, 0.1] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prog.py").write_text(PROGRAM)
    return tmp_path


def with_one_by_one(
    folder: Path, *arguments: str, command: str = "batch"
) -> subprocess.CompletedProcess[str]:
    (folder / "executors").mkdir(exist_ok=True)
    (folder / "executors/one_by_one.py").write_text(ONE_BY_ONE)
    (folder / "plan.toml").write_text(PLAN)
    words = [sys.executable, "-c", WITH_ONE_BY_ONE, str(folder / "executors"), command, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("nsys")
def test_a_new_executor_runs_a_plan(folder: Path) -> None:
    options = ("-o", "b", "--executor", "one_by_one", "--greeting", "hello")
    done = with_one_by_one(folder, "run", "plan.toml", *options)
    assert done.returncode == 0, done.stderr
    assert outcomes(folder) == ["done", "done"]
    assert "hello at speed 1" in done.stderr
    assert "00002-s=0.1: done (2 of 2)" in done.stderr
    with (folder / "b/results.csv").open(newline="") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["done", "done"]


def test_a_new_executor_has_options_settings_and_a_preview(folder: Path) -> None:
    dry = with_one_by_one(folder, "run", "plan.toml", "--executor", "one_by_one", "--dry-run")
    assert dry.stdout.endswith("prog.py 0.1 0\none by one: [1, 2]\n")
    wrong = with_one_by_one(folder, "run", "plan.toml", "--greeting", "hello")
    assert (wrong.returncode, wrong.stderr) == (2, "nsyswrap: --greeting requires --executor one_by_one\n")
    typed = ("--dry-run", "--executor", "one_by_one", "--one_by_one", "pace=1", "--", "prog.py")
    unset = with_one_by_one(folder, "sweep", *typed)
    assert unset.returncode == 2
    assert "sweep: --one_by_one: there is no speed" in unset.stderr
    assert "write speed = 1" in unset.stderr
    shown = with_one_by_one(folder, "run", "--help").stdout
    assert re.search(r"--executor WHERE +Run here or elsewhere: local, .*one_by_one\.\n", shown)
    assert "--executor slurm --max-running 4" in shown  # not the last one, which lacks that option


def test_collect_offers_only_executors_that_read_captures(folder: Path) -> None:
    shown = with_one_by_one(folder, "--help", command="collect").stdout
    assert "--slurm" in shown
    assert "one_by_one" not in shown
    refused = with_one_by_one(folder, ".", "--executor", "one_by_one", command="collect")
    assert refused.stderr == "nsyswrap: invalid --executor 'one_by_one': expected local, slurm\n"


def test_the_interruption_of_a_new_executor_is_an_exit_code(folder: Path) -> None:
    options = ("--executor", "one_by_one", "--one_by_one", "speed=2", "--discard-rep", "-o", "b")
    done = with_one_by_one(folder, "sweep", *options, "--", "absent")
    assert "that was all" in done.stderr
    assert done.returncode == 130


@dataclass
class Stubs:
    """Stand-ins for Slurm's commands on ``path``. Each call of one is a line in ``calls``."""

    folder: Path

    def __post_init__(self) -> None:
        self.calls = self.folder / "calls"
        self.path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        for name in COMMANDS:
            answer = self.folder / f"{name}.txt"
            (self.folder / name).write_text(
                f'#!/bin/sh\necho {name} "$@" >> {self.calls}\nexec cat {answer}\n'
            )
            (self.folder / name).chmod(0o755)


@pytest.fixture
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


@pytest.mark.usefixtures("nsys", "folder")
def test_no_slurm_command_is_run_for_a_local_batch(cli: Cli, stubs: Stubs) -> None:
    assert cli(*sweep("--dry-run"), PATH=stubs.path).returncode == 0
    assert cli(*sweep(), PATH=stubs.path).returncode == 0
    assert cli(*sweep(code="0,3"), PATH=stubs.path).returncode == 1  # one run fails
    for words in (["status", "b"], ["status", "--watch", "b"], ["cancel", "b"]):
        assert cli("batch", *words, PATH=stubs.path).returncode == 0
    assert cli("collect", "b", PATH=stubs.path).returncode == 0
    assert not stubs.calls.exists(), stubs.calls.read_text()


@pytest.mark.parametrize("words", [["run", "plan.toml", "--dry-run"], ["status", "old"], ["cancel", "old"]])
def test_a_local_batch_loads_no_code_for_slurm_commands(folder: Path, words: list[str]) -> None:
    (folder / "plan.toml").write_text("[[runs]]\ncommand = 'prog.py 0 0'\n")
    lay_batch(OLD, folder / "old")
    code = (
        "import atexit, sys; from nsyswrap.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", code, "batch", *words]
    loaded = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stderr.split()
    prefix = "nsyswrap.record.batch.executors.slurm"
    assert prefix in loaded
    assert {f"{prefix}.{name}" for name in ("commands", "executor", "jobs", "submission")} & set(
        loaded
    ) == set()


def test_the_jobs_of_a_batch_begun_with_version_0_1_0_are_known(
    tmp_path: Path, cli: Cli, stubs: Stubs
) -> None:
    batch = lay_batch(OLD, tmp_path / "old")
    (tmp_path / "old/slurm").mkdir()
    array = {"job": "17", "offset": 0, "tasks": "3", "submitted": 1_760_000_000}
    (tmp_path / "old/slurm/jobs.json").write_text(json.dumps({"jobs": [array]}))
    (stubs.folder / "squeue.txt").write_text(f"17|3|PENDING|Resources|/b/job-0.sh nsyswrap:{batch}:0\n")
    shown = cli("batch", "status", "old", PATH=stubs.path).stdout
    assert "in Slurm's queue as job 17: 1 waiting for free nodes" in shown
    (stubs.folder / "scancel.txt").touch()
    assert cli("batch", "cancel", "old", PATH=stubs.path).returncode == 0
    assert stubs.calls.read_text().splitlines()[-1] == "scancel 17"


def test_a_folder_that_was_moved_from_its_jobs_is_named(tmp_path: Path, cli: Cli, stubs: Stubs) -> None:
    batch = lay_batch(OLD, tmp_path / "old")
    (tmp_path / "old/slurm").mkdir()
    array = {"job": "17", "offset": 0, "tasks": "3"}
    (tmp_path / "old/slurm/jobs.json").write_text(json.dumps({"jobs": [array], "folder": "/gone/old"}))
    (stubs.folder / "squeue.txt").write_text(f"17|3|PENDING|Resources|nsyswrap:{batch}:0\n")
    for name in ("scontrol", "sacct"):
        (stubs.folder / f"{name}.txt").touch()
    said = "was moved or copied: its jobs"
    assert f"this folder {said} work in /gone/old" in cli("batch", "status", "old", PATH=stubs.path).stdout
    waited = cli("batch", "wait", "old", PATH=stubs.path)
    assert waited.returncode == 73
    assert f"old {said} in Slurm's queue work in /gone/old" in waited.stderr


def test_a_moved_folder_gets_what_its_jobs_wrote_at_its_old_place(
    tmp_path: Path, cli: Cli, stubs: Stubs
) -> None:
    batch = lay_batch(OLD, tmp_path / "new")
    [done] = [state for state in open_batch(tmp_path / "new").survey().values() if state.state == "done"]
    (tmp_path / "new/slurm").mkdir()
    array = {"job": "17", "offset": 0, "tasks": "3"}
    facts = {"jobs": [array], "folder": str(tmp_path / "old")}
    (tmp_path / "new/slurm/jobs.json").write_text(json.dumps(facts))
    (tmp_path / "old/runs").mkdir(parents=True)
    done.folder.rename(tmp_path / "old/runs" / done.folder.name)
    done.folder.mkdir()
    (stubs.folder / "squeue.txt").write_text(f"17|3|PENDING|Resources|nsyswrap:{batch}:0\n")
    for name in ("scontrol", "sacct"):
        (stubs.folder / f"{name}.txt").touch()
    waited = cli("batch", "wait", "new", PATH=stubs.path)
    assert waited.returncode == 73
    assert f"first; the jobs have made {tmp_path / 'old'} again, and write there" in waited.stderr
    (stubs.folder / "squeue.txt").write_text("")
    shown = cli("batch", "status", "new", PATH=stubs.path).stdout
    command = shown.partition(f"its jobs wrote into {tmp_path / 'old'}; `")[2].partition("` brings")[0]
    assert "1 done" not in shown
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert "1 done" in cli("batch", "status", "new", PATH=stubs.path).stdout


def test_done_is_only_what_has_a_capture_or_digest(tmp_path: Path, cli: Cli) -> None:
    lay_batch(OLD, tmp_path / "old")
    [done] = [state for state in open_batch(tmp_path / "old").survey().values() if state.state == "done"]
    for name in ("report.sqlite", "report.nsys-rep", "digest.json"):
        (done.folder / name).unlink(missing_ok=True)
    shown = cli("batch", "status", "old").stdout
    assert "lost: the run was done, but its capture and digest are gone" in shown
    assert "the same `nsyswrap batch run` starts 2 more runs; --retry-failed repeats 1 failed run" in shown


def test_slurm_is_named_in_two_places_outside_its_folder() -> None:
    """The executors have its name, and the launchers know what its srun prints.

    Texts for people say Slurm, docstrings and help among them; names and keys say slurm or SLURM.
    """
    places = {
        module
        for module, path in MODULES.items()
        if module.startswith(("nsyswrap.record.batch", "nsyswrap.cli"))
        and not module.startswith("nsyswrap.record.batch.executors.slurm")
        if "slurm" in (text := path.read_text(encoding="utf-8")).lower()
        for word in words(ast.parse(text))
        if "slurm" in word or "SLURM" in word
    }
    assert places == {"nsyswrap.record.batch.executors", "nsyswrap.record.batch.launchers"}


def words(tree: ast.Module) -> list[str]:
    """Return all names and texts of a module, without docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    nodes = [node for node in ast.walk(tree) if id(node) not in alone]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    names += [node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names += [node.arg for node in nodes if isinstance(node, (ast.arg, ast.keyword)) and node.arg]
    return texts + names


@pytest.mark.parametrize("jobs", [1, [1], [{}], [{"job": "1", "offset": 0, "tasks": "1-999999999"}], "1"])
def test_damaged_jobs_are_none(tmp_path: Path, cli: Cli, jobs: object) -> None:
    lay_batch(OLD, tmp_path / "old")
    (tmp_path / "old/slurm").mkdir()
    (tmp_path / "old/slurm/jobs.json").write_text(json.dumps({"jobs": jobs}))
    assert submitted(open_batch(tmp_path / "old")) == []
    assert "1 planned" in cli("batch", "status", "old").stdout


def test_a_run_may_need_all_gpus_that_are_named() -> None:
    _check_gpus(["0", "3"], [1, 2])
    with pytest.raises(UsageError, match="a run needs 3 GPUs, and --gpus names 2"):
        _check_gpus(["0", "3"], [1, 3])
