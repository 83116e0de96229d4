"""Removing the environment from an export takes its telling values out of all other texts, too."""

import getpass
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli
from tiny_export import PID, diagnostic, everything, global_id, kernel, nvtx, row, write

from nsyswrap import open_capture
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact import cells, check, redact, remove_environment
from nsyswrap.capture.redact.search import Search, ValueSearch
from nsyswrap.capture.redact.values import is_telling
from nsyswrap.reports import NAMES, find_report

TOKEN, POET = "Vogon42-poetry", "Paula Nancy Millstone"
ENVIRONMENT = {
    "API_TOKEN": TOKEN,
    "POET": POET,
    "USER": "slartibartfast",
    "LANG": "en_US.UTF-8.long",
    "N": "17",
}
OF_PROGRAM = row(
    "META_DATA_CAPTURE",
    name="PROCESS_0:ENVIRONMENT_VARIABLE",
    value=";".join(f"{name}={value}" for name, value in ENVIRONMENT.items()),
)


def texts(path: Path, sql: str = "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL") -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [text for (text,) in db.execute(sql)]


@pytest.mark.parametrize("known", ["from the export", "from the caller"])
def test_telling_values_are_removed_and_names_stay_distinct(tmp_path: Path, known: str) -> None:
    rows = [
        nvtx(f"login {TOKEN}", 0, 10),
        nvtx("login redacted", 10, 20),
        nvtx(f"login {TOKEN}", 20, 30),
        nvtx(f"{POET}, part 17", 30, 40),
        nvtx("for slartibartfast in en_US.UTF-8.long", 40, 50),
        nvtx(None, 50, 60, textId=7),
        diagnostic(f"cannot use {TOKEN}"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value=f"--name={POET}"),
        kernel("k", 0, 5),
    ]
    given = None if known == "from the export" else ENVIRONMENT
    path = write(tmp_path / "x.sqlite", *rows, *([] if given else [OF_PROGRAM]), strings={7: f"use {TOKEN}"})
    removed = remove_environment(path, given)
    assert removed.renamed == 3
    assert removed.text(f"a {TOKEN} b") == "a redacted b"
    assert texts(path) == [
        "login redacted (2)",
        "login redacted",
        "login redacted (2)",
        "redacted, part 17",
        "for slartibartfast in en_US.UTF-8.long",
    ]
    assert "use redacted" in texts(path, "SELECT value FROM StringIds")
    assert texts(path, "SELECT text FROM DIAGNOSTIC_EVENT") == ["cannot use redacted"]
    raw = path.read_bytes()
    assert TOKEN.encode() not in raw
    assert POET.encode() not in raw
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


def test_all_reports_have_the_same_numbers(tmp_path: Path) -> None:
    rows = [*everything(), nvtx(f"login {TOKEN}", 0, 900), nvtx(f"login {TOKEN}", 1000, 1900), OF_PROGRAM]
    path = write(tmp_path / "x.sqlite", *rows)

    def answers() -> dict[str, list[tuple[object, ...]]]:
        capture = open_capture(path)
        made = [
            name for name in NAMES if all(any(map(capture.has, group)) for group in find_report(name).needs)
        ]
        return {name: capture.report(name).rows() for name in made if name != "diagnostics"}

    before = answers()
    assert remove_environment(path).renamed == 1
    renamed = {name: str(rows).replace(f"login {TOKEN}", "login redacted") for name, rows in before.items()}
    assert {name: str(rows) for name, rows in answers().items()} == renamed


def test_names_of_kernels_and_of_modules_stay(tmp_path: Path) -> None:
    module = row("OSRT_CALLCHAINS", id=1, module=f"/opt/lib/{TOKEN}.so")
    path = write(
        tmp_path / "x.sqlite", kernel(f"f<{TOKEN}>", 0, 5), nvtx(f"at {TOKEN}", 0, 9), module, OF_PROGRAM
    )
    assert remove_environment(path).renamed == 1
    assert open_capture(path).events("kernel")["name"].tolist() == [f"f<{TOKEN}>"]
    assert f"/opt/lib/{TOKEN}.so" in texts(path, "SELECT value FROM StringIds")
    assert texts(path) == ["at redacted"]


def test_environments_of_other_processes_are_not_searched_for(tmp_path: Path) -> None:
    """The machine has hundreds of processes: one has the name of a range in its environment."""
    rows = [nvtx("forward and backward", 0, 9), OF_PROGRAM, kernel("k", 0, 5)]
    path = write(tmp_path / "x.sqlite", *rows, strings={5: "A=b\0PHASE=forward and backward\0"})
    assert remove_environment(path).renamed == 0
    assert texts(path) == ["forward and backward"]
    assert b"PHASE=" not in path.read_bytes()


