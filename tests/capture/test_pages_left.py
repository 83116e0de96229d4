"""What of a file is unusual or damaged is left to SQLite; what was read is compared with what SQLite says."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fixed_examples import FIXED
from hypothesis import given, settings
from hypothesis import strategies as st
from page_files import TABLE, Shape, by_pages, by_sqlite, example, fill, integers, opened

from nsyswrap.base.errors import CaptureError, DamagedCapture
from nsyswrap.capture import export as export_module
from nsyswrap.capture import sqlite_pages
from nsyswrap.capture.export import Export
from nsyswrap.capture.sqlite_pages import find_leaves, read_columns
from nsyswrap.capture.sqlite_records import LeafBlock, NotPlain, read_integers, row_counts, rowid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _no_table_is_too_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_pages, "FEW_LEAVES", 0)
        yield


def damaged(content: bytearray, chance: random.Random, page_size: int) -> None:
    """Write over a few bytes, most of them where a page or a record says what it is."""
    kind = chance.choice(["byte", "head", "page", "swap", "end"])
    at = chance.randrange(1, len(content) // page_size) * page_size
    other = chance.randrange(1, len(content) // page_size) * page_size
    if kind == "byte":
        for _ in range(chance.choice([1, 5, 50])):
            content[chance.randrange(page_size, len(content))] = chance.randrange(256)
    elif kind == "head":
        content[at + chance.randrange(20)] = chance.choice([0, 2, 5, 10, 13, 255, chance.randrange(256)])
    elif kind == "page":
        content[at : at + page_size] = chance.randbytes(page_size)
    elif kind == "swap":
        content[at : at + page_size] = content[other : other + page_size]
    else:
        cell = at + chance.choice([0, chance.randrange(page_size)])
        content[cell : cell + 8] = b"\xff" * 8


@settings(FIXED, max_examples=2 * FIXED.max_examples)
@given(
    st.sampled_from([512, 1024, 4096]), st.sampled_from(["iiii", "itii", "btiri"]), st.integers(0, 1 << 30)
)
def test_damage_is_read_as_sqlite_reads_it(page_size: int, columns: str, seed: int) -> None:
    shape = Shape(page_size, 0, columns, 400, seed)
    with example(shape, 40) as path:
        content = bytearray(path.read_bytes())
        damaged(content, random.Random(seed), page_size)  # noqa: S311 - no secret
        path.write_bytes(content)
        found = columns_or_reason(path, integers(shape))
        if not isinstance(found, str):  # else SQLite is asked, which may make something of what lies about
            assert found == by_sqlite(path, integers(shape))
        with suppress(CaptureError), closing(Export(path)) as export:
            read = export.columns(TABLE, [(name, "int") for name in integers(shape)])
            assert {len(column) for column in read} == {export.count(TABLE)}


def columns_or_reason(path: Path, names: list[str]) -> dict[str, list[int]] | str:
    try:
        return by_pages(path, names)
    except (NotPlain, sqlite3.DatabaseError) as error:
        return str(error)


@pytest.mark.parametrize("size", [100, 511, 512, 30_000, -700, -1])
def test_a_file_that_ends_early(tmp_path: Path, size: int) -> None:
    shape = Shape(512, 0, "iii", 4000, 1)
    fill(tmp_path / "x", shape).close()
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[:size])
    with pytest.raises(NotPlain, match="ends early"), opened(tmp_path / "x") as file:
        file.block(np.array([len(content) // 512]))
    with pytest.raises(DamagedCapture, match="is cut off"):
        Export(tmp_path / "x")


# The kind of page, which one, where in it (or in the cell of its first row), and what is written there.
LEAF, INTERIOR, CELL = 13, 5, -1
DAMAGE = {
    "more rows than there is room for": (LEAF, -1, 3, b"\xff\xff"),
    "a row at its beginning": (LEAF, 5, 8, b"\x00\x00"),
    "a row at its end": (LEAF, 5, 8, b"\x01\xfe"),
    "a row that ends behind it": (LEAF, 5, CELL, b"\x70"),
    "a row without end": (LEAF, 5, CELL, b"\xff" * 4),
    "another kind of page": (LEAF, 5, 0, b"\x0a"),
    "more pages below than there is room for": (INTERIOR, 0, 3, b"\xff\xff"),
    "no page below": (INTERIOR, 0, 3, b"\x00\x00"),
    "no kind of page below": (INTERIOR, 1, 0, b"\x02"),
    "a page below behind the file": (INTERIOR, 0, 8, b"\x7f\xff\xff\xff"),
    "a page below that is none": (INTERIOR, 0, 8, b"\x00\x00\x00\x00"),
    "a loop": (INTERIOR, 0, 8, b"\x00\x00\x00\x03"),  # the root, the page behind the one of StringIds
    "an interior page where a leaf belongs": (LEAF, 5, 0, b"\x05"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_left_to_sqlite(tmp_path: Path, case: str) -> None:
    kind, number, offset, written = DAMAGE[case]
    fill(tmp_path / "x", Shape(512, 0, "ii", 3000, 1)).close()
    content = bytearray((tmp_path / "x").read_bytes())
    page = [at for at in range(1024, len(content), 512) if content[at] == kind][number]
    at = page + (int.from_bytes(content[page + 8 : page + 10], "big") if offset == CELL else offset)
    content[at : at + len(written)] = written
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(NotPlain, match=r"damaged|256 MiB"):
        by_pages(tmp_path / "x", ["c0"])


def test_a_record_that_is_longer_than_its_values_is_left_to_sqlite(tmp_path: Path) -> None:
    """The two rows have other types, so that their records are read by their headers."""
    with closing(fill(tmp_path / "x", Shape(512, 0, "ii", 2, 1))) as db:
        db.execute("UPDATE NVTX_EVENTS SET c0 = 1000 * rowid, c1 = CASE rowid WHEN 1 THEN 70000 ELSE 7 END")
    content = (tmp_path / "x").read_bytes()
    second = bytes([3, 2, 1]) + (2000).to_bytes(2, "big") + b"\7"  # behind its size and its number
    assert content.count(bytes([6, 2]) + second) == 1
    (tmp_path / "x").write_bytes(content.replace(bytes([6, 2]) + second, bytes([7, 2]) + second))
    with pytest.raises(NotPlain, match="damaged records"):
        by_pages(tmp_path / "x", ["c0", "c1"])


@pytest.mark.parametrize("kind", [10, 11])
def test_a_kind_of_value_that_no_file_holds_is_left_to_sqlite(tmp_path: Path, kind: int) -> None:
    with closing(fill(tmp_path / "x", Shape(512, 0, "tii", 1, 1))) as db:
        db.execute("UPDATE NVTX_EVENTS SET c0 = 'marked', c1 = 1000, c2 = 2000")
    content = (tmp_path / "x").read_bytes()
    record = bytes([4, 12 + 2 * 6 + 1, 2, 2]) + b"marked"
    assert content.count(record) == 1
    (tmp_path / "x").write_bytes(content.replace(record, bytes([4, kind, 2, 2]) + b"marked"))
    with pytest.raises(NotPlain, match="damaged records"):
        by_pages(tmp_path / "x", ["c1"])


def test_the_page_that_no_table_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "x", Shape(512, 0, "ii", 3000, 1)).close()
    with opened(tmp_path / "x") as file:
        leaf = int(find_leaves(file, TABLE).numbers[7])
    monkeypatch.setattr(sqlite_pages, "_LOCK_BYTE", (leaf - 1) * 512)
    with pytest.raises(NotPlain, match="damaged"):
        by_pages(tmp_path / "x", ["c0"])


@settings(FIXED, max_examples=FIXED.max_examples // 2)
@given(st.sampled_from([512, 1024]), st.integers(0, 1100), st.integers(0, 3000))
def test_records_that_overflow(page_size: int, before: int, behind: int) -> None:
    with example(Shape(page_size, 0, "bib", 1, 1)) as path:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(
                "UPDATE NVTX_EVENTS SET c0 = zeroblob(?), c1 = 7000, c2 = zeroblob(?)", (before, behind)
            )
        found = columns_or_reason(path, ["c1"])
    assert found == {"c1": [7000]} or (  # what is not in the leaf is missed at once, not when it is looked up
        "short, long" in found and before + behind > page_size - 60
    )


# What follows the table's name, what fills it, and why its column ``a`` is not read here.
UNUSUAL = {
    "a float": ("(a INTEGER)", "INSERT INTO {} VALUES (0.5)", "a value that is not an integer"),
    "a text": ("(a INTEGER)", "INSERT INTO {} VALUES ('soon')", "a value that is not an integer"),
    "the rowid": ("(a INTEGER PRIMARY KEY)", "INSERT INTO {} VALUES (3)", "primary key"),
    "no rowid": ("(k PRIMARY KEY, a) WITHOUT ROWID", "INSERT INTO {} VALUES (3, 4)", "damaged leaf"),
    "a column later": ("(b)", "INSERT INTO {} VALUES (1); ALTER TABLE {} ADD a INTEGER DEFAULT 3", "short"),
    "generated": ("(b INTEGER, a AS (b + 1))", "INSERT INTO {} VALUES (1)", "generated"),
    "generated before it": ("(b AS (1), a INTEGER)", "INSERT INTO {} VALUES (1)", "generated"),
    "in an overflow page": ("(b, a)", "INSERT INTO {} VALUES (printf('%09000d', 1), 7)", "short, long"),
    "no rows": ("(a INTEGER)", "SELECT 1", "damaged leaf page"),
    "named as the rowid": ("(_RowID_ INTEGER, a)", "INSERT INTO {} VALUES (5, 6)", "unusual name"),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_the_unusual_is_left_to_sqlite(tmp_path: Path, case: str) -> None:
    columns, content, reason = UNUSUAL[case]
    with closing(fill(tmp_path / "x", Shape(4096, 0, "i", 1, 1))) as db:
        db.executescript(
            f"DROP TABLE {TABLE}; CREATE TABLE {TABLE} {columns}; {content.format(*[TABLE] * 2)}"
        )
    with pytest.raises(NotPlain, match=reason):
        by_pages(tmp_path / "x", ["a"])


@pytest.mark.parametrize(
    "create",
    ["VIEW seen AS SELECT c0 FROM NVTX_EVENTS", "VIRTUAL TABLE seen USING fts5(c0)", "TABLE other (c0)"],
)
def test_what_has_no_pages_is_left_to_sqlite(tmp_path: Path, create: str) -> None:
    with closing(fill(tmp_path / "x", Shape(4096, 0, "i", 1, 1))) as db:
        db.execute(f"CREATE {create}")
    with pytest.raises(NotPlain, match="no t"):
        by_pages(tmp_path / "x", ["c0"], "seen")


def test_an_encoding_that_is_not_utf8_is_left_to_sqlite(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x")) as db:
        db.executescript(
            "PRAGMA encoding = 'UTF-16le'; CREATE TABLE NVTX_EVENTS (a); INSERT INTO NVTX_EVENTS VALUES (1)"
        )
    with pytest.raises(NotPlain, match="unusual file"):
        by_pages(tmp_path / "x", ["a"])


def test_bytes_kept_free_in_every_page_are_left_to_sqlite(tmp_path: Path) -> None:
    with closing(fill(tmp_path / "x", Shape(4096, 0, "ii", 500, 1))) as db:
        db.execute("VACUUM")
    with (tmp_path / "x").open("r+b") as file:
        file.seek(20)
        file.write(b"\x08")
    with pytest.raises((NotPlain, sqlite3.DatabaseError), match=r"unusual file|malformed"):
        by_pages(tmp_path / "x", ["c0"])


def off_by_one(block: LeafBlock, rows: sqlite_pages.Ints, columns: dict[int, sqlite_pages.Ints]) -> None:
    read_integers(block, rows, columns)
    for column in columns.values():
        np.add(column, 1, out=column)


@pytest.mark.parametrize(
    ("function", "wrong", "said"),
    [
        ("read_integers", off_by_one, "other values"),
        ("rowid", lambda page, row: rowid(page, row) + 1, "other values"),
        ("row_counts", lambda block: row_counts(block) - 1, "another number of rows"),
    ],
)
def test_what_differs_from_sqlite_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, wrong: object, said: str
) -> None:
    shape = Shape(512, 0, "ii", 900, 1)
    fill(tmp_path / "x", shape).close()
    monkeypatch.setattr(sqlite_pages, function, wrong)
    with pytest.raises(NotPlain, match=said):
        by_pages(tmp_path / "x", integers(shape))
    with closing(Export(tmp_path / "x")) as export:
        found = export.columns(TABLE, [(name, "int") for name in integers(shape)])
        assert [column.tolist() for column in found] == list(
            by_sqlite(tmp_path / "x", integers(shape)).values()
        )
        assert export.count(TABLE) == 900
        assert said in export.by_sqlite[TABLE]


def test_a_file_that_changes_meanwhile_is_left_to_sqlite(tmp_path: Path) -> None:
    fill(tmp_path / "x", Shape(512, 0, "ii", 900, 1)).close()
    with opened(tmp_path / "x") as file:
        leaves = find_leaves(file, TABLE)
        leaves.rows[2] -= 1
        with pytest.raises(NotPlain, match="changes meanwhile"):
            read_columns(file, TABLE, leaves, ["c0"])


@pytest.mark.parametrize("error", [sqlite3.DatabaseError("malformed"), OSError("Input/output error")])
def test_an_error_is_left_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    fill(tmp_path / "x", Shape(512, 0, "ii", 900, 1)).close()
    monkeypatch.setattr(export_module, "find_leaves", fail)
    with closing(Export(tmp_path / "x")) as export:
        assert export.count(TABLE) == len(export.columns(TABLE, [("c0", "int")])[0]) == 900
        assert export.by_sqlite == {TABLE: str(error)}
