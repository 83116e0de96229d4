"""`nsyswrap batch` on this machine with the real nsys: run, go on, cancel, and the tables in the end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from batch_folders import rows_of
from conftest import Cli
from local_batches import PROGRAM, outcomes, states, sweep
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import CLAIM, EXPORT, PROGRAM_OUTPUT, STATUS
from nsyswrap.record import guard
from nsyswrap.record.batch.folder import open_batch, read_claim

pytestmark = pytest.mark.usefixtures("nsys")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prog.py").write_text(PROGRAM)
    return tmp_path


@contextmanager
def running(
    folder: Path, environment: dict[str, str], arguments: list[str], ready: int = 1
) -> Iterator[subprocess.Popen[str]]:
    """Start a batch, and go on when the programs of ``ready`` runs are running."""
    with subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while (
            len([file for file in folder.glob(f"b/runs/*/{PROGRAM_OUTPUT}") if file.stat().st_size]) < ready
        ):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process


EMPTY = """
stop_after_empty = 2
[nsys]
trace = "cuda,nvtx"
stats = false
[[runs]]
command = "prog.py {n} 0"
grid = { n = [0, 0.01, 0.02, 0.03] }
"""


def test_runs_without_gpu_work_are_told_and_end_the_batch(folder: Path, cli: Cli) -> None:
    """They have a GPU by their environment only: this machine may have none."""
    (folder / "plan.toml").write_text(EMPTY)
    done = cli("batch", "run", "plan.toml", "-o", "b", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 69, done.stderr
    assert "nsyswrap: the first 2 runs recorded no GPU work\n  no more runs were started;" in done.stderr
    told = "done: no GPU work was recorded, though the run had GPUs"
    status = cli("batch", "status", "b").stdout
    assert status.count(told) == 2
    assert status.endswith("starts 2 more runs; --retry-failed repeats 2 failed runs\n")
    # The same again goes on with the others, and --retry-failed repeats those without GPU work.
    again = cli("batch", "run", "plan.toml", "-o", "b", CUDA_VISIBLE_DEVICES="0")
    assert again.returncode == 69, again.stderr
    assert cli("batch", "status", "b").stdout.count(told) == 4
    cured = cli("batch", "run", "plan.toml", "-o", "b", "--retry-failed", CUDA_VISIBLE_DEVICES="")
    assert cured.returncode == 0, cured.stderr
    assert told not in cli("batch", "status", "b").stdout
    shutil.rmtree(folder / "b")
    (folder / "plan.toml").write_text(EMPTY.replace("stop_after_empty = 2\n", ""))
    done = cli("batch", "run", "plan.toml", "-o", "b", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 65, done.stderr
    assert done.stderr.splitlines()[-1] == "nsyswrap: 4 of 4 runs had GPUs and recorded no GPU work"


def test_a_machine_that_the_plan_does_not_want_runs_nothing(folder: Path, cli: Cli) -> None:
    plan = "[require]\n{}\n[[runs]]\ncommand = 'prog.py 0 0'\n"
    (folder / "plan.toml").write_text(plan.format("gpu = 'Z80'"))
    done = cli("batch", "run", "plan.toml", "-o", "b")
    assert done.returncode == 1
    assert re.search('not started: the plan requires gpu = "Z80"; .* has (no gpu|NVIDIA)', done.stderr)
    (folder / "plan.toml").write_text(plan.format("nsys = '2020'"))
    done = cli("batch", "run", "plan.toml", "-o", "c")
    assert re.search(r'not started: the plan requires nsys = "2020"; .* has 20\d\d\.', done.stderr)


def test_a_failed_run_quotes_what_its_program_said_last(folder: Path, cli: Cli) -> None:
    (folder / "fails.py").write_text("import sys; print('note', file=sys.stderr); sys.exit('no file x.bin')")
    (folder / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    (folder / "plan.toml").write_text('[[runs]]\ncommand = "fails.py"\n[[runs]]\ncommand = "killed.py"\n')
    done = cli("batch", "run", "plan.toml", "-o", "b")
    assert "program failed: fails ended with exit code 1: no file x.bin" in done.stderr
    status = json.loads(next(folder.glob("b/runs/*killed/status.json")).read_text())
    assert status["hint"].startswith("SIGKILL often means that memory ran out")


def test_a_sweep_leaves_one_table(folder: Path, cli: Cli) -> None:
    done = cli(*sweep(seconds="0,1.5", code="0,3"))
    assert done.returncode == 1, done.stderr
    assert sorted(outcomes(folder)) == ["done"] * 2 + ["program_failed"] * 2
    found = rows_of(folder / "b/results.csv")
    assert len(found) == 4
    assert {(row["s"], row["c"], row["outcome"], row["exit_code"]) for row in found} == {
        (s, c, "program_failed" if c == "3" else "done", c) for s in ("0.0", "1.5") for c in ("0", "3")
    }
    assert all(float(row["wall_s"]) > 0 for row in found)
    assert (folder / "b/results.parquet").exists()
    assert {row["run"] for row in rows_of(folder / "b/summaries.csv")} <= {row["run"] for row in found}
    assert {row["program"] for row in found} == {"prog.py"}
    assert "fastest 's=0 c=0'" in done.stdout
    assert "slowest 's=1.5 c=0'" in done.stdout
    assert "prog ended with exit code 3" in done.stderr


def test_the_same_command_again_runs_what_is_left(folder: Path, cli: Cli) -> None:
    cli(*sweep(code="0,3"))
    before = [(state.folder / EXPORT).stat().st_mtime_ns for state in states(folder).values()]
    grown = cli(*sweep(code="0,3,4"))
    assert "3 runs planned, 1 done, 1 program failed; 1 to run" in grown.stderr
    after = [(state.folder / EXPORT).stat().st_mtime_ns for state in states(folder).values()]
    assert after[:2] == before
    (folder / "prog.py").write_text("")
    retried = cli(*sweep("--retry-failed", code="0,3,4"))
    assert retried.returncode == 0
    assert "2 to run" in retried.stderr
    assert re.findall(r"c=\d: done (.*)", retried.stderr) == ["(2 of 3)", "(3 of 3)"]
    assert outcomes(folder) == ["done"] * 3
    assert (states(folder)[1].folder / EXPORT).stat().st_mtime_ns == before[0]


def test_one_run_at_a_time_on_each_gpu(folder: Path, cli: Cli) -> None:
    """No GPU is needed to see where runs are sent: a program finds it in CUDA_VISIBLE_DEVICES."""
    assert cli(*sweep("--gpus", "0,3", "--repeat", "2", seconds="0,0.1")).returncode == 0
    spans: dict[str, list[tuple[float, float]]] = {"0": [], "3": []}
    for state in states(folder).values():
        gpu, *_ = (state.folder / PROGRAM_OUTPUT).read_text().split()
        claim = read_claim(state.folder)
        assert claim is not None
        spans[gpu].append((claim.began, (state.folder / STATUS).stat().st_mtime))
    assert sum(map(len, spans.values())) == 4
    assert all(spans.values())
    for one in spans.values():
        one.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(one))
    first, second = spans.values()
    assert any(
        a[0] < b[1] and b[0] < a[1] for a in first for b in second
    )  # the two do not wait for each other


def test_without_gpus_the_environment_is_left_alone(folder: Path, cli: Cli) -> None:
    assert cli(*sweep(), CUDA_VISIBLE_DEVICES="7").returncode == 0
    assert (states(folder)[1].folder / PROGRAM_OUTPUT).read_text().startswith("7 ")


def test_an_interruption_leaves_reports_and_the_rest_for_later(
    folder: Path, environment: dict[str, str], cli: Cli
) -> None:
    with running(
        folder, environment, sweep("--gpus", "0,1", seconds="600", code="0,1,2"), ready=2
    ) as process:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert outcomes(folder) == ["interrupted", "interrupted", "planned"]
    for number_of_run in (1, 2):
        assert check_export(states(folder)[number_of_run].folder / EXPORT) == ""
    (folder / "go-on").touch()
    again = cli(*sweep("--gpus", "0,1", seconds="600", code="0,1,2"))
    assert "3 to run" in again.stderr
    assert outcomes(folder) == ["done", "program_failed", "program_failed"]


def test_a_killed_batch_is_gone_on_with(folder: Path, environment: dict[str, str]) -> None:
    arguments = sweep("--repeat", "2")
    waits = "while not os.path.exists('go-on'): time.sleep(0.02)"
    (folder / "prog.py").write_text(PROGRAM.replace("time.sleep(float(seconds))", waits))
    with running(folder, environment, arguments) as process:
        process.kill()
    assert outcomes(folder) == ["running", "planned"]
    claim = json.loads((states(folder)[1].folder / CLAIM).read_text())
    with running(folder, environment, arguments) as again:
        assert again.stderr is not None
        while "waiting for 1 run, started earlier" not in (line := again.stderr.readline()):
            assert line
        (folder / "go-on").touch()
        _, said = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, said
    assert json.loads((states(folder)[1].folder / CLAIM).read_text()) == claim  # it was not run twice
    assert outcomes(folder) == ["done", "done"]


def test_a_run_that_was_killed_is_lost_and_run_again(
    folder: Path, environment: dict[str, str], cli: Cli
) -> None:
    with running(folder, environment, sweep("--gpus", "0", seconds="600")) as process:
        claim = states(folder)[1].claim
        assert claim is not None
        below = children(claim.pid)
        run = guard.RunProcesses(mark_of(below))
        for pid in [*below, claim.pid]:
            os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)
        guard.kill(run.living())  # the program, and nsys' agent: whoever would have ended them was killed
    assert process.returncode == 1, said
    assert "00001-s=600-c=0: lost (1 of 1)" in said
    assert outcomes(folder) == ["lost"]
    assert "lost" in cli("batch", "status", "b").stdout
    assert rows_of(folder / "b/results.csv")[0]["outcome"] == "lost"
    (folder / "go-on").touch()
    assert cli(*sweep("--gpus", "0", seconds="600")).returncode == 0
    assert outcomes(folder) == ["done"]


def children(pid: int) -> list[int]:
    """All processes below one."""
    own = [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [n for child in own for n in (*children(child), child)]


def mark_of(pids: list[int]) -> str:
    """The mark of the run that these processes are of."""
    environs = b"\0".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)
    mark = guard.MARK.encode() + b"="
    return next(word for word in environs.split(b"\0") if word.startswith(mark))[len(mark) :].decode()


def test_two_batches_in_one_folder(folder: Path, environment: dict[str, str], cli: Cli) -> None:
    with running(folder, environment, sweep(seconds="600")) as process:
        second = cli(*sweep(seconds="600"))
        assert second.returncode == 73
        assert f"process {process.pid}" in second.stderr
        shown = cli("batch", "status", "b").stdout
        assert "1 run: 1 running (batch in progress)" in shown
        assert "00001-s=600-c=0  running (on " in shown
        cancelled = cli("batch", "cancel", "b")
        assert cancelled.returncode == 0, cancelled.stderr
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert outcomes(folder) == ["interrupted"]
    assert "no run of b is running or waiting" in cli("batch", "cancel", "b").stderr


def test_cancelling_what_an_ended_batch_left_running(
    folder: Path, environment: dict[str, str], cli: Cli
) -> None:
    with running(folder, environment, sweep(seconds="600")) as process:
        process.kill()
    assert cli("batch", "cancel", "b").returncode == 0
    wait_until(lambda: outcomes(folder) != ["running"])
    assert outcomes(folder) == ["interrupted"]
    assert check_export(states(folder)[1].folder / EXPORT) == ""


def test_a_run_that_is_killed_ends_and_can_be_read(
    folder: Path, environment: dict[str, str], cli: Cli
) -> None:
    """It counts as running while its guard ends it."""
    with running(folder, environment, sweep(seconds="600")) as process:
        process.kill()
    [state] = states(folder).values()
    assert state.claim
    os.kill(state.claim.pid, signal.SIGKILL)
    assert outcomes(folder) == ["running"]
    assert cli("batch", "cancel", "b").returncode == 0
    wait_until(lambda: outcomes(folder) != ["running"])
    assert outcomes(folder) == ["lost"]
    shown = cli("report", state.folder)
    assert (shown.returncode, shown.stdout.startswith("this run never finished: nsyswrap was killed")) == (
        0,
        True,
    )


def test_any_folder_and_any_parameter(tmp_path: Path, cli: Cli) -> None:
    odd = tmp_path / 'it\'s "odd" & 100%\n*'
    odd.mkdir()
    (odd / "show.py").write_text("import sys; print(ascii(sys.argv[1:]))")
    value = "a b'\"$x;{}\n%=é"
    quoted = value.replace('"', '""')
    done = cli(
        "batch", "sweep", "--trace", "nvtx", "-o", odd / "b", "-p", f'v="{quoted}"',
        "--", odd / "show.py", "<{v}>",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [state] = open_batch(odd / "b").survey().values()
    assert (state.folder / PROGRAM_OUTPUT).read_text() == f"{[f'<{value}>']!a}\n"
    [row] = rows_of(odd / "b/results.csv")
    assert row["v"] == value
