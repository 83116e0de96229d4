"""Commands that read and are ended by a signal leave no file and no process, and print no traceback."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sampled import sampled
from tiny_export import kernel, nvtx, write
from waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    Start = Callable[[str], subprocess.Popen[str]]

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
KERNELS = 100_000
TRIES = 50  # a busy machine lets the test miss its moment


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture that is read from a private copy, because of its journal, and many more."""
    folder = tmp_path_factory.mktemp("captures")
    rows = [kernel(f"kernel_{i % 9}", 10 * i, 10 * i + 5) for i in range(KERNELS)]
    path = write(folder / "writing.sqlite", *rows, nvtx("all", 0, 10 * KERNELS))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE more (n)")
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{folder / 'large.sqlite'}{end}")
    (folder / "many").mkdir()
    for i in range(12):
        for end in ("", "-wal"):
            os.link(f"{folder / 'large.sqlite'}{end}", folder / "many" / f"{i}.sqlite{end}")
    return folder


# A signal counts as repeated at once however long a busy machine takes to repeat it.
AT_ONCE = f"from nsyswrap import cli; cli._REPEAT_S = {PATIENCE_S}; cli.main()"
COMMANDS = {
    "report": ("report", "large.sqlite", "-o", "{out}/report.txt"),
    "csv": ("report", "large.sqlite", "--csv", "{out}/csv"),
    "view": ("view", "large.sqlite", "-o", "{out}/page.html"),
    "perfetto": ("export", "large.sqlite", "--perfetto", "{out}/trace.pftrace.gz"),
    "redact": ("redact", "large.sqlite", "-o", "{out}/redacted.sqlite"),
    "baseline": ("baseline", "save", "{out}/baseline.json", "large.sqlite"),
    "collect": ("collect", "many", "-o", "{out}/tables", "--jobs", "3"),
}


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str], captures: Path) -> Start:
    """Start a command, and return it once its first temporary file or folder is there.

    A command that ends before one is seen, as this process waits for a CPU, is started again.
    """
    variables = {"TMPDIR": str(tmp_path / "tmp"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def once(command: str) -> subprocess.Popen[str]:
        words = [word.format(out=tmp_path / "out") for word in COMMANDS[command]]
        for name in ("out", "tmp"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
            (tmp_path / name).mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, *words],
            cwd=captures,
            env={**environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while process.poll() is None and not left_in(tmp_path):
            time.sleep(0.001)
        return process

    def started(command: str) -> subprocess.Popen[str]:
        for _ in range(TRIES):
            process = once(command)
            if process.returncode is None:
                return process
            errors = process.communicate()[1]
            assert process.returncode == 0, errors
        raise AssertionError

    return started


def left_in(folder: Path) -> list[str]:
    """Return what is no output: hidden files and folders, and all that is in TMPDIR."""
    every = [
        f"{where.removeprefix(str(folder))}/{name}"
        for part in ("tmp", "out")
        for where, folders, files in os.walk(folder / part)  # which may be removed meanwhile
        for name in (*folders, *files)
        if part == "tmp" or name.startswith(".")
    ]
    return sorted(every)


def is_group(number: int) -> bool:
    """Return True if a process of this group is left."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@sampled(("command", "delay_s", "number"), product(COMMANDS, (0, 0.2), SIGNALS), fast=8)
def test_a_signal_leaves_nothing(
    tmp_path: Path, start: Start, command: str, delay_s: float, number: signal.Signals
) -> None:
    for _ in range(TRIES):
        with start(command) as process:
            time.sleep(delay_s)
            os.killpg(process.pid, number)
            errors = process.communicate(timeout=PATIENCE_S)[1]
        assert left_in(tmp_path) == []
        assert "Traceback" not in errors
        wait_until(lambda: not is_group(process.pid))
        if process.returncode or delay_s:  # else the signal came too late
            break
    # Python itself ends with SIGINT if an import is interrupted.
    ends = {128 + number, -number if number is signal.SIGINT else None, 0 if delay_s else None}
    assert process.returncode in ends, errors


FINALIZES = """
import sys, time
from nsyswrap import cli
class Finalized:
    def __del__(self):
        cli.signal.raise_signal(number)
        time.sleep(0.01)
def command(**_):
    Finalized()
    time.sleep(600)
number, sys.argv[1:], cli.cli.main = int(sys.argv[1]), [], command
cli.main()
"""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_that_comes_while_an_object_is_finalized(
    environment: dict[str, str], number: signal.Signals
) -> None:
    """Python drops what is raised then."""
    command = [sys.executable, "-c", FINALIZES, f"{number:d}"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_a_second_signal_does_not_end_the_cleanup(tmp_path: Path, start: Start) -> None:
    for _ in range(TRIES):
        with start("collect") as process:
            for _ in range(5):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.01)
            process.communicate(timeout=PATIENCE_S)
        if process.returncode:  # else the signal came too late
            break
    assert process.returncode == 143
    assert left_in(tmp_path) == []


def test_a_signal_that_the_caller_ignores_stays_ignored(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with start("report") as process:
            process.send_signal(signal.SIGHUP)
            process.communicate(timeout=PATIENCE_S)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
