"""The batch folder: planned runs keep their folders, and what lies in a folder is the state of its run."""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from file_accesses import accesses

from nsyswrap.base import files
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import LOCK, holder_here, is_lock_file, is_locked, locked
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_facts import batch_of
from nsyswrap.base.run_folder import CLAIM, DIGEST, SPEC, STATUS, RunFolder, Status
from nsyswrap.record.batch import folder
from nsyswrap.record.batch import folder as folder_module
from nsyswrap.record.batch.executors.slurm.script import job_script
from nsyswrap.record.batch.folder import (
    Batch,
    Claim,
    folder_name,
    foresee_batch,
    make_batch,
    make_place,
    open_batch,
    read_state,
)
from nsyswrap.record.batch.plan import Plan
from nsyswrap.record.batch.task import TaskSpec, read_spec

DONE = Status("done", 0, 0, 0)
HOLDS = """
import sys, time
from pathlib import Path
from nsyswrap.base.files import locked
with locked(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    time.sleep(600)
"""


def spec(number: int, **changes: object) -> TaskSpec:
    made = TaskSpec(f"n={number}", {"n": number}, 1, "/", command=("prog", str(number)))
    return replace(made, **changes)  # type: ignore[arg-type]


def made(folder: Path, *numbers: int) -> Batch:
    return make_batch(folder, Plan("test", tuple(spec(number) for number in numbers)))


def names(batch: Batch) -> list[str]:
    return [batch.run_folder(number).name for number in batch.runs]


def test_every_planned_run_has_a_folder_with_its_spec(tmp_path: Path) -> None:
    batch = made(tmp_path / "b", 1, 2)
    assert names(batch) == ["00001-n=1", "00002-n=2"]
    assert [read_spec(batch.run_folder(number)) for number in batch.runs] == [spec(1), spec(2)]
    assert open_batch(tmp_path / "b") == batch


def test_a_spec_comes_back_as_it_was_written(tmp_path: Path) -> None:
    one = spec(
        1,
        command=("a b", "it's", '"', "two\nlines", "\udcff"),
        options=RecordingOptions(
            env={"K": "v"}, trace="nvtx", extra=("--x=1",), delay=0.5, timeout_s=3.5, discard_rep=True
        ),
    )
    one.write(tmp_path)
    assert read_spec(tmp_path) == one


def test_a_plan_that_grew_keeps_what_has_run(tmp_path: Path) -> None:
    first = made(tmp_path / "b", 1, 2)
    RunFolder(first.run_folder(2)).write_status(DONE)
    grown = made(tmp_path / "b", 3, 2)
    assert grown.id == first.id
    assert names(grown) == ["00002-n=2", "00003-n=3"]
    assert [state.state for state in grown.survey().values()] == ["done", "planned"]
    assert (tmp_path / "b/runs/00001-n=1" / SPEC).exists()  # left as it is
    assert names(made(tmp_path / "b", 1, 2)) == names(first)


def test_another_timeout_is_the_same_run(tmp_path: Path) -> None:
    made(tmp_path / "b", 1)
    batch = make_batch(tmp_path / "b", Plan("test", (spec(1, options=RecordingOptions(timeout_s=9.0)),)))
    assert names(batch) == ["00001-n=1"]
    assert read_spec(batch.run_folder(1)).options.timeout_s == 9


def test_a_folder_that_is_no_batch_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="is not empty and is not a batch folder"):
        made(tmp_path, 1)
    with pytest.raises(OutputError, match=r"is not a batch folder: batch\.json is missing"):
        open_batch(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_that_others_call_lock_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("mine, not yours\n")
    with pytest.raises(OutputError, match="is not empty and is not a batch folder"):
        make_place(tmp_path)
    with pytest.raises(OutputError, match="is not a lock file of nsyswrap"), locked(tmp_path, "a test"):
        pass
    assert (tmp_path / LOCK).read_text() == "mine, not yours\n"
    (tmp_path / LOCK).unlink()
    with locked(tmp_path, "a test"):  # what is left of a batch that was ended before it was one
        assert is_lock_file(tmp_path / LOCK)
        make_place(tmp_path)


def test_what_is_foreseen_is_what_is_made(tmp_path: Path) -> None:
    made(tmp_path / "b", 1, 2)
    before = sorted(tmp_path.rglob("*"))
    batch, specs = foresee_batch(tmp_path / "b", Plan("test", (spec(3), spec(2))))
    assert sorted(tmp_path.rglob("*")) == before
    assert specs == {2: spec(2), 3: spec(3)}
    assert batch.left_out == {1: "00001-n=1"}
    assert batch == made(tmp_path / "b", 3, 2)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"runs": [{}], "name": "", "id": ""}', '{"runs": [], "name": "", "id": ""}']
)
def test_a_damaged_batch_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "batch.json").write_text(content)
    with pytest.raises(OutputError, match="cannot be read"):
        open_batch(tmp_path)
    with pytest.raises(OutputError, match="cannot be read"):
        made(tmp_path, 1)


