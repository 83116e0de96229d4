"""`nsyswrap runs`, and the run that is taken without a capture: real runs, and folders made by hand."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from batch_folders import batch_of, captured, planned
from conftest import Cli
from sampled import sampled
from tiny_export import call, kernel, memcpy, write

from nsyswrap.base.run_folder import EXPORT, PAGE, RUN, RunFolder, Status

PYTHON = Path(sys.executable).name
HELLO = ("--", sys.executable, "-c", "pass")


def made(folder: Path, kernels: int = 0, began: float = 0.0, **facts: object) -> Path:
    """A run that has ended, with so many kernels and one copy."""
    folder.mkdir(parents=True)
    write(folder / EXPORT, memcpy(1, 0, 1, 4), *(kernel("k", n, n + 1) for n in range(kernels)))
    RunFolder(folder).write(RUN, {"nsyswrap": "0.2", "command": ["python3", "train.py"], **facts})
    RunFolder(folder).write_status(Status("done", 0, 0, 0))
    if began:
        os.utime(folder / RUN, (began, began))
        os.utime(folder / "status.json", (began, began))
    return folder


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.mark.usefixtures("nsys")
def test_real_runs_wherever_they_lie(tmp_path: Path, cli: Cli, environment: dict[str, str]) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    assert cli("profile", "--no-stats", *HELLO).returncode == 0
    assert cli("profile", "--no-stats", "-o", elsewhere / "x", *HELLO).returncode == 0
    done = cli("report")
    assert done.stderr.startswith(f"nsyswrap: newest run: {elsewhere}/x ({PYTHON}, just now)\n")
    assert done.stdout == cli("report", elsewhere / "x").stdout
    (tmp_path / "below").mkdir()
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "deep/y", "true"]
    subprocess.run(command, cwd=tmp_path / "below", env=environment, check=True, capture_output=True)
    for name in ("report", "export"):
        options = {"export": ["--perfetto", "t.json"]}.get(name, [])
        newest = "nsyswrap: newest run: below/deep/y (true, just now)\n"
        assert cli(name, *options).stderr.startswith(newest), name
    _, *lines = cli("runs").stdout.splitlines()
    first, second, third = map(cells, lines)
    assert first[:4] == ["1", "true", "just now", "done"]
    assert (first[-1], second[-1]) == ("below/deep/y", f"{elsewhere}/x")
    assert third[-1].startswith("nsyswrap-runs/python")
    assert [row[-2] for row in (first, second, third)] == ["0", "0", "0"]


@pytest.mark.usefixtures("nsys")
def test_a_batch_does_not_hide_the_last_profile(tmp_path: Path, cli: Cli) -> None:
    assert cli("profile", "--no-stats", "-o", "mine", *HELLO).returncode == 0
    sweep = ("batch", "sweep", "--no-stats", "-o", "b", "-p", "x=1,2", *HELLO, "{x}")
    assert cli(*sweep).returncode == 0
    assert cli("report").stderr.startswith("nsyswrap: newest run: mine (")
    _, *lines = cli("runs").stdout.splitlines()
    assert [(cells(line)[-1], cells(line)[3]) for line in lines] == [("b", "2 done"), ("mine", "done")]
    removed = cli("runs", "prune", "--keep", "0", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not list(tmp_path.rglob(RUN))
    assert (tmp_path / "b" / "results.csv").is_file()


@pytest.mark.usefixtures("nsys")
def test_a_home_that_cannot_be_written_is_silent(cli: Cli) -> None:
    home = {"HOME": "/proc", "XDG_STATE_HOME": "/proc/state", "XDG_CACHE_HOME": "/proc/cache"}
    done = cli("profile", "--no-stats", *HELLO, **home)
    assert done.returncode == 0
    assert "state" not in done.stderr
    done = cli("report", **home)
    assert done.stderr.startswith("nsyswrap: newest run: nsyswrap-runs/python")
    assert "state" not in done.stderr


def test_the_list(tmp_path: Path, cli: Cli) -> None:
    base = tmp_path / "nsyswrap-runs"
    made(base / "old", kernels=3, began=1e9)
    made(base / "new", kernels=1200, began=2e9 - 1e9 + 60)
    RunFolder(made(base / "failed", began=1e9 - 9)).write_status(Status("program_failed", 1, 0, 1))
    os.utime(base / "failed" / "status.json", (1e9 - 9, 1e9 - 9))
    header, *lines = cli("runs").stdout.splitlines()
    assert cells(header) == ["N", "Program", "Begun", "Outcome", "Size", "GPU events", "Run folder"]
    assert [cells(line)[:2] + cells(line)[3:4] + cells(line)[-2:] for line in lines] == [
        ["1", "train.py", "done", "1,201", "nsyswrap-runs/new"],
        ["2", "train.py", "done", "4", "nsyswrap-runs/old"],
        ["3", "train.py", "program failed", "1", "nsyswrap-runs/failed"],
    ]
    assert cli("runs", "list").stdout == cli("runs").stdout
    short = cli("runs", "list", "--top", "1")
    assert cli("runs", "--top", "1").stdout == short.stdout
    assert (len(short.stdout.splitlines()), short.stderr) == (2, "nsyswrap: 2 more (--top)\n")


def test_the_list_holds_no_control_character(tmp_path: Path, cli: Cli) -> None:
    made(tmp_path / "nsyswrap-runs" / "\x1b[2Jclear", command=["\x1b]0;title\x07"])
    done = cli("runs")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


@pytest.mark.parametrize(("columns", "program"), [("60", "xxxx…xxx"), ("200", "x" * 17)])
def test_programs_are_shortened_and_folders_stay_whole(
    tmp_path: Path, cli: Cli, columns: str, program: str
) -> None:
    made(tmp_path / "nsyswrap-runs" / f"{'long' * 20}漢", command=["x" * 17])
    [_, line] = cli("runs", COLUMNS=columns).stdout.splitlines()
    assert cells(line)[1] == program
    assert line.endswith(f"  nsyswrap-runs/{'long' * 20}漢")


def test_no_runs(tmp_path: Path, cli: Cli) -> None:
    none = "nsyswrap: no run was begun in this folder or below\n"
    done = cli("runs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", none)
    (tmp_path / "a.nsys-rep").touch()
    one = f"{none}  a .sqlite or .nsys-rep file is here: nsyswrap report a.nsys-rep\n"
    assert cli("runs").stderr == cli("report").stderr == one
    write(tmp_path / "my b.sqlite", kernel("k", 0, 1))
    done = cli("runs")
    command = "nsyswrap report 'my b.sqlite'; of all: nsyswrap collect ."
    assert (done.returncode, done.stderr) == (
        0,
        f"{none}  2 .sqlite and .nsys-rep files are here: {command}\n",
    )


@pytest.mark.parametrize(
    "typed",
    [
        *("report 2", "view 2", "plot 2", "export 2", "redact 2 -o x.sqlite", "compare 2 nsyswrap-runs/new"),
        "collect 2",
    ],
)
def test_a_number_of_the_list_is_answered_with_its_folder(tmp_path: Path, cli: Cli, typed: str) -> None:
    for began, name in ((1e9, "old"), (1e9 + 60, "new")):
        made(tmp_path / "nsyswrap-runs" / name, kernels=3, began=began)
    meant = "  in the list of nsyswrap runs, 2 is nsyswrap-runs/old"
    done = cli(*typed.split())
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.splitlines() == ["nsyswrap: 2 not found", meant]
    made(tmp_path / "2", kernels=3)
    assert "not found" not in cli(*typed.split()).stderr


def test_a_number_that_the_list_lacks(cli: Cli) -> None:
    assert cli("report", "2").stderr == "nsyswrap: 2 not found\n"


def test_open_writes_the_page_into_the_run_folder(tmp_path: Path, cli: Cli) -> None:
    base = tmp_path / "nsyswrap-runs"
    for age, name in enumerate(("c", "b", "a")):
        made(base / name, kernels=2, began=1e9 - age)
    no_browser = {"BROWSER": "true"}
    assert cli("runs", "open", **no_browser).returncode == 0
    assert cli("runs", "open", "2", **no_browser).stderr == "wrote nsyswrap-runs/b/view.html\n"
    assert cli("runs", "open", base / "a", **no_browser).returncode == 0
    for name in ("a", "b", "c"):
        assert (base / name / PAGE).read_text(encoding="utf-8").startswith("<!")
    assert cli("runs", "open", "2", **no_browser).returncode == 0  # the page is made again
    wrong = cli("runs", "open", "4")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "nsyswrap: no run number 4: the list has 3 runs\n  see nsyswrap runs\n",
    )
    (tmp_path / "empty").mkdir()
    absent = cli("runs", "open", "empty")
    assert absent.returncode == 65
    assert absent.stderr.startswith("nsyswrap: empty is not a run folder: run.json is missing\n")


def test_open_names_the_runs_that_may_be_meant(tmp_path: Path, cli: Cli) -> None:
    for age, name in enumerate(("train-1", "train-2", "train-3", "train-4", "infer")):
        made(tmp_path / "nsyswrap-runs" / name, kernels=2, began=1e9 - age)
    hints = {
        "train": "did you mean " + " or ".join(f"'nsyswrap-runs/train-{n}'" for n in (1, 2, 3)) + "?",
        "runs/Infre": "did you mean 'nsyswrap-runs/infer'?",
        "nope": "list the runs: nsyswrap runs",
    }
    for name, hint in hints.items():
        absent = cli("runs", "open", name)
        assert (absent.returncode, absent.stderr) == (65, f"nsyswrap: no run named '{name}'\n  {hint}\n")


def test_a_launch_and_a_batch_open_twice(tmp_path: Path, cli: Cli) -> None:
    for rank in (0, 1):
        made(tmp_path / f"launch/rank-{rank}", kernels=2 + rank, rank={"rank": rank, "world_size": 2})
    captured(planned(tmp_path / "batch", 1, {"x": 1}), 10)
    batch_of(tmp_path / "batch")
    for folder in ("launch", "batch"):
        for _ in range(2):
            done = cli("runs", "open", folder, BROWSER="true")
            assert (done.returncode, f"wrote {folder}/{PAGE}\n" in done.stderr) == (0, True), done.stderr
        assert cli("report", folder).returncode == 0


def test_a_page_of_the_program_is_not_replaced(tmp_path: Path, cli: Cli) -> None:
    folder = made(tmp_path / "run", kernels=2)
    (folder / PAGE).write_text("mine")
    done = cli("runs", "open", "run", BROWSER="true")
    assert (done.returncode, done.stderr) == (
        73,
        f"nsyswrap: run/{PAGE} was not written by nsyswrap\n  write a page with nsyswrap view -o FILE\n",
    )
    assert (folder / PAGE).read_text() == "mine"


def test_a_run_that_ended_lately_is_not_old(tmp_path: Path, cli: Cli) -> None:
    folder = made(tmp_path / "nsyswrap-runs" / "x", began=1e9, started="2001-09-09T01:46:40+00:00")
    os.utime(folder / "status.json")
    assert cli("runs", "prune", "--older-than", "1h").stderr == "nsyswrap: no run to remove\n"
    os.utime(folder / "status.json", (1e9, 1e9))
    assert "1 run to remove" in cli("runs", "prune", "--older-than", "1h").stderr


@sampled("facts", [{"rank": 3}, {"nsys": []}, {"nsys": None}], fast=1)
def test_a_run_json_with_values_of_other_types(tmp_path: Path, cli: Cli, facts: dict[str, Any]) -> None:
    folder = made(tmp_path / "nsyswrap-runs" / "x", **facts)
    (folder / EXPORT).unlink()
    write(folder / EXPORT, call("cudaFree", 0, 5))
    for command in (("report",), ("runs",), ("collect", "nsyswrap-runs")):
        done = cli(*command)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_prune_only_with_yes(tmp_path: Path, cli: Cli) -> None:
    base = tmp_path / "nsyswrap-runs"
    for age, name in enumerate(("new", "old", "older")):
        made(base / name, began=1.7e9 - 86_400 * 10 * age)
    before = {path: path.stat().st_size for path in base.rglob("*") if path.is_file()}
    dry = cli("runs", "prune", "--keep", "1")
    assert [cells(line)[-1] for line in dry.stdout.splitlines()[1:]] == [
        "nsyswrap-runs/old",
        "nsyswrap-runs/older",
    ]
    assert dry.stderr.startswith("nsyswrap: 2 runs to remove, ")
    assert dry.stderr.endswith("; use --yes to remove\n")
    assert {path for path in base.rglob("*") if path.is_file()} == set(before)
    done = cli("runs", "prune", "--keep", "1", "--yes")
    assert done.returncode == 0
    assert [path.name for path in base.iterdir()] == ["new"]
    freed = dry.stderr.split(", ")[1].split(";")[0]
    assert done.stderr == f"nsyswrap: 2 runs removed, {freed} freed\n"


def test_prune_by_age_and_number(tmp_path: Path, cli: Cli) -> None:
    base = tmp_path / "nsyswrap-runs"
    now = time.time()
    for days in (1, 8, 29, 31):
        made(base / f"{days}-days", began=now - 86_400 * days)

    def selected(*options: str) -> list[str]:
        lines = cli("runs", "prune", *options).stdout.splitlines()[1:]
        return [cells(line)[-1].removeprefix("nsyswrap-runs/") for line in lines]

    assert selected("--older-than", "30d") == ["31-days"]
    assert selected("--older-than", "1w") == ["8-days", "29-days", "31-days"]
    assert selected("--older-than", "12h", "--keep", "2") == ["29-days", "31-days"]
    assert selected("--older-than", "30d", "--keep", "4") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing selected\n  give --older-than AGE, --keep N or both\n"),
        (
            ("--older-than", "5x"),
            "invalid --older-than '5x': expected a number and h, d or w, for example 30d\n",
        ),
        (("--older-than", "-5d"), "invalid --older-than '-5d': "),
    ],
)
def test_prune_needs_a_limit(cli: Cli, options: tuple[str, ...], message: str) -> None:
    done = cli("runs", "prune", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"nsyswrap: {message}")


def test_prune_says_what_stays(tmp_path: Path, cli: Cli) -> None:
    made(tmp_path / "nsyswrap-runs" / "a")
    (tmp_path / "nsyswrap-runs" / "a" / "notes.txt").write_text("mine")
    made(tmp_path / "away")
    (tmp_path / "nsyswrap-runs" / "link").symlink_to(tmp_path / "away", target_is_directory=True)
    done = cli("runs", "prune", "--keep", "0", "--yes")
    assert "nsyswrap-runs/link stays: " in done.stderr
    assert "kept other files: nsyswrap-runs/a/notes.txt\n" in done.stderr
    assert (tmp_path / "away" / EXPORT).exists()
    assert not (tmp_path / "nsyswrap-runs" / "a" / EXPORT).exists()
