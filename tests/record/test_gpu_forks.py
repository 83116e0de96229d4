"""What becomes of forked workers and of another user of CUPTI, with real programs on a GPU."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from gpus_here import needs_gpu

from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import RUN

PROGRAMS = Path(__file__).parent / "programs"
CUPTI = Path("/usr/local/cuda/extras/CUPTI")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("nsys"),
    needs_gpu,
]


@pytest.mark.parametrize("ending", ["_exit", "return"])
def test_forked_workers_are_named(tmp_path: Path, cli: Cli, ending: str) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "--", sys.executable, PROGRAMS / "forked.py", ending)
    assert done.returncode == 0, done.stderr
    users = json.loads((tmp_path / "run" / RUN).read_text())["gpu_processes"]
    assert [user["forked"] for user in users] == [True, True]
    assert "No GPU work: nsys does not record forks: 2 processes such as " in " ".join(done.stdout.split())


def test_followed_workers_that_end_normally_are_recorded(tmp_path: Path, cli: Cli) -> None:
    command = (sys.executable, PROGRAMS / "forked.py", "return")
    done = cli("profile", "--no-stats", "--follow-forks", "-o", "run", "--", *command)
    assert done.returncode == 0, done.stderr
    assert open_capture(tmp_path / "run").count("kernel") > 0


def test_followed_workers_that_end_at_once_lose_their_trace(cli: Cli) -> None:
    command = (sys.executable, PROGRAMS / "forked.py", "_exit")
    done = cli("profile", "--no-stats", "--follow-forks", "-o", "run", "--", *command)
    assert "No GPU work: nsys reports that CUDA events may be missing from processes" in " ".join(
        done.stdout.split()
    )


def test_the_parents_work_is_shown_and_the_worker_is_missed(cli: Cli) -> None:
    command = (sys.executable, PROGRAMS / "forked.py", "return", "parent")
    done = cli("profile", "--no-stats", "-o", "run", "--", *command)
    assert "GPU busy" in done.stdout or "No verdict" in done.stdout
    assert "nsys does not record forks: 2 processes such as " in " ".join(done.stdout.split())


@pytest.mark.skipif(not CUPTI.is_dir(), reason="needs CUPTI")
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_another_user_of_cupti_is_named(tmp_path: Path, cli: Cli) -> None:
    program, library = tmp_path / "subscriber", CUPTI / "lib64"
    paths = (f"-I{CUPTI / 'include'}", f"-L{library}", "-lcupti", f"-Xlinker=-rpath={library}")
    subprocess.run(
        ["nvcc", "-o", program, PROGRAMS / "subscriber.cu", *paths], check=True, capture_output=True
    )
    done = cli("profile", "--no-stats", "-o", "run", "--", program)
    assert "No GPU work: another profiler used CUPTI in process" in done.stdout