@pytest.mark.parametrize("content", ["", "{}", '{"nsys": {}}', "[1]"])
def test_a_damaged_spec_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / SPEC).write_text(content)
    with pytest.raises(OutputError, match="cannot be read"):
        read_spec(tmp_path)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("n=1 sync=both", "00007-n=1-sync=both"),
        ("path=/a/b", "00007-path=-a-b"),
        ("x='\"\n%&*", "00007-x="),
        ("é", "00007"),
        ("y" * 300, "00007-" + "y" * 80),
    ],
)
def test_the_name_of_a_run_folder(label: str, name: str) -> None:
    assert folder_name(7, label) == name


def test_states(tmp_path: Path) -> None:
    batch = made(tmp_path / "b", *range(1, 6))
    folders = [batch.run_folder(number) for number in batch.runs]
    RunFolder(folders[0]).write_status(DONE)
    RunFolder(folders[1]).write_status(Status("timed_out", None, 143, 75, "late"))
    (folders[2] / STATUS).write_text("{")  # the disk was full
    (folders[3] / CLAIM).write_text(json.dumps({"host": "n1", "pid": 1, "began": 0.0}))
    states = list(batch.survey().values())
    assert [state.state for state in states] == ["done", "timed_out", "lost", "lost", "planned"]
    assert states[3].claim == Claim("n1", 1, 0.0)


@pytest.mark.parametrize(
    ("slow_s", "waits", "threads"),
    [(0.0, itertools.count(0, 3), 1), (60.0, itertools.count(0, 3), 0), (0.0, itertools.count(0, 2), 0)],
)
def test_states_of_many_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_s: float, waits: Iterator[int], threads: int
) -> None:
    """A file system that answers slowly is asked by several threads, a busy machine is not."""
    begun = []

    class Executor(futures.ThreadPoolExecutor):
        def __init__(self, most: int) -> None:
            begun.append(most)
            super().__init__(most)

    monkeypatch.setattr(futures, "ThreadPoolExecutor", Executor)
    monkeypatch.setattr(folder_module, "_SLOW_S", slow_s)
    monkeypatch.setattr(folder_module, "_FIRST_READ", 3)
    monkeypatch.setattr(folder_module, "_waits", lambda: next(waits))
    batch = made(tmp_path / "b", *range(1, 12))
    for number in (2, 5, 11):
        RunFolder(batch.run_folder(number)).write_status(DONE)
    now = batch.survey()
    assert [(number, state.number, state.folder) for number, state in now.items()] == [
        (number, number, batch.run_folder(number)) for number in range(1, 12)
    ]
    assert [number for number, state in now.items() if state.state == "done"] == [2, 5, 11]
    assert len(begun) == threads


def test_the_state_of_a_done_run_is_read_once(tmp_path: Path) -> None:
    """100,000 runs take seconds: of each one file is opened."""
    batch = made(tmp_path / "b", *range(1, 301))
    for number in batch.runs:
        folder = batch.run_folder(number)
        RunFolder(folder).write_status(DONE)
        (folder / DIGEST).touch()
    with accesses(tmp_path) as opened:
        states = batch.survey()
    assert {state.state for state in states.values()} == {"done"}
    ours = [f"{batch.run_folder(number)}/{STATUS}" for number in batch.runs]
    assert opened == dict.fromkeys(ours, 1)


def test_what_has_ended_is_not_read_again(tmp_path: Path) -> None:
    batch = made(tmp_path / "b", 1, 2)
    RunFolder(batch.run_folder(1)).write_status(DONE)
    known = batch.survey()
    (batch.run_folder(1) / STATUS).unlink()
    RunFolder(batch.run_folder(2)).write_status(DONE)
    assert [state.state for state in batch.survey(known).values()] == ["done", "done"]


