"""Redacting: what is secret is in no byte of the copy, and every event is still there."""

import hashlib
import lzma
import random
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from conftest import Cli
from tiny_export import PID, Row, call, diagnostic, everything, global_id, kernel, memcpy, nvtx, row, write

from nsyswrap import open_capture
from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError
from nsyswrap.capture import schema
from nsyswrap.capture.redact import redact, remove_environment, secrets_in
from nsyswrap.cli.redact import STAYS
from nsyswrap.reports import NAMES, find_report

SHARED = Path(__file__).resolve().parents[3] / "shared" / "exports"
RECORDED = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded"
EXPORTS = sorted(SHARED.rglob("*.sqlite*"))
LARGE_BYTES = 800_000  # every report of such an export, twice, takes long

# Every planted value holds this, in capitals or not.
MARK = b"planted"
OTHER = 4321  # a process without events
ENVIRONMENT = (
    row("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value="API_TOKEN=planted-meta"),
    row("META_DATA_CAPTURE", name="PROCESS_1:ENVIRONMENT_VARIABLE", value="B64=planted-meta;cGxhbnRlZA=="),
    row("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value="AWS_KEY=planted-system;PATH=/planted"),
)
ENVIRONMENT_STRINGS: dict[int, str | bytes] = {
    1: "ONLY_ONE=planted-1",  # 1 is a context's id too, which is none of a string
    11: "BASH_FUNC_module%%=() { planted-3\n}\0SSH_AUTH_SOCK=planted-4\0",
    12: "nginx: worker process\0\0\0PASSWORD=planted-5\0",  # a title written over the first variables
    13: "HOME=/planted-6\0API_TOKEN=planted-2\0\0",
    14: b"LATIN_1=planted-7-\xe9\0B=2\0",
}
OUTPUT = (
    row("ProcessStreams", globalPid=global_id(PID), filenameId="/streams/planted-out", contentId=30),
    row("ANALYSIS_FILE", id=0, filename="/streams/planted-out", contentId=30),
    row("ANALYSIS_FILE", id=1, filename="/streams/planted-err", contentId=31),
)
PERSONAL = (
    row("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="planted-host"),
    row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="12080"),
    row("META_DATA_CAPTURE", name="PROCESS_0:USER_NAME", value="planted-user"),
    row("META_DATA_CAPTURE", name="DEVICE_DISPLAY_NAME", value="planted-display"),
    row("META_DATA_CAPTURE", name="PROCESS_0:WORKING_DIR", value="/data/planted-folder"),
    row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="/home/planted-name/bin/train"),
    row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="--data=/Users/planted.name/data"),
    row("META_DATA_EXPORT", name="EXPORT_HOST", value="planted-host"),
    row("META_DATA_EXPORT", name="EXPORT_USER", value="planted-user"),
    row("META_DATA_EXPORT", name="EXPORT_PARAM_INPUT_PATH_ABS", value="/data/planted.nsys-rep"),
    row("META_DATA_EXPORT", name="EXPORT_PARAM_OUTUPT_PATH", value="/data/planted.sqlite"),
    row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.2.0"),
    diagnostic("see /home/planted-name/nsys.log for output"),
    row("OSRT_CALLCHAINS", id=1, module="/home/planted-name/lib/libfoo.so"),
)
PROCESSES = (
    row("PROCESSES", globalPid=global_id(PID), pid=PID, name="/home/planted-name/bin/train"),
    row("PROCESSES", globalPid=global_id(OTHER), pid=OTHER, name="planted-daemon"),
    row("ThreadNames", nameId="train", globalTid=global_id(PID, PID)),
    row("ThreadNames", nameId="planted-thread", globalTid=global_id(OTHER, OTHER)),
)
STRINGS: dict[int, str | bytes] = {
    **ENVIRONMENT_STRINGS,
    30: "loss 0.1, key planted-output",
    31: "",
    40: "planted-daemon",  # nsys leaves names that no row refers to
    41: "see /home/planted-name/nsys.log for output",
    42: "SIZE=4",
}
EVENTS = (
    kernel("void f<int>(T)", 20, 30, 1),
    kernel("A=b", 40, 60, 2),
    kernel("/home/someone/add.cu:add", 60, 65, 3),
    call("cudaLaunchKernel_v7000", 0, 10, 1),
    call("cudaLaunchKernel_v7000", 31, 39, 2),
    memcpy(1, 0, 10, 1000),
    nvtx(None, 0, 100, textId=42),
    nvtx("plain", 30, 100),
)
EVERYTHING = (*EVENTS, *ENVIRONMENT, *OUTPUT, *PERSONAL, *PROCESSES)
SECRETS = [
    found
    for found in (*ENVIRONMENT, *OUTPUT, *PERSONAL, PROCESSES[1], PROCESSES[3])
    if "planted" in str(found.cells)
]


