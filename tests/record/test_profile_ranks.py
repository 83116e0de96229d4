"""`nsyswrap profile` as one rank of a launch, with the real nsys; launchers are their environments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from waiting import PATIENCE_S

from nsyswrap.api import open_capture
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RUN, STATUS

pytestmark = pytest.mark.usefixtures("nsys")

PROGRAM = """
import os, sys, time
import nvtx

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
with nvtx.annotate("step"):
    time.sleep(0.02 * (rank + 1))
print("rank", rank, os.environ.get("GIVEN"), sys.stdin.read())
sys.exit(int(sys.argv[1]) if rank == 1 and len(sys.argv) > 1 else 0)
"""
QUICK = ("--trace", "nvtx", "--no-stats")


def launch(rank: int, world_size: int = 2) -> dict[str, str]:
    """What mpirun tells a rank."""
    said = {"RANK": rank, "SIZE": world_size, "LOCAL_RANK": rank, "LOCAL_SIZE": world_size}
    return {**{f"OMPI_COMM_WORLD_{name}": str(value) for name, value in said.items()}, "PMIX_NAMESPACE": "77"}


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "job.py").write_text(PROGRAM)
    return "job.py"


def test_ranks_started_together_have_a_folder_each(
    program: str, tmp_path: Path, environment: dict[str, str], cli: Cli
) -> None:
    command = [sys.executable, "-m", "nsyswrap", "profile", *QUICK, program]
    started = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**environment, **launch(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [one.communicate(timeout=PATIENCE_S) for one in started]
    job = "nsyswrap-runs/job-77"
    ends = [f"nsyswrap: rank {rank} of 2: done  {job}/rank-{rank}/\n" for rank in range(2)]
    ends[0] += f"all ranks   {sys.executable} -m nsyswrap report {job} --by rank\n"
    assert said == [(f"rank {rank} None \n", ends[rank]) for rank in range(2)]
    for rank in range(2):
        folder = tmp_path / job / f"rank-{rank}"
        assert check_export(folder / EXPORT) == ""
        facts = {"rank": rank, "world_size": 2, "local_rank": rank, "launcher": "Open MPI", "profiled": None}
        assert json.loads((folder / RUN).read_text())["rank"] == facts
    shown = cli("report", "--by", "rank", "-r", "rank_skew", "--format", "csv").stdout
    assert shown.splitlines()[1].startswith("range (CPU),1,")


@pytest.mark.parametrize("rank", [0, 1])
def test_the_others_run_bare(program: str, tmp_path: Path, cli: Cli, rank: int) -> None:
    asked = ("profile", "-o", "out", "--ranks", "0", "--env", "GIVEN=5", *QUICK, program, "3")
    done = cli(*asked, stdin="said", **launch(rank))
    assert (done.returncode, done.stdout) == (3 * rank, f"rank {rank} 5 said\n")
    assert [path.name for path in (tmp_path / "out").glob("*")] == ["rank-0"] * (rank == 0)
    assert ("nsyswrap" in done.stderr) == (rank == 0)


def test_the_lowest_rank_that_is_profiled_says_how_to_see_all(program: str, cli: Cli) -> None:
    asked = ("profile", "-o", "out dir", "--ranks", "1", "-r", "nvtx_sum,rank_skew", *QUICK, program, "3")
    done = cli(*asked, **launch(1, 12))
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "nsyswrap: rank 1 of 12: job ended with exit code 3  'out dir/rank-01'/",
        "all ranks   nsyswrap report 'out dir' --by rank -r nvtx_sum,rank_skew",
    ]


def test_tables_are_written_for_each_rank(program: str, tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "-o", "out", "-r", "nvtx_sum", "--csv", "tables", *QUICK, program, **launch(1))
    assert (done.returncode, done.stdout) == (0, "rank 1 None \n")
    assert [path.name for path in (tmp_path / "tables" / "rank-1").iterdir()] == ["nvtx_sum.csv"]


def test_a_rank_s_folder_is_its_own(program: str, tmp_path: Path, cli: Cli) -> None:
    asked = ("profile", "-o", "out", *QUICK, program)
    assert cli(*asked, **launch(0)).returncode == 0
    ended = (tmp_path / "out" / "rank-0" / STATUS).stat().st_mtime_ns
    assert cli(*asked, **launch(1)).returncode == 0
    again = cli(*asked, **launch(0))
    assert again.returncode == 73
    assert "out/rank-0 exists and is not empty" in again.stderr
    assert cli("profile", "--force", *asked[1:], **launch(0)).returncode == 0
    assert (tmp_path / "out" / "rank-0" / STATUS).stat().st_mtime_ns > ended


def test_what_would_run(program: str, tmp_path: Path, cli: Cli) -> None:
    asked = ("profile", "--dry-run", "--ranks", "0", "--env", "GIVEN=5", program, "3")
    profiled, bare = (cli(*asked, **launch(rank)).stdout for rank in range(2))
    assert profiled.startswith("mkdir -p nsyswrap-runs/job-77/rank-0 && env GIVEN=5 ")
    assert bare == f"env GIVEN=5 {sys.executable} job.py 3\n"
    assert not (tmp_path / "nsyswrap-runs").exists()


@pytest.mark.parametrize(
    ("ranks", "variables", "said"),
    [
        ("0", {}, "--ranks cannot be used without a launcher"),
        ("0,2", launch(0), "no rank 2; expected 0 to 1"),
        ("first", launch(0), "invalid --ranks 'first': expected ranks"),
    ],
)
def test_ranks_that_cannot_be_chosen(
    program: str, cli: Cli, ranks: str, variables: dict[str, str], said: str
) -> None:
    done = cli("profile", "--ranks", ranks, program, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


FORK = "import os; pid = os.fork(); pid and os.waitpid(pid, 0)"


@pytest.mark.parametrize(("options", "followed"), [((), False), (("--follow-forks",), True)])
def test_nsys_is_told_to_follow_forks(
    tmp_path: Path, cli: Cli, options: tuple[str, ...], *, followed: bool
) -> None:
    done = cli("profile", "--no-stats", *options, "-o", "run", "--", sys.executable, "-c", FORK)
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "run" / RUN).read_text())
    assert run["nsys"]["follow_forks"] is followed
    assert run["gpu_processes"] == []
    assert open_capture(tmp_path / "run" / EXPORT).info.forks_followed is followed
