"""Parquet: unrounded columns; the metadata holds units, help texts and facts about the report."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.units import Unit
from nsyswrap.base.version import pip_install, version
from nsyswrap.capture.capture import Capture
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.render.formats.json import describe
from nsyswrap.reports.table import Column, Table, Values

_CSV_BLOCK = 2**20  # bytes: pyarrow reads some ahead, and a block takes ten times as much in memory
_BLOCKS = 8  # of CSV in a row group: the facts on each group stay in memory, 200 kB for 110 columns
_ROWS = 2**17  # of a row group: as text it can take a hundred times its size in the file

with lazy_imports():
    import pyarrow as pa
    from pyarrow import csv as pa_csv
    from pyarrow import parquet


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
            column.name, _array(table.data[column.name][:0], column).type, metadata=_column_facts(column)
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
        texts = pa.array([_utf8(text) for text in column_of.texts], pa.string())
        return texts.take(pa.array(column_of.codes))
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return pa.array(array.astype(np.float64), mask=np.isnan(array))
    return pa.array(array.astype(np.int64), mask=array == MISSING)


def _utf8(text: str | None) -> str | None:
    """Return a text with escapes for what UTF-8 cannot hold, such as bytes of a file name."""
    return text and text.encode("utf-8", "backslashreplace").decode()


def _column_facts(column: Column) -> dict[str, str]:
    return {"header": column.header, "unit": column.unit.value, "help": column.help}


def _document(document: Document, _: Layout) -> dict[str, bytes]:
    return render(document.tables, captures=list(document.captures.items()))


FORMAT = Format(_document, is_binary=True)
