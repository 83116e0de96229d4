"""Reading columns: what is no export is told from what is a damaged one, and the file stays as it is."""

import hashlib
import os
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import Cli
from fuzz.sql_files import naming_super_journal
from sampled import sampled
from test_private_copy import interrupted, scratch
from tiny_export import API, KERNEL, NVTX, OSRT, call, everything, kernel, memcpy, nvtx, on_cpu, row, write

from nsyswrap import open_capture, reports
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CaptureError, DamagedCapture, NotACapture, OutputError, Unavailable
from nsyswrap.base.files import locked
from nsyswrap.base.nsys import command, find
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, RUN, WORK
from nsyswrap.capture import export as export_module
from nsyswrap.capture import open as opening
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.open import identity_of

PAGE = 4096


def large(path: Path) -> Path:
    """An export whose tables take several pages each."""
    kernels = (kernel(f"kernel {i}", 10 * i + 2, 10 * i + 8, i) for i in range(400))
    calls = (call("cudaLaunchKernel", 10 * i, 10 * i + 1, i) for i in range(400))
    copies = (memcpy(1, i, i + 5, 8) for i in range(200))
    return write(path, *kernels, *calls, *copies, *(nvtx(f"step {i}", i, i + 9) for i in range(100)))


def overwrite_page(path: Path, number: int, seed: int = 0) -> None:
    """Put random bytes where a page was; the first is number 1."""
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(random.Random(seed).randbytes(PAGE))  # noqa: S311 - no secret


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("kernel,duration\nadd,5\n", encoding="utf-8")


def noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(50_000))  # noqa: S311 - no secret


def begun(path: Path) -> None:
    """As nsys leaves the file until its last moment: the first page is zeros."""
    path.write_bytes(bytes(4096) + large(path).read_bytes()[4096:])


def only_magic(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 20)


def folder(path: Path) -> None:
    path.mkdir()


def missing(path: Path) -> None:
    assert not path.exists()


def cut_off(path: Path) -> None:
    content = large(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])


def overwritten(path: Path) -> None:
    db = sqlite3.connect(large(path))
    [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNEL,))
    db.close()
    overwrite_page(path, page)


