"""`nsyswrap report --by rank`: which captures are ranks, and what is printed of them."""

import json
import re
import shutil
from pathlib import Path

import pytest
import recorded
from conftest import Cli
from pyarrow import parquet
from rank_exports import Step, run_folder, steps
from report_tables import read_csv
from step_drawings import phases
from tiny_export import call, kernel, nvtx, write

from nsyswrap.base.run_folder import EXPORT, RUN
from nsyswrap.render.formats.text import heading
from nsyswrap.reports.ranks import NAMES, find_rank_report

pytestmark = pytest.mark.slow

FAST, SLOW = Step(100, 400), Step(300, 400)


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    """Two ranks of a world of four, of which the last was not to be profiled."""
    folder = tmp_path / "job"
    run_folder(folder, 2, 4, *steps(*[SLOW] * 6), profiled=[0, 1, 2])
    run_folder(folder, 0, 4, *steps(*[FAST] * 6), profiled=[0, 1, 2])
    return folder


def test_unasked_it_says_who_waits_and_why(cli: Cli, launch: Path) -> None:
    done = cli("report", launch, "--by", "rank")
    assert done.returncode == 0
    assert re.findall(r"\brank_\w+(?=$)", done.stdout, re.MULTILINE) == ["rank_waiting", "rank_skew"]
    assert "rank 2 was last in 6 of 6 collectives; rank 0 waited 1.20 µs for it" in done.stdout
    assert "nsyswrap: 2 of 4 ranks are present: 1 missing, 3 not profiled (--ranks)" in done.stderr


def test_every_report_has_the_rank_in_front(cli: Cli, launch: Path) -> None:
    done = cli("report", launch, "--by", "rank", "-r", "cuda_gpu_kern_sum:base", "--format", "csv")
    found = [(row["Rank"], row["Name"], row["Total Time (ns)"]) for row in read_csv(done.stdout)]
    assert [row for row in found if row[1] == "gemm"] == [("0", "gemm", "600"), ("2", "gemm", "1800")]
    assert {row[0] for row in found} == {"0", "2"}


def test_all_ranks_are_judged_by_one_loop(cli: Cli, tmp_path: Path) -> None:
    for number, times in enumerate(((50_000, 45_000), (51_000, 45_000), (45_000, 50_000))):
        write(tmp_path / f"job.rank{number}.sqlite", *phases(*times).rows)
    paths = sorted(tmp_path.glob("job.rank*"))
    done = cli("report", *paths, "--by", "rank", "-r", "step_budget", "--format", "csv")
    busy = {row["rank"]: row["busy_ns"] for row in read_csv(done.stdout) if row["row"] == "steady part"}
    assert busy == {"0": str(29 * 50_000), "1": str(29 * 51_000), "2": str(29 * 45_000)}
    assert "nsyswrap: all ranks are judged by 'train', the loop that they share" in done.stderr
    assert "judged by" not in cli("report", *paths, "--by", "rank", "-r", "cuda_gpu_sum").stderr


def test_ranks_come_in_their_order_whatever_they_are_called(cli: Cli, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"job.rank{number}.sqlite", kernel("k", 0, number)) for number in (10, 9)]
    done = cli("report", *paths, "--by", "rank", "-r", "cuda_gpu_kern_sum", "--format", "csv")
    assert [row["Rank"] for row in read_csv(done.stdout)] == ["9", "10"]


