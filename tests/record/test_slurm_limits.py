"""Batches that one job array cannot hold, and runs that their time limit ends, on a real Slurm cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from batch_folders import rows_of
from slurm_cluster import BATCH, Cluster, running_cluster

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RUNS, RunFolder
from nsyswrap.record.batch.executors.slurm.script import FOLDER
from nsyswrap.record.batch.folder import open_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nsys")

_PATIENCE_S = 60
# Its file holds when it began and ended, in seconds of one clock.
PROGRAM = """
import sys, time
from pathlib import Path
began = time.monotonic()
time.sleep(0.3)
Path(__file__).with_name(sys.argv[1]).write_text(f"{began} {time.monotonic()}")
"""
WAITS = "import time; time.sleep(600)"
PLAN = """
[slurm]
time = 1
[node]
setup = ["export TIMES=two", 'echo "set up"']
wrapper = ["nice", "-n", "5"]
[[runs]]
command = ["{python}", "-c", "{program}"]
"""


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster(environment, MaxArraySize="4", MaxJobCount="10", MinJobAge="2") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def limited(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A run that takes longer than it may. Slurm looks twice a minute: the other tests go on meanwhile."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "plan.toml").write_text(PLAN.replace("{python}", sys.executable).replace("{program}", WAITS))
    batch = [*BATCH, "run", "plan.toml", "-o", "out", "--executor", "slurm"]
    with subprocess.Popen(batch, cwd=folder, env=cluster.environment) as process:
        yield folder / "out", process
        process.kill()


def sweep(
    cluster: Cluster, folder: Path, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    begin = ["sweep", "-o", "out", "--no-stats", "--executor", "slurm", "-p", "n=1,2,3,4,5"]
    return cluster.batch(folder, *begin, *options, "--", str(folder / "program.py"), "{n}", **variables)


def arrays(batch: Path) -> list[tuple[int, str]]:
    rows = json.loads((batch / FOLDER / "jobs.json").read_text())["jobs"]
    return [(row["offset"], row["tasks"]) for row in rows]


def test_what_no_array_can_hold_goes_in_waves(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    # Indexes up to 3; and in the queue at most half of what it holds: five.
    assert arrays(tmp_path / "out")[0] == (0, "1-3")
    assert {offset for offset, _ in arrays(tmp_path / "out")} == {0, 4}
    assert {state.state for state in open_batch(tmp_path / "out").survey().values()} == {"done"}
    assert sorted(path.name for path in tmp_path.glob("[0-9]")) == ["1", "2", "3", "4", "5"]


def test_no_more_run_at_a_time_than_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, "--max-running", "2")
    assert done.returncode == 0, done.stderr
    assert arrays(tmp_path / "out") == [(0, "1-3"), (4, "0-1")]
    times = [[float(time) for time in (tmp_path / f"{n}").read_text().split()] for n in range(1, 6)]
    at_once = [sum(began <= start < ended for began, ended in times) for start, _ in times]
    assert max(at_once) <= 2


def test_the_time_limit_is_reached(limited: tuple[Path, subprocess.Popen[bytes]]) -> None:
    folder, process = limited
    assert process.wait(_PATIENCE_S) == 1
    [run] = (folder / RUNS).iterdir()
    status = RunFolder(run).read_status()
    assert status.outcome == "timed_out"
    assert status.exit_code == 75
    assert check_export(run / EXPORT) == ""
    [log] = (folder / FOLDER).glob("*.log")
    assert log.read_text().startswith("set up\n")
    assert "exec nice -n 5 " in (folder / FOLDER / "job-0.sh").read_text()


def test_a_run_that_never_began_is_lost_with_what_its_log_says(cluster: Cluster, tmp_path: Path) -> None:
    setup = "[node]\nsetup = ['echo no such module >&2; exit 1']\n"
    (tmp_path / "plan.toml").write_text(f"{setup}[[runs]]\ncommand = ['{sys.executable}', '-V']\n")
    done = cluster.batch(tmp_path, "run", "plan.toml", "-o", "out", "--executor", "slurm")
    assert done.returncode == 1
    assert re.search(
        r"lost: job \d+_1 ended \(FAILED.*end of its log: no such module \(1 of 1\)", done.stderr
    )
    [row] = rows_of(tmp_path / "out/results.csv")
    assert row["outcome"] == "lost"
    assert row["message"].endswith("end of its log: no such module")
    [state] = open_batch(tmp_path / "out").survey().values()
    assert state.claim is None
    said = cluster.batch(tmp_path, "status", "out").stdout
    assert "1 lost" in said
    assert "end of its log: no such module" in said


def test_without_slurm_it_is_said(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, PATH=str(tmp_path))
    assert done.returncode == 69
    assert "not found on PATH" in done.stderr
    assert "--executor local" in done.stderr


def test_a_folder_that_slurm_cannot_log_to_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, "-o", "back\\slash")
    assert done.returncode == 73
    assert "to a path with a backslash" in done.stderr
    assert not (tmp_path / "back\\slash" / FOLDER).exists()
