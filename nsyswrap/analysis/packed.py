"""Read the names and durations of kernels and API calls, and their joins, into a few bytes a row.

The columns themselves are not kept: reports that group all rows, and look at no single one, need no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import number_texts
from nsyswrap.analysis.arrays.numbering import Numbering
from nsyswrap.analysis.names import name_codes, strip_version
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NAMED, PROCESS_MASK, SPANS
from nsyswrap.capture.stream import BLOCK_ROWS, looked_up, narrow
from nsyswrap.capture.view_options import NAME_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

    Columns = dict[str, NDArray[Any]]

NO_CALL = -1
CALL_FIELDS = (*NAMED, "global_tid", "correlation_id")
KERNEL_FIELDS = (*NAMED, "device_id", "correlation_id", "global_pid")
_DENSE = 4  # most places per row in a table of positions
_MOST_PROCESSES = 64
_FAR = 2**40  # larger ids are not looked up: their differences could exceed 64 bits


@dataclass(frozen=True)
class Named:
    """Events by name: ``ids`` are the distinct ids, ascending, ``code`` and ``duration_ns`` have all rows."""

    ids: NDArray[Any]
    code: NDArray[Any]
    duration_ns: NDArray[Any]


class Calls(NamedTuple):
    """What launches are joined on, for each API call; ``threads`` are the distinct global ids, ascending.

    A call ends at ``end_high`` * 2^32 + ``end_low`` ns: the higher half takes a byte in the first 18 minutes.
    """

    threads: NDArray[Any]
    thread: NDArray[Any]
    correlation: NDArray[Any]
    end_high: NDArray[Any]
    end_low: NDArray[Any]


@dataclass(frozen=True)
class Launched:
    """The calls of all kernels, a row each; times in ns.

    ``launch`` numbers the rows of ``keys``: the global id of the thread, the device, the id of the call's
    name. All are MISSING for kernels without a call. ``queue_ns`` is from the end of the call to the start of
    the kernel, or below 0.
    """

    launch: NDArray[Any]
    keys: NDArray[Any]
    call_ns: NDArray[Any]
    queue_ns: NDArray[Any]


def packed_names(capture: Capture, kind: str) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per kernel or API call and the sorted names, as ``name_codes`` does."""
    if kind == "kernel" and capture.view.nvtx_names:
        codes, names = name_codes(capture, kind)
        return narrow(codes), names
    packed = packed_events(capture, kind)
    texts = [capture.text(i) for i in packed.ids.tolist()]
    codes, names = number_texts(
        np.arange(len(texts)), texts if kind == "kernel" else list(map(strip_version, texts))
    )
    return looked_up(codes.astype(packed.code.dtype), packed.code), names


def packed_events(capture: Capture, kind: str) -> Named:
    """Return the names and selected durations of kernels or API calls.

    If reports will ask for the launches too, all of it is read in one pass.
    """
    if capture.expects("kernel", *KERNEL_FIELDS) and capture.expects("api", *CALL_FIELDS):
        calls, kernels, _ = _with_launches(capture)
        return kernels if kind == "kernel" else calls
    return _named(capture, kind)


def launched(capture: Capture) -> Launched | None:
    """Return the calls of all kernels, or None if a table cannot find them.

    That is so if calls share a correlation id, ids are sparse, or processes are unknown.
    """
    capture.expect("kernel", KERNEL_FIELDS)
    capture.expect("api", CALL_FIELDS)
    return _with_launches(capture)[2]


@per_capture
def _named(capture: Capture, kind: str) -> Named:
    names = Numbering()
    fields, ids = _name_fields(capture, kind)
    packed = capture.stream(
        kind,
        (*SPANS, *fields),
        lambda columns: {
            "code": names.of(ids(columns)),
            "duration_ns": narrow(columns["end_ns"] - columns["start_ns"]),
        },
    )
    return Named(*names.ranked(packed["code"]), _durations(capture, kind, packed["duration_ns"]))


@per_capture
def _with_launches(capture: Capture) -> tuple[Named, Named, Launched | None]:
    """Return API calls, kernels, and their launches."""
    calls, by_id = _calls(capture)
    table, threads = _CallTable.of(calls, by_id), by_id.threads
    del by_id  # the kernels need the room of the correlation ids
    names, launch = Numbering(), Numbering(sparse=True)
    fields, ids = _name_fields(capture, "kernel")

    def pack(columns: Columns) -> Columns:
        duration = narrow(columns["end_ns"] - columns["start_ns"])
        packed = {"code": names.of(ids(columns)), "duration_ns": duration}
        return packed | (table.joined(columns, launch) if table else {})

    packed = capture.stream("kernel", tuple(dict.fromkeys([*KERNEL_FIELDS, *fields])), pack)
    duration = _durations(capture, "kernel", packed["duration_ns"])
    kernels = Named(*names.ranked(packed.pop("code")), duration)
    if not table or not table.possible:
        return calls, kernels, None
    launches, number = launch.ranked(packed["launch"])
    keys = _unpacked(launches, threads, calls.ids)
    return calls, kernels, Launched(number, keys, packed["call_ns"], packed["queue_ns"])


def _calls(capture: Capture) -> tuple[Named, Calls]:
    names, threads = Numbering(), Numbering(sparse=True)

    def pack(columns: Columns) -> Columns:
        return {
            "code": names.of(columns["name"]),
            "duration_ns": narrow(columns["end_ns"] - columns["start_ns"]),
            "thread": threads.of(columns["global_tid"]),
            "correlation": narrow(columns["correlation_id"]),
            "end_high": _smallest(columns["end_ns"] >> _HALF),
            "end_low": columns["end_ns"].astype(np.uint32),
        }

    packed = capture.stream("api", CALL_FIELDS, pack)
    duration = _durations(capture, "api", packed.pop("duration_ns"))
    named = Named(*names.ranked(packed.pop("code")), duration)
    return named, Calls(*threads.ranked(packed.pop("thread")), **packed)


