"""What is said of runs that did not end well, and what is left of one that could not be finished."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from conftest import Cli
from ran import ran
from timed import timed_out
from waiting import PATIENCE_S, wait_until

from nsyswrap import api
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import is_locked, locked
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.nsys.find import judge
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import (
    CONDITIONS,
    DIGEST,
    EXPORT,
    LOG,
    RECORDING,
    REPORT,
    RUN,
    STATUS,
    WORK,
    RunFolder,
    unfinished,
)
from nsyswrap.record.guard import HUNG_S
from nsyswrap.record.process_watch import REPEAT_S
from nsyswrap.record.program import Callbacks, RunSpec, resolve
from nsyswrap.record.run import command_line, execute

pytestmark = [pytest.mark.nsys, pytest.mark.usefixtures("nsys")]

WAITS = "echo ready; exec sleep 600"


def profiling(folder: Path, environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    """Profile a program that waits; return when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", *options, "-o", "run", "sh", "-c", WAITS],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(  # all within REPEAT_S, on a busy machine too
    ("number", "apart_s"), [(signal.SIGINT, 0.0), (signal.SIGTERM, 0.3)]
)
def test_a_signal_that_is_repeated_at_once_costs_nothing(
    tmp_path: Path, environment: dict[str, str], number: signal.Signals, apart_s: float
) -> None:
    with profiling(tmp_path, environment) as process:
        for _ in range(3):
            process.send_signal(number)
            time.sleep(apart_s)
        process.communicate(timeout=PATIENCE_S)
    # The last signal may come when the run has ended: then it ends nsyswrap, as any program.
    assert process.returncode in (128 + number, -number)
    status = RunFolder(tmp_path / "run").read_status()
    assert status.outcome == "interrupted"
    said = (tmp_path / "run" / LOG).read_text()
    assert check_export(tmp_path / "run" / EXPORT) == "", f"{status}\n{said}"  # pytest cuts a tuple


def test_a_second_signal_that_comes_late_ends_the_run_at_once(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "deaf.sh").write_text("trap 'echo told' TERM; echo ready; while :; do sleep 1; done")
    command = ["profile", "--no-stats", "-o", "run", "sh", "deaf.sh"]
    with subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", *command],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        time.sleep(REPEAT_S + 0.5)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began < HUNG_S / 2
    assert process.returncode == 143
    assert "stopped by SIGTERM; no report: the export is missing" in said


def test_a_stopped_nsys_meets_the_time_limit(tmp_path: Path, environment: dict[str, str]) -> None:
    with profiling(tmp_path, environment, "--timeout", "4") as process:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/nsys") and WAITS.encode() in words:
                    os.kill(int(path.name), signal.SIGSTOP)
            except OSError:
                continue
        began = time.monotonic()
        process.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began < HUNG_S
    assert process.returncode == 75
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_an_exit_code_is_a_signal_only_where_there_is_such_a_signal(cli: Cli) -> None:
    """One that is: below, where the first lines of screens say how a run ended."""
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", "exit 255")
    assert (done.returncode, "sh ended with exit code 255\n" in done.stderr) == (255, True), done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can take parts of the machine away")
@pytest.mark.parametrize(
    ("without", "said", "cure"),
    [
        (["unshare", "-n"], "loopback network interface", "ip link set lo up"),
        (
            ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm; exec "$@"', "sh"],
            "/dev/shm",  # noqa: S108
            "mount -t tmpfs",
        ),
    ],
    ids=["loopback", "shm"],
)
def test_what_nsys_needs_of_the_machine_is_named(
    tmp_path: Path, environment: dict[str, str], without: list[str], said: str, cure: str
) -> None:
    command = [*without, sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "true"]
    done = ran(command, cwd=tmp_path, env=environment, timeout=PATIENCE_S)
    if "unshare failed" in done.stderr:
        pytest.skip("namespaces cannot be made here")
    assert done.returncode == 70
    assert said in done.stderr
    assert cure in done.stderr


def test_an_nsys_that_can_leave_the_environment_out_is_told_to(tmp_path: Path, nsys: str) -> None:
    """None of those that the tests run offers it: a script that says it does stands for one."""
    stand_in = tmp_path / "nsys"
    stand_in.write_text(
        f'#!/bin/sh\nif [ "$2" = --help ]; then echo "  --discard-environment="; exit; fi\nexec {nsys} "$@"\n'
    )
    stand_in.chmod(0o755)
    found = judge(stand_in)
    spec = RunSpec(resolve(["true"]), tmp_path / "run")
    assert "--discard-environment=true" in command_line(spec, found)
    assert "--discard-environment=true" not in command_line(spec, judge(Path(nsys)))
    keeping = replace(spec, options=RecordingOptions(keep_environment=True))
    assert "--discard-environment=true" not in command_line(keeping, found)


