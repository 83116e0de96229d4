"""What is read out of the pages of a file equals what SQLite says."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fixed_examples import FILES, FIXED
from hypothesis import given
from hypothesis import strategies as st
from page_files import EDGES, SHAPES, TABLE, Shape, by_pages, by_sqlite, example, fill, integers, opened
from recorded import DOZEN, ROOT, run_folder

from nsyswrap.base.run_folder import EXPORT
from nsyswrap.capture import schema, sqlite_pages, sqlite_records
from nsyswrap.capture.export import Export
from nsyswrap.capture.sqlite_pages import PageFile, find_leaves, read_columns
from nsyswrap.capture.sqlite_records import NotPlain

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _no_table_is_too_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_pages, "FEW_LEAVES", 0)
        yield


@FIXED
@given(SHAPES)
def test_plain_tables(shape: Shape) -> None:
    with example(shape) as path:
        assert by_pages(path, integers(shape)) == by_sqlite(path, integers(shape))


@FILES
@given(SHAPES.filter(lambda shape: shape.rows > 20), st.booleans(), st.booleans())
def test_tables_with_gaps(shape: Shape, inserted: bool, vacuumed: bool) -> None:  # noqa: FBT001
    with example(shape) as path:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("DELETE FROM NVTX_EVENTS WHERE _rowid_ % ? = 0", (2 + shape.seed % 7,))
            for rowid in (*EDGES, -(1 << 63), (1 << 63) - 1) if inserted else ():
                db.execute("INSERT OR REPLACE INTO NVTX_EVENTS (_rowid_, c0) VALUES (?, NULL)", (rowid,))
            if vacuumed:
                db.execute("VACUUM")
        assert by_pages(path, integers(shape)) == by_sqlite(path, integers(shape))


@FIXED
@given(SHAPES, st.sampled_from([100, 500, 5000, 70000]), st.data())
def test_whatever_the_records_are_like(shape: Shape, longest: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(integers(shape)), min_size=1, unique=True))
    change = data.draw(st.sampled_from(CHANGES))
    with example(shape._replace(rows=shape.rows % 60 + 1), longest) as path:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in change:
                db.execute(statement.format(TABLE))
        expected = by_sqlite(path, wanted)
        try:
            assert by_pages(path, wanted) == expected
        except NotPlain:  # then SQLite is asked
            assert change or longest * len(shape.columns) > shape.page_size - 200
        with closing(Export(path)) as export:
            found = export.columns(TABLE, [(name, "int") for name in wanted])
            assert [column.tolist() for column in found] == [expected[name] for name in wanted]
            assert export.count(TABLE) == len(found[0])


CHANGES = [
    (),
    ("ALTER TABLE {} ADD COLUMN more INTEGER DEFAULT 7", "INSERT INTO {} (more) VALUES (8)"),
    ("CREATE INDEX one ON {} (c0)",),
    ("DELETE FROM {}",),
    ("UPDATE {} SET c0 = 300",),
]


def test_a_tree_of_several_levels(tmp_path: Path) -> None:
    shape = Shape(512, 0, "iii", 60_000, 1)
    fill(tmp_path / "x", shape).close()
    with opened(tmp_path / "x") as file:
        assert len(find_leaves(file, TABLE).numbers) > (512 // 12) ** 2
    assert by_pages(tmp_path / "x", integers(shape)) == by_sqlite(tmp_path / "x", integers(shape))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pages were read at a time."""
    found: list[int] = []
    read_as_always = PageFile.read

    def read(file: PageFile, first: int, room: memoryview) -> None:
        found.append(len(room) // file.page_bytes)
        read_as_always(file, first, room)

    monkeypatch.setattr(PageFile, "read", read)
    return found


def test_integers_of_any_sizes_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(4096, 0, "iiiiriii", 2000, 1)
    fill(tmp_path / "x", shape).close()
    monkeypatch.setattr(sqlite_records, "_read_by_record", None)  # a record at a time
    wanted = integers(shape)
    assert by_pages(tmp_path / "x", wanted) == by_sqlite(tmp_path / "x", wanted)


def test_columns_of_one_type_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(4096, 0, "jojnijoj", 2000, 1)
    with closing(fill(tmp_path / "x", shape)) as db:
        db.execute("UPDATE NVTX_EVENTS SET c0 = ?", (-(1 << 63),))  # not read, and right before c1
    monkeypatch.setattr(sqlite_records, "_read_by_record", None)  # a record at a time
    wanted = integers(shape)[1:]
    assert by_pages(tmp_path / "x", wanted) == by_sqlite(tmp_path / "x", wanted)


def test_pages_that_lie_close_to_each_other_are_read_at_once(tmp_path: Path, reads: list[int]) -> None:
    shape = Shape(512, 0, "i", 900, 1)
    fill(tmp_path / "x", shape).close()
    assert by_pages(tmp_path / "x", ["c0"]) == by_sqlite(tmp_path / "x", ["c0"])
    assert max(reads) > 10


def test_pages_that_lie_far_from_each_other_are_read_one_by_one(tmp_path: Path, reads: list[int]) -> None:
    with closing(fill(tmp_path / "x", Shape(512, 0, "i", 1, 1))) as db:
        db.executescript("BEGIN; CREATE TABLE many (a)")
        for row in range(300):
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?)", (row,))
            db.executemany("INSERT INTO many VALUES (zeroblob(400))", [()] * 10)
        db.execute("COMMIT")
    assert by_pages(tmp_path / "x", ["c0"])["c0"][1:] == list(range(300))
    assert sum(reads) < 2 * len(reads)


def test_threads_that_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(512, 0, "itri", 5000, 1)
    fill(tmp_path / "x", shape).close()
    monkeypatch.setattr(sqlite_pages, "_FEW_COLUMNS", 0)
    monkeypatch.setattr(sqlite_pages, "_BLOCK_BYTES", 2048)
    assert by_pages(tmp_path / "x", integers(shape)) == by_sqlite(tmp_path / "x", integers(shape))
    monkeypatch.setattr("threading.Thread.start", no_thread)
    assert by_pages(tmp_path / "x", integers(shape)) == by_sqlite(tmp_path / "x", integers(shape))


def no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")


PUBLIC = sorted((ROOT.parent / "shared" / "exports").glob("*.sqlite"))


def columns_from_pages(file: PageFile, table: str, names: list[str]) -> dict[str, list[int]]:
    """The columns that can be read, each by itself."""
    found = {}
    with suppress(NotPlain):
        leaves = find_leaves(file, table)
        for name in names:
            with suppress(NotPlain):
                found[name] = read_columns(file, table, leaves, [name])[name].tolist()
    return found


@pytest.mark.parametrize("name", [*DOZEN[::2], *map(str, PUBLIC)])
def test_every_table_of_a_real_export(name: str, tmp_path: Path) -> None:
    path = Path(name) if name.startswith("/") else run_folder(name, tmp_path) / EXPORT
    found = {}
    with closing(Export(path)) as export, opened(path) as file:
        for table, names in export.tables.items():
            found[table] = columns_from_pages(file, table, names)
            assert found[table].items() <= by_sqlite(path, names, table).items()
        for events in schema.EVENTS.values():
            for table in filter(export.count, events.tables(export.tables)):
                numbers = {column for f in events.fields.values() if f.kind != "text" for column in f.columns}
                assert numbers & set(export.tables[table]) <= found[table].keys()
