"""SQLite files of every shape, read out of their pages and by SQLite."""

import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from nsyswrap.base.constants import MISSING
from nsyswrap.base.sqlite import statement
from nsyswrap.capture.sqlite_pages import Miscounted, PageFile, count_rows, find_leaves, read_columns

TABLE = "NVTX_EVENTS"
PAGE_SIZES = st.sampled_from([512, 1024, 4096, 65536])
# What is next to the limits of every size in which SQLite keeps integers.
EDGES = [
    sign * (1 << bits) + more
    for bits in (0, 7, 15, 23, 31, 47, 62)
    for sign in (-1, 1)
    for more in (-1, 0, 1)
]
INTEGERS = [None, *EDGES, (1 << 63) - 1, 1 - (1 << 63)]


class Shape(NamedTuple):
    """What a database is like."""

    page_size: int
    auto_vacuum: int
    columns: str  # a letter each: integer, text, blob, real; integers of two bytes (j), of none (o), NULL
    rows: int
    seed: int


SHAPES = st.builds(
    Shape,
    PAGE_SIZES,
    st.integers(0, 2),
    st.text("iiiitbrjjon", min_size=0, max_size=10).map(lambda others: f"{others}i"),
    st.integers(1, 300),
    st.integers(0, 1 << 30),
)
TYPES = {"t": "TEXT", "b": "BLOB", "r": "REAL", **dict.fromkeys("ijon", "INTEGER")}


def value(kind: str, chance: random.Random, longest: int) -> object:
    if kind == "i":
        return chance.choice(INTEGERS)
    if kind == "j":
        return chance.randrange(200, 20_000)
    if kind == "o":
        return chance.choice([0, 1])
    if kind == "n":
        return None
    if kind == "r":
        return chance.choice([None, 5.0, 0.5, -1e300])
    size = chance.choice([0, 1, chance.randrange(longest + 1)])
    return "x" * size if kind == "t" else chance.randbytes(size)


def fill(path: Path, shape: Shape, longest: int = 25) -> sqlite3.Connection:
    """Write an export with one table of this shape, texts of up to ``longest`` bytes in it."""
    chance = random.Random(shape.seed)  # noqa: S311 - no secret
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size = {shape.page_size}")
    db.execute(f"PRAGMA auto_vacuum = {shape.auto_vacuum}")
    db.execute("BEGIN")
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    columns = ", ".join(f"c{i} {TYPES[kind]}" for i, kind in enumerate(shape.columns))
    db.execute(f"CREATE TABLE {TABLE} ({columns})")
    marks = ", ".join("?" * len(shape.columns))
    rows = ([value(kind, chance, longest) for kind in shape.columns] for _ in range(shape.rows))
    db.executemany(f"INSERT INTO {TABLE} VALUES ({marks})", rows)  # noqa: S608
    db.execute("COMMIT")
    return db


def integers(shape: Shape) -> list[str]:
    return [f"c{i}" for i, kind in enumerate(shape.columns) if TYPES[kind] == "INTEGER"]


@contextmanager
def example(shape: Shape, longest: int = 25) -> Iterator[Path]:
    """A file of this shape for one example."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x")
        fill(path, shape, longest).close()
        yield path


@contextmanager
def opened(path: Path) -> Iterator[PageFile]:
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    with closing(db), closing(PageFile(path, db)) as file:
        yield file


def by_pages(path: Path, names: list[str], table: str = TABLE) -> dict[str, list[int]]:
    with opened(path) as file:
        leaves = find_leaves(file, table)
        try:
            columns = read_columns(file, table, leaves, names)
        except Miscounted:
            columns = read_columns(file, table, count_rows(file, table, leaves.numbers), names)
        return {name: column.tolist() for name, column in columns.items()}


def by_sqlite(path: Path, names: list[str], table: str = TABLE) -> dict[str, list[object]]:
    sql = statement("SELECT {columns} FROM {table} NOT INDEXED", columns=names, table=table)
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        db.text_factory = bytes
        columns = list(zip(*db.execute(sql), strict=True)) or [()] * len(names)
    return {
        name: [MISSING if v is None else v for v in values]
        for name, values in zip(names, columns, strict=True)
    }
