"""A program that imports JAX is recorded without NVTX ranges, once. Its JAX is a file that does nothing."""

import json
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.run_folder import RUN

NOTE = "nsyswrap: the program imports jax: recording without NVTX ranges (--trace cuda)\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "jax.py").write_text("")
    (tmp_path / "train.py").write_text("import jax\nprint('once')\n")
    return tmp_path


def test_ranges_are_not_traced(cli: Cli, nsys: str, program: Path) -> None:
    done = cli("profile", "--no-stats", "--nsys", nsys, "-o", "run", "train.py")
    assert (done.returncode, done.stdout.splitlines().count("once")) == (0, 1)
    assert json.loads((program / "run" / RUN).read_text())["nsys"]["trace"] == "cuda"
    assert NOTE in done.stderr


@pytest.mark.usefixtures("program")
def test_what_the_user_chose_is_traced(cli: Cli) -> None:
    done = cli("profile", "--dry-run", "--trace", "cuda,nvtx", "train.py")
    assert "--trace=cuda,nvtx " in done.stdout
    assert "jax" not in done.stderr


@pytest.mark.usefixtures("program")
def test_options_that_need_ranges_are_kept(cli: Cli) -> None:
    done = cli("profile", "--dry-run", "--capture-range", "nvtx:step", "train.py")
    assert "--trace=cuda,nvtx " in done.stdout
    assert "the program imports jax: with NVTX ranges nsys 2025 loses all kernels of JAX\n" in done.stderr
