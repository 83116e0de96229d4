"""Tell the communicators of NCCL apart, where a capture has the payloads of NCCL's NVTX ranges.

NCCL puts the id of the communicator into the range of each call; the id is the same on all its ranks. nsys
exports it only with --include-json or --include-blobs. A kernel belongs to the range that launched it.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture import schema
from nsyswrap.capture.open import open_export

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.export import Export

UNKNOWN = ""
_ID = "NCCL communicator ID"
_IN_JSON = re.compile(rf'"{_ID}"\s*:\s*"?([\d,]+|0x[0-9a-fA-F]+)"?')
_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_HEADER = struct.Struct("<4I2Q")  # domain, flags, schema, flags, bytes of the payload, bytes of all
_NUMBER = struct.Struct("<Q")
_SCHEMA = 2  # position of the schema in the header


def communicators(capture: Capture) -> list[str]:
    """Return the communicator of each kernel; UNKNOWN if the capture does not have it."""
    kernels = capture.columns("kernel", "row")["row"] - 1
    found = [UNKNOWN] * len(kernels)
    calls = _calls(capture)
    if not calls or not capture.whole.has("api"):
        return found
    api = capture.whole.columns("api", "start_ns", "global_tid")
    operations = gpu_operations_of(capture)
    launched = np.flatnonzero((operations.kind == KINDS.index(KERNEL)) & (operations.call >= 0))
    positions = np.searchsorted(kernels, operations.row[launched]).tolist()
    by_call = operations.call[launched]
    starts, threads = (api[field][by_call].tolist() for field in ("start_ns", "global_tid"))
    for position, start, thread in zip(positions, starts, threads, strict=True):
        found[position] = _at(calls.get(thread), start)
    return found


def _calls(capture: Capture) -> Mapping[int, tuple[NDArray[Any], NDArray[Any], list[str]]]:
    """Return start and end in ns and the communicator of NCCL's calls, by thread and start."""
    try:
        rows = sorted(_ranges(open_export(capture.path)))
    except (NsyswrapError, AttributeError):  # an Arrow export answers no SQL
        return {}
    by_thread: dict[int, list[tuple[int, int, str]]] = {}
    for thread, start, end, name in rows:
        by_thread.setdefault(thread, []).append((start, end, name))
    return {
        thread: (
            np.array([start for start, _, _ in of_thread]),
            np.array([end for _, end, _ in of_thread]),
            [name for _, _, name in of_thread],
        )
        for thread, of_thread in by_thread.items()
    }


def _at(calls: tuple[NDArray[Any], NDArray[Any], list[str]] | None, time_ns: int) -> str:
    if calls is None:
        return UNKNOWN
    starts, ends, names = calls
    last = int(np.searchsorted(starts, time_ns, "right")) - 1
    return names[last] if last >= 0 and time_ns < ends[last] else UNKNOWN


def _ranges(export: Export) -> Iterator[tuple[int, int, int, str]]:
    """Yield thread, start, end and communicator of each range with a payload of NCCL."""
    table = schema.EVENTS["nvtx"].table
    there = export.tables.get(table, [])
    payloads = [name for name in ("jsonText", "jsonTextId", "binaryData") if name in there]
    if not payloads or "end" not in there:
        return
    offsets = _offsets(export) if "binaryData" in payloads else {}
    columns = ", ".join(payloads)
    where = " OR ".join(f"{name} IS NOT NULL" for name in payloads)
    rows = export.rows(
        f"SELECT globalTid, start, end, {columns} FROM {table} WHERE end >= start AND ({where})"  # noqa: S608 - names of ours
    )
    for thread, start, end, *values in rows:
        payload = dict(zip(payloads, values, strict=True))
        text = payload.get("jsonText") or export.strings.get(payload.get("jsonTextId") or 0, "")
        name = _in_json(text) or _in_bytes(payload.get("binaryData"), offsets)
        if name and isinstance(thread, int):
            yield thread, start, end, name


def _in_json(text: object) -> str:
    found = _IN_JSON.search(text) if isinstance(text, str) else None
    return f"{int(found[1].replace(',', ''), 0):x}" if found else UNKNOWN


def _offsets(export: Export) -> dict[int, int]:
    """Return where the communicator is in a payload, by its schema."""
    if not {"schemaId", "name", "offset"} <= set(export.tables.get(_ENTRIES, ())):
        return {}
    rows = export.select(_ENTRIES, ("schemaId", "int"), ("name", "text"), ("offset", "int"))
    return {number: offset or 0 for number, name, offset in rows if name == _ID and number is not None}


def _in_bytes(data: object, offsets: Mapping[int, int]) -> str:
    if not isinstance(data, bytes) or len(data) < _HEADER.size:
        return UNKNOWN
    offset = offsets.get(_HEADER.unpack_from(data)[_SCHEMA])
    if offset is None or len(data) < _HEADER.size + offset + _NUMBER.size:
        return UNKNOWN
    return f"{_NUMBER.unpack_from(data, _HEADER.size + offset)[0]:x}"
