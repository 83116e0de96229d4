"""`nsyswrap run-folder` with the real nsys: however one planned run ends, its folder tells."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Cli
from waiting import PATIENCE_S

from nsyswrap.base.files import locked
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.nsys.options import OPTIONS, RecordingOptions
from nsyswrap.base.run_folder import (
    CLAIM,
    DIGEST,
    EXPORT,
    PROGRAM_ERRORS,
    PROGRAM_OUTPUT,
    SCENARIO_FILES,
    RunFolder,
    Status,
)
from nsyswrap.record import scenarios
from nsyswrap.record.batch import executors, run_task
from nsyswrap.record.batch.executors import SchedulerJob
from nsyswrap.record.batch.folder import read_state
from nsyswrap.record.batch.run_task import claim_of, local_folder
from nsyswrap.record.batch.task import TaskSpec
from nsyswrap.record.program import RunSpec

pytestmark = pytest.mark.usefixtures("nsys")

SAYS = """
import os, sys
print(sys.argv[1], os.environ.get("COLOUR"), os.environ["TMPDIR"])
print("complaint", file=sys.stderr)
sys.exit(int(sys.argv[2]))
"""
KEEPS = """\"""Keep a file.\"""
import sys
from pathlib import Path

VARIANTS = ("one",)
ALONE = ("one",)
KEEPS = ("one",)
NEEDS = ()

_, _, variant, option, folder = sys.argv  # --variant one --keep FOLDER
Path(folder).mkdir()
Path(folder, f"{variant} {option}").touch()
"""
WAITS = """
import time
open("ready", "w").close()
time.sleep(600)
"""


def planned(folder: Path, *command: str, **changes: object) -> Path:
    """A run folder under ``folder`` with a plan to run ``command`` there."""
    (folder / "says.py").write_text(SAYS)
    (folder / "waits.py").write_text(WAITS)
    own = {name: changes.pop(name) for name in OPTIONS if name in changes}
    options = RecordingOptions(**{"trace": "nvtx", "stats": False, **own})  # type: ignore[arg-type]
    made = TaskSpec("x", {}, 1, str(folder), command=command, options=options)
    run = folder / "run"
    run.mkdir()
    replace(made, **changes).write(run)  # type: ignore[arg-type]
    return run


def status_of(run: Path) -> tuple[str, int]:
    status = RunFolder(run).read_status()
    return status.outcome, status.exit_code


def test_a_run_leaves_its_report_its_output_and_its_digest(tmp_path: Path, cli: Cli) -> None:
    run = planned(tmp_path, "says.py", "a b'\"\n", "0", env={"COLOUR": "blue"})
    done = cli("run-folder", run)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert status_of(run) == ("done", 0)
    assert check_export(run / EXPORT) == ""
    said = (run / PROGRAM_OUTPUT).read_text()
    assert said.startswith("a b'\"\n blue ")
    assert (run / PROGRAM_ERRORS).read_text() == "complaint\n"
    assert (run / DIGEST).exists()
    temporary = Path(said.split()[-1])
    assert temporary.name.startswith("nsyswrap-")
    assert not temporary.exists()
    assert read_state(run).state == "done"


def test_a_scenario_keeps_its_files_in_the_folder_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scenarios"
    scripts.mkdir()
    (scripts / "keeping.py").write_text(KEEPS)
    monkeypatch.setattr(scenarios, "_shipped", lambda _: scripts)
    monkeypatch.chdir(tmp_path)
    run = planned(tmp_path, scenario="keeping", variant="one")
    assert run_task.carry_out(run, lambda *_: pytest.fail("run under nsys")).outcome == "done"
    assert [path.name for path in (run / SCENARIO_FILES).iterdir()] == ["one --keep"]


def test_what_is_done_is_not_run_again_unless_asked(tmp_path: Path, cli: Cli) -> None:
    run = planned(tmp_path, "says.py", "x", "0")
    cli("run-folder", run)
    before = (run / EXPORT).stat().st_mtime_ns
    assert cli("run-folder", run).returncode == 0
    assert (run / EXPORT).stat().st_mtime_ns == before
    assert cli("run-folder", "--again", run).returncode == 0
    assert (run / EXPORT).stat().st_mtime_ns > before


def test_what_failed_is_run_again(tmp_path: Path, cli: Cli) -> None:
    run = planned(tmp_path, "says.py", "x", "3")
    assert cli("run-folder", run).returncode == 3
    assert status_of(run) == ("program_failed", 3)
    (tmp_path / "says.py").write_text("")
    assert cli("run-folder", run).returncode == 0
    assert status_of(run) == ("done", 0)


def test_a_folder_with_any_name(tmp_path: Path, cli: Cli) -> None:
    odd = tmp_path / 'it\'s "100%" & \n [more]*'
    odd.mkdir()
    run = planned(odd, "says.py", "x", "0")
    assert cli("run-folder", run).returncode == 0
    assert check_export(run / EXPORT) == ""


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"command": ("absent.py",)}, 127, "absent.py not found"),
        ({"command": ("no-such-program",)}, 127, "no-such-program not found on PATH"),
        ({"cwd": "/no/such/folder"}, 73, "cannot enter /no/such/folder"),
        ({"nsys_path": "/no/such/nsys"}, 69, "/no/such/nsys"),
        ({"command": (), "scenario": "p2p", "variant": "copy"}, 69, "p2p copy cannot run here"),
        ({"env": {"TMPDIR": "/no/such/place"}}, 73, "cannot make a temporary folder"),
    ],
    ids=["script", "program", "cwd", "nsys", "scenario", "tmpdir"],
)
def test_what_cannot_be_started_is_an_outcome(
    tmp_path: Path, cli: Cli, changes: dict[str, object], code: int, said: str
) -> None:
    run = planned(tmp_path, **{"command": ("says.py", "x", "0"), **changes})
    done = cli("run-folder", run)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert status_of(run) == ("not_started", code)
    assert said in RunFolder(run).read_status().message


