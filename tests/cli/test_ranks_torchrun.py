"""scenarios/ddp.py under torchrun, on the CPU: gloo in place of NCCL, and no GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ran import ran
from scenario_scripts import SCENARIOS

SMALL = {"ranks": 2, "width": 16, "warmup": 1, "iterations": 3}
DEADLINE_S = 120

pytestmark = pytest.mark.usefixtures("torch")


def argv(*arguments: str, **counts: int) -> list[str]:
    given = [f"--{name}={count}" for name, count in {**SMALL, **counts}.items()]
    return [str(SCENARIOS / "ddp.py"), "--backend", "gloo", *given, *arguments]


def torchrun(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    return ran(
        [*launcher, sys.executable, *arguments],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        timeout=DEADLINE_S,
    )


def test_what_goes_wrong_under_torchrun_ends_all(environment: dict[str, str], tmp_path: Path) -> None:
    done = torchrun(environment, tmp_path, *argv(width=1 << 32))
    assert (done.returncode, done.stdout) == (1, "")
    assert "ddp: " in done.stderr


@pytest.mark.usefixtures("nsys")
def test_a_capture_for_each_rank_of_torchrun(environment: dict[str, str], tmp_path: Path) -> None:
    profile = ("-m", "nsyswrap", "profile", "-o", "job", "--trace", "nvtx", "--no-stats")
    done = torchrun(environment, tmp_path, *profile, *argv())
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]  # of the first rank
    result = json.loads(line)
    assert {name: result[name] for name in SMALL} == SMALL
    assert [(timing["range"], timing["operator"]) for timing in result["timings"]] == [
        (f"{variant}/step", f"rank {rank}") for variant in ("even", "straggler") for rank in range(2)
    ]
    shown = ran(
        [
            sys.executable,
            "-m",
            "nsyswrap",
            "report",
            "job",
            "--by",
            "rank",
            "-r",
            "rank_steps",
            "--format",
            "csv",
        ],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    steps = [line for line in shown.stdout.splitlines() if line.startswith("straggler/step,")]
    assert len(steps) == SMALL["iterations"]
