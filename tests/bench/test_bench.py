"""The bench runs, in small, and gives no times of answers that differ."""

# ruff: noqa: S608 - tables are named in tiny_export
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from ran import ran
from tiny_export import API, KERNEL

from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.base.errors import CheckFailed
from nsyswrap.base.nsys.find import find_nsys
from nsyswrap.capture import schema
from nsyswrap.capture.capture import open_capture

BENCH = ROOT / "tests" / "bench"
KERNELS = 2_000
_LIAR = """#!/bin/sh
"$REAL_NSYS" "$@" || exit
for argument; do
  case $argument in --output=*) sed -i '3s/[0-9]/&0/' "${argument#--output=}_cuda_api_sum.csv" ;; esac
done
"""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made") / "large.sqlite")


def made(path: Path) -> Path:
    checkout = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, BENCH / "make_export.py", path, str(KERNELS)], check=True, env=checkout)
    return path


def bench(
    environment: dict[str, str], *arguments: str | Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return ran(
        ["bash", BENCH / "run", "--rounds", "1", *arguments],
        env={**environment, "PYTHON": sys.executable, **variables},
        timeout=600,
    )


def main_of(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a script's module
    """The bench in this process."""
    monkeypatch.syspath_prepend(BENCH)
    spec = importlib.util.spec_from_file_location("bench_script", BENCH / "bench.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(export: Path, query: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(export)) as db:
        return db.execute(query).fetchall()


def test_the_made_export_has_the_cases_that_are_hard(export: Path) -> None:
    matching = (
        "SELECT count(k.start), count(DISTINCT k.globalPid), sum(r.start IS NULL), count(r.start), "
        f"count(DISTINCT k.streamId) FROM {KERNEL} k LEFT JOIN {API} r "
        f"ON r.correlationId = k.correlationId AND r.globalTid & {schema.PROCESS_MASK} = k.globalPid"
    )
    [(kernels, processes, lost, launched, streams)] = asked(export, matching)
    assert (kernels, processes, streams) == (KERNELS, 2, 10)
    assert lost > 0
    assert lost + launched == KERNELS
    both = f"SELECT count(DISTINCT globalPid) FROM {KERNEL} GROUP BY correlationId ORDER BY 1 DESC"
    assert asked(export, both)[0] == (2,)
    nodes = (
        f"SELECT count(*), count(DISTINCT graphNodeId) FROM {KERNEL} "
        "GROUP BY globalPid, correlationId ORDER BY 1 DESC"
    )
    assert asked(export, nodes)[0] == (40, 40)
    assert asked(export, nodes)[-1] == (1, 0)


def test_kernel_names_are_as_long_as_those_of_pytorch(export: Path) -> None:
    made_up = "value LIKE 'void at::native::%, const T3 *)'"
    lengths = f"SELECT count(*), avg(length(value)) FROM StringIds WHERE {made_up}"
    [(names, mean)] = asked(export, lengths)
    assert names == KERNELS // 5
    assert mean == pytest.approx(262, abs=2)


def test_only_the_first_launch_of_a_kernel_is_slow(export: Path) -> None:
    spent = f"SELECT end - start FROM {API} ORDER BY 1"
    times_ns = [time for (time,) in asked(export, spent)]
    assert times_ns[len(times_ns) // 2] < 10_000
    assert times_ns[-100] > 1_000_000 > times_ns[-1_000]


def test_the_same_export_is_made_again(export: Path, tmp_path: Path) -> None:
    assert made(tmp_path / "again.sqlite").read_bytes() == export.read_bytes()


@pytest.mark.slow
def test_the_bench_says_what_it_measured(
    nsys: str, environment: dict[str, str], export: Path, tmp_path: Path
) -> None:
    """Traces are pairs as NVTX reports are, and a comparison is run below."""
    found = tmp_path / "found.json"
    parts = "--only", "summaries,nvtx,all,screen,perfetto,start"
    done = bench(environment, "--export", export, *parts, "--nsys", nsys, "--json", found)
    assert (done.returncode, "nsys stats nvtx_kern_sum" in done.stdout) == (0, True), done.stderr
    said = json.loads(found.read_text())
    assert [part["kernels"] for part in said["measured"]] == [KERNELS, 0]
    costs = {name: cost for name, [cost] in said["measured"][0]["costs"].items()}
    assert all(cost["wall_s"] > 0 and cost["peak_bytes"] > 10**7 for cost in costs.values())
    for report in ("nvtx_gpu_proj_sum", "nvtx_kern_sum"):
        theirs, ours = (costs[f"{who} {report}"]["written_bytes"] for who in ("nsys stats", "nsyswrap"))
        assert theirs == ours > 100
    assert 0 < costs["nsyswrap (1 % of the time)"]["written_bytes"] < costs["nsyswrap"]["written_bytes"]
    assert costs["nsyswrap report -r all"]["written_bytes"] > costs["nsyswrap"]["written_bytes"]
    assert costs["nsyswrap export --perfetto"]["written_bytes"] > 10_000
    assert costs["nsyswrap report"]["written_bytes"] == 0
    [first, *_, profile, screen, usage, tab, _of_cpu] = said["ratios"]
    assert first["measured"] == pytest.approx(costs["nsys stats"]["wall_s"] / costs["nsyswrap"]["wall_s"])
    assert [one["goal"] for one in (first, profile)] == ["", "<= 0.4"]
    assert [one["goal"] for one in (screen, usage, tab)] == ["<= 0.8", "<= 1.3", "<= 1.3"]


def test_exports_of_several_sizes_are_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from measure import Cost  # noqa: PLC0415 - the bench's modules are found from here on
    from outcome import Bench, ratios  # noqa: PLC0415

    assert main_of(monkeypatch)._sizes("4e3,2e3,4e3") == [2_000, 4_000]  # noqa: SLF001 - what it parses with
    of_two = [
        Bench("", kernels, {"nsyswrap": [Cost(wall_s, 4, 1)], "nsyswrap report": [Cost(1, 4, 2 * wall_s)]})
        for kernels, wall_s in ((2, 1.0), (4, 1.5))
    ]
    *_, growth, screen = ratios(of_two)
    assert (growth.measured, growth.goal, growth.reached) == (1.5, "<= 2", True)
    assert (screen.measured, screen.goal, screen.reached) == (1.5, "<= 2.2", True)


def test_a_part_that_does_not_exist_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--only", "summaries,tracs"])
    with pytest.raises(SystemExit) as ended:
        main_of(monkeypatch).main()
    assert ended.value.code == 2
    assert "no part tracs: take summaries, traces, nvtx" in capsys.readouterr().err


def test_made_ranges_are_steps(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from made_ranges import add_ranges  # noqa: PLC0415 - the bench's modules are found from here on

    copy = tmp_path / "ranges.sqlite"
    copy.write_bytes(export.read_bytes())
    add_ranges(copy)
    made = run_figures(open_capture(copy))
    assert "'train_step'" in {key.name for key in made.rows if key.group == "step"}
    paths = {key.name for key in made.rows if key.group == "range"}
    assert len(paths) == 1 + 3 + 3 * 20
    assert "train_step/backward/layer 19" in paths


def test_answers_that_differ_are_no_result(
    nsys: str, environment: dict[str, str], export: Path, tmp_path: Path
) -> None:
    liar = tmp_path / "nsys"
    liar.write_text(_LIAR)
    liar.chmod(0o755)
    done = bench(environment, "--export", export, "--only", "summaries", "--nsys", liar, REAL_NSYS=nsys)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cuda_api_sum, line 3: nsys says" in done.stderr


def test_two_exports_with_ranges_are_compared(
    nsys: str, environment: dict[str, str], export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from contenders import on_export  # noqa: PLC0415 - the bench's modules are found from here on
    from made_ranges import add_ranges  # noqa: PLC0415

    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(export.read_bytes())
    add_ranges(copy)
    *_, ranges = on_export(find_nsys(nsys)[0], ["compare"])
    done = ran(ranges.argv(copy, tmp_path), env=environment)
    assert (done.returncode, "Launches: 2,000 on both sides" in done.stdout) == (0, True), done.stderr
    assert "train_step" in done.stdout


def test_what_is_no_export_is_said(
    nsys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--export", str(tmp_path / "nothing.sqlite"), "--nsys", nsys]
    monkeypatch.setattr(sys, "argv", arguments)
    code = main_of(monkeypatch).main()
    said = capsys.readouterr()
    assert (code, said.out) == (65, "")
    assert "nothing.sqlite" in said.err


@pytest.mark.parametrize(
    "row", ["9.1,12,a\n", "9.0,12,b\n", "9.0,13,a\n", "9.0,12\n", "", "9.0,12,a\n9.0,12,a\n"]
)
def test_a_number_that_is_off_is_found(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from answers import check_numbers  # noqa: PLC0415 - the bench's modules are found from here on

    rounded, other = tmp_path / "rounded.csv", tmp_path / "other.csv"
    rounded.write_text("Avg (ns),Count,Name\n9.0,12,a\n")
    other.write_text("mean,count,name\n8.9501,12,a\n")
    check_numbers(rounded, other)
    other.write_text(f"mean,count,name\n{row}")
    with pytest.raises(CheckFailed, match=r"other, row [12]: nsys says"):
        check_numbers(rounded, other)


@pytest.mark.parametrize(
    ("kernels", "speed", "memory"),
    [(10**5, "", ""), (10**6, ">= 15", "<= 0.5"), (10**7, ">= 30", "<= 0.5"), (10**8, ">= 30", "<= 0.5")],
)
def test_goals_are_those_of_large_exports(
    kernels: int, speed: str, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from measure import Cost  # noqa: PLC0415 - the bench's modules are found from here on
    from outcome import Bench, ratios  # noqa: PLC0415

    costs = {"nsys stats": [Cost(30, 10)], "nsyswrap": [Cost(9, 4), Cost(1, 6), Cost(2, 5)]}
    fast, small, *_ = ratios([Bench("", kernels, costs)])
    reached = {"": None, ">= 15": True, ">= 30": False}[speed]
    assert (fast.measured, fast.goal, fast.reached) == (15, speed, reached)
    assert (small.measured, small.goal, small.reached) == (0.5, memory, True if memory else None)


def test_goals_are_ratios_megabytes_or_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    from measure import Cost  # noqa: PLC0415 - the bench's modules are found from here on
    from outcome import Bench, ratios  # noqa: PLC0415

    second = [Cost(1, 1_000_000, 2)]
    large = {"nsyswrap": second, "nsyswrap report": [Cost(2, 351_000_000, 5)]}
    large |= {"nsyswrap compare": [Cost(6, 1, 11)], "nsyswrap export --perfetto": [Cost(5, 1)]}
    large |= {"nsyswrap report (1 % of the time)": [Cost(1, 117_000_000, 2)]}
    large |= {"nsyswrap collect": [Cost(1, 1, 90)], "nsyswrap collect, again": [Cost(1, 1, 14)]}
    short = {"nsys profile --stats=true true": second, "nsyswrap profile true": [Cost(1.25, 1)]}
    many = {"import pandas": second, "nsyswrap report (newest run)": [Cost(1, 1, 3)]}
    found = {
        ratio.what: (ratio.measured, ratio.goal, ratio.reached)
        for ratio in ratios([Bench("", 10**6, large), Bench("", 0, short), Bench("", 0, many)])
    }
    at = "1,000,000 kernels"
    assert found[f"nsyswrap report / nsyswrap, time, {at}"] == (2, "<= 1", False)
    assert found[f"nsyswrap report, memory in MB, {at}"] == (351, "<= 350", False)
    assert found[f"nsyswrap compare / nsyswrap report, time, {at}"] == (3, "<= 3", True)
    assert found[f"nsyswrap export --perfetto / nsyswrap, time, {at}"] == (5, "<= 4", False)
    assert found[f"nsyswrap report / nsyswrap, CPU, {at}"] == (2.5, "<= 3", True)
    assert found[f"nsyswrap compare / nsyswrap report, CPU, {at}"] == (2.2, "<= 2.2", True)
    window = "nsyswrap report (1 % of the time) / nsyswrap report"
    assert found[f"{window}, CPU, {at}"] == (0.4, "<= 0.2", False)
    assert found[f"{window}, memory, {at}"] == (117 / 351, "<= 0.4", True)
    assert found[f"nsyswrap collect / nsyswrap, CPU, {at}"] == (45, "<= 50", True)
    assert found[f"nsyswrap collect, again / nsyswrap, CPU, {at}"] == (7, "<= 6", False)
    assert found["nsyswrap report (newest run) / import pandas, CPU"] == (1.5, "<= 2", True)
    profiled = "nsyswrap profile true - nsys profile --stats=true true, seconds"
    assert found[profiled] == (0.25, "<= 0.4", True)