def of_others(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.commit()
    db.close()


def strings_alone(path: Path) -> None:
    write(path, strings={1: "add"})


JUNK = [
    (empty, NotACapture, "is not complete: nsys is still writing it, or was interrupted"),
    (begun, NotACapture, "is not complete: nsys is still writing it, or was interrupted"),
    (text, NotACapture, "is not a capture: it is not an SQLite database"),
    (noise, NotACapture, "is not a capture: it is not an SQLite database"),
    (only_magic, CaptureError, "cannot be read|cut off"),
    (folder, NotACapture, "Is a directory|no capture in"),
    (missing, NotACapture, "not found"),
    (cut_off, DamagedCapture, r"is cut off: [\d,]+ of [\d,]+ bytes"),
    (overwritten, DamagedCapture, "cannot be read: database disk image is malformed"),
    (of_others, NotACapture, "is not a capture: no table StringIds"),
    (strings_alone, NotACapture, "is not a capture: no table StringIds"),
]
junk = pytest.mark.parametrize(("make", "error", "said"), JUNK, ids=[make.__name__ for make, *_ in JUNK])


@junk
def test_junk_is_told_apart(
    make: Callable[[Path], None], error: type[CaptureError], said: str, tmp_path: Path
) -> None:
    make(tmp_path / "x.sqlite")
    with pytest.raises(error, match=said) as caught:
        CaptureReader(tmp_path / "x.sqlite").report("cuda_gpu_kern_sum")
    assert str(tmp_path / "x.sqlite") in str(caught.value)


@junk
@pytest.mark.slow
def test_junk_is_one_clear_line_and_exit_code_65(
    make: Callable[[Path], None], error: type[CaptureError], said: str, tmp_path: Path, cli: Cli
) -> None:
    make(tmp_path / "x.sqlite")
    done = cli("report", tmp_path / "x.sqlite", "-r", "cuda_gpu_kern_sum")
    message, *hint = done.stderr.splitlines()
    assert done.returncode == error.exit_code == 65
    assert done.stdout == ""
    assert message.startswith("nsyswrap: ")
    assert str(tmp_path / "x.sqlite") in message
    assert re.search(said, message)
    assert all(line.startswith("  ") for line in hint)
    assert len(hint) <= 1


@pytest.mark.parametrize("name", ["x.sqlite", "x.nsys-rep"])
def test_a_pipe_is_told_and_not_waited_for(name: str, tmp_path: Path, cli: Cli) -> None:
    os.mkfifo(tmp_path / name)
    done = cli("report", name)
    assert (done.returncode, done.stdout) == (65, "")
    assert re.match(f"nsyswrap: {name} is not a (capture: it is a pipe|file)", done.stderr)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read(tmp_path: Path, cli: Cli) -> None:
    large(tmp_path / "x.sqlite").chmod(0)
    for words in ("report", "redact --check"):
        done = cli(*words.split(), tmp_path / "x.sqlite")
        assert (done.returncode, done.stdout) == (65, "")
        assert done.stderr == f"nsyswrap: {tmp_path / 'x.sqlite'}: Permission denied\n"


def test_whatever_page_is_damaged_the_answer_is_a_report_or_a_capture_error(tmp_path: Path) -> None:
    sound = large(tmp_path / "sound.sqlite").read_bytes()
    path = tmp_path / "x.sqlite"
    told = 0
    for page in range(1, len(sound) // PAGE + 1):
        path.write_bytes(sound)
        overwrite_page(path, page, seed=page)
        try:
            capture = CaptureReader(path)
            for name in reports.NAMES:
                capture.report(name)
        except CaptureError:
            told += 1
    assert told > len(sound) // PAGE // 2


@pytest.mark.parametrize("start", ["soon", float("inf")])
def test_something_else_where_a_number_belongs(tmp_path: Path, start: object) -> None:
    export = Export(write(tmp_path / "x.sqlite", row(KERNEL, start=start)))
    with pytest.raises(DamagedCapture, match=f"{KERNEL}.start contains a value that is not an integer"):
        export.columns(KERNEL, [("start", "int")])


def test_texts_that_are_stored_as_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE StringIds SET value = CAST(value AS BLOB)")
    assert CaptureReader(path).events("kernel")["name"].tolist() == ["k"]


def test_a_table_that_has_lost_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("a", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute("UPDATE sqlite_master SET name = NULL WHERE name = ?", (NVTX,))
        db.commit()
    with suppress(DamagedCapture):  # as some releases of SQLite say
        assert Export(path).tables.keys() == {"StringIds", KERNEL}


def test_a_schema_that_lost_a_quote_is_refused_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = ?", (f'CREATE TABLE {KERNEL} (\n"a\n)', KERNEL)
        )
        db.commit()
    with pytest.raises(DamagedCapture) as refused:
        Export(path)
    assert refused.value.message.count("\n") == 0
    assert refused.value.message.startswith(f"{path} cannot be read: malformed database schema ({KERNEL})")


def test_a_length_that_asks_for_more_memory_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Export(write(tmp_path / "x.sqlite", kernel("k", 0, 5)))
    monkeypatch.setattr(Export, "_array", out_of_memory)
    with pytest.raises(DamagedCapture, match=r"x.sqlite cannot be read: out of memory"):
        export.columns(KERNEL, [("start", "int")])


def out_of_memory(*_: object) -> None:
    raise MemoryError


def state(path: Path) -> tuple[str, list[str], int]:
    """What must not change: the bytes, what lies beside them, the time of the last write."""
    return (
        hashlib.sha256(path.read_bytes()).hexdigest(),
        sorted(entry.name for entry in path.parent.iterdir()),
        path.stat().st_mtime_ns,
    )


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("mode", [0o755, 0o555], ids=["writable", "read-only"])
@pytest.mark.slow
def test_nothing_is_written_into_the_file_or_beside_it(
    tmp_path: Path, cli: Cli, journal: str, mode: int
) -> None:
    path = write(tmp_path / "x.sqlite", *everything())
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.close()
    path.chmod(mode & 0o666)
    tmp_path.chmod(mode)
    before = state(path)
    capture = CaptureReader(path)
    for name in reports.NAMES:
        capture.report(name)
    done = cli("report", path, "-r", "all")
    tmp_path.chmod(0o755)
    assert done.returncode == 0
    assert state(path) == before


def test_a_path_that_would_mean_something_in_a_uri(tmp_path: Path) -> None:
    path = write(tmp_path / "a b?mode=rw#c %41'é.sqlite", kernel("k", 0, 5))
    assert Export(path).count(KERNEL) == 1


def test_columns_come_in_row_order_as_64_bit_integers(tmp_path: Path) -> None:
    far = [kernel("k", start, 5) for start in (2**62, -(2**63) + 1, 0)]
    [starts] = Export(write(tmp_path / "x.sqlite", *far)).columns(KERNEL, [("start", "int")])
    assert starts.dtype == np.int64
    assert starts.tolist() == [2**62, -(2**63) + 1, 0]


def test_an_index_changes_no_order(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *(kernel("k", start, start + 5, 9 - start) for start in range(9)))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE INDEX one ON {KERNEL} (correlationId)")
    export = Export(path)
    [correlations] = export.columns(KERNEL, [("correlationId", "int")])
    [starts] = export.columns(KERNEL, [("start", "int")])
    assert (starts + correlations).tolist() == [9] * 9


def test_null_is_missing_and_nothing_else(tmp_path: Path) -> None:
    rows = [nvtx("a", 0, None), nvtx(None, 0, 0)]
    export = Export(write(tmp_path / "x.sqlite", *rows))
    ends, texts = export.columns(NVTX, [("end", "int"), ("text", "text")])
    assert ends.tolist() == [MISSING, 0]
    assert texts.tolist() == ["a", None]


def test_a_name_with_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute('CREATE TABLE "a ""b""" ("c ""d""")')
        db.execute('INSERT INTO "a ""b""" VALUES (3)')
        db.commit()
    export = Export(path)
    assert export.count('a "b"') == 1
    assert export.columns('a "b"', [('c "d"', "int")])[0].tolist() == [3]


def test_a_column_is_read_once_and_cannot_be_changed(tmp_path: Path) -> None:
    export = Export(write(tmp_path / "x.sqlite", kernel("k", 0, 5)))
    first = export.columns(KERNEL, [("start", "int"), ("end", "int")])
    again = export.columns(KERNEL, [("end", "int"), ("streamId", "int")])
    assert again[0] is first[1]
    with pytest.raises(ValueError, match="read-only"):
        first[0][0] = 1


def test_a_table_larger_than_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "_CHUNK_ROWS", 3)
    export = Export(write(tmp_path / "x.sqlite", *(kernel("k", i, 50) for i in range(10))))
    [starts] = export.columns(KERNEL, [("start", "int")])
    assert starts.tolist() == list(range(10))


