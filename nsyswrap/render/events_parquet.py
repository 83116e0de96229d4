"""Events as Parquet: a file per kind, with the columns of ``Capture.events``, written in row groups."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.nvtx_ranges import own_texts
from nsyswrap.base.errors import NotInCapture, OutputError, Unavailable
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.base.version import __version__
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.render.formats.json import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    Part = Callable[[slice], pa.Array]

GROUP_ROWS = 250_000
# The unit of a field is told by how its name ends, of several endings by the first.
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
    "registers_per_thread": Unit.COUNT,
}


def kinds(capture: Capture) -> list[str]:
    """Return the kinds of events that get a file; raises NotInCapture where there is none."""
    found = [kind for kind in schema.EVENTS if capture.has(kind)]
    if not found:
        raise NotInCapture(f"{capture.source}: no events are left to export", "select more of the capture")
    return found


def file_name(kind: str) -> str:
    """Return the name of the file of one kind."""
    return f"{kind}.parquet"


def write(capture: Capture, folder: Path) -> dict[str, int]:
    """Write a file per kind of event into ``folder``, all or none, and return the rows of each by kind.

    Files of kinds that the capture lacks are removed: an earlier export left them. Names are strings behind
    a dictionary, what is missing is null. A column's metadata has its ``unit``; the file's has
    ``nsyswrap.kind``, ``.title``, ``.selection``, ``.version`` and, as JSON, ``.capture``. Raises Unavailable
    without pyarrow, and OutputError.
    """
    try:
        from pyarrow import parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise Unavailable("Parquet needs pyarrow", "pip install 'nsyswrap[parquet]'") from None
    found = kinds(capture)
    with _beside(folder) as made:
        for kind in found:
            # A capture of its own: the columns of one kind go before those of the next come.
            own = Capture(capture.path, source=capture.source, view=capture.view)
            _write_kind(own, kind, made / file_name(kind))
        folder.mkdir(exist_ok=True)
        for kind in schema.EVENTS:
            (folder / file_name(kind)).unlink(missing_ok=True)
        for kind in found:
            (made / file_name(kind)).replace(folder / file_name(kind))
    return {kind: capture.count(kind) for kind in found}


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Give a folder on the same disk, be ``folder`` a link to another, which goes whatever happens."""
    try:
        place = folder.resolve().parent
        place.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=place))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None


def _write_kind(capture: Capture, kind: str, path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    columns = _columns(pa, capture, kind)
    fields = [
        pa.field(name, part(slice(0)).type, metadata={"unit": _unit(name, part(slice(0)).type).value})
        for name, part in columns.items()
    ]
    form = pa.schema(fields, _metadata(capture, kind))
    with parquet.ParquetWriter(path, form) as writer:
        for start in range(0, capture.count(kind), GROUP_ROWS):
            rows = slice(start, start + GROUP_ROWS)
            writer.write_table(pa.table([part(rows) for part in columns.values()], form))


def _columns(pa: Any, capture: Capture, kind: str) -> dict[str, Part]:  # noqa: ANN401 - a module
    """Return what makes a part of each column, in the order of ``Capture.events``."""
    fields = schema.EVENTS[kind].fields
    columns = capture.columns(kind, *fields)
    made: dict[str, Part] = {}
    for field, spec in fields.items():
        if spec.kind == "string":
            ids = capture.name_ids(kind) if field == "name" else columns[field]
            made[field] = _named(pa, capture, ids)
        else:
            made[field] = (_plain if spec.kind == "text" else _integers)(pa, columns[field])
        if field == "start_ns" and "end_ns" in fields:
            end = columns["end_ns"]
            made["duration_ns"] = _integers(pa, np.where(end == MISSING, MISSING, end - columns["start_ns"]))
    if "text_id" in made:  # NVTX: a registered string, or the text itself
        del made["text_id"], made["text"]
        made["name"] = _coded(pa, *own_texts(capture, np.arange(capture.count(kind))))
    if (owner := columns.get("global_tid", columns.get("global_pid"))) is not None:
        made["process_id"] = _integers(pa, process_ids(owner))
    if "global_tid" in columns:
        made["thread_id"] = _integers(pa, thread_ids(columns["global_tid"]))
    return made


def _integers(pa: Any, values: NDArray[Any]) -> Part:  # noqa: ANN401
    return lambda rows: pa.array(values[rows], pa.int64(), mask=values[rows] == MISSING)


def _plain(pa: Any, values: NDArray[Any]) -> Part:  # noqa: ANN401
    return lambda rows: pa.array(values[rows].tolist(), pa.string()).dictionary_encode()


def _named(pa: Any, capture: Capture, ids: NDArray[Any]) -> Part:  # noqa: ANN401
    known, codes = distinct(ids)
    return _coded(pa, codes, [capture.text(i) for i in known.tolist()])


def _coded(pa: Any, codes: NDArray[Any], texts: list[str | None]) -> Part:  # noqa: ANN401
    missing = np.array([text is None for text in texts], dtype=bool)
    words = pa.array([text or "" for text in texts], pa.string())

    def part(rows: slice) -> pa.Array:
        numbers = pa.array(codes[rows].astype(np.int32), mask=missing[codes[rows]])
        return pa.DictionaryArray.from_arrays(numbers, words)

    return part


def _unit(field: str, kind: Any) -> Unit:  # noqa: ANN401 - a type of pyarrow
    if str(kind) != "int64":
        return Unit.TEXT
    return next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), Unit.NUMBER)


def _metadata(capture: Capture, kind: str) -> dict[str, str]:
    said = {
        "kind": kind,
        "title": schema.EVENTS[kind].title,
        "selection": str(capture.view.selection),
        "capture": json.dumps(describe(capture.source.name, capture)),
        "version": __version__,
    }
    return {f"nsyswrap.{key}": value for key, value in said.items()}