def planted(path: Path, *more: Row) -> Path:
    export = write(path, *EVERYTHING, *more, strings=STRINGS)
    assert MARK in export.read_bytes()
    return export


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Let nothing write a file of more bytes: as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def answers(path: Path) -> dict[str, object]:
    """Every event and every report of a capture, but for nsys messages, which hold paths."""
    capture = open_capture(path)
    kinds = [kind for kind in schema.EVENTS if kind != "diagnostic" and capture.has(kind)]
    events = {kind: capture.events(kind).astype(object).to_csv() for kind in kinds}
    there = [name for name in NAMES if name != "diagnostics"]
    made = [name for name in there if all(any(map(capture.has, group)) for group in find_report(name).needs)]
    return {**events, **{name: capture.report(name).rows() for name in made}}


def test_no_byte_of_what_was_planted_is_in_the_copy(tmp_path: Path) -> None:
    redact(planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    at = raw.lower().find(MARK)
    assert at < 0, raw[max(at - 60, 0) : at + 60]
    assert b"nginx" not in raw


def test_events_and_reports_are_the_same(tmp_path: Path) -> None:
    redact(planted(tmp_path / "x.sqlite", *everything()), tmp_path / "copy.sqlite")
    before = answers(tmp_path / "x.sqlite")
    assert answers(tmp_path / "copy.sqlite") == before
    assert set(NAMES) - {"diagnostics"} <= set(before)


def test_names_that_look_like_a_variable_stay(tmp_path: Path) -> None:
    redact(planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite")
    capture = open_capture(tmp_path / "copy.sqlite")
    assert [found[0] for found in capture.report("nvtx_phases").rows()] == ["SIZE=4", "plain"]
    assert "A=b" in capture.events("kernel")["name"].tolist()


def test_what_is_not_secret_stays(tmp_path: Path) -> None:
    redact(planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite")
    info = open_capture(tmp_path / "copy.sqlite").info
    assert info.command == ("/home/redacted/bin/train", "--data=/Users/redacted/data")
    assert (info.exporter_version, info.cuda_version) == ("2025.3.2.0", "12.8")
    db = sqlite3.connect(tmp_path / "copy.sqlite")
    assert db.execute("SELECT pid, name FROM PROCESSES").fetchall() == [(PID, "train")]
    threads = "SELECT value FROM ThreadNames JOIN StringIds ON nameId = StringIds.id"
    assert db.execute(threads).fetchall() == [("train",)]
    modules = "SELECT value FROM OSRT_CALLCHAINS JOIN StringIds ON module = StringIds.id"
    assert db.execute(modules).fetchall() == [("/home/redacted/lib/libfoo.so",)]
    db.close()


def test_findings_name_variables_and_count(tmp_path: Path) -> None:
    found = {finding.kind: finding for finding in secrets_in(planted(tmp_path / "x.sqlite"))}
    assert found["environment"].count == len(ENVIRONMENT) + len(ENVIRONMENT_STRINGS)
    expected = "API_TOKEN B B64 BASH_FUNC_module%% HOME LATIN_1 ONLY_ONE PASSWORD SSH_AUTH_SOCK"
    assert " ".join(found["environment"].names) == expected
    assert found["program output"].count == len(OUTPUT)
    assert found["other processes' names"].count == 1
    assert "TARGET_INFO_SYSTEM_ENV.Hostname" in found["user, host and paths"].names
    assert not any("planted" in name for finding in found.values() for name in finding.names)


def test_a_redacted_copy_has_no_findings(tmp_path: Path) -> None:
    redact(planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite")
    assert secrets_in(tmp_path / "copy.sqlite") == []


@pytest.mark.parametrize("secret", SECRETS)
def test_each_place_is_found_on_its_own(tmp_path: Path, secret: Row) -> None:
    assert secrets_in(write(tmp_path / "x.sqlite", *EVENTS, secret, strings={30: "", 31: ""})) != []


def test_a_capture_without_secrets_has_no_findings(tmp_path: Path) -> None:
    assert secrets_in(write(tmp_path / "x.sqlite", *EVENTS, strings={42: "SIZE=4"})) == []


def test_the_source_is_not_changed_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    path = planted(tmp_path / "x.sqlite")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    redact(path, tmp_path / "copy.sqlite")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy.sqlite", "x.sqlite"]


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=r"copy\.sqlite already exists"):
        redact(planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("place", ["/proc/copy.sqlite", "x.sqlite/copy.sqlite"])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        redact(planted(tmp_path / "x.sqlite"), tmp_path / place)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_a_full_disk_leaves_the_source_alone_and_nothing_else(tmp_path: Path) -> None:
    path = planted(tmp_path / "x.sqlite")
    before = path.read_bytes()
    with no_file_above(len(before) // 2), pytest.raises(OutputError, match=r"cannot write .*copy"):
        redact(path, tmp_path / "copy.sqlite")
    assert path.read_bytes() == before
    with (
        no_file_above(len(before) // 2),
        pytest.raises(OutputError, match=r"cannot remove the environment from .*x\.sqlite: ."),
    ):
        remove_environment(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_a_source_that_is_no_export_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_text("no database", encoding="utf-8")
    with pytest.raises(NotACapture):
        redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_a_damaged_source_leaves_nothing(tmp_path: Path) -> None:
    path = planted(tmp_path / "x.sqlite")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedCapture):
        redact(path, tmp_path / "copy.sqlite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_damage_found_while_writing_leaves_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *EVENTS, row("SCHED_EVENTS", start=1))
    db = sqlite3.connect(path)
    [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'SCHED_EVENTS'")
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(DamagedCapture, match="cannot be redacted: database disk image is malformed"):
        redact(path, tmp_path / "copy.sqlite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_the_environment_is_removed_in_place_to_the_last_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *EVENTS, *ENVIRONMENT, strings=ENVIRONMENT_STRINGS | {42: "SIZE=4"})
    before = answers(path)
    remove_environment(path)
    assert MARK not in path.read_bytes().lower()
    assert answers(path) == before
    assert secrets_in(path) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


@pytest.mark.parametrize("seed", [62, 133, 200])  # where SQLite's own deleting left some, of 300
def test_no_page_holds_what_was_deleted_a_second_time(tmp_path: Path, seed: int) -> None:
    """SQLite moves texts within a page when others go, and leaves what stood there before."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    strings = {}
    for i in range(1, chance.randint(60, 300)):
        if chance.random() < 0.1:
            strings[i] = f"A=planted-{'x' * chance.randint(10, 9000)}\0B=planted"
        else:
            strings[i] = f"name {i} {'n' * chance.randint(0, 120)}"
    path = write(tmp_path / "x.sqlite", *EVENTS, *ENVIRONMENT, strings=strings)
    redact(path, tmp_path / "copy.sqlite")
    remove_environment(path)
    for made in (path, tmp_path / "copy.sqlite"):
        assert MARK not in made.read_bytes().lower()


def test_what_was_deleted_before_does_not_come_along(tmp_path: Path) -> None:
    strings = {i: f"name {i}" if i % 3 else f"A=planted-{i}-{'x' * (37 * i)}" for i in range(1, 600)}
    path = write(tmp_path / "x.sqlite", *EVENTS, strings=dict(reversed(strings.items())))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM StringIds WHERE id % 6 = 0")
        db.commit()
    raw = path.read_bytes()
    assert any(b"planted-%d-" % i in raw for i in range(6, 600, 6))
    remove_environment(path)
    assert MARK not in path.read_bytes()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM StringIds WHERE value LIKE 'name %'").fetchone() == (400,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_a_link_leads_to_is_changed(tmp_path: Path) -> None:
    path = planted(tmp_path / "x.sqlite")
    path.chmod(0o600)
    (tmp_path / "link.sqlite").symlink_to(path)
    remove_environment(tmp_path / "link.sqlite")
    assert open_capture(path).count("kernel") == 3
    assert b"planted-meta" not in path.read_bytes()
    assert (tmp_path / "link.sqlite").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


def test_removing_the_environment_leaves_the_rest(tmp_path: Path) -> None:
    path = planted(tmp_path / "x.sqlite")
    remove_environment(path)
    kinds = [finding.kind for finding in secrets_in(path)]
    assert kinds == ["program output", "user, host and paths", "other processes' names", "inside other texts"]


def test_check_prints_names_and_counts_and_no_value(tmp_path: Path, cli: Cli) -> None:
    done = cli("redact", "--check", planted(tmp_path / "x.sqlite"))
    assert done.returncode == 1
    assert "API_TOKEN" in done.stdout
    assert "planted" not in done.stdout + done.stderr.replace(str(tmp_path), "")
    assert "cGxhbnRlZA" not in done.stdout
    assert done.stderr.startswith(f"nsyswrap: {tmp_path / 'x.sqlite'} would leak\n")


def test_the_command_line_redacts_then_finds_nothing_then_refuses(tmp_path: Path, cli: Cli) -> None:
    path, copy = planted(tmp_path / "x.sqlite"), tmp_path / "copy.sqlite"
    first = cli("redact", path, "-o", copy)
    assert (first.returncode, first.stdout) == (0, "")
    check = cli("redact", "--check", copy)
    assert (check.returncode, check.stdout, check.stderr) == (0, f"nothing left to remove\n\n{STAYS}\n", "")
    again = cli("redact", path, "-o", copy)
    assert (again.returncode, again.stdout) == (73, "")


def test_a_run_folder_is_redacted_by_its_export(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "run").mkdir()
    planted(tmp_path / "run" / "report.sqlite")
    assert cli("redact", tmp_path / "run", "-o", tmp_path / "copy.sqlite").returncode == 0
    assert secrets_in(tmp_path / "copy.sqlite") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["x.nsys-rep", "-o", "y.sqlite"],
        ["x.qdrep", "--check"],
        ["x.sqlite"],
        ["x.sqlite", "--check", "-o", "y"],
    ],
)
def test_what_cannot_be_asked_for(cli: Cli, arguments: list[str]) -> None:
    done = cli("redact", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nsyswrap: ")


@pytest.mark.skipif(not EXPORTS, reason=f"no exports in {SHARED}")
@pytest.mark.parametrize("export", EXPORTS, ids=[path.stem for path in EXPORTS])
@pytest.mark.slow
def test_public_exports(export: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    if export.suffix == ".xz":
        (tmp_path / "x.sqlite").write_bytes(lzma.decompress(export.read_bytes()))
        export = tmp_path / "x.sqlite"
    redact(export, copy)
    assert secrets_in(copy) == []
    if export.stat().st_size < LARGE_BYTES:
        assert answers(copy) == answers(export)


@pytest.mark.parametrize(
    "export", sorted(RECORDED.glob("*/*/report.sqlite")), ids=lambda path: path.parent.name
)
def test_recorded_captures_hold_nothing_secret(export: Path) -> None:
    assert secrets_in(export) == []
