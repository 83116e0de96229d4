"""Where nsys records and then fails to make the export of it, nsyswrap does: with the real parts, killed."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli
from recorded import SHIPPED
from waiting import PATIENCE_S

from nsyswrap.base.errors import DamagedCapture
from nsyswrap.base.nsys import find
from nsyswrap.base.nsys.command import check_export, complete_export
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, RUN, RunFolder
from nsyswrap.capture import open as opening

pytestmark = pytest.mark.usefixtures("nsys")

PROGRAM = """
import sys, nvtx
with nvtx.annotate("main"):
    print("ready", flush=True)
sys.exit(4)
"""


TRIES = 5  # a process that lives for a moment can be missed between two looks


def killed(folder: Path, environment: dict[str, str], victim: Callable[[bytes], bool]) -> tuple[Path, str]:
    """Profile a program, and kill the first process of the run whose command line is ``victim``'s.

    Return the run folder and what was printed.
    """
    for number in range(TRIES):
        (tried := folder / f"{number}").mkdir()
        if said := killed_once(tried, environment, victim):
            return tried / "run", said
    raise AssertionError


def killed_once(folder: Path, environment: dict[str, str], victim: Callable[[bytes], bool]) -> str:
    """Return what was printed; an empty text if the victim was missed."""
    (folder / "script.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "script.py"],
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},  # nsys writes below it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None:
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    words = (path / "cmdline").read_bytes()
                    if victim(words) and bytes(folder) in words:
                        os.kill(int(path.name), signal.SIGKILL)
                        return process.communicate(timeout=PATIENCE_S)[1]
                except OSError:  # gone, or somebody else's
                    continue
        process.communicate()
    return ""


def test_an_import_that_failed_is_made_up_for(tmp_path: Path, environment: dict[str, str]) -> None:
    run, said = killed(tmp_path, environment, lambda words: b"QdstrmImporter\0--input-file" in words)
    status = RunFolder(run).read_status()
    assert (status.outcome, status.exit_code) == ("program_failed", 4), said
    assert check_export(run / EXPORT) == ""
    assert (run / REPORT).exists()
    assert not (run / RECORDING).exists()
    assert '"exported_by": "nsyswrap' in (run / RUN).read_text()


def test_what_cannot_be_imported_is_left_as_it_is(tmp_path: Path, nsys: str) -> None:
    assert not complete_export(nsys, tmp_path)
    (tmp_path / RECORDING).write_bytes(b"no recording")
    assert not complete_export(nsys, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [RECORDING]


@pytest.mark.parametrize(
    ("importer", "reason"),
    [
        (
            "echo 'Import Failed: out of memory' >&2\necho '[tag] = detail'\nexit 2",
            "nsys says: Import Failed: out of memory",
        ),
        ("exit 3", "nsys' importer ended with exit code 3"),
        ("", "nsys' importer could not be started: Exec format error"),
    ],
)
def test_why_a_recording_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importer: str, reason: str
) -> None:
    fake = tmp_path / "QdstrmImporter"
    fake.write_text(f"#!/bin/sh\n{importer}\n" if importer else "no program")
    fake.chmod(0o755)
    monkeypatch.setattr(find, "importer", lambda _: str(fake))
    monkeypatch.setattr(opening, "cache_dir", lambda *_: tmp_path)
    recording = tmp_path / RECORDING
    recording.write_bytes(b"no recording")
    with pytest.raises(DamagedCapture) as caught:
        opening.export_of(recording)
    assert caught.value.message == f"{recording} cannot be imported: {reason}"


def test_a_complete_export_is_left_as_it_is(tmp_path: Path, nsys: str) -> None:
    shutil.copy(SHIPPED / "add" / "grid" / EXPORT, tmp_path)
    (tmp_path / RECORDING).write_bytes(b"all there is")
    assert not complete_export(nsys, tmp_path)
    assert (tmp_path / RECORDING).exists()


def test_what_nsys_has_imported_goes(tmp_path: Path, nsys: str) -> None:
    shutil.copy(SHIPPED / "add" / "grid" / EXPORT, tmp_path)
    for name in (RECORDING, REPORT):
        (tmp_path / name).write_bytes(b"of the same run")
    assert not complete_export(nsys, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [REPORT, EXPORT]


def test_a_new_run_takes_no_older_recording_for_its_own(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RUN).write_text("{}")
    (tmp_path / "run" / RECORDING).write_bytes(b"of an older run")
    cli("profile", "--no-stats", "--force", "-o", "run", "true")
    assert not (tmp_path / "run" / RECORDING).exists()
