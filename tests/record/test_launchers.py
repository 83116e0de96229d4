"""The command lines of launchers, and a command that ends with this process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.run_folder import PROGRAM_ERRORS, RunFolder, Status
from nsyswrap.record.batch import ranks_outcome
from nsyswrap.record.batch.launchers import RankLaunch, first_failure

OWN = ("--kill-on-bad-exit=0", "--wait=0", "--input=all")
RANK = ("python3", "-m", "nsyswrap")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("srun", "mpirun"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("commands")
def test_the_command_line_of_each_launcher() -> None:
    srun = ["srun", "--ntasks=4", "--job-name=x", *OWN, *RANK]
    assert RankLaunch("srun", 4, RANK, "x", nodes=2).argv == srun
    assert RankLaunch("mpirun", 4, RANK, "x").argv == ["mpirun", "-n", "4", *RANK]
    bound = RankLaunch("mpirun", 4, RANK, "x", options=("--bind-to", "core"))
    assert bound.argv == ["mpirun", "-n", "4", "--bind-to", "core", *RANK]
    own = ["a", "python3", "-m", "torch.distributed.run"]
    one_node = [*own, "--standalone", "--nproc-per-node=4", "--no-python", *RANK]
    assert RankLaunch("torchrun", 4, RANK, "x", own[:2]).argv == one_node
    several = RankLaunch("torchrun", 4, RANK, "x", own[:2], 2).argv
    step = ["srun", "--ntasks=2", "--job-name=x", *OWN, "--nodes=2"]
    assert several[:8] == [*step, "--ntasks-per-node=1"]
    assert several[8:14] == [*own, "--nnodes=2", "--nproc-per-node=2"]
    assert several[-4:] == ["--no-python", *RANK]


def test_a_launcher_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="srun not found on PATH"):
        _ = RankLaunch("srun", 4, RANK, "x").argv
    with pytest.raises(Unavailable, match="srun not found on PATH"):
        _ = RankLaunch("torchrun", 4, RANK, "x", ["python3"], 2).argv
    assert RankLaunch("torchrun", 4, RANK, "x", ["python3"]).argv[0] == "python3"


@pytest.mark.parametrize(
    ("printed", "line", "code"),
    [
        ("nothing\n", "", None),
        (
            (
                "srun: error: n2: tasks 1,3-4: Exited with exit code 7\n"
                "srun: error: n1: task 0: Exited with exit code 1\n"
            ),
            "srun: error: n2: tasks 1,3-4: Exited with exit code 7",
            7,
        ),
        (
            "srun: error: n1: task 2: Segmentation fault (core dumped)\n",
            "srun: error: n1: task 2: Segmentation fault (core dumped)",
            None,
        ),
        (
            "E1 api.py:1] failed (exitcode: -9) local_rank: 1 (pid: 5)",
            "failed (exitcode: -9) local_rank: 1",
            137,
        ),
        ("  Process name: [[1,1],1]\n  Exit code:    3\n", "Exit code:    3", 3),
    ],
)
def test_what_launchers_print_of_a_rank_that_failed(printed: str, line: str, code: int | None) -> None:
    assert first_failure(printed) == (line, code)


PARENT = """
import os, sys, time
from nsyswrap.record import guard
os.set_inheritable(1, True)
child = guard.bound_to_us([sys.executable, "-c", sys.argv[1]])
import subprocess
subprocess.Popen(child).wait()
"""
CHILD = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def test_a_command_ends_with_its_parent_also_by_sigkill() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists() or b"\nState:\tZ" in _status(child))


def _status(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return b""


def test_a_command_whose_parent_is_gone_is_not_started(tmp_path: Path) -> None:
    from nsyswrap.record import bound  # noqa: PLC0415 - a script

    command = [sys.executable, bound.__file__, str(os.getpid() + 1), "touch", str(tmp_path / "began")]
    assert subprocess.run(command, check=False).returncode == 143
    assert not (tmp_path / "began").exists()


def test_a_failed_task_is_noted_once_and_behind_a_progress_bar_too(tmp_path: Path) -> None:
    errors = tmp_path / PROGRAM_ERRORS
    has_failed = ranks_outcome.StepFailure(tmp_path)
    assert not has_failed()  # no file
    for printed, failed in (
        ("\rtraining:  50%|#####     | 5/10", False),
        (" srun: error: n1: task 1: Killed\n", True),
        ("\rtraining:  60%", False),
    ):
        with errors.open("a") as file:
            file.write(printed)
        assert has_failed() == failed
    assert not has_failed()


def test_a_failed_task_is_noted_where_the_disk_has_no_room_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks_outcome, "_FULL_ASK_S", 0)
    has_failed = ranks_outcome.StepFailure(tmp_path)
    for rank, status in enumerate((None, Status("done", 0, 0, 0))):
        own = RunFolder(tmp_path / f"rank-{rank}")
        own.make()
        if status:
            own.write_status(status)
    assert not has_failed()
    RunFolder(tmp_path / "rank-0").write_status(Status("disk_full", 7, 7, 73))
    assert has_failed()


@pytest.mark.parametrize(
    ("launcher", "nodes", "is_step"),
    [("srun", 1, True), ("torchrun", 2, True), ("torchrun", 1, False), ("mpirun", 2, False)],
)
def test_ranks_of_srun_and_those_on_several_nodes_are_a_step(
    launcher: str, nodes: int, *, is_step: bool
) -> None:
    launch = RankLaunch(launcher, 4, RANK, "x", nodes=nodes)
    assert launch.is_step == is_step
