import argparse
import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from scenario_scripts import load, torch_on_cpu

from nsyswrap.base.errors import Unavailable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own; they are not ours to mend
CACHES = {"TRITON_CACHE_DIR": "gelu/triton", "TORCHINDUCTOR_CACHE_DIR": "gelu/inductor"}

# The whole of measure() on the CPU: Triton's interpreter runs its kernel there.
INTERPRETED = """
import argparse, json, pytest
from scenario_scripts import load, torch_on_cpu
torch = torch_on_cpu(pytest.MonkeyPatch())
script = load("gelu")
for n in (1, 1023, 1024, 1025, 5000):
    given = argparse.Namespace(variants=["triton"], n=n, warmup=1, iterations=2, built="gelu.so")
    print(json.dumps(script.measure(given)["timings"]))
gelu = script.make_triton(torch)
x = torch.cat([torch.linspace(-200, 200, 4001), torch.tensor([-1e6, -0.0, 1e6])])
right = torch.nn.functional.gelu(x.double(), approximate="tanh")
torch.testing.assert_close(gelu(x).double(), right, **script.TOLERANCE)
"""

# One program for a vector that ends within its block: what lies behind must stay.
AT_THE_END = """
import torch, triton
from scenario_scripts import load
script = load("gelu")
script.make_triton(torch)
x, y = torch.ones(1024), torch.full((1024,), 7.0)
triton.jit(script.gelu_triton_kernel)[(1,)](x, y, 1000, BLOCK=script.BLOCK)
print((y == 7).sum().item(), y[1000:].eq(7).all().item())
"""

# The real compiler, for a GPU that need not be there.
COMPILED = """
import importlib, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from scenario_scripts import load
script = load("gelu")
script.tl = importlib.import_module("triton.language")
kernel = triton.jit(script.gelu_triton_kernel)
signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = ASTSource(fn=kernel, signature=signature, constexprs={"BLOCK": script.BLOCK})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
print(compiled.metadata.name, len(compiled.asm["cubin"]) > 0)
"""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN401 - no types without torch
    """torch on the CPU, with a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", os.environ.copy())  # the script adds to it
    for name in list(os.environ):
        if name.startswith(("TRITON_", "TORCHINDUCTOR_")):
            del os.environ[name]
    return torch_on_cpu(monkeypatch)


@pytest.fixture
def gelu(torch: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ANN401
    """The script; PyTorch's GELU stands for its extension."""
    script = load("gelu")
    stand_in = partial(torch.nn.functional.gelu, approximate="tanh")
    monkeypatch.setattr(script, "load", lambda *_: SimpleNamespace(gelu=stand_in))
    return script


def options(*variants: str, **given: object) -> argparse.Namespace:
    defaults = {"n": 3000, "warmup": 2, "iterations": 3, "built": "gelu.so"}
    return argparse.Namespace(variants=variants, **{**defaults, **given})


def without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else found(name))


def test_a_run_on_the_cpu_checks_measures_and_reports(gelu: ModuleType) -> None:
    result = gelu.measure(options("torch", "manual", "cuda"))
    assert (result["device"], result["n"], result["warmup"]) == ("CPU", 3000, 2)
    ranges = [timing["range"] for timing in result["timings"]]
    assert ranges == ["torch/gelu", "manual/gelu", "cuda/gelu"]
    assert [timing["launches"] for timing in result["timings"]] == [5, 5, 5]