def test_a_folder_of_captures_that_name_their_ranks_is_a_launch(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for number in (10, 9):
        write(tmp_path / "job" / f"job.rank{number}.sqlite", *steps(*[FAST if number == 9 else SLOW] * 6))
    (tmp_path / "job" / "job.rank9.nsys-rep").write_text("the report of this export")
    for options in (["--by", "rank"], []):
        done = cli("report", "job", *options, "-r", "rank_waiting", "--format", "csv")
        assert [row["rank"] for row in read_csv(done.stdout)] == ["9", "10"], done.stderr


@pytest.mark.parametrize("command", [["report"], ["view", "-o", "page.html"]])
def test_a_capture_is_not_two_ranks(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    first = write(tmp_path / "job.rank0.sqlite", *steps(*[FAST] * 6))
    shutil.copyfile(first, tmp_path / "job.rank1.sqlite")
    done = cli(*command, "job.rank0.sqlite", "job.rank1.sqlite", "--by", "rank")
    assert (done.returncode, done.stdout) == (2, "")
    assert "job.rank0.sqlite and job.rank1.sqlite are the same capture" in done.stderr


def test_processes_of_a_torchrun_are_named_by_their_ranks(cli: Cli, tmp_path: Path) -> None:
    rows = [kernel("gemm", 0, 10 * rank, pid=pid) for rank, pid in ((1, 101), (0, 102))]
    run = {"gpu_processes": [{"pid": 101, "rank": 1}, {"pid": 102, "rank": 0}]}
    for user in run["gpu_processes"]:
        user.update({"name": "python", "parent": 100, "forked": False})  # type: ignore[dict-item]
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / EXPORT, *rows)
    (tmp_path / "run" / RUN).write_text(json.dumps(run))
    done = cli("report", "run", "--by", "rank", "-r", "cuda_gpu_kern_sum", "--format", "csv")
    assert [(row["Rank"], row["Total Time (ns)"]) for row in read_csv(done.stdout)] == [
        ("0", "0"),
        ("1", "10"),
    ]


def test_captures_that_say_no_rank_keep_their_labels(cli: Cli, tmp_path: Path) -> None:
    sides = {"left": FAST, "right": SLOW}
    paths = [write(tmp_path / f"{name}.sqlite", *steps(step)) for name, step in sides.items()]
    done = cli("report", *paths, "--by", "rank", "-r", "rank_waiting", "--format", "csv")
    assert [row["rank"] for row in read_csv(done.stdout)] == ["left", "right"]


def test_the_file_in_a_run_folder_is_of_its_rank(cli: Cli, launch: Path) -> None:
    paths = [launch / f"rank-{rank}" / EXPORT for rank in (2, 0)]
    done = cli("report", *paths, "-r", "rank_waiting", "--format", "csv")
    assert [row["rank"] for row in read_csv(done.stdout)] == ["0", "2"]


def test_a_single_rank_still_has_its_number(cli: Cli, launch: Path) -> None:
    done = cli("report", launch / "rank-2", "--by", "rank", "-r", "cuda_gpu_kern_sum", "--format", "csv")
    assert {row["Rank"] for row in read_csv(done.stdout)} == {"2"}


def test_a_capture_of_several_processes_is_taken_apart(cli: Cli, tmp_path: Path) -> None:
    run = recorded.run_folder("ddp/straggler", tmp_path)
    done = cli("report", run, "--by", "rank", "-r", "rank_waiting", "--format", "csv")
    assert [row["rank"][:8] for row in read_csv(done.stdout)] == ["process "] * 2
    assert "names no rank: each of its 2 processes is taken as one" in done.stderr
    per_process = cli("report", run, "--by", "rank", "-r", "cuda_gpu_sum", "--format", "csv")
    assert {row["Rank"] for row in read_csv(per_process.stdout)} == {
        row["rank"] for row in read_csv(done.stdout)
    }


def test_a_damaged_rank_is_told_and_the_others_are_shown(cli: Cli, launch: Path) -> None:
    run_folder(launch, 1, 4, *steps(FAST), profiled=[0, 1, 2])
    (launch / "rank-1" / EXPORT).write_bytes(b"SQLite format 3\0 and nothing more")
    done = cli("report", launch, "--by", "rank", "-r", "rank_waiting", "--format", "csv")
    assert done.returncode == 65
    assert [row["rank"] for row in read_csv(done.stdout)] == ["0", "2"]
    assert "nsyswrap: rank 1: " in done.stderr


def test_two_captures_of_one_rank_are_no_launch(cli: Cli, launch: Path, tmp_path: Path) -> None:
    other = run_folder(tmp_path / "other", 2, 4, *steps(FAST))
    done = cli("report", launch, other, "--by", "rank")
    assert (done.returncode, done.stdout) == (2, "")
    assert "both are rank 2" in done.stderr


@pytest.mark.parametrize(("world_size", "profiled"), [(3, None), (4, [0, 1])])
def test_what_an_earlier_launch_left_is_no_rank_of_the_newest(
    cli: Cli, tmp_path: Path, world_size: int, profiled: list[int] | None
) -> None:
    folder = tmp_path / "job"
    run_folder(folder, 2, 4, *steps(SLOW), started="2026-01-01T10:00:00+00:00")
    for rank in range(2):
        run_folder(
            folder,
            rank,
            world_size,
            *steps(FAST),
            profiled=profiled,
            started=f"2026-01-01T11:00:0{rank}+00:00",
        )
    done = cli("report", "job", "--by", "rank")
    assert (done.returncode, done.stdout) == (2, "")
    assert "job/rank-2 is not of the launch of job/rank-1 (" in done.stderr
    assert "remove the folders of earlier launches" in done.stderr
    assert cli("report", "job/rank-0", "job/rank-1", "--by", "rank").returncode == 0


def test_a_capture_without_a_process_is_refused(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", write(tmp_path / "x.sqlite", call("cudaFree", 0, 10)), "--by", "rank")
    assert (done.returncode, done.stdout) == (65, "")
    assert "has no ranks: no process used a GPU" in done.stderr


@pytest.mark.parametrize("arguments", [("-r", "rank_skew"), ("--by", "rank")])
def test_one_program_is_compared_with_nothing(cli: Cli, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = cli("report", write(tmp_path / "x.sqlite", *steps(FAST)), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "only process 100 was found, and a comparison needs several ranks" in done.stderr


def test_a_report_over_ranks_implies_them(cli: Cli, launch: Path) -> None:
    done = cli("report", launch, "-r", "rank_steps", "--format", "csv")
    assert [row["slowest_rank"] for row in read_csv(done.stdout)] == ["2"] * 6
    assert "rank_steps compares ranks: --by rank is assumed" in done.stderr


def test_a_run_of_a_batch_is_opened_with_its_ranks(cli: Cli, launch: Path, tmp_path: Path) -> None:
    (launch / "status.json").write_text('{"outcome": "done"}')
    done = cli("view", launch, "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "rank 2 was last in 6 of 6 collectives" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_newest_launch_is_shown_unasked(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "nsyswrap-runs" / "job"
    for rank, step in enumerate((FAST, SLOW)):
        run = run_folder(folder, rank, 2, *steps(step))
        (run / "status.json").write_text("{}")
    done = cli("report", "--by", "rank", "-r", "rank_waiting", "--format", "csv")
    assert [row["waiting_ns"] for row in read_csv(done.stdout)] == ["200", "0"]


def test_the_other_formats(cli: Cli, launch: Path, tmp_path: Path) -> None:
    asked = ("report", launch, "--by", "rank", "-r", "rank_waiting", "-r", "rank_skew")
    envelope = json.loads(cli(*asked, "--format", "json").stdout)
    assert [report["name"] for report in envelope["reports"]] == ["rank_waiting", "rank_skew"]
    assert [row["waiting_ns"] for row in envelope["reports"][0]["rows"]] == [1200, 0]
    assert [capture["label"] for capture in envelope["captures"]] == ["rank 0", "rank 2"]
    assert cli(*asked, "--format", "parquet", "-o", "tables").returncode == 0
    assert parquet.read_table(tmp_path / "tables" / "rank_waiting.parquet")["rank"].to_pylist() == [0, 2]
    assert "| Rank" in cli(*asked, "--format", "markdown").stdout


def test_a_part_of_every_rank(cli: Cli, launch: Path) -> None:
    done = cli("report", launch, "-r", "rank_waiting", "--nvtx", "step/3", "--format", "csv")
    assert [(row["collectives"], row["own_ns"]) for row in read_csv(done.stdout)] == [
        ("1", "100"),
        ("1", "300"),
    ]


def test_what_no_rank_holds_is_told(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        run_folder(tmp_path / "cpu", rank, 2, nvtx("step", 0, 100 + rank))
    done = cli("report", tmp_path / "cpu", "--by", "rank")
    assert done.returncode == 0
    assert "range (CPU)" in done.stdout
    assert "nsyswrap: no rank_waiting: no rank holds kernels" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_report_over_ranks_is_explained(cli: Cli, name: str) -> None:
    done = cli("report", "--explain", name)
    assert done.returncode == 0
    assert name in done.stdout.splitlines()[0]
    assert "Columns of the screen" in done.stdout
    flat = " ".join(done.stdout.split())
    for column in find_rank_report(name).schema.columns:
        assert (
            f" {heading(column)} {' '.join(column.help.split())} [{column.name}, {column.unit.value}]" in flat
        )
