"""Checkouts of this project that tests may change: repositories with one commit of its files."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = (
    *("pyproject.toml", "README.md", "LICENSE", ".gitignore", "nsyswrap", "kernels", "scenarios"),
    "tests/support/build_hook.py",
)
# What the version needs.
CORE = ("pyproject.toml", ".gitignore", "nsyswrap/__init__.py", "nsyswrap/base")
_IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.org")
_ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def copied(folder: Path, paths: tuple[str, ...] = CORE) -> Path:
    """Copy these files of the checkout into a new folder."""
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, target)
    return folder


def repository(folder: Path, paths: tuple[str, ...] = CORE) -> Path:
    """Make a repository with one commit of these files, without tags."""
    git(copied(folder, paths), "init", "-q")
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    """Commit all changes and return what a version has of the commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "work")
    return head(folder)


def head(folder: Path) -> str:
    """Return what a version has of the commit of a repository."""
    return f"g{git(folder, 'rev-parse', 'HEAD')[:8]}"


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints."""
    command = ["git", "-C", str(folder), *_IDENTITY, *arguments]
    environment = {**os.environ, **_ALONE}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def waiting_for_git(limit_s: float) -> str:
    """Return code that lets nsyswrap wait so long for git, instead of the seconds that its users wait."""
    return f"from nsyswrap.base import run_tool\nrun_tool.git_state.__defaults__ = ({limit_s},)"


def version_in(folder: Path, *prefix: str, code: str = "", **variables: str) -> str:
    """Return the version that a new Python with this folder on PYTHONPATH tells; ``code`` comes before."""
    lines = (waiting_for_git(PATIENCE_S), code, "import nsyswrap", "print(nsyswrap.__version__)")
    command = [*prefix, sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        command,
        cwd=folder.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.stdout.strip()


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive of tar into a folder."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(
            tarfile, "data_filter", None
        )  # older versions of Python have none
        archive.extractall(folder)  # noqa: S202 - our own


def archived(repository: Path, folder: Path) -> Path:
    """Return a folder with the output of ``git archive``."""
    git(repository, "archive", "-o", str(folder / "archive.tar"), "HEAD")
    unpack(folder / "archive.tar", folder / "archive")
    return folder / "archive"
