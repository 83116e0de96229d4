"""The Python that a script or a module runs with."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from conftest import Cli

import nsyswrap
from nsyswrap.record import pythons
from nsyswrap.record.pythons import Interpreter, choose

OURS = Interpreter(sys.executable)
WITH, WITHOUT = 0, 1  # what a Python answers to the question for a package


def python(folder: Path, code: int = WITH) -> str:
    """Return a Python in ``folder``/bin that has each package or none."""
    path = folder / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that imports CuPy, which is not installed for the tests."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import cupy\n")
    return path


def test_the_active_environment_counts_first(tmp_path: Path) -> None:
    venv, conda = python(tmp_path / "venv"), python(tmp_path / "conda")
    active = {"VIRTUAL_ENV": f"{tmp_path}/venv", "CONDA_PREFIX": f"{tmp_path}/conda", "PATH": "/nowhere"}
    assert choose(["train.py"], environment=active) == Interpreter(venv, "active environment")
    assert choose(["train"], module=True, environment=active) == Interpreter(venv, "active environment")
    on_path = {**active, "PATH": f"{tmp_path}/conda/bin:{tmp_path}/venv/bin"}
    assert choose(["train.py"], environment=on_path) == Interpreter(conda, "active environment")


def test_an_interpreter_in_the_first_line_counts_next(tmp_path: Path, script: Path) -> None:
    named = python(tmp_path / "other")
    script.write_text(f"#!{named}\nimport cupy\n")
    assert choose(["train.py"], environment={"PATH": "/nowhere"}) == Interpreter(
        named, "first line of the script"
    )
    venv = python(tmp_path / "venv")
    active = {"VIRTUAL_ENV": f"{tmp_path}/venv", "PATH": "/nowhere"}
    assert choose(["train.py"], environment=active) == Interpreter(venv, "active environment")


@pytest.mark.parametrize("line", ["#!/usr/bin/env python3", "#!/bin/sh", "#!/nowhere/python", ""])
def test_other_first_lines_name_no_interpreter(tmp_path: Path, script: Path, line: str) -> None:
    python(tmp_path / "other")
    script.write_text(f"{line}\nprint()\n")
    assert choose(["train.py"], environment={"PATH": f"{tmp_path}/other/bin"}) == OURS


def test_the_package_that_the_program_imports_decides(tmp_path: Path, script: Path) -> None:
    venv, other = python(tmp_path / "venv", WITHOUT), python(tmp_path / "other")
    places = {"VIRTUAL_ENV": f"{tmp_path}/venv", "PATH": f"{tmp_path}/other/bin"}
    assert choose(["train.py"], environment=places) == Interpreter(other, f"{venv} has no cupy")
    alone = {**places, "PATH": "/nowhere"}
    assert choose(["train.py"], environment=alone) == Interpreter(venv, "active environment", "cupy")
    assert choose(["train.py"], environment={"PATH": "/nowhere"}) == Interpreter(sys.executable, lacks="cupy")
    script.write_text("import json\n")
    assert choose(["train.py"], environment=places) == Interpreter(venv, "active environment")


def test_our_python_is_taken_if_it_alone_has_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "cupy.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "ours")
    python(tmp_path / "venv", WITHOUT)
    places = {"VIRTUAL_ENV": f"{tmp_path}/venv", "PATH": "/nowhere"}
    assert choose(["train.py"], environment=places) == OURS


def test_an_environment_for_nsyswrap_alone_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = python(tmp_path / "other")
    (tmp_path / "train.py").write_text("import json\n")
    on_path = {"PATH": f"{tmp_path}/other/bin"}
    assert choose(["train.py"], environment=on_path) == OURS
    for place in (".local/share/pipx/venvs/nsyswrap", ".local/share/uv/tools/nsyswrap"):
        monkeypatch.setattr(sys, "prefix", str(tmp_path / place))
        assert choose(["train.py"], environment=on_path) == Interpreter(other, "first on PATH")


def test_files_of_the_current_folder_answer_nothing(tmp_path: Path) -> None:
    (tmp_path / "cupy").mkdir()  # left behind by an uninstallation, or a checkout
    (tmp_path / "train" / "deep").mkdir(parents=True)
    program = tmp_path / "train" / "deep" / "train.py"
    program.write_text("import cupy\n")
    (tmp_path / "warnings.py").write_text("raise SystemExit(0)\n")  # importlib.util imports it
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    chosen = choose([str(program)], environment={"VIRTUAL_ENV": str(venv), "PATH": "/nowhere"})
    assert (chosen.source, chosen.lacks) == ("active environment", "cupy")


def test_a_question_about_any_script_reads_none(tmp_path: Path) -> None:
    named = python(tmp_path / "other")
    (tmp_path / "SCRIPT.py").write_text(f"#!{named}\nimport cupy\n")
    assert choose(environment={"PATH": "/nowhere"}) == OURS


def test_a_pipe_is_left_to_the_program(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert choose(["pipe.py"], environment={"PATH": "/nowhere"}) == OURS  # without a writer it would wait


def test_a_linked_folder_of_programs_is_the_same_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("import json\n")
    path = python(tmp_path / "usr")
    (tmp_path / "bin").symlink_to("usr/bin")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "usr"))
    monkeypatch.setattr(sys, "executable", path)
    active = {"VIRTUAL_ENV": str(tmp_path), "PATH": "/nowhere"}
    assert choose(["train.py"], environment=active) == Interpreter(path)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_our_own_environment_is_not_another(variable: str) -> None:
    assert choose(["json.tool"], module=True, environment={variable: sys.prefix, "PATH": "/nowhere"}) == OURS
    assert choose(["json.tool"], module=True, environment={variable: "/nowhere", "PATH": "/nowhere"}) == OURS


def test_the_screen_names_another_python(cli: Cli, tmp_path: Path) -> None:
    path = python(tmp_path / "venv")
    environment = {"VIRTUAL_ENV": f"{tmp_path}/venv", "NSYSWRAP_NSYS": "/nowhere/nsys"}
    done = cli("profile", "--dry-run", "-o", "run", "train.py", "--lr", "3", **environment)
    assert done.stderr.startswith(f"nsyswrap: train.py runs with {path} (active environment)\n")
    assert done.stdout.endswith(f" {path} train.py --lr 3\n")
    named = cli("profile", "--dry-run", "-o", "run", "python3", "train.py", **environment)
    assert "runs with" not in named.stderr
    assert named.stdout.endswith(" python3 train.py\n")


@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize("python", [[], [sys.executable]], ids=["script", "its Python, too"])
def test_a_package_that_no_python_has_is_named(cli: Cli, python: list[str]) -> None:
    done = cli("profile", "--no-stats", "--steps", "3", *python, "train.py", PATH="/usr/bin:/bin")
    assert done.returncode == 1
    assert "nsyswrap: train ended with exit code 1 before step 3 began\n" in done.stderr
    assert (
        f"{sys.executable} has no cupy: install it there, or name a Python that has it, "
        "which needs no nsyswrap: nsyswrap profile /path/to/python train.py\n"
    ) in done.stderr


@pytest.mark.parametrize("listed", [False, True])
def test_an_environment_that_has_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, listed: bool
) -> None:
    """Here, or in conda's list. No Python of it is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "ml" if listed else Path(".venv")
    package = folder / "lib" / "python3.11" / "site-packages" / "cupy"
    package.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text("#!/bin/sh\ntouch run\n")
    (folder / "bin" / "python").chmod(0o755)
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_text(f"{tmp_path}/gone\n{tmp_path}/ml\n")
    assert pythons.beside("cupy") == ""
    (package / "__init__.py").touch()
    assert pythons.beside("cupy") == f"{folder}/bin/python"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"a\0b\n\n", b"\xff\n" * 100_000, None])
