"""`nsyswrap report` and `nsyswrap demo`: what is printed where, and the exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from sampled import sampled
from tiny_export import call, kernel, memcpy, nvtx, write

from nsyswrap.reports import NAMES


@pytest.fixture
def export(tmp_path: Path) -> Path:
    slow = [kernel("void f<int>(T)", 0, 13408, shortName="f", mangledName="_Z1fIiEvT_")] * 19
    return write(
        tmp_path / "x.sqlite", *slow, kernel("void f<int>(T)", 0, 13409, shortName="f", mangledName="_Z1f")
    )


def test_the_summary_is_what_is_shown_unasked(cli: Cli, export: Path) -> None:
    done = cli("report", export)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("GPU busy 100 % of the whole capture: 13.4 µs")
    assert "CUDA GPU Summary (Kernels/MemOps)  cuda_gpu_sum" in done.stdout


def test_commands_of_a_screen_name_its_capture(cli: Cli, tmp_path: Path) -> None:
    launches = [call("cudaLaunchKernel", 9 * n, 9 * n + 5, n) for n in range(9)]
    write(tmp_path / "a b.sqlite", *launches, *(kernel("f", 9 * n + 6, 9 * n + 7, n) for n in range(9)))
    screen = cli("report", "a b.sqlite", COLUMNS="60").stdout
    assert "\n    nsyswrap report 'a b.sqlite' --advice\n" in screen
    assert ": nsyswrap report 'a b.sqlite' --advice\n" in cli("report", "a b.sqlite", COLUMNS="100").stdout
    assert cli("report", "a b.sqlite", "-o", "screen.txt").returncode == 0
    saved = (tmp_path / "screen.txt").read_text(encoding="utf-8")
    assert ": --advice\n" in saved
    assert "nsyswrap report" not in saved


def test_commands_of_a_screen_repeat_the_selection(cli: Cli, tmp_path: Path) -> None:
    launches = [call("cudaLaunchKernel", 9 * n, 9 * n + 5, n) for n in range(9)]
    kernels = [kernel("f", 9 * n + 6, 9 * n + 7, n, deviceId=1) for n in range(9)]
    write(tmp_path / "x.sqlite", *launches, *kernels, nvtx("a b", 0, 90))
    for options, again in (
        (("--nvtx", "a b", "--clip", "no", "--device", "1"), "--nvtx 'a b' --clip no --device 1"),
        (("--time", "/1s", "--process", "100"), "--time /1s --process 100"),
        (("--steps", "1-3"), "--steps 1-3"),
    ):
        assert f" x.sqlite {again} --advice\n" in cli("report", "x.sqlite", *options).stdout


def test_top_replaces_the_number_of_rows_of_a_screen(cli: Cli, tmp_path: Path) -> None:
    launches = [call("cudaLaunchKernel", 9 * n, 9 * n + 5, n) for n in range(30)]
    write(tmp_path / "x.sqlite", *launches, *(kernel(f"k{n}", 9 * n + 6, 9 * n + 7, n) for n in range(30)))
    for options, rows in ((), (5, 3)), (("--top", "4"), (4, 4)), (("--top", "40"), (30, 31)):
        screen = cli("report", "x.sqlite", *options).stdout
        found = [
            len(re.findall(r"  (?:k\d+|\[all launches\])$", part, re.MULTILINE))
            for part in screen.split("\n\n")
        ]
        assert tuple(filter(None, found)) == rows
        assert ("launch_overhead, 4 of 31 rows" in screen) == (rows == (4, 4))


@sampled("form", ["csv", "tsv", "json"], fast=1)
def test_top_limits_what_programs_read(cli: Cli, tmp_path: Path, form: str) -> None:
    write(tmp_path / "x.sqlite", *(kernel(name, 0, 9) for name in "abc"))
    asked = ("report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--format", form)
    done = cli(*asked, "--top", "2")
    assert done.stderr == "nsyswrap: cuda_gpu_kern_sum: 2 of 3 rows (--top)\n"
    if form == "json":
        [table] = json.loads(done.stdout)["reports"]
        assert (len(table["rows"]), table["notes"]) == (2, ["2 of 3 rows (--top)"])
    else:
        assert done.stdout.splitlines() == cli(*asked).stdout.splitlines()[:3]
    (tmp_path / "pyproject.toml").write_text("[tool.nsyswrap]\ntop = 2\n", encoding="utf-8")
    whole = cli(*asked)
    assert (whole.stderr, whole.stdout) == ("", cli(*asked, "--top", "3").stdout)


@sampled("form", ["text", "markdown", "csv", "json"], fast=["text", "csv"])
def test_top_counts_the_rows_of_each_capture(cli: Cli, tmp_path: Path, form: str) -> None:
    """Whatever the order of the rows is, and of each rank as well."""
    for name in ("a", "b"):
        kernels = (kernel(f"{name}{n}", 10 * n, 10 * n + n, n) for n in range(1, 4))
        write(tmp_path / f"{name}.sqlite", *kernels)
    asked = ("report", "a.sqlite", "b.sqlite", "-r", "cuda_gpu_kern_sum", "--top", "1", "--format", form)
    for more in ((), ("--sort", "total_ns"), ("--by", "rank")):
        done = cli(*asked, *more)
        assert re.findall(r"\b[ab]\d\b", done.stdout) == ["a3", "b3"]
        if form in ("text", "markdown"):
            assert "4 more rows" in done.stdout
        else:
            assert "cuda_gpu_kern_sum: 2 of 6 rows (--top)" in done.stderr


def test_options_that_do_not_change_the_files(cli: Cli, export: Path, tmp_path: Path) -> None:
    done = cli("report", export, "--top", "1", "-r", "cuda_gpu_trace", "--csv", "tables")
    assert done.stderr.startswith("nsyswrap: --top does not limit the files of --csv\n")
    assert (tmp_path / "tables" / "cuda_gpu_trace.csv").read_text(encoding="utf-8").count("\n") == 21
    done = cli("report", export, "--csv-safe")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nsyswrap: --csv-safe cannot be used with --format text\n")


def test_a_part_with_an_absent_process(cli: Cli, export: Path, tmp_path: Path) -> None:
    done = cli("report", export, "--process", "7", "--csv", "tables")
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith(f"nsyswrap: {export}: no process 7\n  processes: ")
    assert not (tmp_path / "tables").exists()


def test_a_file_in_place_of_the_folder_for_csv(cli: Cli, export: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = cli("report", export, "--csv", "file")
    assert (done.returncode, done.stdout) == (73, "")
    assert done.stderr == "nsyswrap: file is not a folder\n  name a folder with --csv\n"


def test_the_first_cause_of_silence_is_printed_once(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "x.sqlite", nvtx("step", 0, 9))
    screen = cli("report", "x.sqlite")
    cause = "nsys recorded no CUDA call"
    assert f"No GPU work: {cause}" in screen.stdout
    assert screen.stderr.startswith("\nOther likely causes:\n  - possibly the work was in workers")
    assert cause not in screen.stderr


def test_a_report_alone(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", "cuda_gpu_kern_sum")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("CUDA GPU Kernel Summary  cuda_gpu_kern_sum\n")


@pytest.mark.parametrize(
    ("options", "cells"),
    [
        ([], "100.0,268161,20,13408.0,13408.0,13408,13409,0.2,void f<int>(T)"),
        (["--rounding", "legacy"], "100.0,268161,20,13408.1,13408.0,13408,13409,0.2,void f<int>(T)"),
        (["--names", "base"], "100.0,268161,20,13408.0,13408.0,13408,13409,0.2,f"),
        (["--timeunit", "us"], "100.0,268.161,20,13.408,13.408,13.408,13.409,0.000,void f<int>(T)"),
        (["--timeunit", "ms"], "100.0,0.2682,20,0.0134,0.0134,0.0134,0.0134,0.0000,void f<int>(T)"),
        (["--timeunit", "s"], "100.0,0.0003,20,0.0000,0.0000,0.0000,0.0000,0.0000,void f<int>(T)"),
    ],
)
def test_options_of_csv(cli: Cli, export: Path, options: list[str], cells: str) -> None:
    done = cli("report", export, "-r", "cuda_gpu_kern_sum", "--format", "csv", *options)
    header, line = done.stdout.splitlines()
    assert line == cells
    assert header.count("(us)" if "us" in options else "(sec)" if "s" in options else "s)") == 6


def test_json_is_in_ns_whatever_the_time_unit(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", "cuda_gpu_kern_sum", "--format", "json", "--timeunit", "s")
    [report] = json.loads(done.stdout)["reports"]
    [row] = report["rows"]
    assert (row["total_ns"], row["avg_ns"]) == (268161, 13408.05)


def test_json_of_several_reports_is_one_document(cli: Cli, export: Path) -> None:
    wanted = ["cuda_gpu_kern_sum", "cuda_gpu_sum"]
    done = cli("report", export, "-r", wanted[0], "-r", wanted[1], "--format", "json")
    assert [report["name"] for report in json.loads(done.stdout)["reports"]] == wanted


def test_one_bad_capture_does_not_hide_the_others(cli: Cli, export: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    done = cli("report", export, "bad.sqlite", export)
    assert done.returncode == 65
    assert done.stdout.count("CUDA GPU Summary") == 2
    assert [line for line in done.stdout.splitlines() if line.startswith("==")] == [
        f"== {export}",
        f"== {export}",
    ]
    assert done.stderr == (
        "nsyswrap: bad.sqlite is not a capture: it is not an SQLite database\n"
        "  give a .sqlite, a .nsys-rep or a run folder\n"
    )


def test_every_report_there_is_and_why_some_are_not(cli: Cli, tmp_path: Path) -> None:
    export = write(tmp_path / "x.sqlite", kernel("k", 5, 9, 1), call("f", 0, 1, 1), memcpy(1, 0, 5, 8))
    done = cli("report", export, "-r", "all")
    assert done.returncode == 0
    shown = [name for name in NAMES if f"  {name}\n" in done.stdout]
    said = lacking(done.stderr)
    assert sorted([*shown, *said]) == sorted(NAMES)
    assert said["nvtx_phases"].startswith(f"{export} holds no NVTX events; ")
    assert all("--trace " in line for line in said.values())


def lacking(stderr: str) -> dict[str, str]:
    """By report what the captures lack; reports that lack the same share a line."""
    lines = [line.removeprefix("nsyswrap: no ") for line in stderr.splitlines() if "nsyswrap: no " in line]
    parts = [line.split(": ", 1) for line in lines]
    return {name: why for names, why in parts for name in names.split(", ")}


def test_what_several_captures_lack_is_said_once(cli: Cli, tmp_path: Path) -> None:
    a, b = (write(tmp_path / f"{name}.sqlite", kernel("k", 5, 9, 1)) for name in "ab")
    c = write(tmp_path / "c.sqlite", nvtx("step", 0, 5))
    done = cli("report", a, b, c, "-r", "nvtx_sum,nvtx_pushpop_sum,cuda_gpu_kern_sum")
    none = "none occurred, or they were not collected (collect with nsyswrap profile --trace"
    assert [line for line in done.stderr.splitlines() if " no " in line] == [
        f"nsyswrap: no nvtx_sum, nvtx_pushpop_sum: a, b hold no NVTX events; {none} cuda,nvtx)",
        f"nsyswrap: no cuda_gpu_kern_sum: c holds no kernels; {none} cuda,nvtx)",
    ]


@pytest.mark.parametrize("more", [[], ["-r", "nvtx_pushpop_sum"], ["--csv", "out"], ["--format", "csv"]])
def test_a_single_reason_is_said_once(cli: Cli, tmp_path: Path, more: list[str]) -> None:
    done = cli("report", write(tmp_path / "x.sqlite", kernel("k", 5, 9, 1)), "-r", "nvtx_sum", *more)
    assert (done.returncode, done.stdout) == (65, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("nsyswrap: no nvtx_sum")


def test_a_capture_that_lacks_all_that_was_asked_for(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", "nvtx_phases", "-r", "memcpy_bandwidth")
    assert (done.returncode, done.stdout) == (65, "")
    assert len(done.stderr.splitlines()) == 3


def test_into_a_file_whose_folder_is_new(cli: Cli, export: Path, tmp_path: Path) -> None:
    done = cli("report", export, "-r", "cuda_gpu_kern_sum", "--format", "csv", "-o", tmp_path / "a" / "b.csv")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "a" / "b.csv").read_text(encoding="utf-8").startswith("Time (%),")
    assert done.stderr == f"wrote {tmp_path / 'a' / 'b.csv'}\n"


def test_into_a_place_that_cannot_be_written(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", "cuda_gpu_kern_sum", "-o", export / "below")
    assert (done.returncode, done.stdout) == (73, "")
    assert done.stderr.startswith(f"nsyswrap: cannot write {export / 'below'}")


def test_several_screens_do_not_go_into_one_file(cli: Cli, export: Path) -> None:
    done = cli("report", export, export, "-o", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "nsyswrap: -o takes the screen of one capture\n  name reports with -r, or give one capture\n"
    )


def test_without_a_capture_the_newest_run(cli: Cli, tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        folder = tmp_path / "nsyswrap-runs" / name
        folder.mkdir(parents=True)
        write(folder / "report.sqlite", kernel(f"{name} one", 0, 5))
        (folder / "status.json").touch()
        os.utime(folder / "status.json", (1e9 - age, 1e9 - age))
    done = cli("report", "-r", "cuda_gpu_kern_sum")
    assert "new one" in done.stdout
    assert done.stderr.startswith("nsyswrap: newest run: nsyswrap-runs/new (")


def test_without_a_capture_and_without_runs(cli: Cli) -> None:
    done = cli("report")
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("nsyswrap: no run was begun in this folder or below\n")


@sampled("encoding", ["ascii", "latin-1"], fast=1)
def test_a_terminal_that_lacks_a_character(
    environment: dict[str, str], tmp_path: Path, encoding: str
) -> None:
    export = write(tmp_path / "x.sqlite", kernel("漢字" + "k" * 200, 0, 5000))
    env = {**environment, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "nsyswrap", "report", str(export)]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"cuda_gpu_sum" in done.stdout


def test_the_demo_without_nsys_shows_what_was_recorded(cli: Cli) -> None:
    done = cli("demo", NSYSWRAP_NSYS="/nowhere/nsys")
    assert done.returncode == 0
    assert done.stdout.startswith("Recorded on ")
    assert done.stdout.count("GPU busy ") == 2
    assert "gpu_by_variant" in done.stdout
    assert "audit_by_variant" in done.stdout
