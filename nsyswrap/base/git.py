"""The commit of a folder, read without running code that the repository configures.

``git status`` runs file system monitors, hooks and filters of the repository's own configuration, and asks
submodules and remotes. Monitors and hooks are turned off. A repository that configures its own filters is
not read. The work trees of submodules are not entered, nothing is fetched, and nothing is written.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nsyswrap.base.run_facts import Git
from nsyswrap.base.run_tool import run_tool

LIMIT_S = 3.0
_RUNS_CODE = r"^(filter\..*\.(clean|process)|extensions\.worktreeconfig)$"
_NOT_SET = 1  # exit code of `git config` if no name matches
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_CALM = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
# Set for hooks of git, these name another repository than the program's.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


def state(folder: Path, environment: Mapping[str, str], limit_s: float = LIMIT_S) -> Git | None:
    """Return the commit of a folder, and whether tracked files differ from it.

    Returns None if it is not in a repository of this user with a commit, if the repository configures its own
    filters, or if git is missing or takes longer than ``limit_s`` seconds.
    """
    calm = {name: value for name, value in environment.items() if name not in _ELSEWHERE} | _CALM
    command = ["git", "-C", str(folder), *_SAFE]
    listing = ("config", "--local", "--includes", "--name-only", "--get-regexp", _RUNS_CODE)
    try:
        if run_tool([*command, *listing], limit_s, env=calm).returncode != _NOT_SET:
            return None
        done = run_tool([*command, *_STATUS], limit_s, env=calm)
    except (OSError, subprocess.SubprocessError):
        return None
    commit = re.search(r"(?m)^# branch\.oid ([0-9a-f]{40,64})$", done.stdout)
    if done.returncode or not commit:
        return None
    return Git(commit[1], dirty=bool(re.search(r"(?m)^[^#]", done.stdout)))
