"""``nsyswrap collect``: what is found, what becomes of what cannot be read, and what the files say."""

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from batch_folders import DONE, batch_of, captured, claimed, ended, planned, rows_of
from click.testing import CliRunner
from conditioned import H200, MS, POWER, STARTED, around, sample
from conditioned import run_folder as conditioned_run
from conftest import Cli
from jsonschema import Draft202012Validator
from pyarrow import parquet
from recorded import DOZEN, ROOT, SHIPPED, run_folder
from tiny_export import call, kernel, write

from nsyswrap.api import open_capture
from nsyswrap.base.run_facts import Conditions, Git
from nsyswrap.base.run_folder import DIGEST, EXPORT, SPEC, STATUS, RunFolder
from nsyswrap.cli import cli as nsyswrap
from nsyswrap.cli import collect
from nsyswrap.cli.batch_status import state_reader
from nsyswrap.render.result_files import WRITTEN
from nsyswrap.reports import SUMMARIES, find_report
from nsyswrap.reports.runs import digest as digests
from nsyswrap.reports.runs import gather
from nsyswrap.reports.runs.digest import write_digest
from nsyswrap.reports.runs.find import find_runs
from nsyswrap.reports.scenario_tables import gpu_totals

pytestmark = pytest.mark.slow

EMPTY_FIGURES = {"kernels": "", "kernel_ns": "", "busy_ns": "", "recorded_ns": ""}
FILES = {"results.csv", "results.parquet", "summaries.csv", "summaries.parquet", "kernels.csv"}


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_batch_becomes_a_row_a_run(cli: Cli, tmp_path: Path) -> None:
    batch = tmp_path / "sweep"
    captured(planned(batch, 1, {"n": 1024, "sync": "both"}), 10, 20)
    captured(planned(batch, 2, {"n": 1024, "sync": "none"}), 5, outcome="timed_out", wall_s=60)
    ended(planned(batch, 3, {"n": 2048, "sync": "both"}), "nsys_failed", message="nsys: no room")
    claimed(planned(batch, 4, {"n": 2048, "sync": "none"}))
    planned(batch, 5, {"n": 4096, "sync": "none"})
    batch_of(batch)
    done = cli("collect", batch)
    assert done.returncode == 0, done.stderr
    assert set(FILES) <= {path.name for path in batch.iterdir()}
    rows = rows_of(batch / "results.csv")
    assert [row["outcome"] for row in rows] == ["done", "timed_out", "nsys_failed", "lost", "planned"]
    assert [(row["run"], row["n"], row["sync"], row["repeat"]) for row in rows[:2]] == [
        ("00001", "1024", "both", "1"),
        ("00002", "1024", "none", "1"),
    ]
    first, second, *others = rows
    assert (first["kernels"], first["kernel_ns"], first["wall_s"], first["exit_code"]) == (
        "2",
        "30",
        "1.5",
        "0",
    )
    assert (second["kernel_ns"], second["wall_s"], second["exit_code"]) == ("5", "60.0", "75")
    for row in others:  # missing is not zero
        assert row | EMPTY_FIGURES == row
    assert rows[2]["message"] == "nsys: no room"
    assert "5 runs: 1 done, 1 timed out, 1 nsys failed, 1 lost, 1 planned" in done.stderr
    assert "00003: nsys failed: nsys: no room" in done.stderr


def test_the_conditions_of_a_run_are_in_its_row(cli: Cli, tmp_path: Path) -> None:
    # a kernel from 1.05 s to 2.95 s at 1400 MHz
    work = [sample(1100 + 100 * i, 1400, 690, POWER) for i in range(20)]
    facts = Conditions((H200,), git=Git("0123456789abcdef", dirty=True))
    folder = conditioned_run(
        tmp_path / "run", [kernel("k", 1050 * MS, 2950 * MS), STARTED], around(work), facts
    )
    RunFolder(folder).write_status(DONE)
    done = cli("collect", folder, "-o", tmp_path / "out", "--by", "power_w")
    assert done.returncode == 0, done.stderr
    assert "Power of 'run': 690.0, one run." in done.stdout
    [row] = rows_of(tmp_path / "out" / "results.csv")
    conditions = {
        "sm_clock_mhz": "1400.0",
        "throttled_percent": "100.0",
        "power_w": "690.0",
        "temperature_c": "50.0",
        "other_processes": "0",
        "host_name": "gpu07",
        "git_commit": "0123456789ab-dirty",
        "gpus": H200.name,
        "rank": "",
    }
    assert row | conditions == row


