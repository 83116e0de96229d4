"""Compiling .cu files with the real nvcc, and what is said where that does not work."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gpus_here import NO_GPU

from nsyswrap.base.errors import CompileFailed, NsyswrapError, Unavailable, UsageError
from nsyswrap.record import nvcc
from nsyswrap.record.gpus import Devices
from nsyswrap.record.nvcc import build, compile_cuda, for_gpus

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


@pytest.fixture
def without_kernel(source: Path) -> Path:
    """A source that nvcc hands to the host's compiler, quickly: for what is kept and when."""
    text = SOURCE.replace("__global__ void kernel() {}\n", "").replace("kernel<<<1, 1>>>(); ", "")
    path = source.with_suffix(".cpp")
    path.write_text(text)
    return path


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
def test_two_sources_of_one_name_do_not_meet(without_kernel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / without_kernel.name
    other.parent.mkdir()
    shutil.copy(without_kernel, other)
    (other.parent / "answer.cuh").write_text("#define ANSWER 7\n")
    assert printed(compile_cuda(without_kernel, arch="sm_90")) == "42"
    assert printed(compile_cuda(other, arch="sm_90")) == "7"
    assert printed(compile_cuda(without_kernel, arch="sm_90")) == "42"


@needs_nvcc
def test_the_words_of_the_compiler_are_shown_and_nothing_is_kept(source: Path, cache: Path) -> None:
    source.write_text("int main() { return undeclared; }")
    with pytest.raises(CompileFailed, match='identifier "undeclared" is undefined') as error:
        compile_cuda(source, arch="sm_90")
    assert str(source) in str(error.value)
    assert "-arch=sm_90" in error.value.hint
    assert error.value.hint.endswith("-o program")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@needs_nvcc
def test_the_words_of_the_linker_are_shown(without_kernel: Path) -> None:
    with pytest.raises(CompileFailed, match="cannot find -lcublass"):
        build(without_kernel, ("-arch=sm_90", "-lcublass"))


@needs_nvcc
def test_a_line_of_a_source_that_is_not_utf_8_is_shown(source: Path) -> None:
    source.write_bytes(b'int main() { return undeclared + "caf\xe9\tx"; }\n')
    with pytest.raises(CompileFailed, match=r'undeclared \+ "caf\ufffd +x"'):
        compile_cuda(source, arch="sm_90")


@needs_nvcc
def test_options_that_make_no_program(without_kernel: Path, cache: Path) -> None:
    with pytest.raises(CompileFailed, match="these options make no program"):
        build(without_kernel, ("-arch=sm_90", "-Xcompiler", "-c"))
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@needs_nvcc
def test_warnings_are_returned_when_it_is_built(source: Path) -> None:
    source.write_text("int main() { int unused; }")
    built = build(source, ("-arch=sm_90",))
    assert 'variable "unused" was declared but never referenced' in built.output
    assert nvcc.Executable(built.path) == build(source, ("-arch=sm_90",))


@needs_nvcc
def test_options_of_our_own_cause_no_warnings(source: Path) -> None:
    assert build(source, ("-arch=sm_90", "-O0", "-G")).output == ""


PROJECT = {
    "main.cpp": """
#include "twice.h"
#include <cstdio>
int main() { std::printf("%d", twice(ANSWER) + one()); }
""",
    "part/twice.cu": """
#include "twice.h"
__global__ void kernel() {}
int twice(int n) { return FACTOR * n; }
""",
    "one.cpp": "int one() { return 1; }",
    "inc/twice.h": "#define FACTOR 2\nint twice(int);\nint one();\n",
}
TWO_SOURCES = ("-arch=sm_90", "-std=c++20", "-I", "inc", "-DANSWER=21", "part/twice.cu")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources in several folders, one of them the current folder."""
    for name, text in PROJECT.items():
        path = tmp_path / "my project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "my project")
    return tmp_path / "my project"


def built_again(source: Path, options: tuple[str, ...]) -> bool:
    path = build(source, options).path
    built = path.stat().st_mtime_ns
    return build(source, options).path.stat().st_mtime_ns != built


@needs_nvcc
def test_several_sources_until_one_of_them_or_its_header_changes(project: Path) -> None:
    source, options = project / "main.cpp", (*TWO_SOURCES, "one.cpp")
    assert printed(build(source, options).path) == "43"
    assert not built_again(source, options)
    (project / "part" / "twice.cu").write_text(PROJECT["part/twice.cu"].replace("* n", "* n + 100"))
    assert printed(build(source, options).path) == "143"
    (project / "inc" / "twice.h").write_text(PROJECT["inc/twice.h"].replace("2", "3"))
    assert printed(build(source, options).path) == "164"
    (project / "one.cpp").write_text("int one() { return 2; }")
    assert printed(build(source, options).path) == "165"


@needs_nvcc
@pytest.mark.parametrize("named", ["libone.a", "-L lib -lone"])
def test_a_static_library_that_changes(project: Path, named: str) -> None:
    source, archive = project / "main.cpp", "lib/libone.a" if named.startswith("-L") else "libone.a"
    source.write_text('#include <cstdio>\nint one();\nint main() { std::printf("%d", one()); }\n')
    options = ("-arch=sm_90", *named.split())
    (project / "lib").mkdir()
    for number in (1, 2):
        (project / "one.cpp").write_text(f"int one() {{ return {number}; }}")
        subprocess.run([nvcc.find_nvcc(), "-lib", "one.cpp", "-o", archive], check=True)
        assert printed(build(source, options).path) == f"{number}"


@needs_nvcc
def test_relative_paths_count_from_the_current_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = project / "main.cpp"
    source.write_text('#include "twice.h"\n#include <cstdio>\nint main() { std::printf("%d", FACTOR); }\n')
    options = ("-arch=sm_90", "-I", "inc")
    assert printed(build(source, options).path) == "2"
    shutil.copytree(project, project.with_name("other"))
    monkeypatch.chdir(project.with_name("other"))
    Path("inc/twice.h").write_text(PROJECT["inc/twice.h"].replace("2", "3"))
    assert printed(build(source, options).path) == "3"


@needs_nvcc
def test_the_environment_of_nvcc_counts(without_kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (without_kernel.parent / "answer.cuh").write_text("#ifndef ANSWER\n#define ANSWER 42\n#endif\n")
    assert printed(compile_cuda(without_kernel, arch="sm_90")) == "42"
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DANSWER=44")
    assert printed(compile_cuda(without_kernel, arch="sm_90")) == "44"


@needs_nvcc
def test_builds_at_the_same_time_leave_a_whole_program(without_kernel: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        paths = set(threads.map(lambda _: compile_cuda(without_kernel, arch="sm_90"), range(3)))
    [program] = paths
    assert printed(program) == "42"
    assert sorted(path.name for path in program.parent.iterdir()) == ["contents.json", "program"]


@needs_nvcc
def test_what_is_damaged_in_the_cache_is_built_again(without_kernel: Path) -> None:
    program = compile_cuda(without_kernel, arch="sm_90")
    contents = program.with_name("contents.json")
    for path, damage in ((program, "half a prog"), (contents, '{"executable": "'), (contents, "[]")):
        path.write_text(damage)
        assert printed(compile_cuda(without_kernel, arch="sm_90")) == "42"
        assert path.read_text(errors="replace") != damage


@needs_nvcc
def test_an_architecture_the_compiler_does_not_know(source: Path) -> None:
    with pytest.raises(CompileFailed, match="sm_1"):
        compile_cuda(source, arch="sm_1")


@needs_nvcc
@pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")
def test_without_a_gpu_its_kind_is_asked_for(source: Path) -> None:
    with pytest.raises(Unavailable, match=r"^no GPU to compile for") as error:
        compile_cuda(source)
    assert error.value.exit_code == 69
    assert "--arch sm_90" in error.value.hint


# GPUs that are not all to be had here are played by what the driver would say of them.
def gpu(monkeypatch: pytest.MonkeyPatch, *capabilities: str) -> None:
    names = tuple(f"GPU {number}" for number in range(len(capabilities)))
    monkeypatch.setattr(nvcc, "query", lambda: Devices(names, capabilities, "580.1", "13.0"))


def test_the_architectures_of_other_gpus() -> None:
    assert nvcc.architecture(None) == ()
    assert nvcc.architecture("sm_90a") == ("-arch=sm_90a",)
    assert nvcc.architecture("sm_90,sm_80") == for_gpus(["8.0", "9.0"])
    with pytest.raises(UsageError, match="invalid architecture 'native'"):
        nvcc.architecture("sm_80,native")


@needs_nvcc
def test_the_architecture_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "9.0")
    assert nvcc.gpu_code(nvcc.find_nvcc(), "13.0") == for_gpus(["9.0"])


@needs_nvcc
def test_a_program_for_several_kinds_of_gpu(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "8.0", "9.0", "8.0")
    assert printed(compile_cuda(source)) == "42"


@needs_nvcc
def test_a_later_gpu_that_this_compiler_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "9.0", "3.7")
    assert nvcc.gpu_code(nvcc.find_nvcc(), "13.0") == for_gpus(["9.0"])


def test_a_compiler_that_does_not_list_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old nvcc without --list-gpu-arch, played by a program that fails."""
    gpu(monkeypatch, "7.0")
    assert nvcc.gpu_code("/bin/false", "10.2") == for_gpus(["7.0"])


@needs_nvcc
def test_a_gpu_this_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "3.7")
    with pytest.raises(Unavailable, match=r"does not compile for GPU 0 \(capability 3\.7\)") as error:
        nvcc.gpu_code(nvcc.find_nvcc(), "13.0")
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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "could not be started: Exec format error"),
        ("#!/bin/sh\nexec sleep 600\n", "did not end within 0.2 s"),
    ],
)
def test_a_compiler_that_does_not_answer(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc, "_ANSWER_TIMEOUT_S", 0.2)
    compiler = tmp_path / "nvcc"
    compiler.write_text(text)
    compiler.chmod(0o755)
    with pytest.raises(Unavailable) as error:
        nvcc.nvcc_version(str(compiler))
    assert error.value.message == f"{compiler} {fault}"


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


@needs_nvcc
def test_the_native_architecture_is_built_again_for_another_gpu(
    without_kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache in a home folder serves machines with different GPUs. nvcc builds for its default here."""
    gpu(monkeypatch, "8.0")
    first = build(without_kernel, ("-arch=native",)).path
    gpu(monkeypatch, "9.0")
    assert build(without_kernel, ("-arch=native",)).path != first
