"""The tables of captures of several programs, GPUs and versions of nsys, against pandas on the exports.

The captures are edited copies of labelled ones. ``NUMBER`` in the environment makes another number of them.
"""

from __future__ import annotations

import lzma
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nsyswrap.analysis.answer import answer_of
from nsyswrap.api import open_capture
from nsyswrap.cli.collect import collect
from nsyswrap.reports.answer import as_dict

pytestmark = pytest.mark.slow

NUMBER = int(os.environ.get("NUMBER", "60"))
LABELLED = Path(__file__).parents[2] / "labelled" / "captures"
PROGRAMS, GPUS = ("train.py", "solve", "serve.py"), ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "Tesla T4")
VERSIONS = ("2024.5.1.113", "2025.3.2.0", "2026.1.1.204")
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
FIGURES = ["total_ns", "instances", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns"]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edited")
    sources = sorted(LABELLED.glob("*.xz"))
    (folder / "in").mkdir()
    for number in range(NUMBER):
        source = sources[number % len(sources)]
        path = folder / "in" / f"{number:03}-{source.name.partition('.')[0]}.sqlite"
        path.write_bytes(lzma.decompress(source.read_bytes()))
        edit(path, number)
    collect([folder / "in"], folder, jobs=2)
    return folder


def edit(path: Path, number: int) -> None:
    """Give a capture another program, GPU, version, start, and kernels that are a little shorter."""
    program = PROGRAMS[number % 3]
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM META_DATA_CAPTURE WHERE name LIKE 'PROCESS_0:ARGUMENT_%'")
        command = ["python3", f"/home/me/{program}", f"--n={number}"] if "." in program else [f"./{program}"]
        db.execute("UPDATE META_DATA_CAPTURE SET value = ? WHERE name = 'PROCESS_0:COMMAND'", command[:1])
        arguments = [(f"PROCESS_0:ARGUMENT_{i}", word) for i, word in enumerate(command[1:])]
        db.executemany("INSERT INTO META_DATA_CAPTURE (name, value) VALUES (?, ?)", arguments)
        db.execute("UPDATE TARGET_INFO_GPU SET name = ?", [GPUS[number // 3 % 3]])
        version = [VERSIONS[number // 9 % 3]]
        db.execute("UPDATE META_DATA_EXPORT SET value = ? WHERE name = 'EXPORT_PRODUCT_VERSION'", version)
        day = [f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}T10:00:00"]
        db.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcTime = ?", day)
        shorter = f"UPDATE {KERNELS} SET end = end - (end - start) * ? / 1000"  # noqa: S608 - no foreign text
        db.execute(shorter, [number])
        db.commit()


def exported(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the kernels of each export with their durations and names."""
    query = f"SELECT start, end, value AS name FROM {KERNELS} JOIN StringIds ON id = demangledName"  # noqa: S608
    frames = {}
    for path in sorted((folder / "in").iterdir()):
        with closing(sqlite3.connect(path)) as db:
            frames[path.stem] = pd.read_sql(query, db)
        frames[path.stem]["ns"] = frames[path.stem].end - frames[path.stem].start
    return frames


def test_a_row_says_what_was_run_and_what_its_screen_says(collected: Path) -> None:
    results = pd.read_csv(collected / "results.csv").set_index("run")
    kernels = exported(collected)
    assert list(results.index) == list(kernels)
    for number, (run, row) in enumerate(results.iterrows()):
        own = kernels[str(run)]
        gpus, count = row.gpus.split(", "), 2 if "ranks2" in str(run) else 1
        assert (gpus, row.program) == ([GPUS[number // 3 % 3]] * count, PROGRAMS[number % 3])
        assert (row.nsys, row.started[5:7]) == (VERSIONS[number // 9 % 3], f"{number % 12 + 1:02}")
        assert row.command.endswith(f"--n={number}") == (number % 3 != 1)
        assert (row.kernels, row.kernel_ns) == (len(own), own.ns.sum())
        answer = as_dict(answer_of(open_capture(collected / "in" / f"{run}.sqlite").decided()))
        steps = answer["steps"]
        findings = [one for one in answer["findings"] if one["potential_ns"] or one["status"] == "unknown"]
        first = findings[0] if findings else None  # others are doubts about figures
        assert row.judged == answer["part"]
        assert row.judged_busy_percent == pytest.approx(answer["busy_percent"])
        wanted = (steps["count"], steps["median_ns"]) if steps else (np.nan, np.nan)
        assert (row.step_count, row.step_ns) == pytest.approx(wanted, nan_ok=True)
        assert pd.isna(row.finding) == (first is None)
        if first:
            assert (row.finding, row.first_finding.partition(":")[0]) == (
                first["name"],
                first["what"].partition(":")[0],
            )
            saves = np.nan if first["potential_percent"] is None else first["potential_percent"]
            assert row.finding_percent == pytest.approx(saves, nan_ok=True)


def test_the_long_form_is_what_pandas_makes_of_the_exports(collected: Path) -> None:
    long = pd.read_csv(collected / "summaries.csv")
    wanted = long[long.report == "cuda_gpu_kern_sum"]
    figures = wanted[wanted.text.isna()].pivot_table("value", ["run", "row"], "column")[FIGURES]
    names = wanted[wanted.column == "name"].set_index(["run", "row"]).text
    found = figures.join(names).groupby(["run", "text"])[FIGURES].first()
    for run, kernels in exported(collected).items():
        kept = kernels.groupby("name").ns.agg(["sum", "count", "mean", "median", "min", "max", "std"])
        mine = found.loc[[run]].droplevel(0).loc[kept.index]
        kept.columns = mine.columns
        pd.testing.assert_frame_equal(mine, kept.fillna(0.0), check_dtype=False, check_names=False)


def test_pandas_reads_both_tables_with_the_types_of_parquet(collected: Path) -> None:
    for name, dates in (("results", ["started"]), ("summaries", [])):
        read = pd.read_csv(collected / f"{name}.csv", dtype_backend="numpy_nullable", parse_dates=dates)
        parquet = pd.read_parquet(collected / f"{name}.parquet", dtype_backend="numpy_nullable")
        for day in dates:
            parquet[day] = pd.to_datetime(parquet[day]).astype(read[day].dtype)
        known = [column for column in read if read[column].notna().any()]  # others have no type in CSV
        pd.testing.assert_frame_equal(read[known], parquet[known])
        kinds = {str(kind) for kind in read[known].dtypes}
        assert kinds <= {"Int64", "Float64", "string", "datetime64[us]", "datetime64[ns]"}


def test_unlike_programs_are_shown_by_busy_time_and_not_ranked(
    collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = sorted((collected / "in").iterdir())[:6]
    collect(some, collected / "some", jobs=1)
    printed = capsys.readouterr().out
    shares = [float(share) for share in re.findall(r"^\d{3}-.*? (\d+\.\d) ", printed, re.MULTILINE)]
    assert len(shares) == len(some)
    assert shares == sorted(shares)
    collect(some, collected / "some", jobs=1, by="kernel_ns")
    said = capsys.readouterr().out
    assert "program: train.py, solve, serve.py" in said
    assert "times as much" not in said
