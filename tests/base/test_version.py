"""The version names the commit of the code, wherever the code came from, and asks git only if it has to."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkouts import ROOT, archived, commit, copied, git, head, repository, version_in, waiting_for_git
from sampled import sampled
from waiting import PATIENCE_S

from nsyswrap.base.version import RELEASE

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
NOBODY = 65534
UNKNOWN = f"{RELEASE}+unknown"
CHANGELOG = re.compile(r"^## \[(Unreleased|[\d.]+)\](.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
VERSION_FILE = "nsyswrap/base/version.py"
# It notes each call, and calls git.
COUNTING = '#!/bin/sh\necho "$@" >> {calls}\nexec {git} "$@"\n'


def replace_line(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return repository(tmp_path / "a b")


def test_a_checkout_names_its_commit_and_changes(checkout: Path) -> None:
    made = head(checkout)
    (checkout / "mine.py").write_text("an untracked file")
    assert version_in(checkout) == f"{RELEASE}+{made}"
    (checkout / "nsyswrap/base/units.py").write_text("")
    assert version_in(checkout) == f"{RELEASE}+{made}.dirty"
    assert version_in(checkout) == f"{RELEASE}+{made}.dirty"
    assert commit(checkout) != made
    assert version_in(checkout) == f"{RELEASE}+{head(checkout)}"


def test_clones_without_history_and_work_trees(checkout: Path, tmp_path: Path) -> None:
    expected = f"{RELEASE}+{commit(checkout)}"
    git(tmp_path, "clone", "-q", "--depth", "1", checkout.as_uri(), "shallow")
    git(checkout, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    assert git(tmp_path / "shallow", "rev-list", "--count", "HEAD") == "1"
    assert version_in(tmp_path / "shallow") == version_in(tmp_path / "tree") == expected


def test_an_archive_has_the_commit_in_it(checkout: Path, tmp_path: Path) -> None:
    archive = archived(checkout, tmp_path)
    assert not (archive / ".git").exists()
    assert version_in(archive) == f"{RELEASE}+{head(checkout)}"


def test_a_repository_of_somebody_else_is_not_named(tmp_path: Path) -> None:
    """Neither one further up, as around a virtual environment, nor one that has a copy of the package."""
    git(copied(tmp_path / "theirs/lib"), "init", "-q", "..")
    commit(tmp_path / "theirs")
    assert version_in(tmp_path / "theirs/lib") == UNKNOWN
    (tmp_path / "theirs/lib/.git").mkdir()  # an empty one
    assert version_in(tmp_path / "theirs/lib") == UNKNOWN
    vendored = copied(tmp_path / "vendored")
    replace_line(vendored / "pyproject.toml", 'name = "nsyswrap"', 'name = "train"')
    git(vendored, "init", "-q")
    commit(vendored)
    assert version_in(vendored) == UNKNOWN


def test_what_the_build_wrote_comes_first(checkout: Path) -> None:
    (checkout / "nsyswrap/base/built_version.txt").write_text("0.9.0\n")
    assert version_in(checkout) == "0.9.0"


def test_variables_of_a_hook_name_another_repository(checkout: Path, tmp_path: Path) -> None:
    other = {"GIT_DIR": str(tmp_path / "other"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    assert version_in(checkout, **other) == f"{RELEASE}+{head(checkout)}"


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_the_checkout_of_another_user(checkout: Path, tmp_path: Path) -> None:
    for path in (tmp_path, *tmp_path.parents[:-2]):
        path.chmod(path.stat().st_mode | 0o055)
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    python = [*user, sys.executable, "-c", "import sys"]
    if subprocess.run(python, check=False, capture_output=True).returncode:
        pytest.skip("needs a Python that other users may run")
    assert version_in(checkout, *user, HOME="/") == f"{RELEASE}+{head(checkout)}"
    status = [*user, "git", "-C", str(checkout), "status"]  # git itself refuses
    assert subprocess.run(status, check=False, capture_output=True).returncode


def test_git_that_is_missing_or_hangs(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert version_in(checkout, PATH=str(tmp_path / "bin")) == UNKNOWN
    (tmp_path / "bin/git").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    (tmp_path / "bin/git").chmod(0o755)
    began = time.monotonic()
    assert version_in(checkout, code=waiting_for_git(1), PATH=str(tmp_path / "bin")) == UNKNOWN
    assert time.monotonic() - began < PATIENCE_S


def test_a_release_has_its_number_alone(checkout: Path, tmp_path: Path) -> None:
    replace_line(checkout / VERSION_FILE, f'RELEASE = "{RELEASE}"', 'RELEASE = "1.4.0"')
    commit(checkout)
    assert version_in(checkout) == "1.4.0"
    assert version_in(archived(checkout, tmp_path)) == "1.4.0"
    replace_line(checkout / VERSION_FILE, '"1.4.0"', '"1.4.0"  # changed')
    assert version_in(checkout) == f"1.4.0+{head(checkout)}.dirty"


@pytest.fixture
def counted(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """An environment in which each call of git is a line in the file ``calls``."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    counting = tmp_path / "bin/git"
    counting.parent.mkdir()
    counting.write_text(COUNTING.format(calls=tmp_path / "calls", git=shutil.which("git")))
    counting.chmod(0o755)
    (tmp_path / "calls").touch()
    return {**environment, "PATH": f"{counting.parent}:{os.environ['PATH']}"}


