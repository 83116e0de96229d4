"""Options of nsyswrap behind PROGRAM go to the program; a note says so where the program cannot mean them."""

import shlex
from pathlib import Path

import pytest
from conftest import Cli

NO_NSYS = {"NSYSWRAP_NSYS": "/nowhere/nsys"}  # --dry-run needs none
CPU = "print(sum(range(10)))\n"


def noted(cli: Cli, *words: str) -> list[str]:
    """What a dry run says of the words behind the program."""
    done = cli("profile", "--dry-run", "-o", "run", *words, **NO_NSYS)
    assert done.returncode == 0, done.stderr
    own = list(words if words[0] != "--" else words[1:])
    assert shlex.split(done.stdout)[-len(own) :] == own
    return [line for line in done.stderr.splitlines() if "nowhere" not in line and "nsys exec" not in line]


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["cpu.py", "-r", "nvtx_sum"], "-r nvtx_sum cpu.py"),
        (["cpu.py", "1", "--report=nvtx_sum", "--top", "3"], "--report=nvtx_sum cpu.py 1 --top 3"),
        (["python3", "cpu.py", "-r", "nvtx_sum", "2"], "-r nvtx_sum python3 cpu.py 2"),
        (["-m", "timeit", "-r", "nvtx_sum", "pass"], "-m -r nvtx_sum timeit pass"),
    ],
)
def test_a_report_behind_the_program_gets_a_note(
    cli: Cli, tmp_path: Path, words: list[str], typed: str
) -> None:
    (tmp_path / "cpu.py").write_text(CPU)
    option = "--report" if "--report" in typed else "-r"
    program = words[words[0] == "-m"]
    assert noted(cli, *words) == [
        f"nsyswrap: {option} was passed to {program}: options of nsyswrap go before PROGRAM",
        f"  nsyswrap profile --dry-run -o run {typed}",
    ]


def test_other_options_get_no_note_before_a_run_of_what_reads_arguments(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv)\n")
    assert noted(cli, "train.py", "-o", "out", "--timeout", "5", "--top") == []


