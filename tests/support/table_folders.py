"""Write an SQLite export as the parquetdir and arrowdir exports that nsys would have made of it."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyarrow import ipc, parquet

_MANY = 1000  # rows of a batch of an Arrow stream
# Columns that nsys writes as 64 bits without a sign; SQLite holds the same bits with one.
_UNSIGNED = re.compile(
    r"global(Tid|Pid|Vid)|endGlobalTid|nameId|(demangled|short|mangled)Name|bytes|copyKind|address"
    r"|virtualAddress|(context|stream|greenContext|domain|graphNode)Id|totalMemory|memoryBandwidth"
)
_NARROW = re.compile(r"correlationId|deviceId|eventType|textId|eventClass|returnValue")  # in an Arrow stream


def as_parquet(export: Path, folder: Path) -> Path:
    """Write a file for each table of an export into a new folder, as nsys export --type=parquetdir does."""
    folder.mkdir()
    for name, table in _tables(export, narrow=False):
        parquet.write_table(table, folder / f"{name}.parquet", row_group_size=_MANY)
    return folder


def as_arrow(export: Path, folder: Path) -> Path:
    """Write a file for each table of an export into a new folder, as nsys export --type=arrowdir does."""
    folder.mkdir()
    for name, table in _tables(export, narrow=True):
        with ipc.new_stream(folder / f"{name}.arrow", table.schema) as stream:
            stream.write_table(table, max_chunksize=_MANY)
    return folder


def _tables(export: Path, *, narrow: bool) -> list[tuple[str, pa.Table]]:
    with closing(sqlite3.connect(export)) as db:
        db.text_factory = bytes
        names = [name.decode() for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        return [(name, _table(db, name, narrow=narrow)) for name in names]


def _table(db: sqlite3.Connection, name: str, *, narrow: bool) -> pa.Table:
    columns = [column[1].decode() for column in db.execute(f'PRAGMA table_info("{name}")')]
    rows = db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608 - a name from the export
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.table(
        [_array(name, values, narrow=narrow) for name, values in zip(columns, cells, strict=True)], columns
    )


def _array(name: str, values: tuple[object, ...], *, narrow: bool) -> pa.Array:
    if any(isinstance(value, bytes) for value in values):  # nsys does not look whether texts are UTF-8
        return pa.array(values, pa.binary()).view(pa.string())
    if any(isinstance(value, float) for value in values):
        return pa.array(values, pa.float64())
    numbers = pa.array(values, pa.int64())
    if _UNSIGNED.fullmatch(name):
        return numbers.view(pa.uint64())
    return numbers.cast(pa.uint32()) if narrow and _NARROW.fullmatch(name) else numbers