@sampled(
    ("arguments", "calls"),
    [
        (["--help"], 0),
        (["report", "nsyswrap/recorded/add2/none"], 0),
        (["report", "nsyswrap/recorded/add2/none", "-r", "cuda_gpu_sum", "--format", "csv"], 0),
        (["profile", "--help"], 0),
        (["profile", "--dry-run", "true"], 0),
        (["--version"], 2),
        (["report", "nsyswrap/recorded/add2/none", "--format", "json"], 2),
    ],
    fast=[(["--help"], 0), (["--version"], 2)],
)
def test_git_is_started_where_it_is_needed(
    arguments: list[str], calls: int, tmp_path: Path, counted: dict[str, str]
) -> None:
    code = f"{waiting_for_git(PATIENCE_S)}\nfrom nsyswrap.cli import main\nmain()"
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, cwd=ROOT, env=counted, check=True, capture_output=True)
    assert len((tmp_path / "calls").read_text().splitlines()) == calls


@pytest.mark.usefixtures("nsys")
def test_a_program_does_not_wait_for_it(tmp_path: Path, counted: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "nsyswrap",
        "profile",
        "--no-stats",
        "-o",
        "run",
        "cp",
        "calls",
        "before",
    ]
    subprocess.run(command, cwd=tmp_path, env=counted, check=True, capture_output=True)
    before, after = ((tmp_path / name).read_text().count(f"-C {ROOT} ") for name in ("before", "calls"))
    assert (before, after) == (0, 2)


def fits(version: str, changelog: str) -> bool:
    """Return True for the development version of a later release, and without changes for the last one."""
    sections = dict(CHANGELOG.findall(changelog))
    has_changes = "\n- " in sections.pop("Unreleased", "")
    last, (number, dev, rest) = next(iter(sections)), version.partition(".dev")
    is_later = [*map(int, number.split("."))] > [*map(int, last.split("."))]
    return (bool(dev) and rest == "0" and is_later) or (version == last and not has_changes)


@pytest.mark.parametrize("unreleased", ["", "## [Unreleased]\n\n", "## [Unreleased]\n\n### Fixed\n\n- x\n\n"])
def test_the_rule_for_the_version(unreleased: str) -> None:
    changelog = f"# Changelog\n\n{unreleased}## [0.9.0] - 2026-11-22\n\n- a\n\n## [0.8.0] - 2026-11-21\n"
    versions = ("0.10.0.dev0", "0.9.0", "0.9.0.dev0", "0.8.0", "0.10.0", "0.10.0.dev1")
    right = ["0.10.0.dev0"] if "- x" in unreleased else ["0.10.0.dev0", "0.9.0"]
    assert [version for version in versions if fits(version, changelog)] == right


def test_code_after_a_release_does_not_call_itself_that_release() -> None:
    assert fits(RELEASE, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def test_the_commit_after_a_release_has_another_version() -> None:
    """A release is the commit that gives the code its number. The next one gives it that of the next."""
    if "dev" in RELEASE:
        return
    if not (ROOT / ".git").exists() or git(ROOT, "rev-list", "--count", "--max-count=2", "HEAD") == "1":
        pytest.skip("needs the commit before")
    assert f'"{RELEASE}"' not in git(ROOT, "show", f"HEAD^:{VERSION_FILE}")
