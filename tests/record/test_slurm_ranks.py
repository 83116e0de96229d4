"""Runs of several ranks on a real Slurm cluster: srun starts them, and nsys records each that is profiled."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slurm_cluster import BATCH, Cluster, running_cluster

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.rank_folders import captures_by_rank
from nsyswrap.base.run_folder import RUNS
from nsyswrap.record.batch.folder import open_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("nsys")

_PATIENCE_S = 90
# Rank 1 does what it is told; the others wait for it where it dies.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import nvtx

rank, how = os.environ["SLURM_PROCID"], sys.argv[1]
here = Path(__file__).parent
print("rank", rank, "of", os.environ["SLURM_STEP_NUM_TASKS"], "on", os.environ["SLURMD_NODENAME"])
def wait_for(*ranks):
    while not all((here / f"{how}{one}").exists() for one in ranks):
        time.sleep(0.02)
if how == "empty" and rank == "1":
    sys.exit()
with nvtx.annotate("step"):
    (here / f"{how}{rank}").write_text(str(os.getpid()))
    if how in ("dies", "hangs", "no-nsys"):
        wait_for("0", "1")
        time.sleep(1)
    if how == "dies" and rank == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "no-nsys" and rank == "1":
        sys.exit(7)
    if how in ("dies", "hangs", "no-nsys"):
        time.sleep(300)
"""
PLAN = """
[nsys]
trace = "cuda,nvtx"
stats = false
[[runs]]
command = "program.py {how}"
launcher = "srun"
ntasks = "{n}"
points = [ { how = "ok", n = 3 }, { how = "dies", n = 2 }, { how = "empty", n = 2 } ]
[runs.slurm]
nodes = "{n}"
comment = "of the site"
[[runs]]
command = "program.py {how}"
launcher = "srun"
ntasks = 2
profiled_ranks = [0]
points = [ { how = "no-nsys" } ]
"""
HANGS = """
[nsys]
trace = "nvtx"
stats = false
[[runs]]
command = "program.py hangs"
launcher = "srun"
ntasks = 2
"""
# Without PyTorch, whose import is most of the time. The store of torchrun's first node listens there.
TORCHRUN = """
import os, socket
import nvtx

with nvtx.annotate("step"):
    socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 30).close()
print(*(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURMD_NODENAME")))
"""
TWO_NODES = """
[nsys]
trace = "nvtx"
stats = false
[[runs]]
command = "program.py"
launcher = "torchrun"
ntasks = 2
slurm = { nodes = 2 }
"""


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster(environment) as cluster:
        yield cluster


def test_each_fault_of_a_rank_is_the_outcome_of_its_run(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(PLAN)
    done = subprocess.run(
        [*BATCH, "run", "plan.toml", "--executor", "slurm", "-o", "b"],
        cwd=tmp_path,
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * _PATIENCE_S,
    )
    assert done.returncode == 1, done.stderr
    well, dead, empty, other = (state for state in open_batch(tmp_path / "b").survey().values())
    assert all(state.status for state in (well, dead, empty, other))
    said = [(s.state, s.status.exit_code, s.status.message) for s in (well, dead, empty, other) if s.status]
    assert said[0] == ("done", 0, "")
    assert said[1][:2] == ("program_failed", 137)
    # The others were ended, and kept their captures: else the message names them.
    assert said[1][2] == "rank 1: program ended with exit code 137 (signal 9)"
    assert said[2] == ("nsys_failed", 70, "the capture of rank 1 has no event, those of other ranks have")
    assert said[3][:2] == ("program_failed", 7)
    assert re.fullmatch(r"srun ended with .*task 1: Exited with exit code 7", said[3][2])
    captures = captures_by_rank(well.folder)
    assert [check_export(captures[rank]) for rank in range(3)] == [""] * 3
    lines = (well.folder / "program.out").read_text().splitlines()
    assert sorted(lines) == [f"rank {rank} of 3 on n{rank + 1}" for rank in range(3)]
    ranks = [json.loads((path.parent / "run.json").read_text())["rank"] for path in captures.values()]
    assert [(rank["rank"], rank["world_size"], rank["launcher"]) for rank in ranks] == [
        (rank, 3, "Slurm") for rank in range(3)
    ]
    assert list((other.folder).glob("rank-1")) == []


def test_all_ranks_end_with_their_task_also_by_sigkill(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(HANGS)
    command = [*BATCH, "run", "plan.toml", "--executor", "slurm", "-o", "b"]
    with subprocess.Popen(command, cwd=tmp_path, env=cluster.environment, stderr=subprocess.DEVNULL) as batch:
        pids = [tmp_path / f"hangs{rank}" for rank in range(2)]
        wait_until(lambda: all(path.exists() and path.read_text() for path in pids))
        programs = [int(path.read_text()) for path in pids]
        [claim] = (tmp_path / "b" / RUNS).glob("*/claim.json")
        os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, programs)))
        batch.kill()
    assert [state.state for state in open_batch(tmp_path / "b").survey().values()] == ["lost"]
    cluster.run("scancel", f"--user={os.getuid()}")


@pytest.mark.usefixtures("torch")
def test_torchrun_on_two_nodes(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "program.py").write_text(TORCHRUN)
    (tmp_path / "plan.toml").write_text(TWO_NODES)
    done = cluster.batch(tmp_path, "run", "plan.toml", "--executor", "slurm", "-o", "b")
    assert done.returncode == 0, done.stderr
    [state] = open_batch(tmp_path / "b").survey().values()
    lines = [line.split() for line in sorted((state.folder / "program.out").read_text().splitlines())]
    assert [line[:3] for line in lines] == [["0", "0", "2"], ["1", "0", "2"]]
    assert len({node for *_, node in lines}) == 2
    facts = {
        rank: json.loads((path.parent / "run.json").read_text())["rank"]
        for rank, path in captures_by_rank(state.folder).items()
    }
    assert [(rank, own["rank"], own["launcher"]) for rank, own in facts.items()] == [
        (0, 0, "torchrun"),
        (1, 1, "torchrun"),
    ]


def wait_until(is_so: object) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
