"""What the real nsys is asked for: exports of .nsys-rep files, into the cache and never beside the input."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli
from waiting import PATIENCE_S

from nsyswrap import open_capture
from nsyswrap.base.errors import CaptureError, DamagedCapture
from nsyswrap.base.nsys.command import export as export_with
from nsyswrap.capture.redact import redact, secrets_in

PROGRAM = 'print("planted-output")'


@pytest.fixture(scope="module")
def recorded(nsys: str, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A .nsys-rep of a program without GPU work, with secrets in the environments of it and of another."""
    folder = tmp_path_factory.mktemp("recorded")
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    secrets = {"API_TOKEN": "planted-token", "LS_COLORS": "a=planted-1;b=planted-2"}
    bystander = subprocess.Popen(["sleep", "60"], env={"OTHER_SECRET": "planted-other", "SECOND": "planted"})
    options = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
    try:
        for _ in range(3):  # nsys itself fails now and then, or ends well and leaves no report
            done = subprocess.run(
                [nsys, "profile", *options, "-o", str(folder / "r"), sys.executable, str(program)],
                env={**environment, **secrets},
                check=False,
                capture_output=True,
                timeout=PATIENCE_S,
            )
            if not done.returncode and (folder / "r.nsys-rep").exists():
                break
        else:
            pytest.fail(f"nsys left no report: {done.stdout!r} {done.stderr!r}")
    finally:
        bystander.kill()
        bystander.wait()
    return folder / "r.nsys-rep"


