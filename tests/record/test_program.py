"""What can be asked to run, and how that becomes a command line."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nsyswrap.base.errors import NotExecutable, NsyswrapError, ProgramNotFound, UsageError
from nsyswrap.record import nvcc
from nsyswrap.record.program import Program, resolve


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a folder ``bin`` in it that is the whole PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def make(path: str, mode: int = 0o755) -> None:
    Path(path).write_text("#!/bin/sh\n")
    Path(path).chmod(mode)


def test_a_script_runs_with_our_python() -> None:
    make("train.py", 0o644)
    found = resolve(["train.py", "--epochs", "3", "-o", "x"])
    assert found == Program((sys.executable, "train.py", "--epochs", "3", "-o", "x"), "train")


def test_a_module_runs_with_our_python() -> None:
    assert resolve(["a.b", "-m"], module=True) == Program((sys.executable, "-m", "a.b", "-m"), "a.b")


@pytest.mark.parametrize(("name", "module"), [("train.py", False), ("a.b", True)])
def test_another_python_on_path_is_what_may_be_missing(folder: Path, name: str, *, module: bool) -> None:
    make("train.py", 0o644)
    make("bin/python3")
    found = resolve([name], module=module)
    words = f"-m {name}" if module else name
    assert found.if_it_fails.endswith(f": nsyswrap profile {folder}/bin/python3 {words}")
    assert found.warning == ""


@pytest.mark.parametrize("words", ["train.py --epochs 3", "./train.py 3", "tool train.py", "bin/tool x"])
def test_a_program_and_its_arguments_in_quotes(words: str) -> None:
    make("train.py", 0o644)
    make("bin/tool")
    with pytest.raises(ProgramNotFound) as error:
        resolve([words])
    assert (error.value.message, error.value.hint) == (f"{words} not found", f"without the quotes: {words}")


@pytest.mark.parametrize("name", ["train.py 3.py", "my tool"])
def test_a_name_with_spaces(folder: Path, name: str) -> None:
    make("train.py", 0o644)
    make("bin/my")
    make(name)
    if "tool" in name:
        (folder / name).rename(folder / "bin" / name)
    assert name in resolve([name]).argv


def test_our_own_python_on_path_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    make("train.py", 0o644)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert resolve(["train.py"]).if_it_fails == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 train.py --lr 3", "train"),
        ("bin/python3 -u -X dev src/train.py", "train"),
        ("python3 -m pkg.train", "pkg.train"),
        ("python3 src", "src"),
        ("python3 -c pass", "python3"),
        ("python3 - train.py", "python3"),
        ("python3 .", "python3"),
        ("python3", "python3"),
    ],
)
def test_a_run_of_a_typed_python_is_named_after_the_script(command: str, name: str) -> None:
    make("bin/python3")
    make("train.py")
    Path("src").mkdir()
    make("src/train.py")
    assert resolve(command.split()) == Program(tuple(command.split()), name)


def test_an_executable_is_taken_as_it_is() -> None:
    make("bin/solver")
    make("solver")
    assert resolve(["solver", "-n", ""]) == Program(("solver", "-n", ""), "solver")
    assert resolve(["./solver"]) == Program(("./solver",), "solver")


def test_a_cuda_source_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """nvcc's part is played: the real one is in test_nvcc.py."""
    seen: list[tuple[Path, tuple[str, ...]]] = []

    def built(source: Path, options: tuple[str, ...]) -> nvcc.Executable:
        seen.append((source, options))
        return nvcc.Executable(tmp_path / "built" / "add", "unused" if "-Wall" in options else "")

    monkeypatch.setattr(nvcc, "build", built)
    make("add.cu", 0o644)
    program = Program((f"{tmp_path}/built/add", "grid"), "add", folder=Path())
    assert resolve(["add.cu", "grid"], arch="sm_90") == program
    warned = resolve(["add.cu", "grid"], nvcc_words=("-Wall", "-lm"))
    assert warned == replace(program, warning="nvcc built add.cu and printed:\nunused")
    assert seen == [(Path("add.cu"), ("-arch=sm_90",)), (Path("add.cu"), ("-Wall", "-lm"))]


@pytest.mark.parametrize(
    ("name", "module", "shown"), [("train.py", False, "train.py"), ("a.cu", True, "-m a.cu")]
)
def test_options_of_nvcc_need_a_cuda_source(name: str, shown: str, *, module: bool) -> None:
    with pytest.raises(UsageError, match=f"--nvcc needs a .cu file as PROGRAM, not {shown}\n"):
        resolve([name], module=module, nvcc_words=("-lm",))


@pytest.mark.parametrize("name", ["docker", "podman", "sudo", "srun"])
def test_what_starts_its_program_elsewhere_is_warned_of(name: str) -> None:
    make(f"bin/{name}")
    for command in (name, f"bin/{name}"):
        found = resolve([command, "run", "x"])
        assert found.argv == (command, "run", "x")
        assert f"nsys may not trace through {name}" in found.warning
        assert "Run `nsyswrap profile` inside instead" in found.warning


def test_nothing_else_is_warned_of() -> None:
    make("bin/mydocker")
    assert resolve(["mydocker"]).warning == ""


@pytest.mark.parametrize("name", ["absent", "./absent", "absent.py", "absent.cu", "bin/absent"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(ProgramNotFound, match="absent") as error:
        resolve([name])
    assert error.value.exit_code == 127


def test_what_is_here_but_not_on_path_is_pointed_out() -> None:
    make("solver")
    with pytest.raises(ProgramNotFound, match=r"^solver not found on PATH") as error:
        resolve(["solver"])
    assert "./solver" in error.value.hint


def test_what_is_not_executable() -> None:
    make("solver", 0o644)
    with pytest.raises(NotExecutable, match=r"\./solver is not executable") as error:
        resolve(["./solver"])
    assert error.value.exit_code == 126
    assert "chmod +x ./solver" in error.value.hint
    make("my solver", 0o644)
    with pytest.raises(NotExecutable) as error:
        resolve(["./my solver"])
    assert "chmod +x './my solver'" in error.value.hint


@pytest.mark.parametrize("name", ["folder.py", "folder.cu", "./folder.py", "./bin"])
def test_a_folder_is_no_program(name: str) -> None:
    Path(name).mkdir(exist_ok=True)
    with pytest.raises(NotExecutable, match="is a folder"):
        resolve([name])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_script_that_cannot_be_read() -> None:
    make("train.py", 0)
    with pytest.raises(NotExecutable, match="cannot be read"):
        resolve(["train.py"])


def test_an_empty_name() -> None:
    with pytest.raises(NsyswrapError):
        resolve([""])
