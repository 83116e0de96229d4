"""Completion of commands, options and names in the shell."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from ran import ran
from sampled import sampled
from test_imports import HEAVY

from nsyswrap import reports
from nsyswrap.render import formats, plots
from nsyswrap.reports import ranks

COMPLETED = [
    ("nsyswrap re", ["report", "redact"]),
    ("nsyswrap run", ["runs"]),  # run-folder is hidden
    ("nsyswrap batch s", ["sweep", "status"]),
    ("nsyswrap report -r cuda_gpu_kern", ["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum"]),
    ("nsyswrap report x.sqlite -r gpu_time,gpu_i", ["gpu_time,gpu_idle"]),
    ("nsyswrap report --explain rank_", list(ranks.NAMES)),
    ("nsyswrap profile --report step", ["step_budget"]),
    ("nsyswrap report --format ", list(formats.NAMES)),
    ("nsyswrap plot --kind ", list(plots.NAMES)),
    (
        "nsyswrap collect -r gpu_",
        ["gpu_time_util", "gpu_time", "gpu_memory"],
    ),  # gpu_gaps and gpu_idle are no summaries
    ("nsyswrap scenarios run ove", ["overlap"]),
    ("nsyswrap scenarios explain add", ["add", "add2"]),
    ("nsyswrap scenarios run add2 --variant b", ["both"]),
    ("nsyswrap report --rea", ["--readable"]),
    ("nsyswrap profile --gpu", ["--gpu-metrics"]),  # --help-all alone shows it
    ("nsyswrap compare --run 5 --nv", ["--nvcc"]),
    ("nsyswrap profile --me", ["--memory"]),
    ("nsyswrap compare a b -- c --format ", ["text", "csv", "json", "brief", "markdown"]),
]


@pytest.fixture
def shell_environment(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """An environment with a command ``nsyswrap`` on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "nsyswrap"
    command.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -X importtime -m nsyswrap "$@" 2>>"{tmp_path}/loaded"\n'
    )
    command.chmod(0o755)
    return {**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}", "HOME": str(tmp_path)}


def loaded(folder: Path) -> set[str]:
    """The packages that the command has imported."""
    lines = (folder / "loaded").read_text().splitlines()
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@sampled(("line", "completed"), COMPLETED, fast=5, ids=lambda value: value if isinstance(value, str) else "")
def test_names_are_completed_without_heavy_imports(
    line: str, completed: list[str], tmp_path: Path, shell_environment: dict[str, str]
) -> None:
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_NSYSWRAP_COMPLETE": "bash_complete",
    }
    done = ran(["nsyswrap"], env={**shell_environment, **asked}, check=True)
    items = [item.partition(",") for item in done.stdout.splitlines() if item]
    assert [value for _, _, value in items] == completed
    assert {kind for kind, _, _ in items} <= {"plain"}
    assert "nsyswrap" in loaded(tmp_path)
    assert loaded(tmp_path) & HEAVY == set()


def test_every_report_is_completed(shell_environment: dict[str, str]) -> None:
    asked = {"COMP_WORDS": "nsyswrap report -r ", "COMP_CWORD": "3", "_NSYSWRAP_COMPLETE": "bash_complete"}
    done = ran(["nsyswrap"], env={**shell_environment, **asked}, check=True)
    names = [item.partition(",")[2] for item in done.stdout.split()]
    assert names == [*reports.NAMES, *ranks.NAMES, "all"]


# What each shell does when TAB is pressed after `nsyswrap plot --kind t`: it prints the completed words.
BASH = """
eval "$(_NSYSWRAP_COMPLETE=bash_source nsyswrap)"
complete -p nsyswrap
COMP_WORDS=(nsyswrap plot --kind t) COMP_CWORD=3
_nsyswrap_completion nsyswrap
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
autoload -Uz compinit && compinit -u
compadd() { [[ $1 == -U ]] && print -l -- "${(@)completions}" }
eval "$(_NSYSWRAP_COMPLETE=zsh_source nsyswrap)"
print -- $_comps[nsyswrap]
words=(nsyswrap plot --kind t) CURRENT=4
_nsyswrap_completion
"""
FISH = """
_NSYSWRAP_COMPLETE=fish_source nsyswrap | source
complete --do-complete "nsyswrap plot --kind t"
"""


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_in_a_shell(shell: str, script: str, shell_environment: dict[str, str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    done = ran([shell, "-c", script], env=shell_environment, check=True)
    assert done.stderr == ""
    assert {*done.stdout.splitlines()[-2:]} == {"top-kernels", "timeline"}
