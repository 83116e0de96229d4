"""Reading in several processes: one that dies costs its own capture, and all of them end with the command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from conftest import ROOT
from ran import ran
from tiny_export import kernel, write
from waiting import PATIENCE_S

from nsyswrap.base.threads import usable_cpus
from nsyswrap.reports.runs import gather, workers
from nsyswrap.reports.runs.digest import Digest, digest, read_digest
from nsyswrap.reports.runs.gather import DigestTotals, Task, digest_all

pytestmark = pytest.mark.slow


def tasks(folder: Path, count: int) -> list[Task]:
    captures = [write(folder / f"{i}.sqlite", kernel("k", 0, i + 1)) for i in range(count)]
    return [Task(i, capture, folder / f"{i}.json") for i, capture in enumerate(captures)]


def failing_at(number: int, how: Callable[[], object]) -> Callable[..., Digest]:
    def digest_or_fail(path: Path, reports: Collection[str], **options: bool) -> Digest:
        if path.stem == str(number):
            how()
        return digest(path, reports, **options)

    return digest_or_fail


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_capture_is_digested_once(tmp_path: Path, jobs: int) -> None:
    given = tasks(tmp_path, 7)
    made = dict(digest_all(given, jobs))
    assert set(made) == set(given)
    for task, answer in made.items():
        assert answer.totals == read_digest(task.target).totals
        assert (answer.totals or {})["kernel_ns"] == task.number + 1


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def without_memory() -> None:
    raise MemoryError


def surprised() -> None:
    raise IndexError("nobody thought of this")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (killed, "ended by SIGKILL, as happens when memory runs out"),
        (lambda: os._exit(3), "the reading process ended with exit code 3"),
        (without_memory, ": MemoryError"),
        (surprised, ": IndexError: nobody thought of this"),
    ],
)
def test_what_dies_at_a_capture_costs_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, how: Callable[[], object], said: str
) -> None:
    monkeypatch.setattr(gather, "digest", failing_at(2, how))
    made = {task.number: answer for task, answer in digest_all(tasks(tmp_path, 6), jobs)}
    assert sorted(made) == list(range(6))
    assert made[2] == DigestTotals(None, error=made[2].error)
    assert said in made[2].error
    assert "2.sqlite" in made[2].error
    assert all(made[i].totals for i in made if i != 2)


def test_no_more_captures_are_taken_than_there_are_processes(tmp_path: Path) -> None:
    taken: list[int] = []

    def given() -> object:
        for task in tasks(tmp_path, 9):
            taken.append(task.number)
            yield task

    for done, _ in enumerate(digest_all(given(), 2), 1):  # type: ignore[arg-type]
        assert len(taken) <= done + 1


def test_the_processes_end_with_the_iterator(tmp_path: Path) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    others = set(children.read_text().split())  # as a browser that other tests use
    made = digest_all(tasks(tmp_path, 5), 2)
    next(made)
    assert len(set(children.read_text().split()) - others) >= 2
    made.close()
    assert set(children.read_text().split()) <= others


def test_a_signal_that_came_while_an_object_was_finalized_ends_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, after = tmp_path / "begun", tmp_path / "after"

    class Finalized:
        def __del__(self) -> None:  # what is raised in here, Python drops, and goes on
            begun.touch()
            time.sleep(30)

    def drop() -> None:
        Finalized()
        after.touch()

    monkeypatch.setattr(gather, "digest", failing_at(1, drop))
    made = digest_all(tasks(tmp_path, 2), 2)
    next(made)
    while not begun.exists():
        time.sleep(0.01)
    made.close()  # waited for ever once
    assert after.exists()
    assert capfd.readouterr().err == ""


def test_a_process_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "waits").touch()
        time.sleep(600)

    monkeypatch.setattr(workers, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(gather, "digest", failing_at(1, deaf))
    made = digest_all(tasks(tmp_path, 2), 2)
    next(made)
    while not (tmp_path / "waits").exists():
        time.sleep(0.01)
    started = time.monotonic()
    made.close()
    assert time.monotonic() - started < PATIENCE_S


def test_cpus_are_those_this_process_may_use() -> None:
    assert usable_cpus() == len(os.sched_getaffinity(0))


def test_ctrl_c_ends_all_and_leaves_no_half_written_file(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "in").mkdir()
    for i in range(400):
        write(tmp_path / "in" / f"{i}.sqlite", kernel("k", 0, i + 1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.csv").write_text("run,label,older\n")
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "collect", "in", "-o", "out"],
        cwd=tmp_path,
        env={**environment, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not list((tmp_path / "tmp").glob("*/*.json")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()  # where it hangs, it is not left to other tests
        process.communicate()
    assert process.returncode == 130
    assert said.strip() == ""
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {
        "results.csv": "run,label,older\n"
    }
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_no_pandas_is_loaded_to_read_captures(tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    code = (
        "import sys, nsyswrap.render.result_files; from pathlib import Path;"
        "from nsyswrap.reports.runs.digest import *;"
        "write(digest(Path('a.sqlite')), Path('a.json')); print(*sys.modules)"
    )
    done = ran([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert "nsyswrap.reports.runs.digest" in done.stdout.split()
    assert not {"pandas", "pyarrow"} & set(done.stdout.split())


def test_the_bench_runs_in_small(environment: dict[str, str]) -> None:
    done = ran(
        [sys.executable, ROOT / "tests" / "bench" / "collect.py", "3", "--jobs", "2"],
        env=environment,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    header, captures, digests = done.stdout.splitlines()
    assert header.split()[0] == "captures"
    assert captures.split()[:2] == ["3", "captures"]
    assert digests.split()[:2] == ["3", "digests"]
    assert digests.split()[-1] == "-"  # no worker was started