@pytest.mark.parametrize("discard", [True, False])
def test_an_export_that_cannot_be_finished_is_removed(tmp_path: Path, *, discard: bool) -> None:
    """As on a disk that is too small for the copy; fails closed, and the program's code is kept."""

    def fails(folder: Path) -> None:
        (folder / f".{EXPORT}.123.part").write_bytes((folder / EXPORT).read_bytes())
        raise OutputError("no room for a copy", "make room")

    options = RecordingOptions(stats=False, discard_rep=discard)
    spec = RunSpec(resolve(["sh", "-c", "exit 3"]), tmp_path / "run", options)
    status = execute(spec, Callbacks(finish=fails))
    assert (status.outcome, status.program_code, status.exit_code) == ("not_redacted", 3, 73)
    assert "no room for a copy" in status.message
    assert ("profile again" if discard else f"nsyswrap report {tmp_path / 'run'}") in status.hint
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {RUN, STATUS, "nsys.log", *([] if discard else [REPORT])}


class Mounted(Protocol):
    """Mounts a file system in memory with these options, and returns its folder."""

    def __call__(self, options: str) -> Path: ...


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    made: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"mounted-{len(made)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("cannot mount a file system: not root, or in a container")
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same program on a disk that is large enough."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    execute(RunSpec(resolve(["sh", "-c", "exit 3"]), folder, RecordingOptions(stats=False)))
    return folder


@pytest.mark.parametrize(
    ("short_of", "discard"),
    [("the report", True), ("the export", False), ("the copy", False), ("the digest", True)],
)
def test_a_batch_on_a_disk_that_is_too_small(
    whole: Path, mounted: Mounted, cli: Cli, short_of: str, *, discard: bool
) -> None:
    disk = mounted("size=64m")
    options = ["--no-stats", *(["--discard-rep"] if discard else [])]
    report, export = ((whole / name).stat().st_size for name in (REPORT, EXPORT))
    sizes = {"the report": 0.5 * report, "the export": report + 0.5 * export}
    kept = 0 if discard else report
    sizes |= {"the copy": kept + 1.5 * export, "the digest": kept + 2.2 * export}
    room = os.statvfs(disk)
    (disk / "data").write_bytes(bytes(room.f_bavail * room.f_frsize - int(sizes[short_of]) - 100_000))
    done = cli("batch", "sweep", "-o", disk / "b", *options, "--", "sh", "-c", "exit 3", PLANTED="s3cr3t")
    assert done.returncode == 1
    [run] = (disk / "b" / "runs").iterdir()
    status = RunFolder(run).read_status()
    assert status.program_code == 3, status
    assert status.outcome in ("program_failed", "nsys_failed", "disk_full", "not_redacted")
    if status.outcome == "program_failed":
        assert check_export(run / EXPORT) == ""
    else:
        assert not (run / EXPORT).exists()
        assert "free some disk space" in status.hint
        assert status.outcome != "nsys_failed" or "the disk is full" not in status.message
        named = re.findall(r"recording kept in (\S+);", status.hint)
        assert bool(named) is (status.outcome in ("nsys_failed", "disk_full") and not discard)
        assert all(Path(recording).is_file() for recording in named)
    assert not discard or not (run / REPORT).exists()
    assert not discard or not (run / RECORDING).exists()
    assert list(run.glob(f"{WORK}*")) == []
    holding = {p.name for p in run.iterdir() if b"s3cr3t" in p.read_bytes()}
    assert holding <= {REPORT, RECORDING}
    if short_of == "the copy" and not discard:
        assert status.outcome == "not_redacted"
        (disk / "data").unlink()
        shown = cli("report", run)  # the command that the hint names
        assert (shown.returncode, f"nsyswrap report {run}" in status.hint) == (0, True)
        assert shown.stdout.startswith(
            "this run was not finished: the export was deleted, because its environment could not be"
        )


