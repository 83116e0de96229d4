"""Which rank of a launch a process is: by the environments of launchers, and inside real ones."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest
from ran import ran
from slurm_cluster import Cluster
from waiting import PATIENCE_S

from nsyswrap.base.errors import UsageError
from nsyswrap.record.launcher_env import Rank, detect, parse_ranks, rank_facts, session

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
TORCHRUN |= {"MASTER_ADDR": "n1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "none"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "242876417",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}
STEP |= BATCH_SCRIPT | {"SLURM_PROCID": "2"}
ARRAY = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}

# What each process of a launch says: its rank, and the name of the session.
SAYS = """
import json, sys
from nsyswrap.record.launcher_env import detect, session
rank = detect()
said = [rank.rank, rank.world_size, rank.local_rank, rank.launcher, session(rank)] if rank else None
sys.stdout.write(json.dumps(said) + "\\n")  # at once: two processes write into one pipe
"""


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        (TORCHRUN, Rank(3, 8, 1, "torchrun")),
        (TORCHRUN | {"WORLD_SIZE": "2", "RANK": "0"}, Rank(0, 2, 1, "torchrun", all_here=True)),
        (OPEN_MPI, Rank(1, 2, 1, "Open MPI", all_here=True)),
        (MPICH, Rank(0, 4, 0, "MPICH")),
        (STEP, Rank(2, 4, 0, "Slurm")),
        (STEP | {"SLURM_STEP_NUM_NODES": "1"}, Rank(2, 4, 0, "Slurm", all_here=True)),
        (STEP | TORCHRUN, Rank(3, 8, 1, "torchrun")),
        (BATCH_SCRIPT | OPEN_MPI, Rank(1, 2, 1, "Open MPI", all_here=True)),
        (STEP | {"PMI_RANK": "2", "PMI_SIZE": "4"}, Rank(2, 4, None, "MPICH")),
    ],
)
def test_the_most_specific_launcher_counts(environment: dict[str, str], rank: Rank) -> None:
    assert detect(environment) == rank


@pytest.mark.parametrize(
    "environment",
    [
        {},
        BATCH_SCRIPT,
        TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"},
        STEP | {"SLURM_STEP_NUM_TASKS": "1"},
        {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "n1"},  # of a node, which is to start torchrun
        {"RANK": "high", "WORLD_SIZE": "low", "LOCAL_RANK": ""},
    ],
)
def test_what_is_no_rank(environment: dict[str, str]) -> None:
    assert detect(environment) is None


@pytest.mark.parametrize(
    ("number", "world_size", "folder"), [(3, 64, "rank-03"), (3, 10, "rank-3"), (10, 11, "rank-10")]
)
def test_folders_sort_as_ranks_do(number: int, world_size: int, folder: str) -> None:
    assert Rank(number, world_size, None, "Slurm").folder == folder


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        (STEP, "7.0"),
        (STEP | ARRAY, "5_3.0"),
        (STEP | {"SLURM_STEP_ID": "2", "SLURM_RESTART_COUNT": "1"}, "7.restart1.2"),
        (STEP | {"PMI_RANK": "2", "PMI_SIZE": "4"}, "7.0"),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "a/b"}, "a-b"),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}, "a-restart2"),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "a"} | BATCH_SCRIPT, "7.a"),
        (OPEN_MPI, "242876417"),
    ],
)
def test_what_a_launch_is_called(environment: dict[str, str], name: str) -> None:
    rank = detect(environment)
    assert rank is not None
    assert session(rank, environment) == name


@pytest.mark.parametrize("environment", [TORCHRUN, MPICH])
def test_ranks_that_share_no_name_need_a_folder(environment: dict[str, str]) -> None:
    rank = detect(environment)
    assert rank is not None
    with pytest.raises(UsageError, match="gives its ranks no common name") as caught:
        session(rank, environment)
    assert "-o DIR" in caught.value.hint


def test_ranks_of_one_node_are_called_after_their_parent() -> None:
    rank = Rank(0, 2, 0, "MPICH", all_here=True)
    said = session(rank, {})
    assert said == session(rank, {})
    stamp, _, parent = said.rpartition("-")
    started = ran(["date", "-d", f"{stamp[:8]} {stamp[9:11]}:{stamp[11:13]}:{stamp[13:]}", "+%s"], check=True)
    before = time.time()
    listed = ran(["ps", "-o", "etimes=", "-p", parent], check=True)
    # Clocks that were set since the start tell a few seconds less or more.
    assert before - 60 <= int(started.stdout) + int(listed.stdout) <= time.time() + 60


@pytest.mark.parametrize(("text", "ranks"), [("0,8", (0, 8)), ("0-3,8", (0, 1, 2, 3, 8)), (" 1 , 1", (1,))])
def test_ranks_to_profile(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_ranks(text, 9) == ranks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9", "no rank 9; expected 0 to 8"),
        *[(text, f"invalid --ranks '{text}': expected") for text in ("3-1", "a", "")],
    ],
)
def test_ranks_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_ranks(text, 9)


def test_what_run_json_says() -> None:
    said = {"rank": 1, "world_size": 4, "local_rank": None, "launcher": "Slurm"}
    rank = Rank(1, 4, None, "Slurm")
    assert rank_facts(rank) == {**said, "profiled": None}
    assert rank_facts(rank, (0, 1)) == {**said, "profiled": [0, 1]}


# Real launchers


def said_by(command: list[str], environment: dict[str, str]) -> list[list[object]]:
    done = ran([*command, sys.executable, "-c", SAYS], env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


@pytest.mark.usefixtures("torch")
def test_torchrun(environment: dict[str, str]) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    first, second = (said_by(torchrun, environment) for _ in range(2))
    name = first[0][-1]
    assert first == [[rank, 2, rank, "torchrun", name] for rank in range(2)]
    assert second[0][-1] != name


@pytest.mark.skipif(not shutil.which("mpirun"), reason="needs mpirun")
def test_mpirun(environment: dict[str, str]) -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    found = said_by(["mpirun", "--oversubscribe", "-n", "3"], {**environment, **root})
    assert found == [[rank, 3, rank, "Open MPI", found[0][-1]] for rank in range(3)]


def test_srun(cluster: Cluster) -> None:
    command = ["srun", "-N2", "-n3"]
    first, second = (said_by(command, cluster.environment) for _ in range(2))
    name = first[0][-1]
    assert [row[:2] + row[3:] for row in first] == [[rank, 3, "Slurm", name] for rank in range(3)]
    assert second[0][-1] != name


def test_the_script_of_a_batch_job_is_no_rank(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    lines = [
        "#!/bin/sh",
        f"{sys.executable} {tmp_path}/says.py",
        f"srun -n2 {sys.executable} {tmp_path}/says.py",
    ]
    (tmp_path / "job.sh").write_text("\n".join(lines) + "\n")
    cluster.run("sbatch", "--wait", "-n2", "-o", f"{tmp_path}/out", f"{tmp_path}/job.sh")
    alone, *ranks = (tmp_path / "out").read_text().splitlines()
    assert alone == "null"
    assert sorted(json.loads(line)[:2] for line in ranks) == [[0, 2], [1, 2]]