def test_a_list_of_conda_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """A broken one, a long one, and a pipe, which would block."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".conda").mkdir()
    listed = tmp_path / ".conda" / "environments.txt"
    if content is None:
        os.mkfifo(listed)
    else:
        listed.write_bytes(content)
    assert pythons.beside("cupy") == ""


def in_venv(folder: Path) -> str:
    """Return the Python of an environment, which is ours in a place of its own."""
    path = folder / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("nsys")
def test_a_batch_takes_the_same_python(cli: Cli, tmp_path: Path) -> None:
    path, active = in_venv(tmp_path), {"VIRTUAL_ENV": f"{tmp_path}/venv"}
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "plan.toml").write_text(
        "nsys = { stats = false }\n"
        "[[runs]]\ncommand = 'train.py'\n"
        "[[runs]]\ncommand = 'json.tool --help'\nmodule = true\n"
        "[[runs]]\ncommand = 'python3 train.py'\n"
    )
    said = f"nsyswrap: each of train.py and 1 other program runs with {path} (active environment)"
    for executor, ending in (("local", "\n"), ("slurm", "; each node chooses again\n")):
        done = cli("batch", "run", "plan.toml", "--dry-run", "--executor", executor, **active)
        assert done.stderr.startswith(f"{said}{ending}")
    done = cli("batch", "run", "plan.toml", **active)
    assert done.stderr.startswith(f"{said}\n")
    runs = [json.loads(one.read_text()) for one in sorted(tmp_path.rglob("run.json"))]
    assert [run["command"][0] for run in runs] == [path, path, "python3"]
    swept = cli("batch", "sweep", "--no-stats", "-o", "swept", "-p", "n=1,2", "train.py", "{n}", **active)
    assert swept.stderr.startswith(f"nsyswrap: train.py runs with {path} (active environment)\n")


def test_a_plan_that_names_the_python_of_the_nodes_means_it(cli: Cli, tmp_path: Path) -> None:
    in_venv(tmp_path)
    (tmp_path / "plan.toml").write_text("node = { python = 'python3' }\n[[runs]]\ncommand = 'train.py'\n")
    options = ("batch", "run", "plan.toml", "--dry-run", "--executor", "slurm")
    done = cli(*options, VIRTUAL_ENV=f"{tmp_path}/venv")
    assert "runs with" not in done.stderr
    assert "\nexport NSYSWRAP_NAMED_PYTHON=1\n" in done.stdout


@pytest.mark.usefixtures("nsys")
def test_a_run_folder_takes_the_python_that_a_plan_names(cli: Cli, tmp_path: Path) -> None:
    path, active = in_venv(tmp_path), {"VIRTUAL_ENV": f"{tmp_path}/venv"}
    (tmp_path / "train.py").write_text("print()\n")
    cli("batch", "sweep", "--no-stats", "-o", "swept", "train.py", **active)
    run = next(tmp_path.glob("swept/runs/*"))
    for variables, expected in (({}, path), ({"NSYSWRAP_NAMED_PYTHON": "1"}, sys.executable)):
        assert cli("run-folder", "--again", run, **active, **variables).returncode == 0
        assert json.loads((run / "run.json").read_text())["command"][0] == expected


@pytest.mark.usefixtures("nsys")
def test_python_code_takes_the_python_that_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's server has an environment of its own, which is active in all kernels."""
    (tmp_path / "train.py").write_text("import cupy\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    path = python(tmp_path / "venv", WITHOUT)
    assert choose(["train.py"]) == Interpreter(path, "active environment", "cupy")
    assert choose(["train.py"], ours_first=True) == Interpreter(sys.executable, lacks="cupy")
    Path(path).write_text("#!/bin/sh\nexit 0\n")
    assert choose(["train.py"], ours_first=True) == Interpreter(path, f"{sys.executable} has no cupy")
    (tmp_path / "train.py").write_text("print()\n")
    run = nsyswrap.profile("train.py", stats=False)
    assert json.loads((run.folder / "run.json").read_text())["command"][0] == sys.executable