def test_integers_of_a_large_table_come_from_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [nvtx(f"step {i}" if i % 2 else None, i, i + 9) for i in range(5000)]
    path = write(tmp_path / "x.sqlite", *events, kernel("k", 0, 5))
    wanted: list[tuple[str, schema.FieldKind]] = [("start", "int"), ("text", "text"), ("textId", "string")]
    export = Export(path)
    starts, texts, ids = export.columns(NVTX, wanted)
    [kernels] = export.columns(KERNEL, [("start", "int")])
    assert starts.tolist() == list(range(5000))
    assert texts.tolist() == [f"step {i}" if i % 2 else None for i in range(5000)]
    assert ids.tolist() == [MISSING] * 5000
    assert kernels.tolist() == [0]
    assert export.by_sqlite == {KERNEL: "few rows"}
    monkeypatch.setattr(Export, "rows", None)  # the rows have been counted
    assert export.count(NVTX) == 5000


def test_tables_that_are_missing_or_empty_have_no_rows(tmp_path: Path) -> None:
    export = Export(write(tmp_path / "x.sqlite", kernel("k", 0, 5), empty=[API]))
    assert [export.count(table) for table in (KERNEL, API, NVTX)] == [1, 0, 0]
    [starts] = export.columns(API, [("start", "int")])
    assert starts.dtype == np.int64
    assert len(starts) == 0