def test_a_folder_is_held_until_its_holder_is_killed(tmp_path: Path) -> None:
    (tmp_path / CLAIM).write_text(json.dumps({"host": "n1", "pid": 1, "began": 0.0}))
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert is_locked(tmp_path)
        assert holder_here(tmp_path) == process.pid
        assert read_state(tmp_path).state == "running"
        with pytest.raises(OutputError, match=f"process {process.pid}"), locked(tmp_path, "another"):
            pass
        RunFolder(tmp_path).write_status(DONE)
        assert read_state(tmp_path).state == "running"  # it is still putting its results away
        os.kill(process.pid, signal.SIGKILL)
    assert not is_locked(tmp_path)
    assert read_state(tmp_path).state == "done"
    with locked(tmp_path, "another"):
        pass


def test_who_only_looks_at_a_lock_does_not_hold_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that looks shares a lock for a moment, for seconds where it gets no turn."""
    (tmp_path / LOCK).touch()
    clock, looks = itertools.count(), os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)

    def sleep(_: float) -> None:
        if next(clock) > 20:
            os.close(looks)

    monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=clock.__next__, sleep=sleep))
    with locked(tmp_path, "a test"):
        assert holder_here(tmp_path) == os.getpid()


@pytest.mark.parametrize(
    "facts", [{"pid": 0}, {"pid": -1}, {"pid": True}, {"began": "x"}, {"began": -1.0}, {"host": None}]
)
def test_a_claim_of_no_process_is_none(tmp_path: Path, facts: dict[str, object]) -> None:
    """Its process is ended by a signal: one to process 0 or -1 would reach others."""
    claim = {"host": "n1", "pid": 1, "began": 0.0, "job": "", "restarts": 0}
    (tmp_path / CLAIM).write_text(json.dumps(claim))
    assert read_state(tmp_path).state == "lost"
    (tmp_path / CLAIM).write_text(json.dumps({**claim, **facts}))
    assert read_state(tmp_path).state == "planned"


def test_the_folders_of_a_large_batch_lie_in_folders_of_a_thousand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A batch that grows keeps the folders that it has. The lines of the job script find all of them."""
    monkeypatch.setattr("nsyswrap.record.batch.folder._MOST_IN_A_FOLDER", 3)
    made(tmp_path / "b", 1, 2)
    batch = made(tmp_path / "b", 1, 2, 3, 4)
    assert list(batch.runs.values()) == ["00001-n=1", "00002-n=2", "00/00003-n=3", "00/00004-n=4"]
    assert open_batch(tmp_path / "b").runs == batch.runs
    assert {batch_of(batch.run_folder(number)) for number in batch.runs} == {tmp_path / "b"}
    script = job_script(batch, Plan("test", ())).splitlines()
    lines = [
        line
        for line in script
        if line.startswith((f"cd -- {tmp_path}", "nsyswrap_run=$(", "set --", "until "))
    ]
    for number, name in batch.runs.items():
        ran = subprocess.run(
            ["bash", "-c", "\n".join([*lines, 'printf %s "$1"'])],
            env={"SLURM_ARRAY_TASK_ID": str(number)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout == name


@pytest.mark.parametrize(("cost_s", "settled_s"), [(0.01, 30), (0.1, 120), (0.5, 600)])
def test_looks_at_a_batch_take_under_one_percent_of_a_core(
    monkeypatch: pytest.MonkeyPatch, cost_s: float, settled_s: float
) -> None:
    """Each look takes the same CPU time. The first ones follow each other, to show runs that end at once."""
    now_s = cpu_s = before_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr(folder, "_cpu_s", lambda: cpu_s)
    pauses, looks = folder.Pause(), []
    while now_s < settled_s + 3600:
        cpu_s += cost_s
        looks.append(pauses.seconds())
        now_s += cost_s + looks[-1]
        before_s = cpu_s if now_s < settled_s else before_s
    assert looks[:3] == [1, 1, 1]
    assert cpu_s - before_s < 0.01 * (now_s - settled_s)
    assert max(looks) <= max(15, cost_s / 0.008)
