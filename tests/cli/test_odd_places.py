"""A folder whose name is not UTF-8, a current folder that was removed, few open files, and little memory."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import Cli
from sampled import sampled
from tiny_export import kernel, write
from waiting import PATIENCE_S

from nsyswrap.base import limits
from nsyswrap.base.run_folder import RunFolder

if TYPE_CHECKING:
    Shell = Callable[[str], subprocess.CompletedProcess[str]]

ODD = os.fsdecode(b"run \xff")


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Shell:
    """Run lines of bash in which $N is the command."""

    def run(lines: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", lines],
            cwd=tmp_path,
            env={**environment, "N": f"{shlex.quote(sys.executable)} -m nsyswrap"},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=PATIENCE_S,
        )

    return run


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_run_folder_whose_name_is_not_utf_8(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", ODD, "true")
    assert done.returncode == 0, done.stderr
    assert RunFolder(tmp_path / ODD).read_status().outcome == "done"


def odd_capture(tmp_path: Path) -> str:
    folder = tmp_path / ODD
    folder.mkdir()
    return str(write(folder / "report.sqlite", kernel("k", 0, 5)).relative_to(tmp_path))


@sampled(
    "words",
    [
        ("report", "CAPTURE"),
        ("report", "CAPTURE", "--csv", f"csv {ODD}"),
        ("view", "CAPTURE", "-o", f"{ODD}.html"),
        ("redact", "CAPTURE", "-o", f"{ODD}.sqlite"),
        ("baseline", "save", f"{ODD}.json", "CAPTURE"),
        ("collect", ODD, "-o", f"tables {ODD}"),
        ("export", "CAPTURE", "--perfetto", f"{ODD}.gz"),
        ("export", "CAPTURE", "--parquet", f"parquet {ODD}"),
    ],
    fast=4,
    ids=lambda words: str(words[0]),
)
def test_a_capture_whose_name_is_not_utf_8(tmp_path: Path, cli: Cli, words: tuple[str, ...]) -> None:
    capture = odd_capture(tmp_path)
    done = cli(*(word.replace("CAPTURE", capture) for word in words))
    assert done.returncode == 0, done.stderr


@sampled("command", ["report x.sqlite", "profile -o out true", "runs", "demo"], fast=1)
def test_a_current_folder_that_was_removed(shell: Shell, command: str) -> None:
    done = shell(f"mkdir gone; cd gone; rmdir ../gone; $N {command}")
    assert "the current folder was removed" in done.stderr
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_too_few_open_files_for_nsys(tmp_path: Path, shell: Shell) -> None:
    done = shell("ulimit -n 16; $N profile -o run true")
    assert (done.returncode, done.stderr) == (
        69,
        "nsyswrap: ulimit -n is 16: nsys needs 64 open files\n  raise the limit: ulimit -n 1024\n",
    )
    assert list(tmp_path.iterdir()) == []
    enough = shell(f"ulimit -n {limits.LEAST_FILES}; $N profile --no-stats -o run true")
    assert enough.returncode == 0, enough.stderr


@sampled("files", [6, 7, 8, 10], fast=[8])
def test_few_open_files(tmp_path: Path, shell: Shell, files: int) -> None:
    write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    for command in ("report x.sqlite", "view x.sqlite -o page.html", "collect x.sqlite -o tables --jobs 2"):
        done = shell(f"ulimit -n {files}; $N {command}")
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or "oo many open files" in done.stderr, done.stderr


@sampled("megabytes", [150, 200, 250], fast=[200])
def test_little_memory(tmp_path: Path, shell: Shell, megabytes: int) -> None:
    write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    done = shell(f"ulimit -v {1024 * megabytes}; $N report x.sqlite")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "out of memory (ulimit -v is" in done.stderr, done.stderr


def test_an_error_that_came_of_another() -> None:
    error = RuntimeError("reading failed")
    assert limits.lack(error) is None
    error.__context__ = OSError(errno.EMFILE, "")
    found = limits.lack(error)
    assert found is not None
    assert found.message.startswith("too many open files (ulimit -n is ")
