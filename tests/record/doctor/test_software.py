"""What doctor says of Python, NVTX, PyTorch and nvcc, and what it makes of programs that fail."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from gpus_here import NO_GPU, needs_gpu
from waiting import PATIENCE_S

from nsyswrap.base.nsys.find import Nsys
from nsyswrap.record import doctor
from nsyswrap.record.doctor import compiler, failure, nvtx_of, package, python


@pytest.mark.parametrize(
    ("installed", "nsys", "level"),
    [
        ("0.2.11", "2023.4.4.54", "ok"),
        ("0.2.12", "2023.4.4.54", "problem"),
        ("0.2.14", "2024.2.3.38", "problem"),
        ("0.2.14", "2024.5.1", "unknown"),
        ("0.2.14", "2025.3.1.90", "ok"),
        ("", "2023.4.4.54", "note"),
    ],
)
def test_an_nvtx_that_records_nothing(installed: str, nsys: str, level: str) -> None:
    check = nvtx_of(installed, Nsys("nsys", nsys))
    assert check.level == level
    assert ("'nvtx<0.2.12'" in check.cure) == (level == "problem")


def test_what_is_not_installed_is_a_note() -> None:
    assert package("no_such_package", "Nothing", has_gpu=True).level == "note"


def test_a_package_without_metadata_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare_package.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert doctor.version("bare_package") == "of unknown version"


def test_another_python_on_path_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert python().text.startswith(f"{sys.version.split()[0]} at {sys.executable}")
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (python().level, python().cure) == ("note", f"nsyswrap profile {other} SCRIPT")


def test_packages_are_those_of_the_active_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bin" / "python"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\ntest "$3" = torch && echo 2.9\n')
    path.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert (python().level, python().text) == ("ok", f"{path} (active environment) runs your scripts")
    assert package("torch", "PyTorch", has_gpu=False).text == "2.9, not tried: no GPU"
    assert package("triton", "Triton", has_gpu=False).text == f"not installed in {path}"


@pytest.mark.usefixtures("torch")
def test_a_pytorch_for_the_cpu_cannot_add_on_the_gpu() -> None:
    if import_module("torch").version.cuda:
        pytest.skip("this PyTorch is for the GPU")
    for has_gpu, level in ((False, "note"), (True, "problem")):
        check = package("torch", "PyTorch", has_gpu=has_gpu)
        assert check.level == level
        assert check.text.endswith(": this build of PyTorch is for the CPU only")
        assert check.cure == "install a CUDA build: https://pytorch.org/get-started/locally"


def test_without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsyswrap.record.nvcc.shutil.which", lambda _: None)
    check = compiler(has_gpu=True)
    assert (check.level, "only .cu programs need it" in check.text) == ("note", True)


def test_an_nvcc_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvcc").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = compiler(has_gpu=False)
    assert (check.level, check.cure) == ("problem", "install the CUDA toolkit again")
    assert check.text == f"{tmp_path / 'nvcc'} could not be started: Exec format error"


@pytest.mark.usefixtures("nvcc")
@pytest.mark.skipif(not NO_GPU, reason="is about a machine without a GPU")
def test_nvcc_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiler(has_gpu=False).text.endswith("not tried: no GPU")
    check = compiler(has_gpu=True)
    assert (check.level, check.text) == ("problem", f"no GPU to compile for: {NO_GPU}")


@pytest.mark.gpu
@pytest.mark.usefixtures("nvcc")
@needs_gpu
def test_nvcc_adds_on_the_gpu() -> None:
    assert compiler(has_gpu=True).level == "ok"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "triton"])
@needs_gpu
def test_packages_add_on_the_gpu(name: str) -> None:
    module = pytest.importorskip(name, reason=f"needs {name}")
    if name == "torch" and not module.version.cuda:
        pytest.skip("this PyTorch is for the CPU only")
    assert package(name, name, has_gpu=True).level == "ok"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("pass", ""),
        ("raise SystemExit('a\\nthe last line')", "the last line"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import time; time.sleep(600)", "it did not end within 1 s"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_how_a_program_failed(code: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 1 if "within 1 s" in words else PATIENCE_S)
    assert failure([sys.executable, "-S", "-c", code]) == words


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    assert failure([str(tmp_path / "none")]) == "it could not be started: No such file or directory"
