"""``nsyswrap collect`` of runs with several ranks: a row for each rank, one verdict and value for a run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_folders import DONE, batch_of, planned, rows_of
from rank_exports import FAST, SLOW, run_folder, steps
from tiny_export import kernel, write

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_folder import CLAIM, EXPORT, RUN, RunFolder, Status
from nsyswrap.cli.collect import collect
from nsyswrap.reports.runs.digest import write_digest
from nsyswrap.reports.runs.find import RecordedRun, find_runs
from nsyswrap.reports.runs.tables import shared_nodes, shared_note

VERDICT = "rank 1 was last in 6 of 6 collectives; rank 0 waited 1.20 µs for it, 51.3 % of its GPU time"


def launch(folder: Path, *, longer_ns: int = 0) -> Path:
    """Two ranks of which the second is slow."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, step in enumerate((FAST, SLOW)):
        own = [kernel("more", 100_000, 100_000 + longer_ns)] if longer_ns else []
        run_folder(folder, rank, 2, *steps(*[step] * 6), *own, started=f"2026-11-23T10:00:0{rank}+00:00")
    return folder


def results(folder: Path) -> list[dict[str, str]]:
    return rows_of(folder / "results.csv")


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A batch of two combinations with two ranks each."""
    folder = tmp_path / "study"
    for number, n in enumerate((1, 2), 1):
        run = launch(planned(folder, number, {"n": n}), longer_ns=n * 1000)
        RunFolder(run).write(
            CLAIM, {"host": "n1", "pid": 1, "began": 0.0, "job": f"17_{number}", "restarts": 0}
        )
        RunFolder(run).write_status(DONE)
    return batch_of(folder)


def test_a_row_a_rank_and_a_verdict_a_run(batch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    collect([batch], batch, jobs=1)
    rows = results(batch)
    assert [(row["run"], row["rank"], row["n"], row["world_size"], row["job"]) for row in rows] == [
        ("00001", "0", "1", "2", "17_1"),
        ("00001", "1", "1", "2", "17_1"),
        ("00002", "0", "2", "2", "17_2"),
        ("00002", "1", "2", "2", "17_2"),
    ]
    assert [(row["last"], row["waiting_ns"], row["exposed_ns"]) for row in rows[:2]] == [
        ("0", "1200", "1200"),
        ("6", "0", "0"),
    ]
    assert all(row["rank_verdict"].startswith("rank 1 was last in 6 of 6 collectives") for row in rows)
    summaries = rows_of(batch / "summaries.csv")
    assert {(row["run"], row["rank"]) for row in summaries} == {
        (f"0000{number}", str(rank)) for number in (1, 2) for rank in (0, 1)
    }
    assert {(row["n"], row["runs"]) for row in rows_of(batch / "kernels.csv")} == {("1", "1"), ("2", "1")}
    out = capsys.readouterr().out
    assert "fastest 'n=1', " in out  # the median of two ranks of 2340 ns and 1000 ns more
    assert "00001: rank 1 was last in 6 of 6 collectives" in out


def test_a_rank_is_not_done_where_its_run_is_not(batch: Path) -> None:
    failed = Status("program_failed", 1, 0, 1, "rank 1 failed")
    RunFolder(batch / "runs" / "00002").write_status(failed)
    collect([batch], batch, jobs=1)
    assert [row["outcome"] for row in results(batch)] == ["done"] * 2 + ["program_failed"] * 2
    assert {row["n"] for row in rows_of(batch / "kernels.csv")} == {"1"}


def test_ranks_of_one_launch_do_not_compete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch(tmp_path / "job")
    collect([tmp_path / "job"], tmp_path / "out", jobs=1, by="kernel_ns")
    out = capsys.readouterr().out
    assert "Kernel Time of 'job': 2.34 µs, one run." in out
    assert f"job: {VERDICT}" in out
    assert [(row["run"], row["rank"]) for row in results(tmp_path / "out")] == [("job", "0"), ("job", "1")]


def test_captures_that_name_their_ranks_are_one_run(tmp_path: Path) -> None:
    for rank, step in enumerate((FAST, SLOW)):
        write(tmp_path / f"job.rank{rank}.sqlite", *steps(*[step] * 6))
    write(tmp_path / "single.rank3.sqlite", *steps(FAST, SLOW))
    collect([tmp_path], tmp_path / "out", jobs=1)
    rows = results(tmp_path / "out")
    assert [(row["run"], row["rank"]) for row in rows] == [("job", "0"), ("job", "1"), ("single.rank3", "")]
    assert rows[0]["rank_verdict"].startswith(VERDICT)


@pytest.mark.parametrize("digests", [False, True])
def test_a_run_with_the_same_capture_as_two_ranks_is_refused(
    batch: Path, capsys: pytest.CaptureFixture[str], *, digests: bool
) -> None:
    """Its kernels would count twice. The other runs are collected."""
    wrong = batch / "runs" / "00002"
    shutil.copyfile(wrong / "rank-0" / EXPORT, wrong / "rank-1" / EXPORT)
    if digests:
        for folder in batch.glob("runs/*/rank-*"):
            write_digest(folder)
    collect([batch], batch, jobs=1)
    rows = results(batch)
    assert [row["outcome"] for row in rows] == ["done"] * 2 + ["damaged"] * 2
    why = f"{wrong / 'rank-0'} and {wrong / 'rank-1'} are the same capture, and not two ranks"
    assert [row["message"] for row in rows] == [""] * 2 + [why] * 2
    assert [row["kernels"] for row in rows[2:]] == [""] * 2
    assert {row["n"] for row in rows_of(batch / "kernels.csv")} == {"1"}
    assert {row["run"] for row in rows_of(batch / "summaries.csv")} == {"00001"}
    assert f"00002 rank 0: damaged: {why}" in capsys.readouterr().err


def test_nothing_is_collected_of_one_capture_as_two_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"job.rank{rank}.sqlite", *steps(FAST, SLOW))
    with pytest.raises(CaptureError, match="no capture can be read of 2 runs"):
        collect([tmp_path], tmp_path / "out", jobs=1)


def test_what_a_run_was_made_on(tmp_path: Path) -> None:
    job = launch(tmp_path / "job")
    gpus = [
        {"uuid": "GPU-a", "name": "H200", "processes": [{"pid": 7, "in_run": True}]},
        {"uuid": "GPU-b", "name": "H200", "processes": [{"pid": 8, "in_run": False}]},
    ]
    run = json.loads((job / "rank-0" / RUN).read_text())
    conditions = {"gpus": gpus, "host": {"node": "gpu07"}}
    (job / "rank-0" / RUN).write_text(json.dumps({**run, "driver": "580.1", "conditions": conditions}))
    first, _ = find_runs([job], lambda _: ("planned", ""))
    assert (first.node, first.driver, first.gpus, first.gpu_uuids) == ("gpu07", "580.1", "H200", "GPU-a")
    assert first.started == "2026-11-23T10:00:00+00:00"


def test_runs_that_shared_a_node() -> None:
    def run(label: str, node: str, minute: int, **more: Any) -> RecordedRun:
        started = f"2026-11-23T10:{minute:02}:00+00:00"
        run = RecordedRun(Path(label), label, "done", wall_s=90.0, node=node, started=started)
        return replace(run, **more)

    runs = [
        run("a", "n1", 0),
        run("b", "n1", 1),
        run("c", "n1", 2),
        run("d", "n2", 1),
        run("e", "n3", 0, rank=0),
        run("e", "n3", 0, rank=1),
        run("f", "", 1),
        replace(run("g", "n1", 1), started="text"),
    ]
    assert shared_nodes(runs) == [1, 2, 1, 0, 0, 0, None, None]
    assert shared_note(runs).startswith("3 runs shared a node with other profiled runs")
    assert shared_note(runs[3:]) == ""
