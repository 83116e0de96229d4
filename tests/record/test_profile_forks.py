"""`profile --follow-forks` under a real nsys."""

import json
import sys
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import EXPORT, RUN

FORK = "import os; pid = os.fork(); pid and os.waitpid(pid, 0)"

pytestmark = pytest.mark.usefixtures("nsys")


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
