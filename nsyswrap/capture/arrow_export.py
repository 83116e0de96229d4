"""Read the ``parquetdir`` and ``arrowdir`` exports of nsys: a folder with one file for each table.

The tables and columns are those of the SQLite export, in other types: ids are unsigned, and narrow numbers
take fewer bits. They are read as the numbers that SQLite would hold. pyarrow reads the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base import paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import DamagedCapture, NotACapture, Unavailable, Unreadable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.version import pip_install
from nsyswrap.capture.export import Export
from nsyswrap.capture.schema import CAPTURE_MARKS, CAPTURE_METADATA, STRINGS, Wanted
from nsyswrap.capture.sqlite_pages import Leaves
from nsyswrap.capture.stream import Columns, Extremes, in_blocks, joined, noting

with lazy_imports():
    import pyarrow as pa
    from pyarrow import ipc, parquet

# The formats by the ending of their files, with the ending of the folder's name that nsys gives by default.
_PARQUET, _ARROW = ".parquet", ".arrow"
_FORMATS = {_PARQUET: ("parquetdir", "_pqtdir"), _ARROW: ("arrowdir", "_arwdir")}
_BLOCK_ROWS = 1 << 16  # of groups that are read at once
_ROWS_PER_BYTE = 100  # more than any table of nsys: a file can claim any number of rows
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
_EXPORT_AGAIN = "export the .nsys-rep again with `nsys export`"
_NOT_COMPLETE = f"wait until nsys ends; if it has ended, {_EXPORT_AGAIN}"


def folder_format(folder: str, files: Iterable[str]) -> str:
    """Return ``parquetdir`` or ``arrowdir`` if a folder with these files is such an export; empty if not.

    A folder that nsys has only begun to write counts.
    """
    names = list(files)
    for ending, (name, suffix) in _FORMATS.items():
        tables = [file.removesuffix(ending) for file in names if file.endswith(ending)]
        if STRINGS in tables or any(table.startswith(CAPTURE_MARKS) for table in tables):
            return name
        if folder.endswith(suffix) and (tables or not names):
            return name
    return ""


def is_table_folder(path: Path) -> bool:
    """Return True for the folder of a parquetdir or arrowdir export."""
    try:
        return paths.is_folder(path) and bool(folder_format(path.name, paths.names(path)))
    except Unreadable:
        return False


class ArrowExport(Export):
    """A parquetdir or arrowdir export; ``path`` and ``file`` are its folder. It cannot answer SQL."""

    def _open(self, opened: ExitStack) -> None:
        self.file = paths.real(self.path)
        files, name = _table_files(self.path)
        try:
            pa.Table  # noqa: B018 - imports pyarrow, which is an extra
        except ImportError:
            raise Unavailable(
                f"{self.path}: reading a {name} export needs pyarrow",
                f"{pip_install('parquet')}, or export to .sqlite: `nsys export --type=sqlite`",
            ) from None
        self._files = {}
        for table, file in files.items():
            with self._damage_of(file):
                self._files[table] = _File(file)
            columns = self._files[table].columns
            if repeated := [name for name in columns if columns.count(name) > 1]:
                raise DamagedCapture(f"{file} has the column {repeated[0]} twice", _EXPORT_AGAIN)
            if self._files[table].rows > _ROWS_PER_BYTE * paths.size(file):
                raise DamagedCapture(
                    f"{file} claims {self._files[table].rows:,} rows, too many for its size", _EXPORT_AGAIN
                )
        opened.callback(self._files.clear)
        self.tables = {table: file.columns for table, file in self._files.items()}
        self._check_tables()
        if CAPTURE_METADATA not in self.tables:
            self.note = (
                f"the {name} export has no {CAPTURE_METADATA}: the program's command line and nsys' options "
                "are not known (a .sqlite export has them)"
            )

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if the export lacks it."""
        return self._files[table].rows if table in self._files else 0

    def leaves(self, table: str) -> Leaves | None:
        """Return the groups of rows of a Parquet file; None for an Arrow stream, which has no index."""
        file = self._files.get(table)
        if file is not None and file.path.suffix == _PARQUET and table not in self._leaves:
            with self._damage_of(file.path):
                rows = file.group_rows()
            self._leaves[table] = Leaves(np.arange(len(rows)), rows)
        return self._leaves.get(table)

    def from_leaves(self, table: str, wanted: Wanted, leaves: Leaves) -> Columns:
        """Return columns of numbers from some groups of rows."""
        return self._checked(table, wanted, self._from_rows(table, wanted, leaves.numbers.tolist()))

    def stream_noted(
        self, table: str, wanted: Wanted, work: Callable[[Columns], Columns]
    ) -> tuple[Columns, Extremes | None]:
        """Return the arrays that ``work`` makes of blocks of rows, and what was noted, as an ``Export``."""
        leaves = self.leaves(table)
        if leaves is None or not self.count(table) or all(self.has_read(table, name) for name, _ in wanted):
            columns = zip((name for name, _ in wanted), self.columns(table, wanted), strict=True)
            return in_blocks(dict(columns), work), None
        extremes, block = Extremes(), (np.cumsum(leaves.rows) - 1) // _BLOCK_ROWS
        noted = noting(work)
        groups = np.split(leaves.numbers, np.flatnonzero(np.diff(block)) + 1)
        parts = (noted(self._from_rows(table, wanted, some.tolist())) for some in groups)
        made = joined(extremes.noted(parts), self.count(table))
        self._check_streamed(table, wanted, extremes)
        return made, extremes

    def texts(self, ids: Iterable[int], *, alone: bool = False) -> dict[int, str]:  # noqa: ARG002 - as of an Export
        """Return the texts of StringIds by id: a file of them is read at once."""
        return self.strings

    def has_rows(self, table: str) -> bool:
        """Return True if a table has a row."""
        return self.count(table) > 0

    def rows(self, sql: str, *parameters: str) -> list[tuple[Any, ...]]:  # noqa: ARG002 - as of an Export
        """Raise NotACapture: only an SQLite export answers queries."""
        raise NotACapture(f"{self.path} is not an SQLite export", "export the .nsys-rep to .sqlite")

    def _payloads(self, columns: Sequence[str], most: int) -> list[tuple[Any, ...]]:
        file = self._files["NVTX_EVENTS"]
        with self._damage_of(file.path):
            *numbers, blobs = file.read(columns)
            plain = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in blobs]
            parts = [*numbers, [_as_bytes(one) for one in plain]]
            read = [[cell for chunk in chunks for cell in chunk.to_pylist()] for chunks in parts]
        rows = zip(*read, strict=True)
        timed = [row for row in rows if isinstance(row[1], int) and isinstance(row[-1], bytes)]
        return sorted(timed, key=lambda row: row[1])[:most]

    def damage(self, patience_s: float) -> str | None:
        """Return the first file that cannot be read and why, empty if all can; None if it takes longer."""
        deadline = monotonic() + patience_s
        for table, file in self._files.items():
            if monotonic() > deadline:
                return None
            try:
                with self._damage_of(file.path):
                    file.read(self.tables[table])
            except DamagedCapture as error:
                return error.message
        return ""

    def _from_pages(self, table: str, names: Sequence[str]) -> Columns:  # noqa: ARG002
        return {}

    def _from_rows(self, table: str, wanted: Wanted, groups: Sequence[int] | None = None) -> Columns:
        if not wanted:
            return {}
        file = self._files[table]
        with self._damage_of(file.path):
            columns = file.read([name for name, _ in wanted], groups)
            return {
                name: (self._texts if kind == "text" else self._numbers)(chunks, f"{table}.{name}")
                for chunks, (name, kind) in zip(columns, wanted, strict=True)
            }

    def _numbers(self, chunks: list[pa.Array], where: str) -> NDArray[Any]:
        parts = [np.empty(0, np.int64)]
        for chunk in chunks:
            part = np.array(self._integers(chunk, where).fill_null(MISSING))
            if np.count_nonzero(part == MISSING) != chunk.null_count:
                raise self._damaged(f"{where} has {MISSING}, which stands for no number")
            parts.append(part)
        return np.concatenate(parts)

    def _texts(self, chunks: list[pa.Array], where: str) -> NDArray[Any]:
        parts = [np.empty(0, dtype=object)]
        for chunk in chunks:
            is_coded = pa.types.is_dictionary(chunk.type)
            if pa.types.is_nested(chunk.type.value_type if is_coded else chunk.type):
                raise self._damaged(f"{where} contains values that are not texts ({chunk.type})")
            coded = chunk if is_coded else _as_bytes(chunk).dictionary_encode()
            texts = [_text(value) for value in _as_bytes(coded.dictionary).to_pylist()]
            numbers = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
            parts.append(np.array([*texts, None], dtype=object)[numbers])
        return np.concatenate(parts)

    def _integers(self, chunk: pa.Array, where: str) -> pa.Array:
        """Return a column as 64 bits with a sign, as SQLite stores it."""
        kind = chunk.type
        if kind == pa.uint64():
            return chunk.view(pa.int64())
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            return chunk.cast(pa.int64())
        if not pa.types.is_floating(kind):
            raise self._damaged(f"{where} contains values that are not integers ({kind})")
        return pa.array([self._integer(value, where) for value in chunk.to_pylist()], pa.int64())

    @contextmanager
    def _damage_of(self, file: Path) -> Iterator[None]:
        """Name the file in errors of pyarrow."""
        try:
            yield
        except (pa.ArrowException, OSError, MemoryError, EOFError, UnicodeError) as error:
            first_line, *_ = str(error).strip().splitlines() or ["out of memory"]
            raise DamagedCapture(f"{file} cannot be read: {first_line}", _EXPORT_AGAIN) from None


