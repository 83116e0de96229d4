"""The workflows, the site and the hooks of this repository: what they run works here, too.

Not run here: GitHub's own actions, the indexes of packages, and the steps that run this test suite.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import BUILT_FROM, ROOT, commit, git, repository
from workflow_steps import run_step, steps_of

BIN = Path(sys.executable).parent
SHELL = "bash --noprofile --norc -e"  # of a workflow
SITE = (*BUILT_FROM, ".github", "docs", "CONTRIBUTING.md", "CHANGELOG.md")

pytestmark = pytest.mark.slow


def has(program: str) -> None:
    if not (BIN / program).exists():
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing(f"needs {program} (pip install '.[dev]')")


def run(*command: str | Path, folder: Path = ROOT) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose first folder of programs is the environment of the tests, and its origin."""
    repository(tmp_path / "origin", SITE)
    git(tmp_path / "origin", "branch", "-M", "main")
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), "clone")
    (tmp_path / "clone/.venv").mkdir()
    (tmp_path / "clone/.venv/bin").symlink_to(BIN)
    return tmp_path / "clone"


def test_nothing_in_the_workflows_is_unsafe_or_unpinned() -> None:
    has("zizmor")
    assert "No findings to report" in run(BIN / "zizmor", "--offline", "--no-config", ".github")


def test_a_step_that_is_unsafe_is_found(tmp_path: Path) -> None:
    has("zizmor")
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    (tmp_path / ".github/workflows").mkdir(parents=True)
    (tmp_path / ".github/workflows/tests.yml").write_text(
        workflow.replace("run: .ci/run", "run: echo ${{ github.head_ref }}")
    )
    done = subprocess.run([BIN / "zizmor", "--offline", "."], cwd=tmp_path, capture_output=True, check=False)
    assert b"template-injection" in done.stdout


def test_the_hooks_are_those_of_the_test_command() -> None:
    has("pre-commit")
    run(BIN / "pre-commit", "validate-config")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for program in ("ruff check", "ruff format", "codespell"):
        assert f"{program}" in (ROOT / "tests/run").read_text()
        assert f"entry: .cache/test-venv/bin/{program}" in hooks


def test_the_site_is_built_without_a_warning(clone: Path) -> None:
    has("mkdocs")
    done = run_step(steps_of("workflows/docs.yml")["Build"], clone, shell=SHELL, RUNNER_TEMP=str(clone / "t"))
    assert done.returncode == 0, done.stderr
    api = (clone / "t/site/api/index.html").read_text()
    assert "How busy the GPU was" in api
    first = (clone / "t/site/index.html").read_text()
    assert 'href="install/"' in first
    menu = [path for path in (clone / "docs").rglob("*.md") if f'href="{_address(path, clone)}"' not in first]
    assert menu == []
    assert "https://fonts" not in first


def _address(page: Path, clone: Path) -> str:
    path = page.relative_to(clone / "docs")
    return f"{path.parent if path.name == 'README.md' else path.with_suffix('')}/"


def test_a_broken_link_fails(clone: Path) -> None:
    has("mkdocs")
    (clone / "docs/python.md").write_text("# Python\n\n[findings](findings.md#no-such-part)\n")
    done = run_step(steps_of("workflows/docs.yml")["Build"], clone, shell=SHELL, RUNNER_TEMP=str(clone / "t"))
    assert done.returncode == 1
    assert "no-such-part" in done.stderr


def test_each_release_keeps_its_site(clone: Path) -> None:
    has("mike")
    publish = steps_of("workflows/docs.yml")["Publish"]
    for kind, name in (("branch", "main"), ("tag", "v0.4.0")):
        done = run_step(publish, clone, shell=SHELL, REF_TYPE=kind, REF_NAME=name)
        assert done.returncode == 0, done.stdout + done.stderr
    names = git(clone.parent / "origin", "ls-tree", "--name-only", "gh-pages").split()
    assert {"0.4", "latest", "main", "index.html", "versions.json"} <= set(names)
    assert "0.4" in git(clone.parent / "origin", "show", "gh-pages:versions.json")


@pytest.mark.parametrize(("tag", "code"), [("v7.8.9", 0), ("v7.8.8", 1)])
def test_a_release_is_built_if_the_tag_is_its_version(clone: Path, tag: str, code: int) -> None:
    version = clone / "nsyswrap/base/version.py"
    text = version.read_text()
    [line] = [line for line in text.splitlines() if line.startswith("RELEASE = ")]
    version.write_text(text.replace(line, 'RELEASE = "7.8.9"'))
    commit(clone)
    run(sys.executable, "-m", "hatchling", "build", "-d", "dist", folder=clone)
    done = run_step(steps_of("workflows/release.yml")["Check the version"], clone, shell=SHELL, TAG=tag)
    assert done.returncode == code, done.stdout


def test_the_smoke_test_uses_the_command(clone: Path) -> None:
    done = run_step(steps_of("workflows/release.yml")["Use it"], clone, shell=SHELL)
    assert done.returncode == 0, done.stderr
    assert "nsyswrap, version" in done.stdout
    assert "GPU busy" in done.stdout


def test_the_jobs_run_the_commands_of_this_repository() -> None:
    assert steps_of("workflows/release.yml")["Test"] == ".ci/run"
    for command in (".ci/run", "PYTHON=python bash tests/run --fast"):
        assert f"        run: {command}\n" in (ROOT / ".github/workflows/tests.yml").read_text()
