"""`nsyswrap compare --run`: two command lines recorded in turns, and how a series ends."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from compared_runs import make_run
from conftest import Cli
from tiny_export import nvtx, write

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.base.run_folder import EXPORT, PROGRAM_OUTPUT, RunFolder
from nsyswrap.cli.compare import command, in_turns, split_commands
from nsyswrap.record.program import RunSpec

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


def test_options_of_nvcc_are_for_the_cu_files_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, tuple[str, ...]]] = []

    def build(path: Path, words: tuple[str, ...]) -> SimpleNamespace:
        built.append((path.name, words))
        return SimpleNamespace(path=Path("true"), output="")

    monkeypatch.chdir(tmp_path)
    for name in ("old.cu", "new.cu"):
        Path(name).touch()
    recorder = Recorder()
    monkeypatch.setattr("nsyswrap.record.nvcc.build", build)
    monkeypatch.setattr("nsyswrap.api.run", recorder)
    monkeypatch.setattr("nsyswrap.base.nsys.find.find_nsys", lambda _: None)
    options = ["--run", "3", "--into", "d", "--nvcc", "-O3 -lcublas", "--arch", "sm_90"]
    with pytest.raises(SystemExit) as end:
        command.main([*options, "--", "old.cu", "1", "--", "new.cu", "2"], standalone_mode=False)
    assert (end.value.code, len(recorder.made)) == (0, 6)
    assert built == [(name, ("-O3", "-lcublas", "-arch=sm_90")) for name in ("old.cu", "new.cu")]
    built.clear()
    with pytest.raises(SystemExit):
        command.main([*options, "--into", "d2", "--", "true", "--", "new.cu"], standalone_mode=False)
    assert [name for name, _ in built] == ["new.cu"]


def test_nothing_is_run_if_one_program_does_not_exist(tmp_path: Path, cli: Cli) -> None:
    done = cli("compare", "--run", "1", "--into", "d", "--", "touch", "x", "--", "no-such-program")
    assert done.returncode == 127
    assert not list(tmp_path.glob("x"))
    assert not (tmp_path / "d").exists()


class Recorder:
    """Makes runs in place of nsys; ``outcomes`` has those that are not done, by side and number."""

    def __init__(self, **outcomes: str) -> None:
        self.outcomes, self.made = outcomes, list[str]()

    def __call__(self, spec: RunSpec, _: object) -> SimpleNamespace:
        name = f"{spec.output.parent.name}_{spec.output.name.removeprefix('run-')}"
        self.made.append(name)
        outcome = self.outcomes.get(name, "done")
        if outcome == "no GPU":
            RunFolder(spec.output).make()
            write(spec.output / EXPORT, nvtx("step", 0, 10))
        else:
            make_run(spec.output, 60 if name.startswith("new") else 40, outcome)  # type: ignore[arg-type]
        code = 0 if outcome in ("done", "no GPU") else 4
        return SimpleNamespace(status=SimpleNamespace(exit_code=code, outcome=outcome, message="", hint=""))


def ended(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str, **outcomes: str) -> tuple[int, int]:
    """Return the exit code of a series of four runs a side, and the number of runs that were started."""
    recorder = Recorder(**outcomes)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("nsyswrap.api.run", recorder)
    monkeypatch.setattr("nsyswrap.base.nsys.find.find_nsys", lambda _: None)
    arguments = ["--run", "4", "--into", "d", *options, "--", "true", "b", "--", "true", "n"]
    with pytest.raises((SystemExit, CaptureError)) as end:
        command.main(arguments, standalone_mode=False)
    code = getattr(end.value, "code", None) or getattr(end.value, "exit_code", 0)
    return int(str(code)), len(recorder.made)


@pytest.mark.parametrize(
    ("outcomes", "code", "runs"),
    [
        ({"base_1": "no GPU"}, 65, 1),
        ({"new_1": "no GPU"}, 65, 2),
        ({"new_1": "program_failed"}, 4, 2),
        ({"new_3": "interrupted"}, 4, 6),
        ({"new_3": "disk_full"}, 4, 6),
    ],
)
def test_what_ends_a_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, str], code: int, runs: int
) -> None:
    assert ended(monkeypatch, tmp_path, **outcomes) == (code, runs)


def test_what_half_of_the_runs_left_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = dict.fromkeys(("base_2", "base_4", "new_3", "new_4"), "program_failed")
    assert ended(monkeypatch, tmp_path, **lost) == (4, 8)
    shown = capsys.readouterr()
    assert "step 'step' 69.8 → 89.8 µs, +28.6 %" in shown.out
    assert "left out of new: " in shown.out
    assert "2 and 2 runs: verdicts need at least 3 a side" in " ".join(shown.out.split())
    (tmp_path / "again").mkdir()
    assert ended(monkeypatch, tmp_path / "again", "--gate", base_2="timed_out") == (1, 8)


@pytest.mark.slow
@pytest.mark.usefixtures("nsys")
def test_a_series_ends_with_the_first_run_that_fails_or_does_nothing(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "mark.py").write_text(MARKS)
    python = (sys.executable, "mark.py")
    series = ("compare", "--run", "2", "--into", "d")
    failed = cli(*series, "--", *python, "b", "b", "--", *python, "n", "b")
    assert failed.returncode == 4, failed.stderr
    assert (tmp_path / "marks").read_text() == "b"
    assert "nsyswrap: base, run 1 of 2: " in failed.stderr
    assert "what is done is in d/" in failed.stderr
    assert not failed.stdout
    made = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("d/*/*/run.json"))
    assert made == ["d/base/run-1"]
    run = tmp_path / "d" / "base" / "run-1"
    assert RunFolder(run).read_run()["repeat"] == {"number": 1, "count": 2}
    assert (run / PROGRAM_OUTPUT).read_text() == "I am b b\n"
    taken = cli(*series, "--", *python, "b", "-", "--", *python, "n", "-")
    assert taken.returncode == 73
    assert "d exists and is not empty\n  use another --into, or --force" in taken.stderr
    without_gpu = cli(
        "compare", "--run", "1", "--into", "d", "--force", "--", *python, "b", "-", "--", *python, "n", "-"
    )
    assert without_gpu.returncode == 65
    assert "no GPU work was recorded in d/base/run-1: the other runs were not started" in without_gpu.stderr
    assert [path.name for path in tmp_path.glob("d/*/*")] == ["run-1"]
