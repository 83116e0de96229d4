"""Searches name what may not be entered and go on; commands work in the surroundings of another user."""

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import foreign
import pytest
from compared_runs import make_repeats, make_run
from conftest import RunIn
from releases import lay_batch
from sampled import sampled

from nsyswrap.base.run_folder import RUN

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from nsyswrap.cli import main; main()"
pytestmark = pytest.mark.skipif(bool(foreign.lacks()), reason=foreign.lacks())


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The runs of two users in nsyswrap-runs, of which one may not be entered."""
    runs = tmp_path / "nsyswrap-runs"
    make_repeats(runs / "mine", (40, 41))
    make_run(runs / "theirs")
    foreign.give(runs / "theirs", 0o700)
    return tmp_path


@sampled(
    "command",
    [
        "report",
        "runs",
        "runs list --all",
        "runs prune --keep 0",
        "collect nsyswrap-runs -o out",
        "collect nsyswrap-runs/**/report.sqlite -o out",
        "view nsyswrap-runs -o out.html",
        "report nsyswrap-runs -r gpu_time",
        "baseline save out.json nsyswrap-runs",
    ],
    fast=3,
)
def test_a_run_of_another_user_among_ones_own(ordinary: RunIn, shared: Path, command: str) -> None:
    done = ordinary(shared, *command.split())
    told = [line for line in done.stderr.splitlines() if "theirs" in line]
    is_asked_for = "nsyswrap-runs" in command and "*" not in command  # not only come upon
    assert done.returncode == (65 if is_asked_for else 0), done.stderr
    assert len(told) == 1
    assert "Permission denied" in told[0]


def test_only_the_first_of_many_are_named(ordinary: RunIn, shared: Path) -> None:
    runs = shared / "nsyswrap-runs"
    for number in range(9):
        foreign.give(shutil.copytree(runs / "mine", runs / f"x{number}"), 0o700)
    done = ordinary(shared, "runs")
    names = ", ".join(f"nsyswrap-runs/{name}" for name in ("theirs", "x0", "x1"))
    assert f"nsyswrap: left out: {names} and 7 more (Permission denied)\n" in done.stderr
    assert "mine" in done.stdout


def test_no_folder_is_checked_in_part(ordinary: RunIn, shared: Path) -> None:
    """What may not be read can hold secrets."""
    done = ordinary(shared, "redact", "--check", "nsyswrap-runs")
    assert done.returncode == 65
    assert "nsyswrap-runs/theirs: cannot be searched: Permission denied" in done.stderr


def test_a_planned_run_of_another_user(ordinary: RunIn, tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    lay_batch("0.1.0", batch)
    for path in (batch, *batch.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    foreign.give(batch / "runs" / "00003-code=4", 0o700)
    status = ordinary(tmp_path, "batch", "status", "batch")
    assert (status.returncode, status.stderr) == (0, "")
    assert "00003-code=4  lost: batch/runs/00003-code=4 cannot be read: Permission denied" in status.stdout
    assert "00002-code=3" in status.stdout
    collected = ordinary(tmp_path, "collect", "batch", "-o", "out")
    assert "00003-code=4" in collected.stderr


def test_ending_the_batch_of_another_user(ordinary: RunIn, tmp_path: Path) -> None:
    """They share it with the group; its lock names their process."""
    batch = tmp_path / "batch"
    lay_batch("0.1.0", batch)
    for path in (batch, *batch.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    code = f"""
import os, socket, sys  # socket: as that user, Python may not be able to import it
from pathlib import Path
from nsyswrap.base.files import locked
os.setuid({foreign.SOMEBODY})
with locked(Path(), "a batch"):
    print("locked", flush=True)
    sys.stdin.read()
"""
    foreign.give(batch)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=batch,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as theirs:
        assert theirs.stdout
        assert theirs.stdout.readline() == "locked\n"
        done = ordinary(tmp_path, "batch", "cancel", "batch")
        theirs.communicate("")
    assert (done.returncode, done.stdout) == (73, "")
    assert done.stderr.splitlines() == [
        f"nsyswrap: process {theirs.pid} is that of another user",
        "  ask its owner to end it",
    ]


HOMES = ["HOME", "XDG_STATE_HOME XDG_CACHE_HOME XDG_CONFIG_HOME"]
COMMANDS = ["report own", "runs", "view own -o out.html", "doctor own", "collect own -o out", "baseline list"]


@sampled(("variables", "command"), product(HOMES, (*COMMANDS, "--show-config")), fast=5)
def test_a_home_that_may_not_be_entered(
    ordinary: RunIn, tmp_path: Path, variables: str, command: str
) -> None:
    make_run(tmp_path / "own")
    (tmp_path / "theirs").mkdir()
    foreign.give(tmp_path / "theirs", 0o700)
    values = dict.fromkeys(variables.split(), str(tmp_path / "theirs"))
    done = ordinary(tmp_path, *command.split(), **{"XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", **values})
    assert done.returncode == 0, done.stderr
    assert ("left out:" in done.stderr) == (command == "runs")


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, "report", "profile --dry-run true", "collect *.sqlite"])
def test_a_working_folder_that_may_not_be_read(
    tmp_path: Path, environment: dict[str, str], command: str
) -> None:
    make_run(tmp_path / "own")
    here = tmp_path / "theirs"
    here.mkdir()
    foreign.give(here, 0o700)
    words = command.replace(" own", f" {tmp_path / 'own'}").replace("out", str(tmp_path / "out")).split()
    start = [*foreign.ORDINARY, sys.executable, "-c", MAIN, *words]
    done = subprocess.run(start, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    code = 0 if " own" in command or command == "runs" else 73 if "profile" in command else 65
    assert done.returncode == code
    assert code == 0 or "Permission denied" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "runs", "profile --dry-run true", "baseline history x.json"])
def test_a_working_folder_that_was_removed(tmp_path: Path, environment: dict[str, str], command: str) -> None:
    (tmp_path / "gone").mkdir()
    start = ["sh", "-c", 'rmdir ../gone && exec "$@"', "sh", sys.executable, "-c", MAIN, *command.split()]
    done = subprocess.run(
        start, cwd=tmp_path / "gone", env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (
        2,
        ["nsyswrap: the current folder was removed", "  change into another folder"],
    )


def test_run_json_is_not_missed(shared: Path) -> None:
    """The tests above are of runs that are there."""
    assert (shared / "nsyswrap-runs" / "theirs" / RUN).exists()