def test_text_that_is_no_utf8_is_escaped(tmp_path: Path) -> None:
    strings: dict[int, str | bytes] = {1: b"a\xff", 2: b"a\xfe", 3: "aÿ"}
    export = Export(write(tmp_path / "x.sqlite", kernel(1, 0, 5), strings=strings))
    assert export.strings == {1: r"a\xff", 2: r"a\xfe", 3: "aÿ"}


def test_arrays_outlive_the_file(tmp_path: Path) -> None:
    export = Export(write(tmp_path / "x.sqlite", kernel("k", 7, 9)))
    [starts] = export.columns(KERNEL, [("start", "int")])
    export.close()
    assert starts.tolist() == [7]


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


__all__ = ["scratch"]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
HUGE = "SELECT hex(zeroblob(400000000)) AS text"


def test_calls_that_all_end_before_they_start_are_not_drawn(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), on_cpu(OSRT, "poll", 30, 20))
    done = cli("view", path, "-o", "page.html")
    assert done.returncode == 0, done.stderr


@sampled(
    ("command", "times"),
    product(
        ("report", "view", "doctor", "redact --check", "collect", "export --perfetto out.json"), (1, 2, 3)
    ),
    fast=4,
)
def test_a_journal_that_names_a_file_deletes_nothing(
    cli: Cli, tmp_path: Path, command: str, times: int
) -> None:
    path = interrupted(tmp_path, "DELETE")
    victim = tmp_path / "thesis.tex"
    victim.write_text("years of work")
    with path.with_name(f"{path.name}-journal").open("ab") as journal:
        journal.write(naming_super_journal(victim) * times)
    word, *options = command.split()
    done = cli(word, path, *options)
    assert done.returncode == 0, done.stderr
    assert "read from a private copy" in done.stderr or word not in ("report", "view", "export")
    assert victim.read_text() == "years of work"


