"""What a runner needs of the scripts in scenarios/, and scenarios/add.py itself, without a GPU."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from scenario_scripts import SCENARIOS, load, run_without_torch

from nsyswrap.errors import Unavailable

if TYPE_CHECKING:
    from types import ModuleType

SCRIPTS = ("add", "add2")


@pytest.fixture
def add() -> ModuleType:
    return load("add")


# What a runner reads of both scripts


def literals(name: str) -> dict[str, object]:
    tree = ast.parse((SCENARIOS / f"{name}.py").read_text(encoding="utf-8"))
    return {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id in {"VARIANTS", "VARIANT_OPTION", "NEEDS"}
    }


def test_the_constants_are_literals() -> None:
    assert literals("add") == {
        "VARIANTS": ("1x1", "1x256", "grid", "prefetch"),
        "VARIANT_OPTION": "--variant",
        "NEEDS": ("nvcc", "gpu"),
    }
    assert literals("add2") == {
        "VARIANTS": ("both", "first", "second", "none"),
        "VARIANT_OPTION": "--sync",
        "NEEDS": ("torch", "ninja", "nvcc", "gpu"),
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_docstring_begins_with_a_summary(name: str) -> None:
    docstring = ast.get_docstring(ast.parse((SCENARIOS / f"{name}.py").read_text(encoding="utf-8")))
    assert docstring is not None
    summary, blank, *_body = docstring.splitlines()
    assert summary.endswith(".")
    assert blank == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_torch(name: str) -> None:
    result = run_without_torch(name, "--help")
    assert result.returncode == 0, result.stderr
    assert "What to look for in nsyswrap's output" in result.stdout
    assert f"{literals(name)['VARIANT_OPTION']} {{" in result.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_unknown_variant_is_a_usage_error(name: str) -> None:
    result = run_without_torch(name, str(literals(name)["VARIANT_OPTION"]), "fastest")
    assert result.returncode == 2
    assert "invalid choice: 'fastest'" in result.stderr


# The script add.py


class Executed(Exception):
    """Stands for the process that os.execv would have replaced."""


def test_add_becomes_the_program(add: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_cuda(source: Path, *, arch: str | None) -> Path:
        assert source.name == "add.cu"
        return Path(f"/cache/add-{arch}")

    def execv(program: Path, command: list[str]) -> NoReturn:
        raise Executed(str(program), command)

    monkeypatch.setattr(add, "compile_cuda", compile_cuda)
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Executed) as by_default:
        add.main([])
    assert by_default.value.args == ("/cache/add-None", ["/cache/add-None", "grid"])
    with pytest.raises(Executed) as chosen:
        add.main(["--variant", "1x256", "--n", "1000", "--arch", "sm_90"])
    assert chosen.value.args == ("/cache/add-sm_90", ["/cache/add-sm_90", "1x256", "--n", "1000"])


def test_add_runs_what_was_built_and_compiles_nothing(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execv(program: Path, command: list[str]) -> NoReturn:
        raise Executed(str(program), command)

    monkeypatch.delattr(add, "compile_cuda")
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Executed) as built:
        add.main(["--variant", "1x1", "--built", "/cache/add"])
    assert built.value.args == ("/cache/add", ["/cache/add", "1x1"])


def test_add_build_prints_the_path_and_runs_nothing(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(add, "compile_cuda", lambda _source, **_options: Path("/cache/add"))
    assert add.main(["--build"]) == 0
    assert capsys.readouterr() == ("/cache/add\n", "")


def test_add_without_a_compiler_says_so_in_one_line(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_cuda(_source: Path, **_options: object) -> NoReturn:
        raise Unavailable("nvcc was not found", "install the CUDA toolkit")

    monkeypatch.setattr(add, "compile_cuda", compile_cuda)
    assert add.main([]) == 69
    assert capsys.readouterr() == ("", "add: nvcc was not found; install the CUDA toolkit\n")
