"""Runs of several ranks on a real Slurm cluster: srun starts them, and nsys records each that is profiled."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from recorded import PICTURED
from slurm_cluster import BATCH, Cluster
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RUNS, STATUS, captures_by_rank
from nsyswrap.record.batch.folder import open_batch

pytestmark = pytest.mark.usefixtures("nsys")

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
if how == "no-gpu" or (how == "empty" and rank == "1"):
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
[node]
setup = ["echo loading", "[ $SLURM_JOB_NAME != unloaded ] || { echo no such module >&2; false; }"]
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
[[runs]]
command = "program.py no-gpu"
launcher = "srun"
ntasks = 2
slurm = { gres = "gpu:2" }
[[runs]]
command = "own.py {run_dir}"
launcher = "srun"
ntasks = 2
profiled = false
profiled_ranks = [0, 1]
[[runs]]
command = "program.py setup"
launcher = "srun"
ntasks = 2
slurm = { job-name = "unloaded" }
"""
# There is no GPU here: what rank 0 leaves was recorded elsewhere.
OWN = """
import os, shutil, subprocess, sys
rank, run = os.environ["SLURM_PROCID"], sys.argv[1]
if rank == "0":
    shutil.copy({capture!r}, run + "/own.rank0.sqlite")
    sys.exit()
nsys = [{nsys!r}, "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--export=sqlite"]
step = "import nvtx; nvtx.push_range('step'); nvtx.pop_range()"
subprocess.run([*nsys, "-o", run + "/own.rank1", sys.executable, "-c", step], check=True)
"""
# One run loses the node of rank 1, in the other one rank 1 fills the disk and fails.
BENEATH = """
import os, sys, time
from pathlib import Path
import nvtx

rank, how = os.environ["SLURM_PROCID"], sys.argv[1]
here = Path(__file__).parent
with nvtx.annotate("step"):
    with (here / f"{how}{rank}").open("a") as file:
        file.write(os.environ["SLURMD_NODENAME"] + "\\n")
    while not all((here / f"{how}{one}").exists() for one in "01"):
        time.sleep(0.02)
    if how == "disk" and rank == "1":
        try:
            with open(sys.argv[2] + "/data", "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            sys.exit(7)
    while not (here / "go").exists():
        time.sleep(0.05)
"""
BENEATH_PLAN = """
[nsys]
trace = "nvtx"
stats = false
[[runs]]
command = "program.py {how} {run_dir}"
launcher = "srun"
ntasks = 2
points = [ { how = "node", nodes = 2 }, { how = "disk", nodes = 1 } ]
slurm = { nodes = "{nodes}" }
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


def test_each_fault_of_a_rank_is_the_outcome_of_its_run(tmp_path: Path, cluster: Cluster, nsys: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "own.py").write_text(OWN.format(capture=str(PICTURED / EXPORT), nsys=nsys))
    (tmp_path / "plan.toml").write_text(PLAN)
    done = subprocess.run(
        [*BATCH, "run", "plan.toml", "--executor", "slurm", "-o", "b"],
        cwd=tmp_path,
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1, done.stderr
    states = list(open_batch(tmp_path / "b").survey().values())
    said = [(s.state, s.status.exit_code, s.status.message) for s in states if s.status]
    well, _, _, other, *_ = states
    assert said[0] == ("done", 0, "no GPU work was recorded")
    assert said[1][:2] == ("program_failed", 137)
    # The others were ended, and kept their captures: else the message names them.
    assert said[1][2] == "rank 1: program ended with exit code 137 (signal 9)"
    assert said[2] == ("nsys_failed", 70, "the capture of rank 1 has no event, those of other ranks have")
    assert said[3][:2] == ("program_failed", 7)
    assert re.fullmatch(r"srun ended with .*task 1: Exited with exit code 7", said[3][2])
    assert said[4:] == [
        ("nsys_failed", 70, "no capture has any event, though the run had GPUs"),
        ("nsys_failed", 70, "the capture of rank 1 has no GPU work, those of other ranks have"),
        said[-1],
    ]
    assert said[-1][:2] == ("not_started", 1)
    assert said[-1][2].startswith("setup failed: ")
    assert said[-1][2].endswith("(exit code 1); end of its output: no such module")
    captures = captures_by_rank(well.folder)
    assert [check_export(captures[rank]) for rank in range(3)] == [""] * 3
    lines = (well.folder / "program.out").read_text().splitlines()
    assert sorted(lines) == [f"rank {rank} of 3 on n{rank + 1}" for rank in range(3)]
    ranks = [json.loads((path.parent / "run.json").read_text())["rank"] for path in captures.values()]
    assert [(rank["rank"], rank["world_size"], rank["launcher"]) for rank in ranks] == [
        (rank, 3, "Slurm") for rank in range(3)
    ]
    assert list((other.folder).glob("rank-1")) == []


@pytest.fixture
def on_small_disk() -> Iterator[Callable[[Path], None]]:
    """A function that puts 16 MB of their own under a folder."""
    with ExitStack() as mounted:

        def mount(folder: Path) -> None:
            command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
            if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
                pytest.skip("cannot mount a small file system: not root, or in a container")
            mounted.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)

        yield mount


def test_a_node_goes_down_and_a_disk_is_full_beneath_ranks(
    tmp_path: Path, cluster: Cluster, on_small_disk: Callable[[Path], None]
) -> None:
    (tmp_path / "program.py").write_text(BENEATH)
    (tmp_path / "plan.toml").write_text(BENEATH_PLAN)
    words = ["run", "plan.toml", "--executor", "slurm", "-o", "b"]
    assert cluster.batch(tmp_path, *words, "--write-only").returncode == 0
    [full] = (tmp_path / "b" / RUNS).glob("*disk*")
    on_small_disk(full)
    with subprocess.Popen([*BATCH, *words], cwd=tmp_path, env=cluster.environment) as batch:
        nodes = [tmp_path / f"node{rank}" for rank in range(2)]
        wait_until(lambda: all(path.exists() for path in nodes) and (full / STATUS).exists())
        wait_until(lambda: len(cluster.jobs()) == 1)
        [lost] = nodes[1].read_text().split()
        cluster.run("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
        wait_until(lambda: any("PENDING" in job for job in cluster.jobs()))
        [job] = (line.split()[0] for line in cluster.jobs())
        # It answers, so Slurm takes it back at once, and drains what is to run a job twice.
        cluster.run("scontrol", "update", f"jobid={job}", f"excnodelist={lost}")
        (tmp_path / "go").touch()
        assert batch.wait(PATIENCE_S) == 1
    cluster.wait_for("idle")
    node, disk = open_batch(tmp_path / "b").survey().values()
    assert (node.state, [len(path.read_text().split()) for path in nodes]) == ("done", [2, 2])
    assert [check_export(path) for path in captures_by_rank(node.folder).values()] == [""] * 2
    assert disk.status is not None
    assert (disk.state, disk.status.program_code) == ("disk_full", 7)
    # Rank 0 was ended: srun could not write that rank 1 had failed.
    assert disk.status.message.startswith("rank 1: nsys wrote no complete export: the disk is full")
    assert "; no complete capture of ranks 0, 1" in disk.status.message
    assert f"nsyswrap report {cluster.environment['TMPDIR']}/" in disk.status.hint


def test_ranks_outlive_a_moved_folder_and_end_with_their_task_also_by_sigkill(
    tmp_path: Path, cluster: Cluster
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(HANGS)
    command = [*BATCH, "run", "plan.toml", "--executor", "slurm", "-o", "b"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=cluster.environment, stderr=subprocess.PIPE, text=True
    ) as batch:
        pids = [tmp_path / f"hangs{rank}" for rank in range(2)]
        wait_until(lambda: all(path.exists() and path.read_text() for path in pids))
        (tmp_path / "b").rename(tmp_path / "moved")
        said = batch.communicate(timeout=PATIENCE_S)[1]
    assert batch.returncode == 73
    assert "b was moved or removed while its jobs run\n  move it back: " in said
    moved = cluster.batch(tmp_path, "status", "moved").stdout
    assert f"this folder was moved or copied: its jobs work in {tmp_path / 'b'}, " in moved
    (tmp_path / "moved").rename(tmp_path / "b")
    programs = [int(path.read_text()) for path in pids]
    assert all(map(is_alive, programs))
    [claim] = (tmp_path / "b" / RUNS).glob("*/claim.json")
    os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, programs)))
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


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
