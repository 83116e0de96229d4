"""What a batch shows while it runs: time left, counts, and a bar on a real terminal."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from local_batches import PROGRAM, sweep

from nsyswrap.base.run_folder import Status
from nsyswrap.cli import batch_status
from nsyswrap.cli.batch_status import Clock, ending, in_words, progress
from nsyswrap.record.batch.folder import RunState, State


def test_the_time_left_is_that_of_the_runs_since_it_began() -> None:
    now = 100.0
    clock = Clock(4, lambda: now)
    assert clock.left(4, 10) == ""  # nothing tells yet
    now += 30
    assert clock.left(6, 10) == "about 60 s left"
    assert clock.left(10, 10) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (99, "99 s"), (179, "3 min"), (5_000, "83 min"), (9_000, "2 h"), (4_000_000, "1,111 h")],
)
def test_the_time_left_has_few_digits(seconds: float, words: str) -> None:
    now = 0.0
    clock = Clock(0, lambda: now)
    now = seconds
    assert clock.left(1, 2) == f"about {words} left"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ("100", "1 done, 1 running, 1 planned, 0:00:00, about 1 s left, job 7: 1 waiting for free nodes"),
        ("80", "1 done, 1 running, 1 planned, about 1 s left, job 7: 1 waiting for free nodes"),
        ("55", "1 done, 1 running, 1 planned, about 1 s left, job 7"),
        ("46", "1 done, 1 running, 1 planned, about 1 s left"),
        ("40", "1 done, 1 running, 1 planned, job 7"),
    ],
)
def test_the_progress_fits_on_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, line: str
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(batch_status, "Clock", partial(Clock, now=lambda: 0.0))
    monkeypatch.setenv("COLUMNS", columns)
    states = {n: RunState(n, Path(f"{n}"), "planned") for n in (1, 2, 3)}
    with progress(states, states) as on_progress:
        now = {
            **states,
            1: RunState(1, Path("1"), "running"),
            2: RunState(2, Path("2"), "done", Status("done", 0, 0, 0)),
        }
        on_progress(now, "job 7: 1 waiting for free nodes")
        said = capsys.readouterr().err
    assert said.rpartition("\r")[2].lstrip("█░ ") == line


def test_counts_and_endings_in_words() -> None:
    states = {
        1: RunState(1, Path("1"), "done"),
        2: RunState(2, Path("2"), "program_failed", Status("program_failed", 3, 3, 3, "it ended with 3")),
        3: RunState(3, Path("3"), "done"),
    }
    assert in_words(states) == "2 done, 1 program failed"
    assert [ending(state) for state in states.values()] == ["done", "program failed: it ended with 3", "done"]


def test_a_line_for_each_run_that_ends_again_or_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    def run(number: int, state: State, why: str = "") -> RunState:
        said = Status("nsys_failed", None, None, 70, why) if why else None
        return RunState(number, Path(f"r{number}"), state, said)

    failed = {1: run(1, "done"), 2: run(2, "program_failed"), 3: run(3, "program_failed")}
    with progress(failed, wanted=[2, 3]) as on_progress:
        on_progress({**failed, 2: run(2, "running"), 3: run(3, "lost")}, "")
        on_progress({**failed, 2: run(2, "done"), 3: run(3, "running")}, "")  # it was late, not lost
        assert capsys.readouterr().err == "nsyswrap: r2: done (2 of 3)\n"
        for _ in range(3):
            on_progress({**failed, 2: run(2, "done"), 3: run(3, "lost", "job 1_3 ended")}, "")
    assert capsys.readouterr().err == "nsyswrap: r3: lost: job 1_3 ended (3 of 3)\n"


@pytest.mark.usefixtures("nsys")
def test_a_terminal_gets_a_bar(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", *sweep(code="0,1")],
        cwd=tmp_path,
        env={**environment, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    process.communicate()
    os.close(ours)
    assert process.returncode == 1
    text = said.decode()
    assert "1 done, 1 running" in text
    assert "left" in text
    assert "1 done, 1 program failed" in text
