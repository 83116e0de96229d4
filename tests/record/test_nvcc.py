"""Compiling .cu files with the real nvcc, and what is said where that does not work."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from nsyswrap.base.errors import CompileFailed, NsyswrapError, Unavailable
from nsyswrap.record import nvcc
from nsyswrap.record.gpus import Devices, query
from nsyswrap.record.nvcc import compile_cuda

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
#include <cstdio>
#include "answer.cuh"
__global__ void kernel() {}
int main() { kernel<<<1, 1>>>(); std::printf("%d", ANSWER); }
"""


needs_nvcc = pytest.mark.usefixtures("nvcc")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "answer.cuh").write_text("#define ANSWER 42\n")
    (folder / "program.cu").write_text(SOURCE)
    return folder / "program.cu"


def printed(program: Path) -> str:
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


@needs_nvcc
def test_compiled_once_until_what_it_includes_changes(source: Path) -> None:
    program = compile_cuda(source, arch="sm_90")
    assert (program.name, printed(program)) == ("program", "42")
    built = program.stat().st_mtime_ns
    assert compile_cuda(source, arch="sm_90") == program
    assert program.stat().st_mtime_ns == built

    (source.parent / "answer.cuh").write_text("#define ANSWER 43\n")
    assert printed(compile_cuda(source, arch="sm_90")) == "43"


@needs_nvcc
def test_two_sources_of_one_name_do_not_meet(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "program.cu"
    other.parent.mkdir()
    other.write_text(SOURCE)
    (other.parent / "answer.cuh").write_text("#define ANSWER 7\n")
    assert printed(compile_cuda(source, arch="sm_90")) == "42"
    assert printed(compile_cuda(other, arch="sm_90")) == "7"
    assert printed(compile_cuda(source, arch="sm_90")) == "42"


@needs_nvcc
def test_the_words_of_the_compiler_are_shown_and_nothing_is_kept(source: Path, cache: Path) -> None:
    source.write_text("int main() { return undeclared; }")
    with pytest.raises(CompileFailed, match='identifier "undeclared" is undefined') as error:
        compile_cuda(source, arch="sm_90")
    assert str(source) in str(error.value)
    assert "-arch=sm_90" in error.value.hint
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@needs_nvcc
def test_an_architecture_the_compiler_does_not_know(source: Path) -> None:
    with pytest.raises(CompileFailed, match="sm_1"):
        compile_cuda(source, arch="sm_1")


@needs_nvcc
@pytest.mark.skipif(not query().error, reason="there is a GPU here")
def test_without_a_gpu_its_kind_is_asked_for(source: Path) -> None:
    with pytest.raises(Unavailable, match=r"^no GPU to compile for") as error:
        compile_cuda(source)
    assert error.value.exit_code == 69
    assert "--arch sm_90" in error.value.hint


# GPUs that are not all to be had here are played by what the driver would say of them.
def gpu(monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    monkeypatch.setattr(nvcc, "query", lambda: Devices(("Some GPU",), (capability,), "580.1", "13.0"))


@needs_nvcc
def test_the_architecture_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "9.0")
    path = nvcc.find_nvcc()
    assert nvcc.architecture(path, nvcc.nvcc_version(path)) == "sm_90"


@needs_nvcc
def test_a_gpu_this_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "3.7")
    with pytest.raises(Unavailable, match=r"does not compile for Some GPU \(capability 3\.7\)") as error:
        nvcc.architecture(nvcc.find_nvcc(), "13.0")
    assert error.value.hint == "use CUDA 6.5 to 11.8"


@pytest.mark.parametrize(
    ("capability", "advice"),
    [
        ("3.7", "use CUDA 6.5 to 11.8"),
        ("7.0", "use CUDA 9.0 to 12.9"),
        ("7.5", "use CUDA 10.0 or newer"),
        ("12.1", "use CUDA 12.9 or newer"),
        ("99.0", "use a newer CUDA toolkit, or name an older architecture with --arch"),
    ],
)
def test_which_release_to_use(capability: str, advice: str) -> None:
    assert nvcc._release_advice(capability) == advice  # noqa: SLF001


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Unavailable, match="nvcc not found") as error:
        nvcc.find_nvcc()
    assert error.value.hint == "install the CUDA toolkit"


def test_a_compiler_that_says_nothing() -> None:
    with pytest.raises(Unavailable, match="/bin/true --version printed no release"):
        nvcc.nvcc_version("/bin/true")


def test_a_home_of_cuda_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cuda" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert nvcc.find_nvcc() == str(compiler)


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NsyswrapError):
        compile_cuda(tmp_path / "absent.cu", arch="sm_90")
