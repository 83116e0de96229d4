"""`nsyswrap profile` with the real nsys: where the run folder goes, and what keeps it from being written."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap import api
from nsyswrap.api import Run
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, REPORT, RunFolder, Status, is_full
from nsyswrap.cli.profile import command

pytestmark = pytest.mark.usefixtures("nsys")


def test_runs_without_a_name_do_not_meet(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "sh", "-c"]
    started = [
        subprocess.Popen(
            [*command, f"exit {code}"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for code in (5, 6, 7)
    ]
    assert [process.wait() for process in started] == [5, 6, 7]
    runs = list((tmp_path / "nsyswrap-runs").iterdir())
    assert sorted(str(RunFolder(run).read_status().program_code) for run in runs) == ["5", "6", "7"]
    assert all(run.name.startswith("sh-") for run in runs)


def test_of_two_runs_for_one_folder_one_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "true"]
    started = [
        subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    assert sorted(process.wait() for process in started) == [0, 73]
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_a_folder_with_a_strange_name(tmp_path: Path, cli: Cli) -> None:
    folder, begun = tmp_path / "it's a $run; (für) *alle*", time.monotonic()
    assert cli("profile", "--no-stats", "-o", folder, "sleep", "0.5").returncode == 0
    assert check_export(folder / EXPORT) == ""
    assert 0.5 < RunFolder(folder).read_run()["duration_s"] < time.monotonic() - begun


def test_a_folder_nsys_would_fail_to_write_into(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "R&D" / '100% "it\'s"\ntwo lines'
    assert cli("profile", "--no-stats", "-o", folder, "true").returncode == 0
    assert check_export(folder / EXPORT) == ""
    dry = cli("profile", "--dry-run", "-o", folder, "true")
    assert (dry.returncode, dry.stdout) == (2, "")
    assert "nsys itself cannot write into" in dry.stderr


@pytest.mark.parametrize("folder", ["/no/such/folder", "/proc"])
def test_no_temporary_folder(tmp_path: Path, cli: Cli, folder: str) -> None:
    done = cli("profile", "-o", "run", "echo", "this never runs", TMPDIR=folder)
    assert (done.returncode, done.stdout) == (73, "")
    assert f"cannot make a temporary folder in {folder}: No such file or directory" in done.stderr
    assert "check that TMPDIR is writable and has free space" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(cli: Cli) -> None:
    done = cli("profile", "-o", "/proc/run", "echo", "this never runs")
    assert (done.returncode, done.stdout) == (73, "")
    assert "cannot write /proc/run" in done.stderr


def fill(disk: Path, *, all_but: int) -> None:
    """Leave so many blocks free."""
    room = os.statvfs(disk)
    (disk / "data").write_bytes(bytes((room.f_bavail - all_but) * room.f_frsize))


def test_a_disk_too_small_for_the_report(tmp_path: Path, small_disk: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", small_disk / "run", "sh", "-c", "exit 3", TMPDIR=str(tmp_path))
    assert done.returncode == 73  # outranks the program's 3
    assert "the disk is full" in done.stderr
    assert f"MB free at {small_disk / 'run'}" in done.stderr
    found = json.loads((small_disk / "run" / "status.json").read_text())
    assert (found["outcome"], found["program_code"], found["exit_code"]) == ("disk_full", 3, 73)
    going_on = re.search(r"recording kept in (\S+); to read it: nsyswrap (report \S+);", done.stderr)
    assert going_on
    assert Path(going_on[1]).parent.stat().st_mode & 0o777 == 0o700
    shown = cli(*going_on[2].split())
    assert (shown.returncode, "sh -c 'exit 3'" in shown.stdout) == (0, True), shown.stderr


@pytest.mark.parametrize("blocks", [1, 2])  # for the lock, and for how it ended
def test_a_disk_too_small_to_begin(tmp_path: Path, small_disk: Path, cli: Cli, blocks: int) -> None:
    fill(small_disk, all_but=blocks)
    command = ("profile", "--no-stats", "-o", small_disk / "run", "echo", "runs")
    done = cli(*command, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (73, "")
    assert f"cannot write {small_disk / 'run'}" in done.stderr
    assert "No space left" in done.stderr
    assert list(tmp_path.glob("nsyswrap-*")) == []
    (small_disk / "data").unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    assert cli(*command).stdout.startswith("runs\n")  # nothing is in the way


@pytest.mark.parametrize("blocks", [3, 4, 5])  # for run.json, the work folder, and what nsys says
def test_a_disk_too_small_for_the_log(tmp_path: Path, small_disk: Path, cli: Cli, blocks: int) -> None:
    fill(small_disk, all_but=blocks)
    command = ("profile", "--no-stats", "-o", small_disk / "run", "sh", "-c", "exit 3")
    done = cli(*command, TMPDIR=str(tmp_path))
    assert done.returncode == 73
    assert "the disk is full" in done.stderr
    found = RunFolder(small_disk / "run").read_status()
    assert (found.outcome, found.program_code) == ("disk_full", 3)
    [recording] = re.findall(r"recording kept in (\S+);", done.stderr)
    assert Path(recording).is_file()


@pytest.mark.parametrize("small_disk", ["64m"], indirect=True)
def test_a_disk_with_room_for_the_report_and_not_for_its_export(
    tmp_path: Path, small_disk: Path, cli: Cli
) -> None:
    cli("profile", "--no-stats", "-o", "before", "true")
    needed = [(tmp_path / "before" / name).stat().st_size for name in (REPORT, EXPORT)]
    fill(small_disk, all_but=(needed[0] + needed[1] // 2) // os.statvfs(small_disk).f_frsize)
    done = cli("profile", "--no-stats", "-o", small_disk / "run", "true")
    assert done.returncode == 73
    assert f"{small_disk / 'run' / REPORT} cannot be exported: the disk is full" in done.stderr
    report = shutil.move(small_disk / "run" / REPORT, small_disk.parent)
    cached = cli("report", report, XDG_CACHE_HOME=str(small_disk))
    assert (cached.returncode, cached.stdout) == (73, "")
    assert f"{report} cannot be exported: the disk is full" in cached.stderr


def test_a_disk_that_the_program_fills(tmp_path: Path, small_disk: Path, cli: Cli) -> None:
    program = f"head -c 1000000 /dev/zero >{small_disk}/data 2>/dev/null"
    done = cli("profile", "--no-stats", "-o", small_disk / "run", "sh", "-c", program, TMPDIR=str(tmp_path))
    assert done.returncode in (70, 73)
    assert str(small_disk / "run") in done.stderr
    assert "disk is full" in done.stderr or "No space left on device" in done.stderr


def test_a_full_disk_is_noticed_where_nsys_has_no_room_to_say_so(small_disk: Path) -> None:
    assert not is_full(small_disk)
    (small_disk / "data").write_bytes(bytes(60_000))
    assert is_full(small_disk)


def test_an_export_that_cannot_be_read_is_no_success(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is damaged behind nsys' back: nsys itself leaves no such export."""
    assert cli("profile", "--no-stats", "-o", "run", "true").returncode == 0
    export = tmp_path / "run" / EXPORT
    with export.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    done = Run(tmp_path / "run", Status("done", 0, 0, 0))
    monkeypatch.setattr(api, "run", lambda *_, **__: done)
    with pytest.raises(CaptureError) as caught:
        command.main(["-o", str(tmp_path / "other"), "true"], standalone_mode=False)
    assert caught.value.exit_code == 65
