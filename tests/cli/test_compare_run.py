"""`nsyswrap compare --run`: two command lines recorded in turns, and how a series ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.errors import UsageError
from nsyswrap.base.run_folder import PROGRAM_OUTPUT, RunFolder
from nsyswrap.cli.compare_run import in_turns, split_commands

MARKS = """
import pathlib, sys
name, last = sys.argv[1:]
marks = pathlib.Path("marks")
marks.open("a").write(name)
print("I am", name, *sys.argv[2:])
sys.exit(4 if marks.read_text() == last else 0)
"""


def test_the_sides_take_turns() -> None:
    turns = [f"{side[0]}{number}" for number, side in in_turns(4)]
    assert turns == ["b1", "n1", "n2", "b2", "b3", "n3", "n4", "b4"]


def test_the_first_break_separates_the_commands() -> None:
    assert split_commands(("python", "a.py", "--", "python", "b.py", "-x")) == (
        ("python", "a.py"),
        ("python", "b.py", "-x"),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "got none"),
        (("a",), "got one command line"),
        (("a", "--"), "got 2 parts"),
        (("--", "a"), "got 2 parts"),
        (("a", "--", "b", "--", "c"), "got 3 parts"),
    ],
)
def test_any_other_number_of_commands_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_commands(words)


def test_options_of_the_run_need_it(cli: Cli) -> None:
    done = cli("compare", "--into", "d", "a", "b")
    assert done.returncode == 2
    assert "--into belongs to --run" in done.stderr


def test_nothing_is_run_if_one_program_does_not_exist(tmp_path: Path, cli: Cli) -> None:
    done = cli("compare", "--run", "1", "--into", "d", "--", "touch", "x", "--", "no-such-program")
    assert done.returncode == 127
    assert not list(tmp_path.glob("x"))
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("nsys")
def test_a_series_takes_turns_and_ends_with_the_run_that_fails(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "mark.py").write_text(MARKS)
    python = (sys.executable, "mark.py")
    series = ("compare", "--run", "2", "--into", "d")
    failed = cli(*series, "--", *python, "b", "bnn", "--", *python, "n", "bnn")
    assert failed.returncode == 4, failed.stderr
    assert (tmp_path / "marks").read_text() == "bnn"
    assert "nsyswrap: new, run 2 of 2: " in failed.stderr
    assert "what is done is in d/" in failed.stderr
    assert not failed.stdout
    made = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("d/*/*/run.json"))
    assert made == ["d/base/run-1", "d/new/run-1", "d/new/run-2"]
    run = tmp_path / "d" / "base" / "run-1"
    assert RunFolder(run).read_run()["repeat"] == {"number": 1, "count": 2}
    assert (run / PROGRAM_OUTPUT).read_text() == "I am b bnn\n"
    taken = cli(*series, "--", *python, "b", "-", "--", *python, "n", "-")
    assert taken.returncode == 73
    assert "d exists and is not empty\n  use another --into, or --force" in taken.stderr
    without_gpu = cli(
        "compare", "--run", "1", "--into", "d", "--force", "--", *python, "b", "-", "--", *python, "n", "-"
    )
    assert without_gpu.returncode == 65
    assert "no GPU work was recorded in the runs of either side" in without_gpu.stderr
    assert sorted(path.name for path in tmp_path.glob("d/*/*")) == ["run-1", "run-1"]
