"""The steps of GitHub actions and workflows, as its runner starts them."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from typing import TYPE_CHECKING

from checkouts import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_STEP = re.compile(
    r"^ +- name: (?P<name>.+)\n(?:(?! +- ).*\n)*? +run: (?:\|\n(?P<block>(?: {8,}.*\n)+)|(?P<line>.+)\n)",
    re.MULTILINE,
)


def steps_of(path: str) -> dict[str, str]:
    """Return what each named step of a file below ``.github`` runs, of several with one name the last."""
    text = (ROOT / ".github" / path).read_text(encoding="utf-8")
    return {step["name"]: textwrap.dedent(step["block"] or step["line"]) for step in _STEP.finditer(text)}


def run_step(
    run: str, folder: Path, *, shell: str = "bash --noprofile --norc -eo pipefail", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a step in a folder, whose programs come before those of PATH."""
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(folder / "output"),
        **variables,
    }
    command = [*shell.split(), "-c", run]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