def test_a_value_in_bytes_and_in_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_ROWS", 7)
    rows = [nvtx(f"step {i}" if i % 10 else f"step {i} {TOKEN}", i, i + 1) for i in range(100)]
    blob = row("LOG", text=f"\0{TOKEN}\0".encode("utf-16-le"))
    path = write(tmp_path / "x.sqlite", *rows, blob, kernel("k", 0, 5), OF_PROGRAM)
    assert remove_environment(path).renamed >= 10
    expected = [f"step {i}" if i % 10 else f"step {i} redacted" for i in range(100)]
    assert texts(path)[:100] == expected
    assert TOKEN.encode("utf-16-le") not in path.read_bytes()


def test_more_text_than_sqlite_joins(tmp_path: Path) -> None:
    """A limit of SQLite is 1 GB; a column of longer texts is searched row by row."""
    path = write(
        tmp_path / "x.sqlite", nvtx(f"a {TOKEN} {'x' * 3000}", 0, 1), nvtx("b" * 3000, 1, 2), OF_PROGRAM
    )
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        if not hasattr(db, "setlimit"):
            pytest.skip("Connection.setlimit needs Python 3.11")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5000)
        with closing(Export(path)) as export:
            found = cells.cells_that_hold(db, export, ValueSearch({TOKEN: "redacted"}))
    assert {place: len(held) for place, held in found.items()} == {("NVTX_EVENTS", "text"): 1}


def test_what_was_not_searched_for_is_said(tmp_path: Path, cli: Cli) -> None:
    metadata = row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.2.0")
    bare = write(tmp_path / "bare.sqlite", kernel("k", 0, 5), nvtx(f"at {TOKEN}", 0, 9), metadata)
    searched = write(tmp_path / "searched.sqlite", kernel("k", 0, 5), metadata, OF_PROGRAM)
    assert not check(bare).values_known
    assert check(searched).values_known
    remove_environment(searched)
    assert check(searched).values_known
    remove_environment(bare)
    assert not check(bare).values_known
    assert not redact(bare, tmp_path / "copy.sqlite").values_known
    assert not check(tmp_path / "copy.sqlite").values_known
    done = cli("redact", "--check", bare)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (0, "nothing left to remove")
    assert done.stderr == (
        f"nsyswrap: values of environment variables not searched for in {bare}:\n"
        "  the environment is not in the file, so its values are not known; a range name can hold one\n"
    )
    assert "not searched for" in cli("redact", bare, "-o", tmp_path / "second.sqlite").stderr
    assert cli("redact", "--check", searched).stderr == ""


def test_a_copy_by_an_earlier_version_is_known_by_what_it_lacks(tmp_path: Path) -> None:
    host = row("META_DATA_EXPORT", name="EXPORT_HOST", value="redacted")
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), host, row("PROCESSES", globalPid=global_id(PID)))
    assert check(path).values_known


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", [b"", b"\1", b"\1\2", b"\1\2\3"])
@pytest.mark.parametrize("after", [b"", b"\4", b"\4\5"])
def test_values_in_utf_16_are_found_at_any_byte(encoding: str, before: bytes, after: bytes) -> None:
    search = ValueSearch({"hunter22": "new"}, {"zaphod"})
    content = before + "hunter22".encode(encoding) + after
    assert search.held(content) == {"hunter22"}
    removed = search.content(content, is_text=False)
    assert removed == before + "newxxxxx".encode(encoding) + after
    assert search.held(removed) == set()
    word = before + "-zaphod-".encode(encoding) + after
    assert search.content(word, is_text=False) == before + "-redact-".encode(encoding) + after
    assert search.content(word, is_text=True) == before + "-redacted-".encode(encoding) + after


@pytest.mark.parametrize("before", [b"", b"\1"])
def test_what_follows_a_value_in_utf_16_stays_in_its_place(before: bytes) -> None:
    search = ValueSearch({"hunter22": "new"})
    both = before + "hunter22 and hunter22".encode("utf-16-le") + b"\7"
    assert search.content(both, is_text=False) == before + "newxxxxx and newxxxxx".encode("utf-16-le") + b"\7"
    assert search.content(b"hunter22\0", is_text=False) == b"newxxxxx\0"


