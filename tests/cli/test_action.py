"""The steps of the GitHub action, as bash runs them. Its runner and its pull request are none here."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import workflow_steps
from compared_runs import make_repeats

if TYPE_CHECKING:
    from pathlib import Path

STEPS = workflow_steps.steps_of("actions/gate/action.yml")
NSYSWRAP = f'#!/bin/sh\nexec "{sys.executable}" -m nsyswrap "$@"\n'


def run_step(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "nsyswrap").write_text(NSYSWRAP)
    (folder / "nsyswrap").chmod(0o755)
    return workflow_steps.run_step(STEPS[name], folder, **variables)


@pytest.mark.parametrize(("new_us", "code"), [((40, 41, 40, 41, 40), "0"), ((80, 81, 80, 81, 80), "1")])
def test_a_slower_program_fails(tmp_path: Path, new_us: tuple[int, ...], code: str) -> None:
    make_repeats(tmp_path / "before", (40, 41, 40, 41, 40))
    make_repeats(tmp_path / "nsyswrap-gate/new", new_us)
    done = run_step("Compare", tmp_path, BASELINE="before")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == f"code={code}\n"
    assert (tmp_path / "nsyswrap-gate/comment.md").read_text().startswith("**")
    assert run_step("End as the gate", tmp_path, CODE=code).returncode == int(code)


@pytest.mark.usefixtures("nsys")
def test_the_program_is_recorded_as_typed(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import sys\nopen('said', 'a').write(repr(sys.argv[1:]) + '\\n')\n")
    done = run_step("Record", tmp_path, PROGRAM="p.py --name 'a b' $(exit 3)", RUNS="2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == "['--name', 'a b', '$(exit', '3)']\n" * 2


def test_a_program_with_an_open_quote_is_not_recorded(tmp_path: Path) -> None:
    done = run_step("Record", tmp_path, PROGRAM="p.py --name 'a b", RUNS="2")
    assert done.returncode == 1
    assert "quote" in done.stderr
    assert "nsyswrap" not in done.stderr  # it was not started


def test_every_step_is_read(tmp_path: Path) -> None:
    assert list(STEPS) == ["Record", "Compare", "Comment", "End as the gate"]
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')  # GitHub's own command, which is not installed here
    gh.chmod(0o755)
    said = run_step("Comment", tmp_path, PULL_REQUEST="https://host/pull/1").stdout.split()
    assert said[:5] == ["pr", "comment", "https://host/pull/1", "--body-file", "nsyswrap-gate/comment.md"]
    gh.write_text("#!/bin/sh\nexit 1\n")
    refused = run_step("Comment", tmp_path, PULL_REQUEST="https://host/pull/1")
    assert refused.returncode == 0  # the gate decides how the job ends
    assert refused.stdout.startswith("::warning::nsyswrap gate: no comment was written.")
