"""The options of --nvcc: refused, completed, and searched for files."""

import re
import subprocess
from pathlib import Path

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.record.nvcc import check, flags, for_gpus, input_files, names_architecture, split


def test_a_text_is_split_as_a_shell_does() -> None:
    assert split("-I 'my inc' -lm") == ("-I", "my inc", "-lm")
    assert split(["-I", "my inc"]) == ("-I", "my inc")
    assert split("") == ()


REFUSED = (
    "-o -o=x --output-file -odir -c --compile -dc -dlink -lib --lib -shared -r -ptx -cubin -fatbin -E -M -MM "
    "-MD -MMD -MF -MP -MT --generate-nonsystem-dependencies-with-compile -run --run -run-args=1 "
    "-dryrun --dryrun -h --help --version -V -arch-ls --list-gpu-code"
)


@pytest.mark.parametrize("option", REFUSED.split())
def test_an_option_that_makes_no_program_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--nvcc: {option} cannot be used"):
        check("add.cu", ("-lm", option, "x"))


ACCEPTED = (
    "-lcublas -I inc -std=c++20 -Xcompiler -c -Xlinker=-r -Xptxas -v --linker-options -shared -O2 -G "
    "-g -rdc=true -dlto -lineinfo -maxrregcount=32 -cudart shared -Mx -run.cpp -use_fast_math -ccbin g++-12 "
    "-t 0 linker c o E.cpp"
)


def test_all_other_options_pass() -> None:
    check("add.cu", split(ACCEPTED))


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ("-lm -Ofc=max -Xcompiler -O0", ("-O3", "-lineinfo")),
        ("-O0", ("-lineinfo",)),
        ("--optimize=2", ("-lineinfo",)),
        ("-O 1 -G", ()),
        ("--device-debug", ("-O3",)),
    ],
)
def test_own_flags_give_way(options: str, own: tuple[str, ...]) -> None:
    assert flags(split(options)) == own


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("-arch=sm_90", True),
        ("-arch sm_90", True),
        ("--gpu-architecture=native", True),
        ("-gencode arch=compute_90,code=sm_90", True),
        ("--generate-code=arch=compute_90,code=sm_90", True),
        ("-code=sm_90", True),
        ("-DARCH=1 -I arch -Xcompiler -arch", False),
    ],
)
def test_an_architecture_is_recognized(options: str, *, named: bool) -> None:
    assert names_architecture(split(options)) is named


def test_the_code_for_gpus_is_what_nvcc_embeds(nvcc: str, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("int main() {}")
    assert embedded(nvcc, tmp_path, *for_gpus(["9.0", "8.0", "9.0"])) == {"elf 80", "elf 90", "ptx 90"}
    alone = embedded(nvcc, tmp_path, *for_gpus(["9.0"]))
    assert alone == embedded(nvcc, tmp_path, "-arch=sm_90") == {"elf 90", "ptx 90"}


def embedded(nvcc: str, folder: Path, *options: str) -> set[str]:
    """Return the machine code and PTX that nvcc would put into a program."""
    command = [nvcc, *options, "-dryrun", "a.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {" ".join(pair) for pair in re.findall(r"kind=(\w+),sm=(\d+)", done.stderr)}


def test_the_kinds_of_gpu_are_ordered_as_numbers() -> None:
    assert for_gpus(["10.0", "9.0"])[-1] == "arch=compute_100,code=compute_100"


@pytest.mark.parametrize(
    "options",
    [
        "-L lib -l x",
        "-Llib -lx",
        "-L=lib -l=y,x",
        "--library-path=lib --library x",
        "lib/libx.a",
        "-optf=lib/libx.a",
    ],
)
def test_a_library_is_among_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libx.a").touch()
    assert [str(path) for path in input_files(split(options))] == ["lib/libx.a"]


def test_a_value_that_is_too_long_for_a_file_names_none() -> None:
    assert input_files((f"-DX={'x' * 5000}", "-L", "-l")) == []
