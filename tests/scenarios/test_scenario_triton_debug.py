"""scenarios/triton_debug.py, as far as it goes without a GPU: its interpreter needs none."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from ran import ran
from scenario_scripts import load

# The interpreter for several sizes. Then what the GPU runs, which the interpreter plays here. Then an error
# that does no harm: with a padding of zeros all sums are right.
INTERPRETED = """
import argparse, json, pathlib, pytest, sys
from scenario_scripts import load, torch_on_cpu
torch = torch_on_cpu(pytest.MonkeyPatch())
script = load("triton_debug")
def given(variant, rows, columns, padding):
    return argparse.Namespace(
        variant=variant, rows=rows, columns=columns, padding=padding, warmup=0, iterations=1,
        keep=None, built=sys.argv[1],
    )
sizes = (1, 1, 1), (3, 5, 3), (20, 1000, 24)
results = [script.measure(given("interpreter", *size)) for size in sizes]
results.append(script.measure(given("triton", 3, 5, 3)))
make_matrix = script.make_matrix
def harmless(torch, options):
    x = make_matrix(torch, options)
    x[:, options.columns :] = 0
    return x
script.make_matrix = harmless
for variant in ("interpreter", "triton"):
    try:
        script.measure(given(variant, 3, 5, 3))
    except AssertionError as error:
        results.append(str(error))
print(json.dumps(results))
"""
PTX = ".version 8.7\n.target {target}\n.visible .entry {name}(\n)\n"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with the PTX of three kernels, as Triton keeps it."""
    for number, name in enumerate(("wrong_row_sum_kernel", "row_sum_kernel", "triton_per_fused_sum_0")):
        folder = tmp_path / "made" / "triton" / f"hash{number}"
        folder.mkdir(parents=True)
        (folder / f"{name}.ptx").write_text(PTX.format(name=name, target="sm_90a"))
        (folder / f"{name}.ttir").write_text("module {}")
    return tmp_path / "made"


@pytest.fixture
def interpreted(made: Path, tmp_path: Path) -> tuple[str, list[Any]]:
    """What the script printed, and its results, from a new Python, since Triton reads its settings once."""
    for package in ("torch", "triton"):
        if not importlib.util.find_spec(package):
            pytest.skip(f"could not find {package}")
    path = os.pathsep.join((str(ROOT / "tests" / "support"), str(ROOT)))
    given = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path)}
    done = ran([sys.executable, "-c", INTERPRETED, str(made)], env={**os.environ, **given})
    assert done.returncode == 0, done.stderr
    *text, results = done.stdout.splitlines()
    return "\n".join(text), json.loads(results)


@pytest.mark.torch
def test_the_interpreter_finds_the_planted_error(interpreted: tuple[str, list[Any]]) -> None:
    text, [one, small, large, on_gpu, *harmless] = interpreted
    found = ("wrong_sums", "wrong_program", "inside", "outside")
    assert [[result[name] for name in found] for result in (one, small, large)] == [
        [1, 0, 2, 1],
        [3, 0, 8, 3],
        [8, 0, 1024, 24],  # of the first eight rows
    ]
    assert large["total"] > large["expected"] + 5
    assert "inside   True for 1024 of 1024" in text
    assert "The row has 1000 numbers, so `inside` is True for 24 too many: the padding." in text
    assert [timing["range"] for timing in large["timings"]] == ["interpreter/wrong", "interpreter/right"]
    assert [timing["range"] for timing in on_gpu["timings"]] == ["triton/wrong", "triton/right"]
    assert [kernel["entry"] for kernel in on_gpu["kernels"]] == ["row_sum_kernel", "wrong_row_sum_kernel"]
    assert harmless == ["the interpreter gave no wrong sum", "wrong: 0 of 3 sums are wrong, expected 3"]


@pytest.mark.parametrize(
    ("variant", "names"),
    [("triton", ["row_sum_kernel", "wrong_row_sum_kernel"]), ("compile", ["triton_per_fused_sum_0"])],
)
def test_each_variant_keeps_the_ptx_of_its_kernels(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], variant: str, names: list[str]
) -> None:
    keep = tmp_path / "kept"
    kernels = load("triton_debug").keep_ptx(made, variant, keep)
    assert kernels == [{"entry": name, "target": "sm_90a"} for name in names]
    assert sorted(path.name for path in keep.iterdir()) == sorted(f"{name}.ptx" for name in names)
    assert capsys.readouterr().out == "".join(f"{name}: sm_90a, 4 lines of PTX\n" for name in names) + "\n"
