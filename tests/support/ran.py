"""Run a command to its end, and keep what it prints as text."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ran(
    command: Sequence[str | Path], *, check: bool = False, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Return how a command ended; the settings are those of ``subprocess.run``."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **settings)