@pytest.mark.parametrize("outcome", ["timed_out", "program_failed"])
def test_how_a_run_ended_is_the_first_line_of_its_screen(tmp_path: Path, cli: Cli, outcome: str) -> None:
    if outcome == "timed_out":
        done, limit_s = timed_out(cli, "-o", "run", "sh", "-c", "exec sleep 600")
        first_line = f"this run timed out: stopped after --timeout {limit_s} s"
    else:
        done = cli("profile", "-o", "run", "sh", "-c", "exit 137")
        first_line = "the program failed: sh ended with exit code 137 (signal 9)"
    assert done.stdout != ""
    # A program that failed stands on the screen, too, above what it says of the GPU.
    times = 2 if outcome == "program_failed" else 1
    assert (done.stdout + done.stderr).count(first_line.partition(": ")[2]) == times
    for path in ("run", f"run/{EXPORT}"):
        shown = cli("report", path)
        assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, first_line)
    table = cli("report", "run", "-r", "nvtx_sum", "--format", "json")
    assert first_line in table.stderr
    assert first_line in json.loads(table.stdout)["notes"][0]
    assert cli("view", "run", "-o", "page.html").returncode == 0
    assert first_line in (tmp_path / "page.html").read_text()
    shutil.copy(tmp_path / "run" / EXPORT, tmp_path / "alone.sqlite")
    assert first_line not in cli("report", "alone.sqlite").stdout


def test_a_run_whose_nsyswrap_was_killed(tmp_path: Path, environment: dict[str, str], cli: Cli) -> None:
    """While nsys writes its report, the folder belongs to the run. Then the run is read."""
    with profiling(tmp_path, {**environment, "PLANTED": "planted-token"}) as process:
        process.kill()
    assert unfinished(tmp_path / "run") == "this run has not ended yet"
    with (
        pytest.raises(OutputError, match=r"run is in use by another run \(.*, process \d+\)"),
        locked(tmp_path / "run", "another run"),
    ):
        pass
    wait_until(lambda: not is_locked(tmp_path / "run"))
    shown = cli("report", "run")
    assert shown.returncode == 0
    first = "this run never finished: nsyswrap was killed; its recording, with the environment, is in"
    assert " ".join(shown.stdout.split()).startswith(first)
    cached = list((Path(environment["XDG_CACHE_HOME"]) / "nsyswrap" / "exports").glob("*.sqlite"))
    assert cached
    assert not any(b"planted-token" in path.read_bytes() for path in cached)
    assert not list((tmp_path / "run").glob("lock"))
    assert cli("profile", "--no-stats", "--force", "-o", "run", "true").returncode == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names - {CONDITIONS} == {RUN, STATUS, "nsys.log", REPORT, EXPORT}


def test_a_temporary_folder_that_is_too_small_is_named(tmp_path: Path, mounted: Mounted, cli: Cli) -> None:
    """nsys maps files in it, and makes the program crash: exit code 139."""
    folder = mounted("size=1m")
    done = cli("profile", "--no-stats", "-o", "run", "true", TMPDIR=str(folder))
    assert done.returncode == 70
    said = " ".join(done.stderr.split())
    assert "nsys had too little space in TMPDIR" in said
    assert re.search(rf"nsys needs space in TMPDIR: 1\.\d MB free at {folder}", said)
    assert "report.qdstrm cannot be read: nsys cannot import it" in said
    status = RunFolder(tmp_path / "run").read_status()
    assert (status.program_code, status.nsys_code) == (None, 139)


def test_a_temporary_folder_may_forbid_programs(mounted: Mounted, cli: Cli) -> None:
    code = "import nvtx\nfor _ in range(3):\n    with nvtx.annotate('step'): pass"
    done = cli(
        "profile", "--no-stats", "-o", "run", sys.executable, "-c", code, TMPDIR=str(mounted("noexec"))
    )
    assert done.returncode == 0, done.stderr
    table = cli("report", "run", "-r", "nvtx_sum", "--format", "json")
    assert "step" in table.stdout


def test_a_later_version_may_say_more(tmp_path: Path, cli: Cli) -> None:
    cli("batch", "sweep", "-o", "batch", "--no-stats", "--", "true")
    [run] = (tmp_path / "batch" / "runs").iterdir()
    for name in (STATUS, RUN, "claim.json"):
        facts = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({**facts, "of a later version": 1}))
    assert "1 done" in cli("batch", "status", "batch").stdout
    assert cli("collect", "batch", "-o", "collected").returncode == 0
    assert cli("report", run).stdout.splitlines()[0] == "true"
    status = json.loads((run / STATUS).read_text())
    (run / STATUS).write_text(json.dumps({**status, "outcome": "of a later version"}))
    assert "outcome is 'of a later version': expected one of done, " in " ".join(
        cli("report", run).stdout.split()
    )


def test_python_gets_the_same(tmp_path: Path) -> None:
    run = api.profile(["sh", "-c", "exit 3"], output=tmp_path / "run", share="group", stats=False)
    assert (run.status.outcome, run.status.exit_code) == ("program_failed", 3)
    assert run.capture.ending == "the program failed: sh ended with exit code 3"
    assert not (tmp_path / "run" / DIGEST).exists()
