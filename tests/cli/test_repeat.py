"""`nsyswrap profile --repeat` and `--compare-bare`: equal runs, what is shown of them, and how they stop."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from step_drawings import phases
from tiny_export import call, kernel, nvtx, write
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.run_facts import bare_run_of
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder, Status

NOTHING = ("--", sys.executable, "-c", "pass")
READS = """
import sys
print(sys.stdin.read().strip())
"""
FAILS_SECOND = """
import pathlib, sys
marks = pathlib.Path("marks")
marks.open("a").write("x")
sys.exit(4 if marks.read_text() == "xx" else 0)
"""
WAITS = """
import time
print("ready", flush=True)
time.sleep(600)
"""
SCREEN = """\
train.py: 3 runs        median      min      max  spread  runs
program time            3.00 s   2.00 s   4.00 s  66.7 %     3
step 'step'             100 µs   100 µs   100 µs   0.0 %     3
GPU busy, steady part   43.5 %   43.5 %   43.5 %   0.0 %     3
GPU busy time           240 µs   240 µs   240 µs   0.0 %     3
kernel time             240 µs   240 µs   240 µs   0.0 %     3
launch calls           60.0 µs  60.0 µs  60.0 µs   0.0 %     3
Spread: (max - min) / median over the runs.

cost of profiling  without nsys  profiled         difference
program time             2.50 s    3.00 s  +500 ms (+20.0 %)
Program time: without the start of nsys and its report.
Medians of 3 pairs of runs. In each pair the run without nsys was first.
3 pairs: too few to tell the difference from noise.
"""
COMMAND = (sys.executable, "-m", "nsyswrap", "profile", "--no-stats")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def made(folder: Path, programs_s: tuple[float, ...]) -> None:
    """Make equal runs of six steps, 100 µs apart, with a kernel of 40 µs in each."""
    for number, program_s in enumerate(programs_s, 1):
        run = RunFolder(folder / f"run-{number}")
        run.make()
        rows = [
            row
            for n in range(6)
            for row in (
                nvtx("step", n * 100_000, n * 100_000 + 60_000),
                call("cudaLaunchKernel", n * 100_000 + 5_000, n * 100_000 + 15_000, n + 1),
                kernel("k", n * 100_000 + 20_000, n * 100_000 + 60_000, n + 1),
            )
        ]
        write(run.path / EXPORT, *rows)
        bare = {"exit_code": 0, "program_s": 2.5}
        facts = {"command": ["python3", "train.py"], "repeat": {"number": number, "count": len(programs_s)}}
        run.write(
            RUN, {"nsyswrap": "0.2", **facts, "bare": bare, "program_s": program_s, "duration_s": program_s}
        )
        run.write_status(Status("done", 0, 0, 0))


def test_the_screen_of_a_folder_of_runs(tmp_path: Path, cli: Cli) -> None:
    """The steady part is five steps, up to the end of the last kernel: 200 µs of kernels in 460 µs."""
    made(tmp_path / "runs", (2.0, 4.0, 3.0))
    done = cli("report", "runs")
    assert (done.returncode, done.stdout) == (0, SCREEN), done.stderr


def test_all_runs_are_judged_by_one_loop(tmp_path: Path, cli: Cli) -> None:
    made(tmp_path / "runs", (2.0, 4.0, 3.0))
    for number, times in enumerate(((50_000, 45_000), (50_000, 45_000), (45_000, 50_000)), 1):
        export = tmp_path / "runs" / f"run-{number}" / EXPORT
        export.unlink()
        write(export, *phases(*times).rows)
    shown = cli("report", "runs").stdout
    assert re.search(r"^step 'train' .* 3$", shown, re.MULTILINE)
    assert "step 'eval'" not in shown
    assert "All runs are judged by 'train', the loop that they share." in shown


def test_four_pairs_are_compared_by_their_ranges(tmp_path: Path, cli: Cli) -> None:
    made(tmp_path / "runs", (2.0, 4.0, 3.0, 3.0))
    assert cli("report", "runs").stdout.endswith(
        "Medians of 4 pairs of runs. In each pair the run without nsys was first.\n"
        "program time: 2.50 s to 2.50 s without nsys and 2.00 s to 4.00 s profiled overlap:\n"
        "  cannot tell the difference from noise.\n"
    )


def test_two_folders_of_runs_are_compared(tmp_path: Path, cli: Cli) -> None:
    made(tmp_path / "before", (2.0, 2.1))
    made(tmp_path / "after", (1.0, 1.1))
    done = cli("collect", "before", "after", "--by", "wall_s")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "fastest 'after', 1.05 s (1.00 s to 1.10 s in 2 runs); slowest 'before', 2.05 s" in words


@pytest.mark.usefixtures("nsys")
def test_pairs_of_runs(tmp_path: Path, cli: Cli, script: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("nvtx")
    script.write_text(READS)
    (tmp_path / "input").write_text("some input\n")
    command = [*COMMAND, "--repeat", "2", "--compare-bare", "--yes", "-o", "runs of it", "script.py"]
    with (tmp_path / "input").open() as stdin:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdin=stdin, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("some input\n") == 4  # a file is read again by each run
    folder = tmp_path / "runs of it"
    assert sorted(path.name for path in folder.iterdir()) == ["run-1", "run-2"]
    for number in (1, 2):
        run = RunFolder(folder / f"run-{number}").read_run()
        assert run["repeat"] == {"number": number, "count": 2}
        bare = bare_run_of(run)
        assert bare is not None
        assert 0 < (bare.program_s or 0) < run["duration_s"]
        assert 0 < run["program_s"] < run["duration_s"]
    table = done.stdout.partition("script.py: 2 runs")[2]
    assert re.search(r"^program time +\S+ ms +\S+ ms +\S+ ms +\S+ % +2$", table, re.MULTILINE)
    assert "Medians of 2 pairs of runs. In each pair the run without nsys was first.\n" in table
    assert "stdin is a pipe" not in done.stderr
    again = cli("report", "runs of it")
    assert again.stdout == f"script.py: 2 runs{table}"
    assert "nsyswrap report 'runs of it/run-1'" in again.stderr.replace(f"{sys.executable} -m ", "")
    _, *lines = cli("runs").stdout.splitlines()
    assert [re.split("  +", line)[3] for line in lines] == ["2 done"]
    collected = cli("collect", "runs of it", "--by", "wall_s")
    assert re.search(r"of 'runs of it' over 2 runs: median", collected.stdout.replace("\n  ", " "))
    assert cli("runs", "prune", "--keep", "0", "--yes").returncode == 0
    assert not folder.exists()


@pytest.mark.usefixtures("nsys")
def test_the_first_failing_run_is_the_last(tmp_path: Path, cli: Cli, script: Path) -> None:
    script.write_text(FAILS_SECOND)
    done = cli("profile", "--no-stats", "--repeat", "3", "-o", "runs", "script.py")
    assert done.returncode == 4
    assert "run 2 of 3: script ended with exit code 4\n" in done.stderr
    assert "the other runs were not started\n" in done.stderr
    assert "not done, not included: run-2\n" in done.stderr
    assert done.stdout.startswith("script.py: 1 run ")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["run-1", "run-2"]
    again = cli("profile", "--no-stats", "--repeat", "1", "-o", "runs", "--force", "script.py")
    assert again.returncode == 0, again.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run-1"]  # none of another series stays


@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize("more", [(), ("--compare-bare", "--yes")])
def test_one_ctrl_c_ends_everything(
    tmp_path: Path, script: Path, environment: dict[str, str], more: tuple[str, ...]
) -> None:
    script.write_text(WAITS)
    command = [*COMMAND, "--repeat", "3", *more, "-o", "runs", "script.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "run 1 of 3: stopped by SIGINT" in errors
    assert "run 2 of 3" not in errors
    assert (tmp_path / "runs" / "run-1").exists() is not bool(more)  # without nsys nothing was recorded


@pytest.mark.usefixtures("nsys")
def test_a_pair_that_is_stopped_first_does_not_show_the_earlier_run(tmp_path: Path, cli: Cli) -> None:
    assert cli("profile", "--no-stats", "-o", "run", *NOTHING).returncode == 0
    options = ("--compare-bare", "--yes", "--timeout", "1", "-o", "run", "--force")
    done = cli("profile", *options, "--", "sleep", "600")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.endswith("the run without nsys was stopped after --timeout 1 s\n")
    assert (tmp_path / "run" / EXPORT).exists()


@pytest.mark.usefixtures("nsys")
def test_a_kill_ends_the_run_without_nsys(tmp_path: Path, script: Path, environment: dict[str, str]) -> None:
    """Meanwhile the folder of the series is locked."""
    script.write_text(WAITS)
    (tmp_path / "tmp").mkdir()
    command = [*COMMAND, "--repeat", "2", "--compare-bare", "--yes", "--force", "-o", "runs", "script.py"]
    own = {**environment, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, cwd=tmp_path, env=own, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        second = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
        process.kill()
        assert process.stdout.read() == b""  # the program has ended: it has the same stdout
    assert second.returncode == 73
    assert (
        f"runs is in use by another series ({socket.gethostname()}, process {process.pid})" in second.stderr
    )
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()))


@pytest.mark.usefixtures("nsys")
def test_a_pipe_is_read_by_the_first_run(cli: Cli) -> None:
    done = cli("profile", "--no-stats", "--compare-bare", "--yes", "-o", "run", "cat", stdin="some input\n")
    assert done.stdout.count("some input\n") == 1
    assert "nsyswrap: stdin is a pipe: only the first run reads it\n" in done.stderr


@pytest.mark.usefixtures("nsys")
def test_one_pair(cli: Cli) -> None:
    options = ("--no-stats", "--compare-bare", "--yes", "-o", "run")
    done = cli("profile", *options, *NOTHING)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^program time +\S+ ms +\S+ ms +[+-]\S+ \S+ \([+-]\S+ %\)$", done.stdout, re.MULTILINE)
    assert "One run each: cannot tell the difference from noise.\n" in done.stdout


@pytest.mark.usefixtures("nsys")
def test_a_program_that_fails_without_nsys_is_not_compared(cli: Cli) -> None:
    code = "import os, sys; sys.exit(0 if 'NSYS_PROFILING_SESSION_ID' in os.environ else 3)"
    options = ("--no-stats", "--compare-bare", "--yes", "-o", "run")
    done = cli("profile", *options, "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "ended with exit code 3 without nsys\n" in done.stderr
    assert "cost of profiling not known: the run without nsys failed\n" in done.stderr
    assert "cost of profiling" not in done.stdout


@pytest.mark.usefixtures("nsys")
def test_a_folder_in_use_is_refused_before_anything_runs(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    for more in (("--repeat", "2"), ("--compare-bare", "--yes")):
        done = cli("profile", *more, "-o", "run", "--", "touch", "ran")
        assert done.returncode == 73
        assert "run exists and is not empty" in done.stderr
        done = cli("profile", *more, "--force", "-o", "run/mine", "--", "touch", "ran")
        assert done.returncode == 73
        assert done.stderr.endswith(
            "nsyswrap: cannot write run/mine: Not a directory\n  use another --output\n"
        )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        (("--repeat", "2", "-r", "gpu_time"), {}, "--repeat cannot be used with --report or --csv"),
        (("--repeat", "2", "--csv", "csv"), {}, "--repeat cannot be used with --report or --csv"),
        (("--repeat", "0"), {}, "invalid --repeat '0': expected a whole number from 1"),
        (("--compare-bare",), {}, "--compare-bare runs the program 2 times: once without nsys, once under"),
        (("--compare-bare", "--repeat", "3"), {}, "6 times: 3 times without nsys, 3 times under nsys"),
        (("--compare-bare", "--duration", "1"), {}, "--compare-bare cannot be used with --duration or"),
        (
            ("--compare-bare", "--capture-range", "cudaProfilerApi"),
            {},
            "--compare-bare cannot be used with --duration",
        ),
        (("--compare-bare", "--nsys-arg=--duration=1"), {}, "--compare-bare cannot be used with --duration"),
        (("--repeat", "2"), {"OMPI_COMM_WORLD_RANK": "0"}, "--repeat cannot be used in a launch"),
        (
            ("--compare-bare", "--yes"),
            {"OMPI_COMM_WORLD_RANK": "0"},
            "--compare-bare cannot be used in a launch",
        ),
    ],
)
def test_what_is_refused(
    tmp_path: Path, cli: Cli, options: tuple[str, ...], variables: dict[str, str], message: str
) -> None:
    if variables:
        names = ("SIZE", "LOCAL_RANK", "LOCAL_SIZE")
        values = ("2", "0", "2")
        variables |= {f"OMPI_COMM_WORLD_{name}": value for name, value in zip(names, values, strict=True)}
    done = cli("profile", *options, "-o", "run", "--", "touch", "ran", **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert sorted(tmp_path.iterdir()) == []


def test_a_terminal_is_asked(tmp_path: Path, environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        command = [*COMMAND, "--compare-bare", "-o", "run", "--", "touch", "ran"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=theirs, stderr=theirs)
        os.close(theirs)
        asked = b""
        while b"[y/N]" not in asked:
            asked += terminal.read(100)
        terminal.write(b"n\n")
        assert process.wait(PATIENCE_S) == 2
    assert b"once without nsys, once under nsys. Run it?" in asked.replace(b"\r\n", b" ")
    assert sorted(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_first_run(cli: Cli) -> None:
    done = cli("profile", "--dry-run", "--repeat", "3", "-o", "runs", *NOTHING)
    assert done.returncode == 0
    assert done.stdout.startswith("mkdir -p runs/run-1 && ")
    assert done.stdout.count("\n") == 1