def test_runs_that_a_plan_left_out_later_do_not_count(cli: Cli, tmp_path: Path) -> None:
    for number in (1, 2):
        captured(planned(tmp_path / "b", number, {"n": number}), 10)
    batch_of(tmp_path / "b")
    text = (tmp_path / "b" / "batch.json").read_text()
    (tmp_path / "b" / "batch.json").write_text(text.replace('"active": true', '"active": false', 1))
    for given in ("b", "b/**", "."):
        assert cli("collect", given, "-o", "out").returncode == 0
        assert [row["n"] for row in rows_of(tmp_path / "out" / "results.csv")] == ["2"]


def test_recorded_runs_say_what_report_says(cli: Cli, tmp_path: Path) -> None:
    folders = [run_folder(name, tmp_path / "in") for name in DOZEN]
    done = cli("collect", *folders, "-o", "out", "-r", "all")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "out" / "results.csv")
    summaries = rows_of(tmp_path / "out" / "summaries.csv")
    assert len(rows) == len(folders)
    for folder, row in zip(folders, rows, strict=True):
        capture = open_capture(folder)
        expected = {name: "" if value is None else str(value) for name, value in gpu_totals(capture).items()}
        assert row | expected == row
        mine = [line for line in summaries if line["run"] == row["run"]]
        for name in ("cuda_gpu_kern_sum", "gpu_time", "launch_overhead", "nvtx_sum"):
            lines = [line for line in mine if line["report"] == name]
            if find_report(name).lacks(capture):
                assert not lines
                continue
            assert [(line["row"], line["column"], line["value"] or line["text"]) for line in lines] == [
                (str(number), column, str(value))
                for number, record in enumerate(capture.report(name).records())
                for column, value in record.items()
                if value is not None
            ]