def _smallest(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers in as few bytes as they take."""
    return values.astype(
        np.result_type(*map(np.min_scalar_type, (values.min(initial=0), values.max(initial=0))))
    )


def _name_fields(capture: Capture, kind: str) -> tuple[list[str], Callable[[Columns], NDArray[Any]]]:
    """Return the fields of the names that the view asks for, and what makes ids of them."""
    field = NAME_FIELDS[capture.view.names] if kind == "kernel" else "name"
    if field == "name":
        return [field], lambda columns: columns["name"]
    return ["name", field], lambda columns: np.where(
        columns[field] == MISSING, columns["name"], columns[field]
    )


def _durations(capture: Capture, kind: str, lasting: NDArray[Any]) -> NDArray[Any]:
    """Return the durations in the selected part; those of clipped rows can lie in several NVTX ranges."""
    return narrow(capture.durations(kind)) if capture.view.selection.narrows else lasting


# A launch in 64 bits: the numbers of the thread and of the call's name, and the device, each in 20 bits.
_FIELD_BITS = 20
_FIELD = (1 << _FIELD_BITS) - 1
_HALF = 32  # bits


def _unpacked(launches: NDArray[Any], threads: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
    """Return thread, device and call's name of each launch; MISSING for that of no call."""
    thread, device, name = (launches >> shift & _FIELD for shift in (2 * _FIELD_BITS, _FIELD_BITS, 0))
    known = launches != NO_CALL
    keys = np.full((len(launches), 3), MISSING)
    keys[known] = np.stack([threads[thread[known]], device[known], names[name[known]]], axis=1)
    return keys


class _CallTable:
    """The API calls by process and correlation id: a table of their positions."""

    def __init__(
        self, named: Named, calls: Calls, processes: NDArray[Any], ends: tuple[NDArray[Any], NDArray[Any]]
    ) -> None:
        self._named, self._processes = named, processes
        self._thread, self._end_high, self._end_low = calls.thread, calls.end_high, calls.end_low
        self._low, self._size = ends[0], ends[1] - ends[0] + 1
        self._first = np.cumsum(self._size) - self._size
        self._position = np.full(int(self._size.sum()) + 1, -1, np.int32)  # the last is that of no call
        self.possible = True

    @classmethod
    def of(cls, named: Named, calls: Calls) -> _CallTable | None:
        """Return the table, or None if calls share an id, or the ids are too sparse."""
        processes, owner = np.unique(calls.threads & PROCESS_MASK, return_inverse=True)
        correlation, rows = calls.correlation, len(calls.thread)
        if MISSING in calls.threads or len(processes) > _MOST_PROCESSES or not 0 < rows < 1 << 31:
            return None
        if max(len(calls.threads), len(named.ids)) > _FIELD:
            return None
        low, high = np.full(len(processes), np.iinfo(np.int64).max), np.full(len(processes), MISSING)
        for block in _row_blocks(rows):
            mine = owner[calls.thread[block]]
            for process in range(len(processes)):
                ids = correlation[block][mine == process]
                if len(ids):
                    low[process], high[process] = min(low[process], ids.min()), max(high[process], ids.max())
        if low.min() < -_FAR or high.max() > _FAR or (high - low).sum() >= _DENSE * (rows + BLOCK_ROWS):
            return None
        table = cls(named, calls, processes, (low, high))
        for block in _row_blocks(rows):
            mine = owner[calls.thread[block]]
            places = (table._first - low)[mine] + correlation[block]
            table._position[places] = np.arange(block.start, block.stop, dtype=np.int32)
        return table if np.count_nonzero(table._position >= 0) == rows else None

    def joined(self, columns: Columns, launch: Numbering) -> Columns:
        """Return launch number, time of the call, and time from its end to the kernel's start."""
        named, device = self._named, columns["device_id"]
        positions = self._position[self._places(columns["correlation_id"], columns["global_pid"])]
        met = positions >= 0
        if not ((device >= 0) & (device <= _FIELD)).all():
            self.possible = False
        keys = self._thread[positions].astype(np.int64) << _FIELD_BITS | device
        keys = np.where(met, keys << _FIELD_BITS | named.code[positions], NO_CALL)
        end = (self._end_high[positions].astype(np.int64) << _HALF) + self._end_low[positions]
        queue = np.where(met, columns["start_ns"] - end, 0)
        return {"launch": launch.of(keys), "call_ns": named.duration_ns[positions], "queue_ns": narrow(queue)}

    def _places(self, correlation: NDArray[Any], owners: NDArray[Any]) -> NDArray[Any]:
        if owners.min(initial=0) == MISSING:  # of trimmed exports
            self.possible = False
        process = np.searchsorted(self._processes, owners & PROCESS_MASK)
        process[process == len(self._processes)] = 0
        at = correlation - self._low[process]
        here = (self._processes[process] == owners & PROCESS_MASK) & (at >= 0) & (at < self._size[process])
        return np.where(here, at + self._first[process], len(self._position) - 1)


def _row_blocks(rows: int) -> Sequence[slice]:
    return [slice(first, min(first + BLOCK_ROWS, rows)) for first in range(0, rows, BLOCK_ROWS)]
