"""The cache of exports: what was not used for long goes, and what has no room."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tiny_export import KERNEL, kernel, row, write

from nsyswrap import open_capture
from nsyswrap.base.errors import DamagedCapture, NotACapture, Unavailable
from nsyswrap.base.files import locked
from nsyswrap.base.nsys import command, find
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, RUN, WORK
from nsyswrap.capture import open as opening

DAY_S = 86_400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder exports are cached in, and an nsys that exports to what is in the report."""

    def export(_: str, report: Path, target: Path) -> None:
        target.write_bytes(report.read_bytes())

    newest = find.Nsys("nsys", "2025.3.1")
    monkeypatch.setattr(find, "newest", lambda: newest)
    monkeypatch.setattr(command, "export", export)
    monkeypatch.setattr(command, "check_export", lambda path: "" if path.exists() else "there is none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nsyswrap" / "exports"


def cached(tmp_path: Path, name: str, used_days_ago: float = 0) -> Path:
    """Export a report of this name, and say when that was used."""
    path = opening.cached_export(write(tmp_path / f"{name}.nsys-rep", kernel(name, 0, 5)))
    moment = time.time() - used_days_ago * DAY_S
    os.utime(path, (moment, path.stat().st_mtime))
    return path


def test_what_was_not_used_for_long_goes(tmp_path: Path, cache: Path) -> None:
    old, recent = cached(tmp_path, "old", 31), cached(tmp_path, "recent", 29)
    assert not old.exists()
    assert set(cache.iterdir()) == {recent}
    assert opening.cached_export(tmp_path / "recent.nsys-rep") == recent
    assert recent.stat().st_atime > time.time() - DAY_S  # it is used again


def test_what_was_used_first_makes_room(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = cached(tmp_path, "first", 2), cached(tmp_path, "second", 3)
    monkeypatch.setattr(opening, "ROOM_BYTES", 2 * first.stat().st_size)
    last = cached(tmp_path, "last")
    assert set(cache.iterdir()) == {first, last}
    monkeypatch.setattr(opening, "ROOM_BYTES", 1)
    assert opening.cached_export(tmp_path / "second.nsys-rep") == second
    assert set(cache.iterdir()) == {second}  # the one in use stays


def test_what_a_killed_process_left_goes(tmp_path: Path, cache: Path) -> None:
    for name, age_s in (("exporting-a", 10 * command.EXPORT_DEADLINE_S), ("exporting-b", 0)):
        (cache / name).mkdir(parents=True)
        (cache / name / "export.sqlite").touch()
        os.utime(cache / name, (time.time() - age_s,) * 2)
    export = cached(tmp_path, "x")
    assert set(cache.iterdir()) == {export, cache / "exporting-b"}


def test_what_cannot_be_removed_stays_and_the_others_go(tmp_path: Path, cache: Path) -> None:
    (cache / "exporting-left").mkdir(parents=True)
    (cache / "exporting-by-hand").write_text("no folder")
    for path in tuple(cache.iterdir()):
        os.utime(path, (time.time() - 10 * command.EXPORT_DEADLINE_S,) * 2)
    export = cached(tmp_path, "x")
    assert set(cache.iterdir()) == {export, cache / "exporting-by-hand"}


def test_rows_deleted_by_hand_come_back(tmp_path: Path, cache: Path) -> None:
    export = cached(tmp_path, "x")
    with closing(sqlite3.connect(export)) as db:
        db.execute(f"DELETE FROM {KERNEL}")  # noqa: S608 - a constant
        db.commit()
    assert not open_capture(export).has("kernel")
    assert open_capture(tmp_path / "x.nsys-rep").count("kernel") == 1
    assert set(cache.iterdir()) == {export}


def test_what_cannot_be_exported() -> None:
    with pytest.raises(NotACapture, match=r"^absent\.nsys-rep not found$"):
        opening.cached_export(Path("absent.nsys-rep"))
    with pytest.raises(NotACapture, match=r"^/dev/null is not a file$"):
        opening.cached_export(Path("/dev/null"))


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The private folder in that of a run whose nsyswrap was killed; there is no nsys."""

    def none_here() -> find.Nsys:
        raise Unavailable("no nsys")

    monkeypatch.setattr(find, "newest", none_here)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "run" / f"{WORK}1"
    folder.mkdir(parents=True)
    (tmp_path / "run" / RUN).write_text("{}")
    return folder


def test_a_complete_export_of_a_killed_run_is_read_without_its_environment(left: Path) -> None:
    variables = row("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value="TOKEN=planted")
    write(left / EXPORT, kernel("add", 0, 5), variables, row("META_DATA_EXPORT", name="x", value="y"))
    capture = open_capture(left.parent)
    assert capture.count("kernel") == 1
    assert capture.ending == (
        "this run never finished: nsyswrap was killed; "
        f"its recording, with the environment, is in {left / EXPORT}"
    )
    assert b"planted" in (left / EXPORT).read_bytes()
    assert b"planted" not in capture.path.read_bytes()
    assert capture.path.parent.name == "exports"


def test_what_can_be_read_of_a_killed_run_is(
    left: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that is cut off is passed over, and a report beside a recording, which is not whole."""
    tried = []

    def fails(_: str, recording: Path, report: Path) -> str:
        tried.append((recording.name, report.name))
        return "nsys says: invalid"

    monkeypatch.setattr(command, "check_export", lambda path: "cut off" if path.parent == left else "none")
    monkeypatch.setattr(command, "import_recording", fails)
    for name in (EXPORT, REPORT, RECORDING):
        write(left / name, kernel(name, 0, 5))
    assert REPORT.encode() in opening.export_of(tmp_path / "run").read_bytes()
    assert tried == [(RECORDING, "import.nsys-rep")]
    assert len(list(cache.iterdir())) == 1


def test_a_killed_run_without_a_readable_recording_says_so(
    left: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise DamagedCapture("it is damaged")

    assert cache
    monkeypatch.setattr(command, "export", damaged)
    run = left.parent
    with pytest.raises(NotACapture, match="nsyswrap was killed; it left no recording"):
        opening.export_of(run)
    (left / REPORT).touch()
    with pytest.raises(NotACapture, match="nsyswrap was killed; its recording") as caught:
        opening.export_of(run)
    assert caught.value.hint == "it is damaged"
    with (
        locked(run, "the guard of the run"),
        pytest.raises(NotACapture, match="this run has not ended yet") as caught,
    ):
        opening.export_of(run)
    assert caught.value.hint == ""
