import argparse
import importlib.util
import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from ran import ran
from scenario_scripts import load, torch_on_cpu

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own; they are not ours to mend

# The whole of measure() on the CPU: Triton's interpreter runs its kernel there. Then a row that ends within
# its block: what lies behind must stay.
INTERPRETED = """
import argparse, json, pytest
from scenario_scripts import load, torch_on_cpu
torch = torch_on_cpu(pytest.MonkeyPatch())
script = load("softmax")
for rows, columns in ((1, 1), (3, 1000), (2, 1024), (5, 1025)):
    given = argparse.Namespace(
        variants=["triton"], rows=rows, columns=columns, warmup=1, iterations=2, built="softmax.so"
    )
    print(json.dumps(script.measure(given)["timings"]))
import triton
x, y = torch.ones(1024), torch.full((1024,), 7.0)
triton.jit(script.softmax_triton_kernel)[(1,)](x, y, 1000, BLOCK=1024)
print((y == 7).sum().item(), y[1000:].eq(7).all().item())
"""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN401 - no types without torch
    """torch on the CPU, with a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", os.environ.copy())  # the script adds to it
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def softmax(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401
    """The script; PyTorch's softmax stands for its extension."""
    script = load("softmax")
    stand_in = partial(torch.softmax, dim=1)
    monkeypatch.setattr(script, "load", lambda *_: SimpleNamespace(softmax=stand_in))
    return script


def options(*variants: str) -> argparse.Namespace:
    return argparse.Namespace(
        variants=variants, rows=30, columns=70, warmup=2, iterations=3, built="softmax.so"
    )


def test_a_run_on_the_cpu_checks_measures_and_counts_bytes(softmax: ModuleType) -> None:
    timings = softmax.measure(options("torch", "naive", "cuda"))["timings"]
    assert [timing["range"] for timing in timings] == ["torch/softmax", "naive/softmax", "cuda/softmax"]
    assert {timing["least_bytes"] for timing in timings} == {2 * 4 * 30 * 70}
    assert [timing["moved"] for timing in timings] == [1, 4, 1.5]


def test_naive_is_five_operations(softmax: ModuleType, torch: Any) -> None:  # noqa: ANN401
    x = torch.ones(4, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        softmax.naive(x)
    called = [event.name for event in profiler.events() if event.cpu_parent is None]
    assert called == ["aten::amax", "aten::sub", "aten::exp", "aten::sum", "aten::div"]


@pytest.mark.parametrize("wrong", ["one number off", "without the maximum"])
def test_a_wrong_result_is_refused(
    softmax: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    def off(x: Any) -> Any:  # noqa: ANN401
        if wrong == "without the maximum":
            return (2 * x).exp() / (2 * x).exp().sum(1, keepdim=True)
        y = torch.softmax(x, dim=1)
        y[-1, -1] *= 1.001
        return y + (y[-1, -1] < 0)

    monkeypatch.setattr(softmax, "load", lambda *_: SimpleNamespace(softmax=off))
    with pytest.raises(AssertionError, match="not close"):
        softmax.measure(options("cuda"))


@pytest.mark.usefixtures("torch")
def test_the_triton_kernel_is_right_for_any_size_and_writes_nothing_behind_a_row(tmp_path: Path) -> None:
    """In a new Python, since Triton reads its settings once."""
    if not importlib.util.find_spec("triton"):
        pytest.skip("could not find Triton")
    path = os.pathsep.join((str(ROOT / "tests" / "support"), str(ROOT)))
    given = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path), "TRITON_INTERPRET": "1"}
    done = ran([sys.executable, "-c", INTERPRETED], env={**os.environ, **given})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("triton/softmax") == 4
    assert done.stdout.endswith("24 True\n")
