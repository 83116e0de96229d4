"""Loading and running the scripts in scenarios/ for their tests, on a machine without a GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"

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


class Event:
    """Stands for torch.cuda.Event: without a GPU an event is the moment it is recorded."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, later: Event) -> float:
        return (later.seconds - self.seconds) * 1e3


def torch_on_cpu(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
    """Return the real torch, its tensors staying on the CPU: ``.cuda()`` and torch.cuda do nothing."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor, *_args, **_kwargs: tensor)
    stands_in = {
        "is_available": lambda: True,
        "synchronize": lambda: None,
        "get_device_name": lambda: "CPU",
        "Event": Event,
    }
    for name, value in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cuda.nvtx, "range", nullcontext)
    return torch