def test_an_option_that_only_nsyswrap_has_gets_a_note_with_all_that_the_program_does_not_mention(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import sys; top = sys.argv\n")
    assert noted(cli, "train.py", "--modules", "--steps", "10-13", "--top", "3") == [
        "nsyswrap: --modules was passed to train.py: options of nsyswrap go before PROGRAM",
        "  nsyswrap profile --dry-run -o run --modules --steps 10-13 train.py --top 3",
    ]
    (tmp_path / "train.py").write_text("parser.add_argument('--modules')\n")
    assert noted(cli, "train.py", "--modules", "--steps", "10-13") == []


def test_the_name_of_a_report_is_ours_whatever_the_program(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv)")
    assert "-r was passed to train.py" in noted(cli, "train.py", "-r", "cuda_gpu_kern_sum:base")[0]
    assert "-r was passed to cp" in noted(cli, "cp", "-r", "rank_waiting")[0]
    assert noted(cli, "cp", "-r", "source", "target") == []


def test_what_stands_behind_two_dashes_is_the_programs_own(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cpu.py").write_text(CPU)
    assert noted(cli, "--", "cpu.py", "-r", "nvtx_sum") == []
    done = cli("profile", "--dry-run", "-o", "run", "cpu.py", "--", "-r", "nvtx_sum", **NO_NSYS)
    assert "was passed" not in done.stderr


@pytest.mark.parametrize("command", [("profile",), ("batch", "sweep")])
def test_code_is_not_a_program(cli: Cli, command: tuple[str, ...]) -> None:
    done = cli(*command, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (2, "")
    typed = f"nsyswrap {' '.join(command)} -- python3 -c 'print(1)'"
    assert (
        done.stderr
        == f"nsyswrap: nsyswrap {' '.join(command)} takes a program, not the code of -c\n  {typed}\n"
    )


@pytest.mark.usefixtures("nsys")
def test_what_is_run_is_what_was_typed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cpu.py").write_text(CPU)
    done = cli("profile", "--trace", "nvtx", "--no-stats", "cpu.py", "-r", "nvtx_sum")
    assert done.returncode == 0
    assert done.stdout.startswith("45\n")
    assert done.stderr.startswith("nsyswrap: -r was passed to cpu.py")
    assert "cpu.py -r nvtx_sum" in done.stdout  # the command line on the screen


@pytest.mark.usefixtures("nsys")
def test_the_note_follows_a_failure_it_can_explain(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "strict.sh"
    program.write_text("#!/bin/sh\ntest $# = 0 || exit 2\n")
    program.chmod(0o755)
    profile = ("profile", "--trace", "nvtx", "--no-stats")
    failed = cli(*profile, "./strict.sh", "--dry-run")
    assert failed.returncode == 2
    assert failed.stderr.endswith(
        "nsyswrap: --dry-run was passed to ./strict.sh: options of nsyswrap go before PROGRAM\n"
        "  nsyswrap profile --trace nvtx --no-stats --dry-run ./strict.sh\n"
    )
    program.write_text("#!/bin/sh\n: takes --dry-run\nexit 2\n")
    assert "was passed" not in cli(*profile, "./strict.sh", "--dry-run").stderr


def test_the_note_precedes_an_error_of_nvcc(cli: Cli, tmp_path: Path) -> None:
    """Without nvcc, without a GPU and with an error in the source: --arch behind the file is not used."""
    (tmp_path / "add.cu").write_text("int main() { return 0 }")
    failed = cli("profile", "add.cu", "--arch", "sm_90", "3")
    assert failed.returncode in (1, 69)
    assert failed.stderr.startswith(
        "nsyswrap: --arch was passed to add.cu: options of nsyswrap go before PROGRAM\n"
        "  nsyswrap profile --arch sm_90 add.cu 3\n"
        "nsyswrap: "
    )


@pytest.mark.usefixtures("nsys")
def test_a_script_that_reads_no_arguments_ignores_them(cli: Cli, tmp_path: Path) -> None:
    """The note stands before the run, which may take long."""
    (tmp_path / "train.py").write_text(CPU)
    profile = ("profile", "--trace", "nvtx", "--no-stats", "train.py", "--delay", "1", "-v")
    done = cli(*profile)
    assert done.returncode == 0
    assert done.stderr.startswith(
        "nsyswrap: --delay was passed to train.py: options of nsyswrap go before PROGRAM\n"
        "  nsyswrap profile --trace nvtx --no-stats --delay 1 train.py -v\n"
    )
    behind_python = cli(*profile[:4], "python3", *profile[4:])
    assert "nsyswrap profile --trace nvtx --no-stats --delay 1 python3 train.py -v\n" in behind_python.stderr
    for typed in ("python3 -X dev train.py", "python3 -m train", "-m train"):
        done = cli(*profile[:4], *typed.split(), *profile[5:])
        own = "-m --delay 1 train" if typed == "-m train" else f"--delay 1 {typed}"
        assert f"  nsyswrap profile --trace nvtx --no-stats {own} -v\n" in done.stderr
    (tmp_path / "train.py").write_text("import lib\n\nlib.main()\n")
    (tmp_path / "lib.py").write_text("import sys\n\ndef main():\n    print(sys.argv)\n")
    assert "was passed" not in cli(*profile).stderr


@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize("typed", ["train.py", "python3 train.py", "python3 -W ignore train.py", "-m train"])
def test_steps_behind_a_script_get_a_note(cli: Cli, tmp_path: Path, typed: str) -> None:
    """Many programs have --steps, so it counts only where this one does not mention it."""
    strict = "import argparse\nparser = argparse.ArgumentParser()\n{}parser.parse_args()\n"
    (tmp_path / "train.py").write_text(strict.format(""))
    profile = ("profile", "--no-stats", *typed.split(), "--steps", "10-13")
    failed = cli(*profile)
    assert failed.returncode == 2
    assert "nsyswrap: --steps was passed to " in failed.stderr
    flag, program = ("-m ", "train") if typed == "-m train" else ("", typed)
    assert failed.stderr.endswith(f"  nsyswrap profile --no-stats {flag}--steps 10-13 {program}\n")
    (tmp_path / "train.py").write_text(strict.format("parser.add_argument('--steps', type=int)\n"))
    assert "was passed" not in cli(*profile).stderr