@pytest.fixture
def report(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it in a folder with nothing else."""
    (tmp_path / "input").mkdir()
    return Path(shutil.copy(recorded, tmp_path / "input"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder exports are cached in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nsyswrap" / "exports"


def test_it_is_exported_into_the_cache_and_not_beside_the_input(report: Path, cache: Path) -> None:
    capture = open_capture(report)
    assert capture.path.parent == cache
    assert list(cache.iterdir()) == [capture.path]
    assert list(report.parent.iterdir()) == [report]
    assert capture.info.exporter_version
    assert not capture.has("kernel")


def test_an_export_that_nsys_is_writing_says_so(report: Path, nsys: str) -> None:
    export = report.with_suffix(".sqlite")
    command = [nsys, "export", "--type=sqlite", f"--output={export}", str(report)]
    said: set[str] = set()
    expected = "is not complete: nsys is still writing it, or was interrupted"
    for _ in range(10):  # on a busy machine all can be written between two looks
        export.unlink(missing_ok=True)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writing:
            while writing.poll() is None:
                try:
                    open_capture(export)
                except CaptureError as error:
                    said.add(error.message.removeprefix(f"{export} "))
        if expected in said:
            break
    assert expected in said
    assert all(text.startswith(("not found", "is not complete", "is cut off")) for text in said)
    assert open_capture(export).info.exporter_version


def test_the_second_time_it_comes_from_the_cache(report: Path, cache: Path) -> None:
    first = open_capture(report).path
    written = first.stat().st_mtime_ns
    assert open_capture(report).path == first
    assert first.stat().st_mtime_ns == written
    assert list(cache.iterdir()) == [first]


def test_a_report_that_has_changed_is_exported_again(report: Path, cache: Path) -> None:
    first = open_capture(report).path
    content = report.read_bytes()
    report.unlink()
    report.write_bytes(content)
    assert open_capture(report).path != first
    assert len(list(cache.iterdir())) == 2


def test_a_broken_export_in_the_cache_is_made_anew(report: Path, cache: Path) -> None:
    first = open_capture(report).path
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2])
    assert open_capture(report).info.exporter_version
    assert list(cache.iterdir()) == [first]


def cut_off(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def noise(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(60_000))  # noqa: S311 - no secret


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut_off, noise, empty])
def test_damage_is_told_in_the_words_of_nsys_and_leaves_nothing(
    damage: Callable[[Path], None], report: Path, cache: Path, cli: Cli
) -> None:
    damage(report)
    with pytest.raises(DamagedCapture, match=r"cannot be exported: .*rror"):
        open_capture(report)
    done = cli("report", report, XDG_CACHE_HOME=str(cache.parents[1]))
    message, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (65, "")
    assert message.startswith(f"nsyswrap: {report} cannot be exported: ")
    assert hint.startswith("  ")
    assert list(cache.iterdir()) == []
    assert list(report.parent.iterdir()) == [report]


@pytest.fixture
def newer(report: Path, nsys: str) -> Path:
    """A report with the version of an nsys of 2033, which this nsys refuses. An export is beside it."""
    export_with(nsys, report, report.with_suffix(".sqlite"))
    content = report.read_bytes()
    year = content.index(b"Report 20") + len(b"Report ")
    report.write_bytes(content[:year] + b"2033" + content[year + 4 :])
    return report


def test_the_export_beside_a_report_of_a_newer_nsys_is_read(newer: Path, cache: Path, cli: Cli) -> None:
    os.utime(newer.with_suffix(".sqlite"), ns=(newer.stat().st_mtime_ns,) * 2)  # not older
    capture = open_capture(newer)
    assert capture.path == newer.with_suffix(".sqlite")
    assert capture.remarks == ["read from r.sqlite beside it: r.nsys-rep cannot be exported here"]
    done = cli("report", newer, "-r", "diagnostics", XDG_CACHE_HOME=str(cache.parents[1]))
    assert done.returncode == 0
    assert f"nsyswrap: {newer}: read from r.sqlite beside it" in done.stderr


def test_an_older_export_beside_it_is_not_read(newer: Path, cache: Path, cli: Cli) -> None:
    export = newer.with_suffix(".sqlite")
    os.utime(export, ns=(newer.stat().st_mtime_ns - 1,) * 2)
    done = cli("report", newer, XDG_CACHE_HOME=str(cache.parents[1]))
    assert (done.returncode, done.stdout) == (65, "")
    assert "newer than your current version" in done.stderr
    assert f"{export} is not read: it is older than the report" in done.stderr


def test_a_damaged_export_beside_it_is_not_read(newer: Path, cache: Path, cli: Cli) -> None:
    cut_off(newer.with_suffix(".sqlite"))
    done = cli("report", newer, XDG_CACHE_HOME=str(cache.parents[1]))
    assert (done.returncode, done.stdout) == (65, "")
    assert "newer than your current version" in done.stderr
    assert "is not read" not in done.stderr


def test_the_export_beside_a_report_that_can_be_exported_is_not_read(
    report: Path, nsys: str, cache: Path
) -> None:
    export_with(nsys, report, report.with_suffix(".sqlite"))
    capture = open_capture(report)
    assert capture.path.parent == cache
    assert capture.remarks == []


def test_a_report_that_is_not_there(tmp_path: Path, nsys: str, cli: Cli) -> None:
    done = cli("report", tmp_path / "x.nsys-rep", NSYSWRAP_NSYS=nsys)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr == f"nsyswrap: {tmp_path / 'x.nsys-rep'} not found\n"


def test_what_is_in_the_cache_is_without_the_environment(report: Path, cache: Path) -> None:
    export = open_capture(report).path
    assert cache in export.parents
    assert b"planted-output" in export.read_bytes()  # which `redact` takes out
    assert b"planted-token" not in export.read_bytes()
    assert "environment" not in {finding.kind for finding in secrets_in(export)}


def test_redacting_takes_out_what_this_nsys_keeps(report: Path, nsys: str, tmp_path: Path) -> None:
    export = tmp_path / "x.sqlite"
    export_with(nsys, report, export)
    assert b"planted-token" in export.read_bytes()
    kinds = {finding.kind: finding for finding in secrets_in(export)}
    assert "API_TOKEN" in kinds["environment"].names
    redact(export, tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    at = raw.find(b"planted")
    assert at < 0, raw[max(at - 80, 0) : at + 40]
    assert secrets_in(tmp_path / "copy.sqlite") == []
