"""`nsyswrap profile --capture-range-end repeat` with the real nsys: a run folder for each range."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, REPORT, RUN, STATUS, ranges_of

PROGRAM = """
import os, time
import nvtx

for number in range(4):
    with nvtx.annotate("step"), nvtx.annotate(f"inner {number} {os.environ['MY_TOKEN']}"):
        time.sleep(0.05)
    time.sleep(0.05)
print("the end")
"""
OPTIONS = ("--no-stats", "--trace", "nvtx", "--capture-range", "nvtx:step", "-o", "run")


@pytest.fixture
def program(tmp_path: Path, nsys: str) -> Path:
    pytest.importorskip("nvtx", reason=f"needs the package nvtx before 0.2.12 for {nsys}")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def inner(export: Path) -> list[str]:
    sql = "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
    with closing(sqlite3.connect(export)) as db:
        return [str(text) for (text,) in db.execute(sql) if str(text).startswith("inner")]


def test_each_range_is_a_run(cli: Cli, program: Path, tmp_path: Path) -> None:
    end = ("--capture-range-end", "repeat:3", "--env", "MY_TOKEN=not-to-be-recorded")
    done = cli("profile", *OPTIONS, *end, program)
    assert (done.returncode, "the end" in done.stdout) == (0, True), done.stderr
    assert "3 ranges" in done.stderr
    folders = [tmp_path / "run" / f"range-{number}" for number in (1, 2, 3)]
    for number, folder in enumerate(folders):
        (text,) = inner(folder / EXPORT)
        assert (text.split()[1], "not-to-be-recorded" in text) == (str(number), False)
        assert (folder / REPORT).exists()
        status, run = (json.loads((folder / name).read_text()) for name in (STATUS, RUN))
        assert (status["outcome"], run["range"]) == ("done", number + 1)
    assert not any((tmp_path / "run").glob(".recording-*"))
    collected = cli("collect", "run", "-o", "collected")
    assert collected.returncode == 0, collected.stderr
    assert "shared a node" not in collected.stderr
    again = cli("profile", *OPTIONS, "--force", "--capture-range-end", "repeat", *end[2:], program)
    assert again.returncode == 0, again.stderr
    assert not [path for path in (tmp_path / "run").glob(f"range-*/{EXPORT}") if check_export(path)]
    assert len([*(tmp_path / "run").glob("range-*")]) == 4


def test_fewer_ranges_replace_more(cli: Cli, program: Path, tmp_path: Path) -> None:
    for count in (3, 2):
        end = ("--capture-range-end", f"repeat:{count}", "--env", "MY_TOKEN=x", "--discard-rep")
        assert cli("profile", *OPTIONS, "--force", *end, program).returncode == 0
        assert [path.name for path in sorted((tmp_path / "run").glob("range-*"))] == [
            f"range-{number}" for number in range(1, count + 1)
        ]
        assert not [*(tmp_path / "run").glob(f"range-*/{REPORT}")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--capture-range", "nvtx:step", "--capture-range-end", "repeat-shutdown:2"], "kills the program"),
        (["--capture-range", "nvtx:step", "--capture-range-end", "stop"], "expected repeat or repeat:N"),
        (["--capture-range", "nvtx:step", "--capture-range-end", "repeat:0"], "expected repeat or repeat:N"),
        (["--capture-range-end", "repeat"], "--capture-range-end needs the range to record"),
    ],
)
def test_wrong_ends_are_refused(cli: Cli, options: list[str], says: str) -> None:
    done = cli("profile", *options, "true")
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_files_of_the_user_beside_ranges_stay(cli: Cli, program: Path, tmp_path: Path) -> None:
    end = ("--capture-range-end", "repeat:2", "--env", "MY_TOKEN=x", "--force")
    assert cli("profile", *OPTIONS, *end, program).returncode == 0
    copy = (tmp_path / "run" / "range-1").rename(tmp_path / "run" / "range-1-old")
    mine = tmp_path / "run" / "range-2" / "notes"
    mine.touch()
    foreign = tmp_path / "run" / "range-3"
    foreign.touch()
    done = cli("profile", *OPTIONS, *end, program)
    assert (done.returncode, "range-3 is not a run folder" in done.stderr) == (73, True), done.stderr
    assert not check_export(tmp_path / "run" / "range-2" / EXPORT)
    foreign.unlink()
    assert cli("profile", *OPTIONS, *end, program).returncode == 0
    assert mine.exists()
    assert not check_export(copy / EXPORT)


def test_twelve_ranges_are_in_order(cli: Cli, program: Path, tmp_path: Path) -> None:
    program.write_text(PROGRAM.replace("range(4)", "range(12)").replace("0.05", "0.02"))
    end = ("--capture-range-end", "repeat", "--env", "MY_TOKEN=x")
    assert cli("profile", *OPTIONS, *end, program).returncode == 0
    folders = ranges_of(tmp_path / "run")
    assert [inner(folder / EXPORT)[0].split()[1] for folder in folders] == list(map(str, range(12)))


def test_one_range_is_an_ordinary_run(cli: Cli, program: Path, tmp_path: Path) -> None:
    program.write_text(PROGRAM.replace("range(4)", "range(1)"))
    end = ("--capture-range-end", "repeat", "--env", "MY_TOKEN=x")
    assert cli("profile", *OPTIONS, *end, program).returncode == 0
    assert not check_export(tmp_path / "run" / EXPORT)
    assert json.loads((tmp_path / "run" / STATUS).read_text())["outcome"] == "done"


@pytest.mark.parametrize("option", ["--repeat=2", "--compare-bare", "-rnvtx_sum", "--csv=tables"])
def test_options_that_need_one_capture_are_refused(cli: Cli, tmp_path: Path, option: str) -> None:
    done = cli("profile", *OPTIONS, "--capture-range-end", "repeat", option, "true")
    assert (done.returncode, "makes several captures" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "run").exists()