@pytest.mark.parametrize(
    ("name", "value", "searched"),
    [
        ("API_TOKEN", "abc123", True),
        ("API_TOKEN", "abc12", False),  # 5 characters
        ("API_TOKEN", "aaaaaa", False),  # one different character
        ("SSH_AUTH_SOCK", "/run/agent.17", False),  # a path
        ("PROJECT", "vogon-42-poem", True),
        ("PROJECT", "vogon-42-po", False),  # 11 characters
        ("PROJECT", "ababababababab", False),
        ("LANG", "en_US.UTF-8.and.more", False),  # the same for many people
        ("NCCL_DEBUG_SUBSYS", "INIT,COLL,GRAPH", False),
        ("NGC_KEY", "vogon42", True),
        ("URL", "https://example.org/a/b", False),
        ("SLACK_WEBHOOK", "https://hooks.example.org/a/b", True),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI", True),
        ("MYSQL_PWD", "Hunter22x", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/trillian/key.json", False),
    ],
)
def test_an_unusual_value_is_searched_for(name: str, value: str, searched: bool) -> None:  # noqa: FBT001
    assert is_telling(name, value) is searched


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see /home/trillian/nsys.log", "see /home/redacted/nsys.log"),
        ("/global/homes/t/trillian/a", "/global/homes/t/redacted/a"),
        (r"C:\Users\Tricia McMillan\a", r"C:\Users\redacted\a"),
        ("/root/a and /usr/lib/x", "/root/a and /usr/lib/x"),
        ("a/u/b", "a/u/b"),
        ("/u/trillian", "/u/redacted"),
        ("libcublas.so.11.11.3.6", "libcublas.so.11.11.3.6"),
        ("CUDA version 12.4.1.2", "CUDA version 12.4.1.2"),
        ("tcp://10.1.2.3:29500", "tcp://redacted:29500"),
        ("bound to 127.0.0.1 and 0.0.0.0", "bound to 127.0.0.1 and 0.0.0.0"),
        ("inet fe80::1a2b:3c4d", "inet redacted"),
        ("00:1a:2b:3c:4d:5e up", "redacted up"),
        ("0000:00:06.0", "0000:00:06.0"),
        ("tokens: 512, token=17", "tokens: 512, token=17"),
        ("--api-key=abcdef123", "--api-key=redacted"),
        ("https://me:hunter2@example.org/x", "https://me:redacted@example.org/x"),
        ("write to trillian@example.org", "write to redacted"),
        ("Authorization: Bearer abcdefgh12", "Authorization: Bearer redacted"),
        ("hf_abcdefghijklmnopqrst", "redacted"),
        ("aten::add, op_id = 5, seq = 10", "aten::add, op_id = 5, seq = 10"),
        ("std::vector<a::b>::operator[](int)", "std::vector<a::b>::operator[](int)"),
    ],
)
def test_what_looks_like_a_secret_is_removed_from_any_text(text: str, cleaned: str) -> None:
    search = Search({}, set(), set())
    assert search.text(text) == cleaned
    assert search.text(cleaned) == cleaned


def test_an_argument_after_a_secret_option_is_removed_everywhere(tmp_path: Path) -> None:
    rows = [
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="--password"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_1", value="hunter22"),
        row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_2", value="--steps=10"),
        diagnostic("login with hunter22 failed"),
    ]
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), *rows)
    assert [secret.kind for secret in check(tmp_path / "x.sqlite").secrets] == [
        "user, host and paths",
        "inside other texts",
    ]
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert b"hunter22" not in raw
    assert b"--steps=10" in raw


def test_who_runs_it_is_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "slartibart")
    monkeypatch.setattr(socket, "gethostname", lambda: "magrathea.example")
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/wowbagger"))
    monkeypatch.setenv("WANDB_API_KEY", "Vogon42-poetry")
    text = "slartibart on magrathea, wowbagger, Vogon42-poetry"
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), diagnostic(text))
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert b"redacted on redacted, redacted, redacted" in raw


def test_many_values_are_found(tmp_path: Path) -> None:
    """A text is compared with all values at once: one by one would take minutes."""
    variables = "\0".join(f"ODD{i}=value-{i:06}-secret" for i in range(20_000))
    write(
        tmp_path / "x.sqlite",
        kernel("k", 0, 5),
        *(row("LOG", text=f"value-{i:06}-secret") for i in range(20_000)),
        strings={1: variables},
    )
    done = redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    assert done.changed == {"LOG.text": 20_000}
