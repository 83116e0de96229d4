"""Many finished runs: each file is opened once, and processes read them as this process does."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from batch_folders import batch_of, captured, planned
from file_accesses import accesses

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_folder import CLAIM, DIGEST, EXPORT, RUN, SPEC, STATUS, RunFolder
from nsyswrap.render import result_files
from nsyswrap.reports.runs.digest import write_digest
from nsyswrap.reports.runs.find import RecordedRun, find_runs
from nsyswrap.reports.runs.gather import DigestTotals, RunResult, Task, digest_all, gather
from nsyswrap.reports.runs.tables import parameters_of
from nsyswrap.reports.runs.workers import in_blocks

RUNS = 210  # three blocks
KILLED = """
import time
from nsyswrap.reports.runs.workers import Worker
worker = Worker(abs, -1)
print(worker.answer(), flush=True)
time.sleep(600)
"""


def state_of(path: Path) -> tuple[str, str]:
    return "planned", f"{path.name} has not begun"


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch whose runs have the files of one, but the last run was not begun."""
    folder = tmp_path_factory.mktemp("many") / "b"
    first = captured(planned(folder, 1, {"n": 0.5}), 10, 20)
    write_digest(first)
    for number in range(2, RUNS):
        run = planned(folder, number, {"n": number % 7, "text": '50 %, "quoted"'})
        RunFolder(run).write(CLAIM, {"host": "n1", "pid": 7, "began": 0.0, "job": f"17_{number}"})
        for name in (EXPORT, DIGEST, RUN, STATUS):
            os.link(first / name, run / name)
    planned(folder, RUNS, {"n": 1})
    return batch_of(folder)


def test_each_file_is_opened_once_to_find_runs_and_once_to_read_digests(batch: Path) -> None:
    with accesses(batch) as opened:
        runs = find_runs([batch], state_of)
    folders = [batch / "runs" / f"{number:05}" for number in range(2, RUNS)]
    assert [run.path for run in runs[1:-1]] == folders
    once = {
        str(path)
        for folder in folders
        for path in (folder, *(folder / n for n in (RUN, STATUS, SPEC, CLAIM)))
    }
    assert {path: opened[path] for path in once} == dict.fromkeys(once, 1)
    with accesses(batch) as opened:
        gather(runs, batch, 1)
    assert opened[str(folders[0] / DIGEST)] == 1
    assert set(opened.values()) == {1}
    assert len(opened) == 4 * (RUNS - 1), (
        "the folder, the digest, and both ends and the metadata of the export"
    )


def digested(runs: Sequence[RecordedRun], scratch: Path) -> tuple[list[str], list[RunResult]]:
    """Return the names of the runs whose captures were read, and the results of all runs."""
    read: list[str] = []

    def make(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Task, DigestTotals]]:
        for task, made in digest_all(tasks, jobs):
            read.append(task.capture.name)
            yield task, made

    return read, gather(runs, scratch, 1, make=make)


def test_digests_survive_cp_r_and_only_those_of_the_same_capture(tmp_path: Path) -> None:
    for number in range(1, 5):
        write_digest(captured(planned(tmp_path / "b", number, {"n": number}), 10 * number))
    batch_of(tmp_path / "b")
    subprocess.run(["cp", "-r", "b", "copy"], cwd=tmp_path, check=True)
    copies = [tmp_path / "copy" / "runs" / f"{number:05}" for number in range(1, 5)]
    for at, run in enumerate(copies):
        os.utime(run / EXPORT, (at, at))  # any time of change, also one before the digest's
    read, results = digested(find_runs([tmp_path / "copy"], state_of), tmp_path)
    assert read == []
    assert [result.digest for result in results] == [run / DIGEST for run in copies]

    changed, other, *_ = copies
    sizes = [(run / EXPORT).stat().st_size for run in copies]
    with closing(sqlite3.connect(changed / EXPORT)) as db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 1")
        db.commit()
    subprocess.run(["cp", tmp_path / "b/runs/00004" / EXPORT, other / EXPORT], check=True)
    assert [(run / EXPORT).stat().st_size for run in copies] == sizes
    for run in (changed, other):
        os.utime(run / EXPORT, ns=(1, (tmp_path / "b/runs" / run.name / EXPORT).stat().st_mtime_ns))
    read, results = digested(find_runs([tmp_path / "copy"], state_of), tmp_path)
    assert read == ["00001", "00002"]
    assert [result.totals and result.totals["kernel_ns"] for result in results] == [11, 40, 30, 40]


def test_processes_find_and_write_what_one_does(batch: Path, tmp_path: Path) -> None:
    files = []
    for jobs in (1, 3):
        runs = find_runs([batch], state_of, jobs)
        assert (len(runs), runs[-1].outcome, runs[-1].message) == (RUNS, "planned", f"00{RUNS} has not begun")
        results = gather(runs, tmp_path, jobs)
        assert sum(result.digest is not None for result in results) == RUNS - 1
        assert all(result.run is run for result, run in zip(results, runs, strict=True))  # no copies
        assert len({id(run.outcome) for run in runs[:100]}) == 1
        (tmp_path / f"{jobs}").mkdir()
        parameters = parameters_of(results)
        wanted = result_files.FileContents({"cuda_gpu_kern_sum", "diagnostics"})
        result_files.write_rows(tmp_path / f"{jobs}", results, parameters, wanted, jobs)
        files.append({path.name: path.read_bytes() for path in (tmp_path / f"{jobs}").iterdir()})
        files[-1]["runs"] = repr(results).encode()
    assert files[0] == files[1]
    assert files[0]["kernels.csv"].count(b',"50 %, ""quoted""",') == len({n % 7 for n in range(RUNS)})
    assert files[0]["summaries.csv"].count(b",cuda_gpu_kern_sum,0,name,,k\n") == RUNS - 1


def test_a_block_that_ends_its_process_is_done_here() -> None:
    parent = os.getpid()

    def numbers(block: Sequence[int]) -> list[int]:
        if 150 in block and os.getpid() != parent:
            os._exit(3)
        return list(block)

    blocks = list(in_blocks(numbers, range(450), 2))
    assert [len(block) for block in blocks] == [100, 100, 100, 100, 50]
    assert [number for block in blocks for number in block] == list(range(450))


def test_an_error_in_a_process_is_an_error_here() -> None:
    def refuse(block: Sequence[int]) -> int:
        if 150 in block:
            raise CaptureError("number 150 was removed")
        return 0

    with pytest.raises(CaptureError, match="number 150 was removed"):
        list(in_blocks(refuse, range(450), 2))


def test_the_processes_of_a_killed_command_end(environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"1\n"
        process.kill()
        assert process.stdout.read() == b""  # no process has it open any more
