"""Names of events in a redacted copy: what changes, what stays, and that all numbers stay."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli
from sampled import sampled
from tiny_export import KERNEL, Row, everything, kernel, nvtx, row, write

from nsyswrap import open_capture
from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError
from nsyswrap.capture.redact import check, redact
from nsyswrap.capture.redact.search import Search, people_in
from nsyswrap.reports import NAMES, find_report

ENVIRONMENT = "USER={user}\0HOME=/home/{user}\0API_TOKEN=Vogon42-poetry\0"


def copy_of(folder: Path, *rows: Row, user: str = "zaphod", **strings: str) -> Path:
    texts = {1: ENVIRONMENT.format(user=user), **{int(key[1:]): text for key, text in strings.items()}}
    write(folder / "x.sqlite", *rows, strings=texts)
    redact(folder / "x.sqlite", folder / "copy.sqlite")
    return folder / "copy.sqlite"


def report_rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    capture = open_capture(path)
    made = [name for name in NAMES if all(any(map(capture.has, group)) for group in find_report(name).needs)]
    return {name: capture.report(name).rows() for name in made if name != "diagnostics"}


def column(path: Path, sql: str) -> list[object]:
    with closing(sqlite3.connect(path)) as db:
        return [value for (value,) in db.execute(sql)]


@pytest.mark.parametrize(
    ("path", "people"),
    [
        ("/home/user/work/train.py", ["user"]),
        ("/home/user/project/train.py", ["user"]),
        ("/home/user/v2/project/train.py", ["user"]),
        ("/home/user/v2/v2.py", ["user"]),
        ("/home/user/z/zaphod", ["user", "zaphod"]),
        ("/home/user/z/zaphod/train.py", ["user", "zaphod"]),
        ("/home/user/za/zaphod/train.py", ["user", "zaphod"]),
        ("/home/user/a/train.py", ["user"]),
        ("/home/user/project/users/zaphod/x", ["user", "zaphod"]),
        ("/user/project/zaphod/x", ["zaphod"]),
        ("/data/users/zaphod/x", ["zaphod"]),
        ("/mnt/lustre/users/z/zaphod/x", ["zaphod"]),
        ("/home/users/zaphod/x", ["zaphod"]),
        ("/mnt/user/zaphod/train.py", ["zaphod"]),
        ("/usr/user/zaphod/train.py", []),
        ("/home/zaphod/user/train.py", ["zaphod"]),
        ("/home/user/home/zaphod/x", ["user", "zaphod"]),
    ],
)
def test_a_person_who_is_called_user(path: str, people: list[str]) -> None:
    assert list(people_in(path)) == people


@pytest.mark.parametrize("names", [set(), {"zaphod"}])
def test_texts_change_together_as_each_one_does(names: set[str]) -> None:
    paths = ["/home/ford/x.py", "/data/zaphod/y.py", r"C:\Users\trillian\z", "/opt/a", "a/b"]
    texts = [*paths, "step 7", "step 8"]
    search = Search({}, names, ())
    changed = search.changes(texts)
    assert changed == {text: new for text in texts if (new := search.text(text)) != text}
    assert len(changed) == 2 + len(names)


@sampled("user", ["add", "root", "gpu", "torch", "user", "kernel", "python"], fast=2)
def test_a_common_user_name_changes_no_name(tmp_path: Path, user: str) -> None:
    library = f"/usr/lib/python3/dist-packages/{user}/lib/lib{user}.so"
    rows = [
        *everything(),
        kernel(user, 1000, 1010),
        kernel(f"at::{user}::elementwise<{user}>", 1020, 1030),
        nvtx(f"{user} step, {user}", 900, 1100),
        row("OSRT_CALLCHAINS", id=1, module=library),
    ]
    copy = copy_of(tmp_path, *rows, user=user)
    assert report_rows(copy) == report_rows(tmp_path / "x.sqlite")
    assert library in column(copy, "SELECT value FROM StringIds")


def test_a_name_of_an_event_with_a_nul_is_no_environment(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, kernel("tile\0USER=x", 1000, 1010))
    assert report_rows(copy) == report_rows(tmp_path / "x.sqlite")
    assert column(copy, "SELECT value FROM StringIds") == ["tile\0USER=x"]


def test_messages_that_become_the_same_stay_different(tmp_path: Path) -> None:
    texts = [f"cannot read /home/{name}/x" for name in ("alice", "carol", "alice")]
    rows = [row("DIAGNOSTIC_EVENT", timestamp=0, severity=2, text=text) for text in texts]
    copy = copy_of(tmp_path, kernel("k", 0, 5), *rows)
    cleaned = ["cannot read /home/redacted/x", "cannot read /home/redacted/x (2)"]
    assert column(copy, "SELECT text FROM DIAGNOSTIC_EVENT") == [*cleaned, cleaned[0]]


@pytest.mark.parametrize("user", ["target", "sampling", "demangledname"])
def test_a_user_named_like_a_column_of_nsys(tmp_path: Path, user: str) -> None:
    rows = [row("TARGET_INFO_GPU", id=0, name="GPU"), *everything()]
    copy = copy_of(tmp_path, *rows, user=user)
    assert report_rows(copy) == report_rows(tmp_path / "x.sqlite")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("open /home/group/marvin/x by marvin", "open /home/group/redacted/x by redacted"),
        ("/global/u2/o/marvin/x", "/global/u2/o/redacted/x"),
        ("/scratch1/marvin/x", "/scratch1/redacted/x"),
        ("/nobackup/marvin/x", "/nobackup/redacted/x"),
        ("/rds/user/marvin/x", "/rds/user/redacted/x"),
        ("app --password Tr0ub4dor -n 3", "app --password redacted -n 3"),
        ("/usr/lib/user/marvin/x", "/usr/lib/user/marvin/x"),
    ],
)
def test_paths_and_options_without_an_environment(tmp_path: Path, text: str, cleaned: str) -> None:
    write(
        tmp_path / "x.sqlite", kernel("k", 0, 5), row("DIAGNOSTIC_EVENT", timestamp=0, severity=2, text=text)
    )
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    assert column(tmp_path / "copy.sqlite", "SELECT text FROM DIAGNOSTIC_EVENT") == [cleaned]
    assert column(tmp_path / "copy.sqlite", f"SELECT count(*) FROM {KERNEL}") == [1]  # noqa: S608


def test_a_common_user_name_is_removed_from_paths(tmp_path: Path) -> None:
    module = row("OSRT_CALLCHAINS", id=1, module="/mnt/disk/add/bin/add")
    copy = copy_of(tmp_path, kernel("add", 0, 5), module, user="add")
    assert "/mnt/disk/redacted/bin/add" in column(copy, "SELECT value FROM StringIds")


def test_names_of_kernels_and_modules_stay_and_are_listed(tmp_path: Path, cli: Cli) -> None:
    module = row("OSRT_CALLCHAINS", id=1, module="/opt/lib/Vogon42-poetry.so")
    copy = copy_of(tmp_path, kernel("f<Vogon42-poetry>", 0, 5), module)
    assert open_capture(copy).events("kernel")["name"].tolist() == ["f<Vogon42-poetry>"]
    assert "/opt/lib/Vogon42-poetry.so" in column(copy, "SELECT value FROM StringIds")
    done = cli("redact", tmp_path / "x.sqlite", "-o", tmp_path / "second.sqlite")
    assert done.returncode == 0
    assert done.stderr.endswith(
        "nsyswrap: names that hold a removed value stay, as reports show them: 2 in StringIds.value\n"
    )


def test_ranges_lose_the_value_and_keep_their_numbers(tmp_path: Path) -> None:
    rows = [
        nvtx("load /home/zaphod/a", 0, 10),
        nvtx("load /home/trillian/a", 10, 30),
        nvtx("load /home/redacted/a", 30, 70),
        nvtx("load /home/zaphod/a", 70, 150),
        nvtx("use Vogon42-poetry", 150, 310),
        nvtx(None, 310, 630, textId=7),
        kernel("k", 0, 5),
    ]
    copy = copy_of(tmp_path, *rows, _7="load /home/zaphod/a")
    first, second = "load /home/redacted/a (2)", "load /home/redacted/a (3)"
    texts = [first, second, "load /home/redacted/a", first, "use redacted"]
    assert column(copy, "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL") == texts
    before, after = (open_capture(path).report("nvtx_sum") for path in (tmp_path / "x.sqlite", copy))
    renamed = {":load /home/zaphod/a": f":{first}", ":load /home/trillian/a": f":{second}"}
    renamed |= {":use Vogon42-poetry": ":use redacted"}
    expected = [tuple(renamed.get(str(cell), cell) for cell in cells) for cells in before.rows()]
    assert sorted(map(str, after.rows())) == sorted(map(str, expected))


def test_the_tool_says_that_names_changed(tmp_path: Path, cli: Cli) -> None:
    rows = [nvtx("at /home/zaphod/a", 0, 10), nvtx("plain", 0, 10), nvtx(None, 5, 6, textId=7)]
    copy_of(tmp_path, *rows, nvtx("at /home/zaphod/a", 10, 20), _7="in /home/zaphod/b", _8="see /home/zaphod")
    done = cli("redact", tmp_path / "x.sqlite", "-o", tmp_path / "second.sqlite")
    assert done.stderr.splitlines()[1:] == [
        "nsyswrap: shown without removed values: 2 names of ranges, threads or files"
    ]


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be", "UTF-8"])
def test_the_encoding_of_the_database_does_not_matter(tmp_path: Path, encoding: str) -> None:
    rows = (
        nvtx("at /home/zaphod/a", 0, 10),
        kernel("k", 0, 5),
        row("META_DATA_EXPORT", name="EXPORT_HOST", value="h"),
    )
    write(
        tmp_path / "y.sqlite",
        *rows,
        row("PROCESSES", globalPid=0, pid=0, name="/srv/zaphod"),
        strings={1: ENVIRONMENT.format(user="zaphod")},
    )
    with (
        closing(sqlite3.connect(tmp_path / "x.sqlite")) as db,
        closing(sqlite3.connect(tmp_path / "y.sqlite")) as old,
    ):
        db.execute(f"PRAGMA encoding = '{encoding}'")
        db.executescript("\n".join(old.iterdump()))
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert not [code for code in ("utf-8", "utf-16-le", "utf-16-be") if "zaphod".encode(code) in raw]
    assert column(tmp_path / "copy.sqlite", "SELECT text FROM NVTX_EVENTS") == ["at /home/redacted/a"]
    assert check(tmp_path / "copy.sqlite").secrets == ()


def test_a_blob_keeps_its_length_and_what_stands_around() -> None:
    search = Search({"Vogon42-poetry": "redacted"}, {"zed"}, set())
    before = b"\1\2" + "/home/zed/Vogon42-poetry\0".encode("utf-16-le") + b"\3/home/zed/x\0\xff"
    after = search.content(before, is_text=False)
    expected = b"\1\2" + "/home/red/redactedxxxxxx\0".encode("utf-16-le") + b"\3/home/red/x\0\xff"
    assert after == expected


def test_wrong_types_are_searched_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    write(
        path,
        kernel("k", 0, 5),
        row("META_DATA_CAPTURE", name="A", value="b"),
        strings={1: ENVIRONMENT.format(user="zaphod")},
    )
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'for zaphod', gridY = 1.5, gridZ = NULL")
        db.execute("UPDATE META_DATA_CAPTURE SET name = 2.5, value = x'ff007a6170686f64'")
        db.commit()
    redact(path, tmp_path / "copy.sqlite")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as db:
        shapes = db.execute("SELECT gridX, gridY, gridZ FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
        assert shapes == [("for redacted", 1.5, None)]
        assert db.execute("SELECT name, value FROM META_DATA_CAPTURE LIMIT 1").fetchall() == [
            ("2.5", b"\xff\0redact")
        ]


@pytest.mark.parametrize("sql", ["CREATE TABLE zaphod (x)", "CREATE TABLE t (x DEFAULT 'Vogon42-poetry')"])
def test_a_value_in_a_definition_is_refused(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "x.sqlite"
    write(path, kernel("k", 0, 5), strings={1: ENVIRONMENT.format(user="zaphod")})
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
    with pytest.raises(
        OutputError, match="a removed value is in the definition of a table, or begins in one cell"
    ):
        redact(path, tmp_path / "copy.sqlite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.sqlite"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE VIEW v AS SELECT 'Vogon42-poetry'", "is a view"),
        ("CREATE VIRTUAL TABLE v USING fts5(x)", "is a virtual table or a view"),
        ("CREATE TABLE v (x, y AS (hex(zeroblob(400000000))))", "has a generated column, y"),
    ],
)
def test_what_is_not_searched_is_not_redacted(tmp_path: Path, sql: str, reason: str) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
    with pytest.raises(NotACapture, match=f"cannot be redacted: v {reason}"):
        redact(path, tmp_path / "copy.sqlite")
    with pytest.raises(NotACapture, match=f"cannot be redacted: v {reason}"):
        check(path)


def test_an_index_that_computes_is_not_computed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), nvtx("at /home/zaphod", 0, 9))
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE INDEX i ON NVTX_EVENTS (hex(zeroblob(100 + start)))")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, '100 +', '400000000 +') WHERE name = 'i'")
        db.commit()
    redact(path, tmp_path / "copy.sqlite")
    kinds = "SELECT count(*) FROM sqlite_master WHERE type = 'index'"
    assert column(tmp_path / "copy.sqlite", kinds) == [0]


def test_a_trigger_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    write(path, kernel("k", 0, 5), nvtx("at /home/zaphod", 0, 9), row("LOG", text="old"))
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TRIGGER t AFTER UPDATE ON NVTX_EVENTS BEGIN INSERT INTO LOG VALUES (old.text); END"
        )
    redact(path, tmp_path / "copy.sqlite")
    assert column(tmp_path / "copy.sqlite", "SELECT text FROM LOG") == ["old"]


def test_a_rule_of_the_table_that_fails_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    write(path, kernel("k", 0, 5))
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x UNIQUE)")
        db.executemany("INSERT INTO t VALUES (?)", [("/home/zaphod",), ("/home/trillian",)])
        db.commit()
    with pytest.raises(DamagedCapture, match=r"cannot be redacted: UNIQUE constraint failed: t\.x"):
        redact(path, tmp_path / "copy.sqlite")