def test_damaged_captures_are_listed_and_the_others_read(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "good.sqlite", kernel("k", 0, 10))
    write(folder / "nothing.sqlite", call("cudaFree", 0, 10))
    (folder / "empty.sqlite").touch()
    (folder / "text.sqlite").write_text("no database\n")
    whole = (SHIPPED / "add" / "grid" / EXPORT).read_bytes()
    (folder / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    (folder / "holed.sqlite").write_bytes(whole[:8192] + b"\xff" * 200_000 + whole[208_192:])
    (folder / "failed").mkdir()
    ended(folder / "failed", "nsys_failed", message="the importer is missing")
    done = cli("collect", "in", "-o", "out")
    assert done.returncode == 65
    assert "Traceback" not in done.stderr
    rows = {row["run"]: row for row in rows_of(tmp_path / "out" / "results.csv")}
    outcomes = {run: row["outcome"] for run, row in rows.items()}
    assert outcomes == {
        "good": "done",
        "nothing": "done",
        **dict.fromkeys(("empty", "text", "cut", "holed"), "damaged"),
        "failed": "nsys_failed",
    }
    assert "is not complete: nsys is still writing it" in rows["empty"]["message"]
    assert "cut off" in rows["cut"]["message"]
    assert all(f"nsyswrap: {run}: damaged: " in done.stderr for run in ("empty", "text", "cut", "holed"))
    assert (rows["nothing"]["kernels"], rows["nothing"]["busy_ns"]) == ("0", "")


@pytest.mark.parametrize("given", ["in", "in/*.sqlite"])
def test_a_link_that_leads_nowhere_is_damaged_and_the_others_read(
    cli: Cli, tmp_path: Path, given: str
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "good.sqlite", kernel("k", 0, 10))
    (tmp_path / "in" / "gone.sqlite").symlink_to("nowhere")
    done = cli("collect", given, "-o", "out")
    assert done.returncode == 65, done.stderr
    rows = rows_of(tmp_path / "out" / "results.csv")
    assert {row["run"]: row["outcome"] for row in rows} == {"good": "done", "gone": "damaged"}
    assert "gone: damaged: in/gone.sqlite is a broken link" in done.stderr


def test_without_one_capture_that_can_be_read_it_fails(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    done = cli("collect", "empty.sqlite")
    assert done.returncode == 65
    assert "empty: damaged" in done.stderr
    assert not (tmp_path / "nsyswrap-collected" / "results.csv").exists()


@pytest.mark.parametrize("given", ["nowhere", "nowhere/*.sqlite", "void"])
def test_what_matches_nothing_is_an_error(cli: Cli, tmp_path: Path, given: str) -> None:
    (tmp_path / "void").mkdir()
    done = cli("collect", given)
    assert (done.returncode, done.stdout) == (65, "")
    assert given in done.stderr


@pytest.mark.parametrize(
    ("setting", "code", "says"),
    [
        ("mem=1G", 2, "--slurm has no effect without --executor slurm"),
        ("array=1", 78, "'array' is set by nsyswrap"),
    ],
)
def test_options_of_slurm_need_its_executor(
    cli: Cli, tmp_path: Path, setting: str, code: int, says: str
) -> None:
    captured(planned(tmp_path / "b", 1, {"n": 1}), 100)
    done = cli("collect", "b", "--slurm", setting)
    assert done.returncode == code
    assert says in done.stderr


def test_patterns_folders_and_files_name_each_run_once(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "deep" / "er" / name).mkdir(parents=True)
        captured(tmp_path / "deep" / "er" / name, 10)
    write(tmp_path / "deep" / "c.sqlite", kernel("k", 0, 10))
    (tmp_path / "deep" / "c.nsys-rep").write_text("of the same capture")
    everything = ("deep", "deep/**/*.sqlite", "deep/*", "deep/**", "deep/er/a", "deep/er/a/report.sqlite")
    for given in [(one,) for one in everything[:4]] + [everything]:
        done = cli("collect", *given)
        assert done.returncode == 0, done.stderr
        rows = rows_of(tmp_path / "nsyswrap-collected" / "results.csv")
        assert sorted(row["run"] for row in rows) == ["a", "b", "c"]
        assert all(row["outcome"] == "done" for row in rows)


def test_what_is_read_is_left_as_it_is(cli: Cli, tmp_path: Path) -> None:
    captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    write(tmp_path / "b" / "runs" / "loose.sqlite", kernel("k", 0, 10))
    before = contents(tmp_path / "b")
    assert cli("collect", "b", "-o", "out").returncode == 0
    assert contents(tmp_path / "b") == before
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_results_are_replaced_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("older")
    for name in ("a.sqlite", "b.sqlite"):
        write(tmp_path / name, kernel("k", 0, 10))
        assert cli("collect", name, "-o", "out").returncode == 0
        assert [row["run"] for row in rows_of(tmp_path / "out" / "results.csv")] == [name[0]]
    assert (tmp_path / "out" / "mine.txt").read_text() == "older"


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_of_somebody_else_are_left_alone(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / name).write_text("date,result\n")
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    done = cli("collect", "a.sqlite", "-o", "own")
    assert done.returncode == 73
    assert f"own/{name} already exists and was not written by nsyswrap" in done.stderr
    assert [path.read_text() for path in (tmp_path / "own").iterdir()] == ["date,result\n"]


def test_a_stored_digest_is_not_made_again(cli: Cli, tmp_path: Path) -> None:
    folder = captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    write_digest(folder)
    made = digests.read_digest(folder / DIGEST)
    digests.write(replace(made, totals={**made.totals, "kernel_ns": 11}), folder / DIGEST)
    assert cli("collect", "b").returncode == 0
    [row] = rows_of(tmp_path / "nsyswrap-collected" / "results.csv")
    assert row["kernel_ns"] == "11"
    (folder / EXPORT).unlink()
    write(folder / EXPORT, kernel("k", 0, 12))
    assert cli("collect", "b").returncode == 0
    [row] = rows_of(tmp_path / "nsyswrap-collected" / "results.csv")
    assert row["kernel_ns"] == "12"


def test_a_digest_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second collect reads is altered here, to tell it from the capture."""
    monkeypatch.setattr(gather, "_SETTLED_S", 0.0)  # the files were made just now
    monkeypatch.setattr(gather, "names_code", lambda: True)  # the tests may run in a changed checkout
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    write(tmp_path / "b" / "loose.sqlite", kernel("k", 0, 20))
    runs = find_runs([tmp_path / "b"], state_reader(), 1)

    def collected() -> list[object]:
        results = gather.gather(runs, tmp_path, 1)
        return [result.totals and result.totals["kernel_ns"] for result in results]

    (tmp_path / "cache").mkdir()
    assert sorted(map(str, collected())) == ["10", "20"]
    made = digests.digest(folder)
    for kept in (tmp_path / "cache").rglob("*.json"):
        digests.write_lines(replace(made, totals={**made.totals, "kernel_ns": 11}), kept)
    assert collected() == [11, 11]
    (tmp_path / "b" / "loose.sqlite").unlink()
    write(tmp_path / "b" / "loose.sqlite", kernel("k", 0, 22))
    os.utime(folder / "run.json")  # its facts are in the digest
    assert sorted(map(str, collected())) == ["10", "22"]
    fewer = gather.gather(runs, tmp_path, 1, reports=["gpu_time"])  # are made again, and kept beside others
    assert [result.reports for result in fewer] == [("gpu_time",)] * 2
    assert all(len(result.reports) > 1 for result in gather.gather(runs, tmp_path, 1))
    for kept in (tmp_path / "cache").rglob("*.json"):
        kept.write_text("{}")
    assert sorted(map(str, collected())) == ["10", "22"]
    for kept in (tmp_path / "cache").rglob("*.json"):
        os.utime(kept, (0, 0))
    gather.prune()
    assert not list((tmp_path / "cache").rglob("*.json"))
    (tmp_path / "b" / "loose.sqlite-wal").write_bytes(b"changes that are not in the file yet")
    assert gather.place_of(tmp_path / "b" / "loose.sqlite", SUMMARIES) is None
    assert gather.place_of(folder, SUMMARIES)
    monkeypatch.setattr(gather, "names_code", lambda: False)
    assert gather.place_of(folder, SUMMARIES) is None


def test_only_the_summaries_that_are_asked_for(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    assert cli("collect", "a.sqlite", "-r", "gpu_time,cuda_gpu_kern_sum").returncode == 0
    rows = rows_of(tmp_path / "nsyswrap-collected" / "summaries.csv")
    assert list(dict.fromkeys(row["report"] for row in rows)) == ["cuda_gpu_kern_sum", "gpu_time"]
    written = []
    for options in ((), ("-r", "all")):
        assert cli("collect", "a.sqlite", *options).returncode == 0
        written.append({row["report"] for row in rows_of(tmp_path / "nsyswrap-collected" / "summaries.csv")})
    assert {"cuda_gpu_kern_sum", "gpu_time"} < written[0] <= set(WRITTEN)
    assert {"cuda_gpu_sum", "diagnostics"} < written[1] - written[0]
    wrong = cli("collect", "a.sqlite", "-r", "cuda_gpu_trace")
    assert wrong.returncode == 2
    assert all(name in wrong.stderr for name in SUMMARIES)


def test_without_pyarrow_there_is_no_parquet_and_no_old_one(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "absent" / "pyarrow").mkdir(parents=True)
    (tmp_path / "absent" / "pyarrow" / "__init__.py").write_text("raise ImportError\n")
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    assert cli("collect", "a.sqlite").returncode == 0
    from conftest import ROOT  # noqa: PLC0415

    done = cli("collect", "a.sqlite", PYTHONPATH=f"{tmp_path / 'absent'}:{ROOT}")
    assert done.returncode == 0
    *_, wrote, advice = done.stderr.splitlines()
    assert wrote.startswith("wrote nsyswrap-collected/results.csv, ")
    assert re.fullmatch(
        "  with pyarrow the tables are also written as Parquet: .* -m pip install .*pyarrow.*", advice
    )
    assert not list((tmp_path / "nsyswrap-collected").glob("*.parquet"))


@pytest.mark.parametrize("options", [(), ("-r", "cuda_gpu_kern_sum"), ("-r", "all")])
def test_a_large_file_has_its_size_and_how_to_write_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str]
) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(collect, "_LARGE_BYTES", 300)
    monkeypatch.setattr(collect, "_MB", 100)
    written = CliRunner().invoke(nsyswrap, ["collect", "a.sqlite", "--jobs", "1", *options])
    assert re.search(r"summaries\.csv \(\d+ MB\)", written.stderr)
    assert ("-r NAME writes one report to summaries.csv" in written.stderr) == (not options)


def test_where_it_cannot_write_it_says_so_before_it_reads(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 0, 10))
    (tmp_path / "file").touch()
    done = cli("collect", "a.sqlite", "-o", "file")
    assert done.returncode == 73
    assert "cannot write file" in done.stderr


def test_a_run_that_needs_no_nsys_is_done_without_figures(cli: Cli, tmp_path: Path) -> None:
    captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    RunFolder(planned(tmp_path / "b", 2, {"n": 2})).write_status(DONE)
    done = cli("collect", batch_of(tmp_path / "b"))
    rows = rows_of(tmp_path / "b" / "results.csv")
    assert [(row["outcome"], row["kernel_ns"]) for row in rows] == [("done", "10"), ("done", "")]
    assert "00002: done: no capture" in done.stderr


def test_two_batches_at_once_are_told_apart(cli: Cli, tmp_path: Path) -> None:
    for name, ns in (("before", 20), ("after", 10)):
        captured(planned(tmp_path / name, 1, {"n": 1}), ns)
        batch_of(tmp_path / name)
    done = cli("collect", "before", "after")
    assert done.returncode == 0
    rows = rows_of(tmp_path / "nsyswrap-collected" / "results.csv")
    assert [(row["batch"], row["n"], row["kernel_ns"]) for row in rows] == [
        ("before", "1", "20"),
        ("after", "1", "10"),
    ]
    assert len(rows_of(tmp_path / "nsyswrap-collected" / "kernels.csv")) == 2
    assert "fastest 'Batch=after n=1', 10 ns; slowest 'Batch=before n=1', 20 ns" in done.stdout


def test_a_parameter_called_batch_is_not_the_batch(cli: Cli, tmp_path: Path) -> None:
    for name in ("before", "after"):
        captured(planned(tmp_path / name, 1, {"batch": 200}), 10)
        batch_of(tmp_path / name)
    assert cli("collect", "before", "after").returncode == 0
    for table in ("results.csv", "kernels.csv"):
        rows = rows_of(tmp_path / "nsyswrap-collected" / table)
        assert [(row["batch"], row["parameter_batch"]) for row in rows] == [
            ("before", "200"),
            ("after", "200"),
        ]


def test_a_folder_with_any_name_is_collected(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "a 'b' \"c\"\nd *[e]\x1b[31m"
    captured(planned(folder, 1, {"n": 1}), 10)
    ended(planned(folder, 2, {"n": 2}), "nsys_failed", message="no\x1b[31m")
    done = cli("collect", batch_of(folder))
    assert done.returncode == 0, done.stderr
    assert len(rows_of(folder / "results.csv")) == 2
    assert "\x1b" not in done.stdout
    loose = tmp_path / "x\ny.sqlite"
    write(loose, kernel("k", 0, 10))
    assert cli("collect", loose).returncode == 0
    assert [row["run"] for row in rows_of(tmp_path / "nsyswrap-collected" / "results.csv")] == ["x\ny"]


def test_a_damaged_digest_of_a_capture_that_is_gone_is_told(cli: Cli, tmp_path: Path) -> None:
    captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    folder = captured(planned(tmp_path / "b", 2, {"n": 2}), 20)
    write_digest(folder)
    (folder / EXPORT).unlink()
    assert cli("collect", batch_of(tmp_path / "b")).returncode == 0
    assert [row["kernel_ns"] for row in rows_of(tmp_path / "b" / "results.csv")] == ["10", "20"]
    text = (folder / DIGEST).read_text()
    (folder / DIGEST).write_text(text.replace('"kernel_ns":20', '"kernel_ns":21'))
    done = cli("collect", "b")
    assert done.returncode == 65
    assert [row["kernel_ns"] for row in rows_of(tmp_path / "b" / "results.csv")] == ["10", ""]
    assert (
        "digest.json is damaged: its content is not what nsyswrap wrote; its capture is gone" in done.stderr
    )


def test_a_run_whose_parameters_were_altered_is_damaged(cli: Cli, tmp_path: Path) -> None:
    """Its label and its layout may change: they do not decide what was run."""
    folders = [captured(planned(tmp_path / "b", n, {"n": n}), 10 * n) for n in (1, 2, 3)]
    batch_of(tmp_path / "b")
    for folder, before, after in zip(
        folders, ('"n": 1', "n=2", "{"), ('"n": 7', "of a later plan", "{ "), strict=True
    ):
        text = (folder / SPEC).read_text()
        (folder / SPEC).write_text(text.replace(before, after))
    done = cli("collect", "b")
    assert done.returncode == 65
    rows = rows_of(tmp_path / "b" / "results.csv")
    assert [(row["n"], row["outcome"]) for row in rows] == [("", "damaged"), ("2", "done"), ("3", "done")]
    assert f"00001: damaged: b/runs/00001/{SPEC} cannot be read: it is not that of batch.json" in done.stderr


@pytest.mark.parametrize(
    "change", [{"exit_code": 3}, {"message": []}, {"program_code": 0.5}, {"exit_code": None}]
)
def test_a_status_of_nonsense_is_not_done(cli: Cli, tmp_path: Path, change: dict[str, object]) -> None:
    folder = captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    facts = json.loads((folder / STATUS).read_text())
    (folder / STATUS).write_text(json.dumps({**facts, **change}))
    assert cli("collect", batch_of(tmp_path / "b")).returncode == 65
    [row] = rows_of(tmp_path / "b" / "results.csv")
    assert row["outcome"] == "damaged"
    assert f"{STATUS} " in row["message"]


def test_cells_are_guarded_when_asked(cli: Cli, tmp_path: Path) -> None:
    folder = captured(planned(tmp_path / "b", 1, {"=p": "@SUM(1)", "q": "x\n::error::y"}), 10)
    (folder / EXPORT).unlink()
    write(folder / EXPORT, call("cudaLaunchKernel", 0, 5, 1), kernel("=1+1", 20, 30, 1))
    batch_of(tmp_path / "b")
    write(tmp_path / "::error::z.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("\x1bk", 20, 30, 1))
    for options, formula, name in (((), "=1+1", "\x1bk"), (("--csv-safe",), "'=1+1", r"\x1bk")):
        assert cli("collect", "b", "::error::z.sqlite", "-o", "out", *options).returncode == 0
        kernels = rows_of(tmp_path / "out" / "kernels.csv")
        assert [row["name"] for row in kernels] == [formula, name]
        plain = parquet.read_table(tmp_path / "out" / "summaries.parquet").to_pylist()  # data as they are
        for rows, names in (
            (rows_of(tmp_path / "out" / "summaries.csv"), [formula, name]),
            (plain, ["=1+1", "\x1bk"]),
        ):
            kernels = [row for row in rows if row["report"] == "cuda_gpu_kern_sum"]
            assert [row["text"] for row in kernels if row["column"] == "name"] == names
    for file in ("results", "summaries", "kernels"):
        content = (tmp_path / "out" / f"{file}.csv").read_text(encoding="utf-8")
        cells = [cell for row in csv.reader(io.StringIO(content)) for cell in row]
        assert [cell for cell in cells if re.match(r"\s*([=+\-@]|::)", cell)] == []
        assert not any(line.startswith("::") for line in re.split("[\r\n]", content))
    assert "'=p" in rows_of(tmp_path / "out" / "results.csv")[0]


def test_long_names_of_runs_stay_readable_at_80_columns(cli: Cli, tmp_path: Path) -> None:
    names = [f"gpt2-xl_lr=0.0003_batch={batch}_h100" for batch in (8, 16, 32)]
    for number, name in enumerate(names, 1):
        write(tmp_path / f"{name}.sqlite", kernel("k", 0, 10 * number, 1), kernel("k", 100, 150, 2))
    done = cli("collect", *sorted(tmp_path.glob("*.sqlite")), "-o", "table", COLUMNS="80")
    lines = done.stdout.splitlines()
    assert max(map(len, lines[: len(names) + 2])) <= 80
    runs = [line.split()[0] for line in lines if line.startswith("gpt2")]
    assert len(set(runs)) == len(names)
    assert min(map(len, runs)) >= 20
    for batch in ("8", "16", "32"):
        assert any(run.endswith(f"{batch}_h100") for run in runs)


def test_the_packet_of_many_runs(cli: Cli, tmp_path: Path) -> None:
    for name in ("good", "other"):
        write(tmp_path / f"{name}.sqlite", kernel("k", 0, 10))
    (tmp_path / "bad.sqlite").write_text("no database")
    done = cli("collect", ".", "-o", "out", "--format", "brief")
    assert done.returncode == 65
    packet = json.loads(done.stdout)
    Draft202012Validator(json.loads((ROOT / "docs/brief.schema.json").read_text("utf-8"))).validate(packet)
    assert packet["outcomes"] == {"done": 2, "damaged": 1}
    assert packet["first"][0]["name"] == "bad"
    assert len(rows_of(tmp_path / packet["table"])) == packet["rows"]
    why, least_busy = (cli(*one["argv"][1:]) for one in packet["next"])
    assert (why.returncode, least_busy.returncode) == (65, 0)  # a file that is no capture cannot be checked
    assert "it is not an SQLite database" in json.loads(why.stdout)["what"]
    assert json.loads(least_busy.stdout)["busy_percent"] == 100


def test_errors_beside_a_packet_are_objects(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    for words, code in (("bad.sqlite", 65), ("--by", 2)):
        done = cli("collect", words, *["busy_ns", "."] * (code == 2), "--format", "brief")
        assert (done.returncode, json.loads(done.stdout)["code"]) == (code, code)
