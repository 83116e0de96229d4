"""A HOME that cannot be written: what needs no cache works and prints nothing about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny_export import everything, write
from waiting import PATIENCE_S

if TYPE_CHECKING:
    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Run nsyswrap with a HOME that can only be read. Root gives up its right to write everywhere."""
    if WITHOUT_RIGHTS and not shutil.which("setpriv"):
        pytest.skip("needs setpriv (util-linux): root writes everywhere")
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    unset = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")
    variables = {name: value for name, value in environment.items() if name not in unset}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*WITHOUT_RIGHTS, sys.executable, "-m", "nsyswrap", *arguments],
            cwd=tmp_path,
            env={**variables, "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert list(home.iterdir()) == []
        return done

    write(tmp_path / "x.sqlite", *everything())
    (tmp_path / "cpu.py").write_text("print(45)\n")
    return run


# The capture lacks the environment.
UNKNOWN_VALUES = (
    "nsyswrap: values of environment variables not searched for in y.sqlite:",
    "  the environment is not in the file, so its values are not known; a range name can hold one",
)


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["report", "x.sqlite", "-r", "cuda_gpu_kern_sum"], []),
        (["plot", "x.sqlite", "--kind", "timeline"], ["wrote nsyswrap-plots/x/timeline.png"]),
        (["view", "x.sqlite"], ["wrote x.html"]),
        (["redact", "x.sqlite", "-o", "y.sqlite"], ["wrote y.sqlite", *UNKNOWN_VALUES]),
        (["scenarios", "list"], []),
    ],
)
def test_what_reads_captures_is_silent(run: Run, arguments: list[str], messages: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stderr.splitlines()) == (0, messages)


def test_the_machine_is_checked(run: Run) -> None:
    done = run("doctor")
    assert done.stderr == ""
    assert done.stdout.startswith("nsys\n")
    assert done.returncode == (0 if "\nNo problem found; " in done.stdout else 1)


@pytest.mark.usefixtures("nsys")
def test_a_program_is_recorded(run: Run) -> None:
    done = run("profile", "--trace", "nvtx", "--no-stats", "-o", "run", "cpu.py")
    assert done.returncode == 0
    assert done.stdout.startswith("45\n")
    assert "home" not in done.stderr
    assert "cache folder" not in done.stderr


@pytest.mark.usefixtures("nsys")
def test_what_needs_the_cache_names_the_variable(run: Run, tmp_path: Path) -> None:
    assert run("profile", "--trace", "nvtx", "--no-stats", "-o", "run", "cpu.py").returncode == 0
    report = shutil.copy(tmp_path / "run" / "report.nsys-rep", tmp_path / "x.nsys-rep")
    (tmp_path / "x.sqlite").unlink()
    done = run("report", "x.nsys-rep")
    assert (done.returncode, done.stdout) == (73, "")
    assert "XDG_CACHE_HOME" in done.stderr
    shutil.copy(tmp_path / "run" / "report.sqlite", tmp_path / "x.sqlite")
    done = run("report", "x.nsys-rep")  # the export beside it needs no cache
    assert done.returncode == 0, report
    assert "x.nsys-rep: read from x.sqlite beside it: x.nsys-rep cannot be exported here" in done.stderr