def test_torch_compile_gets_all_of_manual_in_one_graph(
    gelu: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("triton")
    graphs: list[Any] = []

    def backend(graph: Any, _inputs: object) -> Any:  # noqa: ANN401 - traces it, and makes no code
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # the real one, for torch.compile
    monkeypatch.setattr(gelu, "import_torch", lambda: torch)
    [timing] = gelu.measure(options("compile"))["timings"]
    assert timing["range"] == "compile/gelu"
    [graph] = graphs
    calls = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    assert len(calls) == 8, calls


def run(code: str, tmp_path: Path, **variables: str) -> str:
    """Run code in a new Python, since Triton reads its settings once; return what it prints."""
    if not importlib.util.find_spec("triton"):
        pytest.skip("could not find Triton")
    path = os.pathsep.join((str(ROOT / "tests" / "support"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path), **variables}
    environment.pop("TRITON_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("torch")
def test_the_triton_kernel_is_right_for_any_size(tmp_path: Path) -> None:
    assert run(INTERPRETED, tmp_path, TRITON_INTERPRET="1").count("triton/gelu") == 5


@pytest.mark.usefixtures("torch")
def test_the_triton_kernel_writes_nothing_behind_the_end(tmp_path: Path) -> None:
    assert run(AT_THE_END, tmp_path, TRITON_INTERPRET="1") == "24 True\n"


@pytest.mark.usefixtures("torch")
def test_the_triton_kernel_compiles(tmp_path: Path) -> None:
    assert run(COMPILED, tmp_path, HOME=str(tmp_path)) == "gelu_triton_kernel True\n"


def test_manual_is_eight_operations(gelu: ModuleType, torch: Any) -> None:  # noqa: ANN401
    x = torch.ones(4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        gelu.manual(x)
    called = [event.name for event in profiler.events() if event.cpu_parent is None]
    assert len(called) == 8, called
    assert {*called} == {"aten::mul", "aten::add", "aten::pow", "aten::tanh"}


@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_result_is_refused(
    gelu: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    error: float,
) -> None:
    def wrong_in_the_last(x: Any) -> Any:  # noqa: ANN401
        y = torch.nn.functional.gelu(x, approximate="tanh")
        y[-1] += error
        return y

    monkeypatch.setattr(gelu, "load", lambda *_: SimpleNamespace(gelu=wrong_in_the_last))
    with pytest.raises(AssertionError, match="not close"):
        gelu.measure(options("cuda"))


def test_the_other_gelu_is_refused(
    gelu: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gelu, "load", lambda *_: SimpleNamespace(gelu=torch.nn.functional.gelu))
    with pytest.raises(AssertionError, match="not close"):
        gelu.measure(options("cuda"))


# The build and its caches


@pytest.mark.parametrize("variant", ["triton", "compile"])
def test_without_triton_it_is_named(gelu: ModuleType, monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    without_triton(monkeypatch)
    with pytest.raises(Unavailable, match="Triton is not installed"):
        gelu.measure(options("torch", variant))


@pytest.mark.parametrize("has_triton", [True, False])
def test_the_build_fills_the_caches_that_the_run_reads(
    gelu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, has_triton: bool
) -> None:
    made: list[tuple[str, int, str | None]] = []

    def make_function(_torch: object, variant: str, _library: str) -> Any:  # noqa: ANN401
        return lambda x: made.append((variant, len(x), os.environ.get("TRITON_CACHE_DIR")))

    monkeypatch.setattr(gelu, "build_extension", lambda *_: SimpleNamespace(__file__="/cache/gelu.so"))
    monkeypatch.setattr(gelu, "make_function", make_function)
    if has_triton:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    else:
        without_triton(monkeypatch)
    assert gelu.build(options(n=77)) == "/cache/gelu.so"
    cache = str(tmp_path / "nsyswrap" / "gelu" / "triton")
    assert made == ([("triton", 77, cache), ("compile", 77, cache)] if has_triton else [])


def test_a_run_uses_the_same_caches_and_starts_no_compiler(gelu: ModuleType, tmp_path: Path) -> None:
    gelu.measure(options("torch"))
    for name, folder in CACHES.items():
        assert os.environ[name] == str(tmp_path / "nsyswrap" / folder)
    assert os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "1"


def test_caches_that_the_user_has_set_stay(gelu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CACHES:
        monkeypatch.setenv(name, "/mine")
    gelu.measure(options("torch"))
    assert [os.environ[name] for name in CACHES] == ["/mine", "/mine"]
