"""Parquet: unrounded columns; the metadata holds units, help texts and facts about the report."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.nvtx_ranges import own_texts
from nsyswrap.base import paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture, OutputError, Unavailable
from nsyswrap.base.files import private_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.units import Unit
from nsyswrap.base.version import pip_install, version
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.render.formats import Format
from nsyswrap.render.formats.json import describe
from nsyswrap.reports.table import Column, Table, Values

with lazy_imports():  # an optional dependency
    import pyarrow as pa
    from pyarrow import csv as pa_csv
    from pyarrow import parquet


_CSV_BLOCK = 2**20  # bytes: pyarrow reads some ahead, and a block takes ten times as much in memory
_BLOCKS = 8  # of CSV in a row group: the facts on each group stay in memory, 200 kB for 110 columns
_ROWS = 2**17  # of a row group: as text it can take a hundred times its size in the file

Part = Callable[[slice], Any]  # of a pa.Array, which is not there without the extra

GROUP_ROWS = 250_000
# The unit of a field by the end of its name. The first match counts.
_UNITS = {
    "_bytes_per_s": Unit.BYTES_PER_S,
    "bytes": Unit.BYTES,
    "_ns": Unit.NS,
    "address": Unit.ADDRESS,
    "_id": Unit.ID,
    "_tid": Unit.ID,
    "_pid": Unit.ID,
    "count": Unit.COUNT,
    "faults": Unit.COUNT,
    "multiprocessors": Unit.COUNT,
    "shared_bytes_per_multiprocessor": Unit.BYTES,
    "_per_multiprocessor": Unit.COUNT,
    "registers_per_thread": Unit.COUNT,
}


def render(tables: Iterable[Table], *, captures: Sequence[tuple[str, Capture]] = ()) -> dict[str, bytes]:
    """Return ``{<report>.parquet: content}``; raises Unavailable without pyarrow.

    Columns are int64, float64 or string. Their metadata has ``header``, ``unit`` and ``help``, the schema's
    ``nsyswrap.report``, ``.label``, ``.title``, ``.layer``, ``.rounding``, ``.selection``, ``.verdict``,
    ``.version`` and, as JSON, ``.notes`` and ``.captures``.
    """
    about = [describe(label, capture) for label, capture in captures]
    return {f"{table.label}.parquet": _parquet(table, about) for table in tables}


def _check_pyarrow() -> None:
    try:
        pa.Table  # noqa: B018 - imports pyarrow, which is an extra
    except ImportError:
        raise Unavailable("Parquet needs pyarrow", pip_install("parquet")) from None


def _parquet(table: Table, captures: Sequence[dict[str, Any]]) -> bytes:
    _check_pyarrow()
    fields = [
        pa.field(
            column.name,
            _array(table.data[column.name][:0], column).type,
            metadata={"header": column.header, "unit": column.unit.value, "help": column.help},
        )
        for column in table.columns
    ]
    facts = {
        "report": table.schema.name,
        "label": table.label,
        "title": table.schema.title,
        "layer": table.schema.layer,
        "rounding": table.rounding,
        "selection": table.selection,
        "verdict": table.verdict,
        "notes": json.dumps(table.notes),
        "captures": json.dumps(captures),
        "version": version(),
    }
    schema = pa.schema(fields, {f"nsyswrap.{key}": value for key, value in facts.items()})
    out = io.BytesIO()
    with parquet.ParquetWriter(out, schema) as writer:
        for first in range(0, max(len(table), 1), _ROWS):
            rows = slice(first, first + _ROWS)
            arrays = [_array(table.data[column.name][rows], column) for column in table.columns]
            writer.write_table(pa.table(arrays, schema))
    return out.getvalue()


def from_csv(source: Path, target: Path, kinds: Mapping[str, type]) -> None:
    """Write a CSV file as Parquet, a few blocks in memory at a time. Raises Unavailable without pyarrow.

    ``kinds`` has the type of each column: str, int or float. Empty cells are missing.
    """
    _check_pyarrow()
    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([pa.field(name, types[kind]) for name, kind in kinds.items()])
    with (
        source.open("rb") as content,  # pyarrow takes no name that is not UTF-8
        pa_csv.open_csv(
            content,
            pa_csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            pa_csv.ParseOptions(newlines_in_values=True),
            pa_csv.ConvertOptions(column_types=schema, strings_can_be_null=True, null_values=[""]),
        ) as blocks,
        target.open("wb") as out,
        parquet.ParquetWriter(out, schema) as writer,
    ):
        while group := list(islice(blocks, _BLOCKS)):
            writer.write_table(pa.Table.from_batches(group))


def _array(values: Values, column: Column) -> pa.Array:
    if column.unit is Unit.TEXT:
        column_of = TextColumn.of(values)
        # UTF-8 cannot hold all, such as bytes of a file name
        texts = [(text or "").encode("utf-8", "backslashreplace") for text in column_of.texts]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        missing = np.array([text is None for text in column_of.texts], bool)
        known = _of_buffers(pa.large_string(), missing, ends, b"".join(texts)).cast(pa.string())
        codes = column_of.codes.astype(np.int64)
        return known.take(_of_buffers(pa.int64(), np.zeros(len(codes), bool), codes))
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return _of_buffers(pa.float64(), np.isnan(array), array.astype(np.float64))
    return _of_buffers(pa.int64(), array == MISSING, array.astype(np.int64))


def _of_buffers(kind: pa.DataType, missing: NDArray[np.bool_], *content: NDArray[Any] | bytes) -> pa.Array:
    """Return an array of what it has in memory: ``pa.array`` would import pandas, for 0.35 s."""
    buffers = map(pa.py_buffer, (np.packbits(~missing, bitorder="little"), *content))
    return pa.Array.from_buffers(kind, len(missing), list(buffers))


FORMAT = Format(
    lambda document, _: render(document.tables, captures=list(document.captures.items())), is_binary=True
)


# Export the events of a capture as Parquet: a file per kind, with the columns of `Capture.events`.


def kinds(capture: Capture) -> list[str]:
    """Return the kinds of events that get a file. Raises NotInCapture if the selection has no events."""
    selected = [kind for kind in schema.EVENTS if capture.has(kind)]
    if not selected:
        raise NotInCapture(
            "the selection has no events to export", "select more of the capture", source=capture.source
        )
    return selected


def file_name(kind: str) -> str:
    """Return the file name of a kind of events."""
    return f"{kind}.parquet"


def write(capture: Capture, folder: Path) -> dict[str, int]:
    """Write a file for each kind of event into ``folder``, all or none. Return the row counts by kind.

    Files of other kinds from an earlier export are removed. Names are dictionary-encoded strings, and missing
    values are null. A column's metadata has its ``unit``. The file's metadata has ``nsyswrap.kind``,
    ``.title``, ``.selection``, ``.version`` and, as JSON, ``.capture``. Raises OutputError, and Unavailable
    without pyarrow.
    """
    _check_pyarrow()
    written = kinds(capture)
    with paths.writing(folder):
        target = paths.target_of(folder)
        paths.make_folders(target.parent)
    try:
        with private_folder(target.parent) as staging:
            for kind in written:
                # A separate capture, so that the columns of a kind are freed before the next kind is read.
                own = Capture(capture.path, source=capture.source, view=capture.view)
                _write_kind(own, kind, staging.path / file_name(kind))
            target.mkdir(exist_ok=True)
            for kind in schema.EVENTS:
                (target / file_name(kind)).unlink(missing_ok=True)
            for kind in written:
                staging.move(file_name(kind), target / file_name(kind))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    return {kind: capture.count(kind) for kind in written}


def _write_kind(capture: Capture, kind: str, path: Path) -> None:
    columns = _columns(capture, kind)
    fields = [
        pa.field(name, chunk(slice(0)).type, metadata={"unit": _unit(name, chunk(slice(0)).type).value})
        for name, chunk in columns.items()
    ]
    metadata = {
        "kind": kind,
        "title": schema.EVENTS[kind].title,
        "selection": capture.selected,
        "capture": json.dumps(describe(capture.source.name, capture)),
        "version": version(),
    }
    form = pa.schema(fields, {f"nsyswrap.{key}": value for key, value in metadata.items()})
    with path.open("wb") as out, parquet.ParquetWriter(out, form) as writer:  # pyarrow wants UTF-8
        for start in range(0, capture.count(kind), GROUP_ROWS):
            rows = slice(start, start + GROUP_ROWS)
            writer.write_table(pa.table([chunk(rows) for chunk in columns.values()], form))


def _columns(capture: Capture, kind: str) -> dict[str, Part]:
    """Return for each column a function that makes a slice of it, in the order of ``Capture.events``."""
    fields = schema.EVENTS[kind].fields
    columns = capture.columns(kind, *fields)
    parts: dict[str, Part] = {}
    for field, spec in fields.items():
        if spec.kind == "string":
            ids = capture.name_ids(kind) if field == "name" else columns[field]
            known, codes = distinct(ids)
            parts[field] = _dictionary(codes, [capture.text(i) for i in known.tolist()])
        else:
            parts[field] = (_texts if spec.kind == "text" else _integers)(columns[field])
        if field == "start_ns" and "end_ns" in fields:
            end = columns["end_ns"]
            parts["duration_ns"] = _integers(np.where(end == MISSING, MISSING, end - columns["start_ns"]))
    if "text_id" in parts:  # NVTX: a registered string, or the text itself
        del parts["text_id"], parts["text"]
        parts["name"] = _dictionary(*own_texts(capture, np.arange(capture.count(kind))))
    if (owner := columns.get("global_tid", columns.get("global_pid"))) is not None:
        parts["process_id"] = _integers(process_ids(owner))
    if "global_tid" in columns:
        parts["thread_id"] = _integers(thread_ids(columns["global_tid"]))
    return parts


def _integers(values: NDArray[Any]) -> Part:
    return lambda rows: pa.array(values[rows], pa.int64(), mask=values[rows] == MISSING)


def _texts(values: NDArray[Any]) -> Part:
    return lambda rows: pa.array(values[rows].tolist(), pa.string()).dictionary_encode()


def _dictionary(codes: NDArray[Any], texts: list[str | None]) -> Part:
    missing = np.array([text is None for text in texts], dtype=bool)
    words = pa.array([text or "" for text in texts], pa.string())

    def chunk(rows: slice) -> pa.Array:
        numbers = pa.array(codes[rows].astype(np.int32), mask=missing[codes[rows]])
        return pa.DictionaryArray.from_arrays(numbers, words)

    return chunk


def _unit(field: str, kind: pa.DataType) -> Unit:
    if kind != pa.int64():
        return Unit.TEXT
    return next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), Unit.NUMBER)
