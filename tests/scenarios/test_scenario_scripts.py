"""What a runner needs of every script in scenarios/, and scenarios/add.py itself, without a GPU."""

import argparse
import ast
import os
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from sampled import sampled
from scenario_scripts import SCENARIOS, load, run_without_torch

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.version import pip_install
from nsyswrap.record import scenarios as scenario
from nsyswrap.record.in_program.script import main

ALL = scenario.scenarios()
every = pytest.mark.parametrize("found", ALL, ids=lambda found: found.name)


@pytest.fixture
def add() -> ModuleType:
    return load("add")


# What a runner reads of every script


def test_the_scenarios_there_are() -> None:
    assert {found.name: found.variants for found in ALL} == {
        "add": ("1x1", "1x256", "grid", "prefetch"),
        "add2": ("both", "first", "second", "none"),
        "autograd_op": ("torch", "cuda"),
        "cdist": ("mm", "direct"),
        "copies": ("pageable", "pinned", "managed", "prefetch", "faults"),
        "ddp": ("even", "straggler"),
        "events": ("sync", "nosync", "event", "profiler"),
        "gelu": ("torch", "manual", "cuda", "triton", "compile"),
        "graphs": ("eager", "graph", "nodes"),
        "hybrid": ("threads", "gpu"),
        "inference": ("prefill", "decode", "graph"),
        "ladder": ("start", "loader", "fused", "optimizer", "no_item", "graph"),
        "ladder_cuda": ("naive", "coalesced", "vectorized", "shared", "streams"),
        "matmul": ("float32", "tf32", "bf16", "odd", "deep", "vector"),
        "nvtx": ("host", "kernels"),
        "overlap": ("one_stream", "four_streams"),
        "p2p": ("direct", "staged", "host"),
        "rules": ("wasteful", "careful"),
        "softmax": ("torch", "naive", "cuda", "triton", "compile"),
        "square": ("square", "mul", "pow", "inline", "autograd_mul", "autograd_pow"),
        "storm": ("empty", "busy"),
        "triton_debug": ("interpreter", "triton", "compile"),
        "vector_add": ("bare", "schedule", "toggle_neither", "toggle_cpu", "toggle_cuda", "toggle_both"),
    }


def test_the_ones_that_several_clocks_can_time() -> None:
    assert [found.name for found in ALL if found.can_cross_check] == ["events", "square", "vector_add"]


@every
def test_what_a_script_says_of_itself_is_known(found: scenario.Scenario) -> None:
    given = found.constants
    needs = {*given["NEEDS"], *(need for more in given.get("VARIANT_NEEDS", {}).values() for need in more)}
    assert needs <= set(scenario.NEEDS)
    for of_variants in ("ALONE", "KEEPS", "NSYS", "VARIANT_NEEDS"):
        assert set(given.get(of_variants, ())) <= set(found.variants), of_variants
    if found.repairs:
        assert tuple(found.repairs) == found.variants[1:]
    for options in given.get("NSYS", {}).values():
        RecordingOptions(**options)
    assert found.look_for.endswith(".")


@every
def test_the_docstring_is_a_summary_and_an_explanation(found: scenario.Scenario) -> None:
    summary, blank, *body = found.explanation.splitlines()
    assert summary.endswith(".")
    assert blank == ""
    assert any(line.startswith("What to look for in nsyswrap's output") for line in body)
    assert max(map(len, body)) <= 80


@sampled("found", ALL, fast=3, ids=lambda found: found.name)
def test_help_needs_no_torch(found: scenario.Scenario) -> None:
    result = run_without_torch(found.path.stem, "--help")
    assert result.returncode == 0, result.stderr
    option, _ = found.variant_argv("")
    assert f"{option} {{{','.join(found.variants)}}}" in " ".join(result.stdout.split())
    assert ("--build " in result.stdout) == found.builds


@sampled("found", ALL[::4], fast=2, ids=lambda found: found.name)
def test_an_unknown_variant_is_a_usage_error(found: scenario.Scenario) -> None:
    result = run_without_torch(found.path.stem, *found.variant_argv("fastest"))
    assert result.returncode == 2
    assert "invalid choice: 'fastest'" in result.stderr


@sampled("found", [found for found in ALL if "torch" in found.constants["NEEDS"]][::3], fast=2)
def test_without_torch_it_says_what_to_install(found: scenario.Scenario) -> None:
    result = run_without_torch(found.path.stem)
    assert result.returncode == 69
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"{found.name}: PyTorch cannot be imported")
    assert pip_install("scenarios") in result.stderr


def test_no_script_hides_a_package() -> None:
    """The folder of a script is the first place where it looks for imports."""
    packages = {"nvtx", "torch", "triton", "numpy"}
    assert packages.isdisjoint(path.stem for path in SCENARIOS.glob("*.py"))


# The script add.py


class Executed(Exception):
    """Stands for the process that os.execv would have replaced."""


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    def execv(program: str, command: list[str]) -> NoReturn:
        raise Executed(str(program), command)

    monkeypatch.setattr(os, "execv", execv)


def options(**given: object) -> argparse.Namespace:
    defaults = {"variant": "grid", "n": 8, "arch": None, "build": False, "built": None}
    return argparse.Namespace(**{**defaults, **given})


@pytest.mark.usefixtures("executed")
def test_add_becomes_the_program(add: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_cuda(source: Path, *, arch: str | None) -> Path:
        assert source.name == "add.cu"
        return Path(f"/cache/add-{arch}")

    monkeypatch.setattr(add, "compile_cuda", compile_cuda)
    with pytest.raises(Executed) as became:
        main("add", options(variant="1x256", arch="sm_90"), add.measure, add.build)
    assert became.value.args == ("/cache/add-sm_90", ["/cache/add-sm_90", "1x256", "--n", "8"])


@pytest.mark.usefixtures("executed")
def test_add_runs_what_was_built_and_compiles_nothing(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(add, "compile_cuda")
    with pytest.raises(Executed) as became:
        main("add", options(built="/cache/add"), add.measure, add.build)
    assert became.value.args == ("/cache/add", ["/cache/add", "grid", "--n", "8"])


def test_scripts_call_what_builds_build() -> None:
    """The runner passes --build to a script that has a function of that name: no other name will do."""
    for found in ALL:
        tree = ast.parse(found.path.read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert ("build" in names) == found.builds
