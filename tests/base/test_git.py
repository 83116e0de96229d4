"""The commit of a folder, in real repositories; hostile ones run nothing."""

import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from nsyswrap.base import run_tool as commits
from nsyswrap.base.run_facts import Git

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")

state = partial(commits.git_state, limit_s=120.0)  # a busy machine takes long

IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.org")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "a b"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("pass\n")
    return folder


def test_a_commit_and_whether_tracked_files_differ(repository: Path) -> None:
    made = commit(repository)
    (repository / "new").write_text("untracked")
    (repository / "sub").mkdir()
    assert state(repository, os.environ) == Git(made, dirty=False)
    (repository / "train.py").write_text("1\n")
    assert state(repository / "sub", os.environ) == Git(made, dirty=True)


def test_a_touched_file_does_not_differ(repository: Path) -> None:
    made = commit(repository)
    os.utime(repository / "train.py", (1, 1))
    index = (repository / ".git/index").read_bytes()
    assert state(repository, os.environ) == Git(made, dirty=False)
    assert (repository / ".git/index").read_bytes() == index  # nothing is written


def test_no_repository_no_commit_and_no_git(repository: Path, tmp_path: Path) -> None:
    assert state(repository, os.environ) is None  # without a commit
    assert state(tmp_path, os.environ) is None
    assert state(tmp_path / "missing", os.environ) is None
    commit(repository)
    assert state(repository, {**os.environ, "PATH": str(tmp_path)}) is None


def test_variables_of_a_hook_name_another_repository(repository: Path, tmp_path: Path) -> None:
    made = commit(repository)
    other = {"GIT_DIR": str(tmp_path / "other"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    assert state(repository, {**os.environ, **other}) == Git(made, dirty=False)


def test_a_slow_git_is_given_up(repository: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    began = time.monotonic()
    path = f"{slow.parent}:{os.environ['PATH']}"
    assert state(repository, {**os.environ, "PATH": path}, limit_s=0.2) is None
    assert time.monotonic() < began + PATIENCE_S


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a file."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\ncat\n")
    program.chmod(0o755)
    return program


def test_a_monitor_and_a_hook_of_the_repository_do_not_run(repository: Path, trap: Path) -> None:
    made = commit(repository)
    shutil.copy(trap, repository / ".git/hooks/post-index-change")
    git(repository, "config", "core.fsmonitor", str(trap))
    os.utime(repository / "train.py", (1, 1))
    assert state(repository, os.environ) == Git(made, dirty=False)
    assert not trap.with_name("ran").exists()


@pytest.mark.parametrize("included", [False, True])
def test_a_repository_with_a_filter_of_its_own_is_not_read(
    repository: Path, trap: Path, *, included: bool
) -> None:
    (repository / ".gitattributes").write_text("*.py filter=evil\n")
    commit(repository)
    if included:
        settings = repository / ".git" / "more"
        git(repository, "config", "include.path", str(settings))
        git(repository, "config", "--file", str(settings), "filter.evil.clean", str(trap))
    else:
        git(repository, "config", "filter.evil.clean", str(trap))
    os.utime(repository / "train.py", (1, 1))
    assert state(repository, os.environ) is None
    assert not trap.with_name("ran").exists()
    git(repository, "status")  # the trap works
    assert trap.with_name("ran").exists()


def test_a_submodule_is_not_entered(repository: Path, trap: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    git(part, "init", "-q")
    (part / "x").write_text("x")
    commit(part)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "part")
    made = commit(repository)
    git(repository / "part", "config", "core.fsmonitor", str(trap))
    (repository / "part" / "x").write_text("y")
    assert state(repository, os.environ) == Git(made, dirty=False)
    assert not trap.with_name("ran").exists()
