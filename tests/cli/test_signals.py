"""Commands that read and are ended by a signal leave no file and no process, and print no traceback."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tiny_export import kernel, nvtx, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[[str], subprocess.Popen[str]]

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
KERNELS = 100_000


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
    """Start a command, and return it once its first temporary file or folder is there."""
    variables = {"TMPDIR": str(tmp_path / "tmp"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def started(command: str) -> subprocess.Popen[str]:
        for name in ("out", "tmp"):
            (tmp_path / name).mkdir()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nsyswrap",
                *(word.format(out=tmp_path / "out") for word in COMMANDS[command]),
            ],
            cwd=captures,
            env={**environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while not left_in(tmp_path):
            assert process.poll() is None
            time.sleep(0.001)
        return process

    return started


def left_in(folder: Path) -> list[str]:
    """Return what is no output: hidden files and folders, and all that is in TMPDIR."""
    every = [
        path.relative_to(folder) for path in (*(folder / "tmp").rglob("*"), *(folder / "out").rglob(".*"))
    ]
    return sorted(map(str, every))


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("case", [(command, delay_s) for command in COMMANDS for delay_s in (0, 0.2)])
def test_a_signal_leaves_nothing(
    tmp_path: Path, start: Start, case: tuple[str, float], number: signal.Signals
) -> None:
    command, delay_s = case
    with start(command) as process:
        time.sleep(delay_s)
        os.killpg(process.pid, number)
        errors = process.communicate(timeout=60)[1]
    # Python itself ends with SIGINT if an import is interrupted.
    ends = {128 + number, -number if number is signal.SIGINT else None, 0 if delay_s else None}
    assert process.returncode in ends, errors
    assert left_in(tmp_path) == []
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


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
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_a_second_signal_does_not_end_the_cleanup(tmp_path: Path, start: Start) -> None:
    with start("collect") as process:
        for _ in range(5):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert left_in(tmp_path) == []


def test_a_signal_that_the_caller_ignores_stays_ignored(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with start("report") as process:
            process.send_signal(signal.SIGHUP)
            process.communicate(timeout=60)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
