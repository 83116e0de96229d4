"""Loading and running the scripts in scenarios/ for their tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"

# Runs a script as `python SCRIPT ARGUMENTS` would, where torch cannot be imported.
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scenario_{name}", SCENARIOS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_without_torch(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(SCENARIOS / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(SCENARIOS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