class _File:
    """The file of one table, with the names of its columns and the number of its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metadata: parquet.FileMetaData | None = None
        if path.suffix == _PARQUET:
            with _opened(path) as content, parquet.ParquetFile(content) as file:
                self.columns, self.rows = list(file.schema_arrow.names), int(file.metadata.num_rows)
                # They are read as numbers of the different texts: a row can repeat a long one in one bit.
                self._texts = [field.name for field in file.schema_arrow if field.type in _bytes()]
            return
        with pa.memory_map(os.fsencode(path)) as content, ipc.open_stream(content) as stream:
            self.columns = list(stream.schema.names)
            self.rows = sum(batch.num_rows for batch in stream)

    def group_rows(self) -> NDArray[np.int64]:
        """Return the number of rows of each group of a Parquet file."""
        with _opened(self.path) as content, parquet.ParquetFile(content) as file:
            self._metadata = every = file.metadata  # takes longer to read than some groups do
            return np.array([every.row_group(i).num_rows for i in range(every.num_row_groups)], np.int64)

    def read(self, names: Sequence[str], groups: Sequence[int] | None = None) -> list[list[pa.Array]]:
        """Return columns in row order, in the pieces of the file; of some ``groups`` of its rows alone."""
        if self.path.suffix == _PARQUET:
            wanted = list(names)
            texts = sorted({*wanted} & {*self._texts})
            form = {"metadata": self._metadata, "read_dictionary": texts}
            with _opened(self.path) as content, parquet.ParquetFile(content, **form) as file:
                table = file.read(wanted) if groups is None else file.read_row_groups(groups, wanted)
            return [table.column(name).chunks for name in names]
        with pa.memory_map(os.fsencode(self.path)) as content, ipc.open_stream(content) as stream:
            pieces = [[batch.column(name) for name in names] for batch in stream]
        for column in (column for piece in pieces for column in piece):
            _as_bytes(column).validate(full=True)  # offsets of a damaged file could lie outside it
        return [list(column) for column in zip(*pieces, strict=True)] or [[] for _ in names]


def _opened(path: Path) -> pa.OSFile:
    """Open a file. As a text its name would have to be UTF-8."""
    return pa.OSFile(os.fsencode(path))


def _as_bytes(chunk: pa.Array) -> pa.Array:
    """Return texts as bytes: kernel names can contain bytes that are not UTF-8."""
    wide = _bytes()
    return chunk.view(wide[chunk.type]) if chunk.type in wide else chunk


def _bytes() -> dict[pa.DataType, pa.DataType]:
    """Return the type of bytes for each type of text."""
    return {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _table_files(folder: Path) -> tuple[dict[str, Path], str]:
    """Return the file of each table, by name, and the format. Raises NotACapture and DamagedCapture."""
    files = [folder / name for name in paths.names(folder)]
    sizes = {file: paths.size(file) for file in files if file.suffix in _FORMATS and paths.is_file(file)}
    endings = {file.suffix for file in sizes}
    if len(endings) > 1:
        raise NotACapture(
            f"{folder} holds a parquetdir and an arrowdir export", "move one of them into a folder of its own"
        )
    tables = {file.stem: file for file in sizes}
    name, _ = _FORMATS[endings.pop()] if endings else ("", "")
    if STRINGS not in tables:
        raise NotACapture(f"{folder} is not complete: the table {STRINGS} is missing", _NOT_COMPLETE)
    for file, size in sizes.items():
        if not size:
            raise NotACapture(
                f"{folder} is not complete: nsys is still writing {file.name}, or was interrupted",
                _NOT_COMPLETE,
            )
        if file.suffix == _ARROW and not _ends(file):  # pyarrow takes a cut for the end
            raise DamagedCapture(f"{file} is cut off: its end is missing", _NOT_COMPLETE)
    return tables, name


def _ends(stream: Path) -> bool:
    try:
        with stream.open("rb") as content:
            content.seek(max(-len(_STREAM_END), -paths.size(stream)), os.SEEK_END)
            return content.read() == _STREAM_END
    except OSError as error:
        raise NotACapture(f"{stream} cannot be read: {error.strerror}") from None