def test_a_folder_without_a_plan(tmp_path: Path, cli: Cli) -> None:
    done = cli("run-folder", tmp_path)
    assert done.returncode == 73
    assert "is not a planned run: spec.json is missing" in done.stderr


def test_two_at_once(tmp_path: Path, cli: Cli) -> None:
    run = planned(tmp_path, "says.py", "x", "0")
    with locked(run, "a test"):
        done = cli("run-folder", run)
    assert done.returncode == 73
    assert f"process {os.getpid()}" in done.stderr
    assert read_state(run).state == "planned"


def test_a_job_that_is_started_again_waits_for_its_earlier_copy(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Slurm starts a job on another node while the first one still writes its report."""
    run = planned(tmp_path, "says.py", "x", "0")
    command = [sys.executable, "-m", "nsyswrap", "run-folder", str(run)]
    again = {**environment, "SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": "1"}
    with locked(run, "a test"):
        process = subprocess.Popen(command, env=again, stderr=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
    assert process.communicate(timeout=PATIENCE_S)[1].count("in use") == 0
    assert process.returncode == 0
    assert read_state(run).state == "done"


def test_its_own_time_limit(tmp_path: Path, cli: Cli) -> None:
    run = planned(tmp_path, "waits.py", timeout_s=1.5)
    assert cli("run-folder", run).returncode == 75
    assert status_of(run) == ("timed_out", 75)
    assert check_export(run / EXPORT) == ""


def test_a_signal_leaves_a_complete_report(tmp_path: Path, environment: dict[str, str]) -> None:
    number = signal.SIGTERM  # of a batch system; other signals: test_profile_endings.py
    run = planned(tmp_path, "waits.py")
    command = [sys.executable, "-m", "nsyswrap", "run-folder", str(run)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "ready").exists():
            assert process.poll() is None
            time.sleep(0.02)
        assert read_state(run).state == "running"
        assert json.loads((run / CLAIM).read_text())["pid"] == process.pid
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert status_of(run) == ("interrupted", 128 + number)
    assert check_export(run / EXPORT) == ""
    assert (run / DIGEST).exists()


@pytest.mark.parametrize(("at_limit", "state"), [(True, "timed_out"), (False, "interrupted")])
def test_a_job_that_is_killed_before_the_report_is_complete(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_limit: bool,  # noqa: FBT001
    state: str,
) -> None:
    """Slurm kills what is left of a job after its KillWait."""
    run = planned(tmp_path, "waits.py")
    monkeypatch.setattr(
        executors, "current_job", lambda: SchedulerJob("Slurm", "17_1", "n1", 0, lambda: at_limit)
    )
    monkeypatch.chdir(tmp_path)

    def execute(_: RunSpec, on_signal: Callable[[], None]) -> Status:
        assert read_state(run).state == "running"
        on_signal()
        while json.loads((run / CLAIM).read_text())["stopped"] != state:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    if (child := os.fork()) == 0:
        try:
            run_task.carry_out(run, execute)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    ended = read_state(run)
    assert ended.state == state
    assert ended.status is not None
    assert ended.status.is_consistent
    assert "killed before its report was complete" in ended.status.message


def test_the_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert local_folder() == str(tmp_path)
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "absent"))
    assert local_folder() == str(tmp_path)
    (tmp_path / "absent").mkdir()
    assert local_folder() == str(tmp_path / "absent")
    mounted = f"/dev/vda / ext4 rw 0 0\nnodev {tmp_path / 'absent'} beegfs_nodev rw 0 0\n"
    monkeypatch.setattr(run_task, "mounts", lambda: mounted)
    assert local_folder() == str(tmp_path)


def test_a_claim_names_the_task_of_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    assert claim_of(executors.current_job()).job == ""
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    monkeypatch.setenv("SLURMD_NODENAME", "node3")
    claim = claim_of(executors.current_job())
    assert (claim.job, claim.restarts, claim.host, claim.pid) == ("18", 2, "node3", os.getpid())
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "4")
    assert claim_of(executors.current_job()).job == "17_4"


def test_torchrun_is_for_this_machine_in_jobs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    for nodes in (1, 2):
        job = executors.current_job()
        assert job is not None
        assert job.nodes == nodes
        monkeypatch.setenv("NSYSWRAP_TIME_LIMIT_MARGIN_S", "60")  # set by the script of a batch


def test_a_rank_that_is_not_chosen_becomes_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, sys.executable, launcher="srun", ntasks=2, profiled_ranks=(0,))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_task, "detect", lambda **_: SimpleNamespace(rank=1, folder="rank-1"))
    monkeypatch.setattr(run_task, "execute_bare", lambda *_: sys.exit("the program"))
    with pytest.raises(SystemExit, match="the program"):
        run_task.carry_out_rank(run, lambda *_: pytest.fail("recorded"))