def test_a_hole_of_terabytes_is_not_copied(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    os.truncate(path, shutil.disk_usage(tmp_path).total * 2)
    done = cli("redact", path, "-o", "out.sqlite")
    assert done.returncode == 73
    assert "MB are free" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_hole_in_what_a_killed_run_left_is_not_copied(cli: Cli, tmp_path: Path) -> None:
    left = tmp_path / "run" / ".recording-0123456789ab"
    left.mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    export = write(left / "report.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(export)) as db:  # nsys writes it last
        db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    assert cli("report", "run").returncode == 0
    os.truncate(export, shutil.disk_usage(tmp_path).total * 2)
    done = cli("report", "run")
    assert done.returncode == 73
    assert "MB are free" in done.stderr


@pytest.mark.parametrize("name", ["report.sqlite", "report.nsys-rep"])
@pytest.mark.parametrize("options", [(), ("--by", "rank")])
def test_a_pipe_in_a_run_folder_is_not_waited_for(
    cli: Cli, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    os.mkfifo(tmp_path / "run" / name)
    done = cli("report", *options, "run")
    assert (done.returncode, done.stderr.count("\n")) in {(65, 1), (65, 2)}


@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 53), reason="SQLite deletes no such file since")
def test_sqlite_itself_would_delete_it(tmp_path: Path) -> None:
    """Show that the test above tests something."""
    path = interrupted(tmp_path, "DELETE")
    (tmp_path / "thesis.tex").write_text("years of work")
    with path.with_name(f"{path.name}-journal").open("ab") as journal:
        journal.write(naming_super_journal(tmp_path / "thesis.tex") * 2)
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT count(*) FROM sqlite_master")
    assert not (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize("kind", ["-wal", "-journal"])
def test_a_journal_of_terabytes_is_not_copied(tmp_path: Path, scratch: Path, kind: str) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with (tmp_path / f"x.sqlite{kind}").open("wb") as journal:
        journal.write(b"\x37\x7f\x06\x82")
        journal.truncate(3 << 40)
    with pytest.raises(NotACapture, match=rf"x.sqlite{kind} is larger than .* more than 1,074 MB"):
        Export(path)
    assert list(scratch.iterdir()) == []


def test_a_copy_needs_room(tmp_path: Path, scratch: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    os.truncate(path, shutil.disk_usage(tmp_path).total * 2)  # nothing but a hole
    (tmp_path / "x.sqlite-wal").write_bytes(b"?")
    with pytest.raises(OutputError, match=r"cannot copy .*it takes [\d,.]+ MB, and [\d,.]+ MB are free"):
        Export(path)
    assert list(scratch.iterdir()) == []


def stored_as(path: Path, table: str, definition: str, kind: str) -> None:
    """Let the schema say that a table is something else; ``kind`` is what it calls it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        changed = "sql = ?, type = ?, rootpage = CASE ? WHEN 'view' THEN 0 ELSE rootpage END"
        db.execute(f"UPDATE sqlite_master SET {changed} WHERE name = ?", (definition, kind, kind, table))  # noqa: S608


UNUSUAL = {
    "an endless view": (f"CREATE VIEW {NVTX} AS {ENDLESS}", "view", "is a view"),
    "a huge view": (f"CREATE VIEW {NVTX} AS {HUGE}", "view", "is a view"),
    "a view called a table": (f"CREATE VIEW {NVTX} AS {ENDLESS}", "table", "is a virtual table or a view"),
    "a virtual table": (
        f"CREATE VIRTUAL TABLE {NVTX} USING fts5(text)",
        "table",
        "is a virtual table or a view",
    ),
    "a generated column": (
        f"CREATE TABLE {NVTX} (start INT, end INT, text AS (hex(zeroblob(400000000))))",
        "table",
        "has a generated column, text",
    ),
    "a long default": (
        f"CREATE TABLE {NVTX} (start INT, end INT, text DEFAULT '{'x' * 5000}')",
        "table",
        "has a default value of 5,002 characters for text",
    ),
}  # fmt: skip


@sampled(
    ("case", "command"),
    product(UNUSUAL, ("report", "report -r nvtx_sum", "view", "redact --check", "doctor", "collect")),
    fast=7,
)
def test_only_plain_tables_are_read(cli: Cli, tmp_path: Path, case: str, command: str) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("range", 0, 9))
    definition, kind, reason = UNUSUAL[case]
    stored_as(path, NVTX, definition, kind)
    word, *options = command.split()
    done = cli(word, path, *options)
    assert done.returncode == 65
    assert re.search(rf"{NVTX} {reason}; nsys writes plain tables|malformed database schema", done.stderr)


def test_a_view_with_a_name_of_its_own_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE VIEW my_kernels AS {ENDLESS}")
    with closing(Export(path)) as export:
        assert export.unusual == {"my_kernels": "is a view"}
        assert "my_kernels" not in export.tables
        assert export.count(KERNEL) == 1


def test_a_table_whose_definition_is_that_of_another_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("range", 0, 9))
    stored_as(path, NVTX, "CREATE TABLE other (a)", "table")
    with pytest.raises(CaptureError, match=r"is a virtual table or a view|malformed database schema"):
        Export(path)


def test_copies_are_told_apart_without_views(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE VIEW META_DATA_CAPTURE AS {ENDLESS}")
    assert identity_of(path) is not None


def test_a_statement_ends_after_steps_that_no_file_of_its_size_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsyswrap.base.sqlite._FEW_STEPS", 1_000_000)
    with closing(Export(write(tmp_path / "x.sqlite", kernel("k", 0, 5)))) as export:
        with pytest.raises(DamagedCapture, match="more steps than the size of the file explains"):
            export.rows(f"SELECT count(*) FROM ({ENDLESS})")  # noqa: S608
        assert export.count(KERNEL) == 1


def test_a_header_that_promises_a_file_of_terabytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *(kernel("k", 2 * i, 2 * i + 1) for i in range(20_000)))
    with path.open("r+b") as file:
        file.seek(28)
        file.write((1 << 31).to_bytes(4, "big"))
        file.truncate(4096 << 31)  # nothing but a hole
    with closing(Export(path)) as export:
        assert len(export.columns(KERNEL, [("start", "int")])[0]) == 20_000
        assert export.by_sqlite == {KERNEL: "more pages than a capture has"}
