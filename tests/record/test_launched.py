"""Runs of a launcher that is a script, and a real mpirun where there is one."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Cli
from test_ranks_outcome import DONE, NVTX, ended, spec
from waiting import wait_until

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import (
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    RunFolder,
    Status,
    captures_by_rank,
    rank_folders,
)
from nsyswrap.record.batch import ranks_outcome
from nsyswrap.record.batch.folder import open_batch
from nsyswrap.record.batch.launchers import RankLaunch, first_failure
from nsyswrap.record.batch.ranks_outcome import all_ended
from nsyswrap.record.program import Program

# What Open MPI prints if there are too few CPUs.
NO_SLOTS = """\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 3
slots that were requested by the application:

  train
--------------------------------------------------------------------------
"""
# Rank 1 does what it is told; rank 0 then waits for its end.
PROGRAM = """
import os, sys, time
import nvtx
rank, how = os.environ["OMPI_COMM_WORLD_RANK"], sys.argv[1]
with nvtx.annotate("step"):
    print("rank", rank)
    if how == "fails":
        open(f"began-{rank}", "w").close()
        while not os.path.exists(f"began-{1 - int(rank)}"):
            time.sleep(0.02)
        sys.exit(7) if rank == "1" else time.sleep(300)
"""
PLAN = """
[nsys]
trace = "nvtx"
stats = false
[env]
OMPI_MCA_odls_base_sigkill_timeout = "3"
[[runs]]
command = "program.py {how}"
launcher = "mpirun"
ntasks = 2
grid = { how = ["ends", "fails"] }
"""


@pytest.fixture
def mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for mpirun that starts no rank."""
    command = tmp_path / "bin" / "mpirun"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{NO_SLOTS}END\nexit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    monkeypatch.setattr(ranks_outcome, "_GRACE_S", 0)
    return command


def run(folder: Path) -> tuple[str, int, str]:
    own = spec(launcher="mpirun", options=RecordingOptions())
    status = ranks_outcome.run_launched(own, folder, Program(("train",), "train"), lambda: None, None)
    assert status == RunFolder(folder).read_status()
    return status.outcome, status.exit_code, status.message


def test_no_capture_of_an_earlier_attempt_is_taken_for_one_of_this(tmp_path: Path, mpirun: Path) -> None:
    mpirun.write_text("#!/bin/sh\n")
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(2):
        ended(folder, rank, DONE, NVTX)
    for name in ("rank-1/of-the-program.txt", "of-the-program.txt", "own.nsys-rep", "own.sqlite"):
        (folder / name).touch()
    assert run(folder) == ("nsys_failed", 70, "no complete capture of ranks 0, 1")
    assert captures_by_rank(folder) == {}
    assert [path.name for path in rank_folders(folder).values()] == ["rank-1"]
    assert not any((folder / name).exists() for name in ("own.nsys-rep", "own.sqlite"))
    assert (folder / "of-the-program.txt").exists()


def test_a_signal_is_told_also_if_the_launcher_ends_at_once(tmp_path: Path, mpirun: Path) -> None:
    mpirun.write_text("#!/bin/sh\nkill -TERM $PPID\n")
    (tmp_path / "run").mkdir()
    told: list[int] = []
    own, program = spec(launcher="mpirun", options=RecordingOptions()), Program(("train",), "train")
    status = ranks_outcome.run_launched(own, tmp_path / "run", program, lambda: told.append(1), None)
    assert (status.outcome, told) == ("interrupted", [1])


@pytest.mark.usefixtures("mpirun")
def test_a_launcher_that_starts_no_rank_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    reason = "There are not enough slots available in the system to satisfy the 3 slots that were requested"
    outcome, code, message = run(folder)
    assert (outcome, code) == ("not_started", 69)
    assert message.startswith(f"no rank began: mpirun ended with exit code 1: {reason}")


@pytest.mark.parametrize(
    ("launcher", "errors"),
    [
        ("srun", "\r 10%srun: error: n2: tasks 0,2-3: Killed\n"),
        ("torchrun", "[0]:\n  rank      : 0 (local_rank: 0)\n[1]:\n  rank      : 3 (local_rank: 1)\n"),
    ],
)
def test_ranks_that_died_without_a_status_are_not_waited_for(
    tmp_path: Path, launcher: str, errors: str
) -> None:
    for rank in (0, 1, 3):
        ended(tmp_path, rank, DONE if rank == 1 else None, NVTX)
    assert not all_ended(tmp_path, launcher)
    (tmp_path / PROGRAM_ERRORS).write_text(errors)
    assert all_ended(tmp_path, launcher)
    (tmp_path / "rank-1" / "status.json").unlink()
    assert not all_ended(tmp_path, launcher)


def test_a_command_with_its_own_nsys_ends_with_nsyswrap(tmp_path: Path) -> None:
    """The shell dies of SIGTERM, and leaves its sleep."""
    folder = tmp_path / "run"
    folder.mkdir()
    shell = ("bash", "-c", "sleep 987 & echo $!; wait")
    own = spec(1, launcher="", profiled=False, options=RecordingOptions())
    replace(own, command=shell, cwd=str(tmp_path)).write(folder)
    with subprocess.Popen([sys.executable, "-m", "nsyswrap", "run-folder", str(folder)]) as process:
        output = folder / PROGRAM_OUTPUT
        wait_until(lambda: output.exists() and output.read_text())
        process.kill()
    wait_until(lambda: not Path(f"/proc/{output.read_text().strip()}").exists())


def test_a_command_with_its_own_nsys_is_signalled_once(tmp_path: Path) -> None:
    """It has time to end; a second signal could kill the nsys in it while it writes."""
    folder = tmp_path / "run"
    folder.mkdir()
    loop = "trap 'echo told; touch told' TERM; echo began; until [ -e told ]; do sleep 0.1; done; sleep 1"
    own = spec(1, launcher="", profiled=False, options=RecordingOptions())
    replace(own, command=("bash", "-c", loop), cwd=str(tmp_path)).write(folder)
    with subprocess.Popen([sys.executable, "-m", "nsyswrap", "run-folder", str(folder)]) as process:
        output = folder / PROGRAM_OUTPUT
        wait_until(lambda: output.exists() and output.read_text())
        process.terminate()
    assert output.read_text().split() == ["began", "told"]


@pytest.mark.usefixtures("nsys")
@pytest.mark.skipif(not shutil.which("mpirun"), reason="needs mpirun (Debian: openmpi-bin)")
def test_ranks_of_mpirun(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(PLAN)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = cli("batch", "run", "plan.toml", "-o", "b", **as_root)
    assert done.returncode == 1, done.stderr
    ends, fails = open_batch(tmp_path / "b").survey().values()
    assert ends.state == "done"
    assert sorted((ends.folder / PROGRAM_OUTPUT).read_text().splitlines()) == ["rank 0", "rank 1"]
    facts = [
        json.loads((path / "run.json").read_text())["rank"] for path in rank_folders(ends.folder).values()
    ]
    assert [(one["rank"], one["launcher"]) for one in facts] == [(0, "Open MPI"), (1, "Open MPI")]
    assert fails.status is not None
    assert (fails.state, fails.status.program_code) == ("program_failed", 7)
    assert fails.status.message.startswith("rank 1: program ended with exit code 7")
    assert check_export(captures_by_rank(fails.folder)[1]) == ""


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
