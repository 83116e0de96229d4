"""Read the names and durations of kernels and API calls, and their joins, into a few bytes a row.

The columns themselves are not kept: reports that group all rows, and look at no single one, need no more.

``_with_launches`` reads calls and kernels in one pass each:

1. a block of calls becomes codes of names and threads, durations, correlation ids, and ends in two parts
2. ``CallTable`` finds the position of a call by process and correlation id
3. a block of kernels is joined with it at once: number of the launch, time of the call, time in the queue
4. ``Factorizer.ranked`` puts the codes in order, which until then depends on the threads

``code``, ``duration_ns``, ``launch``, ``call_ns`` and ``queue_ns`` have an entry for each row, in the order
of rows, in as few bytes as the values take. ``ids`` and ``keys`` have one for each code. ``launched`` returns
None where ``CallTable`` cannot be made; the reports then join whole columns with ``launch_pairs_of``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import Factorizer
from nsyswrap.analysis.arrays.groups import rank_texts
from nsyswrap.analysis.correlation import CallTable
from nsyswrap.analysis.names import name_codes, strip_version
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.capture.selection import NAME_FIELDS
from nsyswrap.capture.stream import Columns, looked_up, narrow

NO_CALL = -1
CALL_FIELDS = (*NAMED, "global_tid", "correlation_id")
KERNEL_FIELDS = (*NAMED, "device_id", "correlation_id", "global_pid")


@dataclass(frozen=True)
class NamedEvents:
    """Events by name: ``ids`` are the distinct ids, ascending, ``code`` and ``duration_ns`` have all rows."""

    ids: NDArray[Any]
    code: NDArray[Any]
    duration_ns: NDArray[Any]


@dataclass(frozen=True)
class KernelCalls:
    """The calls of all kernels, a row each; times in ns.

    ``launch`` numbers the rows of ``keys``: the global id of the thread, the device, the id of the call's
    name. All are MISSING for kernels without a call. ``queue_ns`` is from the end of the call to the start of
    the kernel, or below 0.
    """

    launch: NDArray[Any]
    keys: NDArray[Any]
    call_ns: NDArray[Any]
    queue_ns: NDArray[Any]


@per_capture
def packed_names(capture: Capture, kind: str) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per kernel or API call and the sorted names, as ``name_codes`` does."""
    if kind == "kernel" and capture.view.nvtx_names:
        codes, names = name_codes(capture, kind)
        return narrow(codes), names
    packed = packed_events(capture, kind)
    texts = capture.texts(packed.ids)
    ranks, names = rank_texts(
        np.arange(len(texts)), texts if kind == "kernel" else list(map(strip_version, texts))
    )
    return looked_up(ranks.astype(packed.code.dtype), packed.code), names


def packed_events(capture: Capture, kind: str) -> NamedEvents:
    """Return the names and selected durations of kernels or API calls.

    If reports will ask for the launches too, all of it is read in one pass.
    """
    if capture.expects("kernel", *KERNEL_FIELDS) and capture.expects("api", *CALL_FIELDS):
        calls, kernels, _ = _with_launches(capture)
        return kernels if kind == "kernel" else calls
    return _named(capture, kind)


def launched(capture: Capture) -> KernelCalls | None:
    """Return the calls of all kernels, or None if a table cannot find them.

    That is so if calls share a correlation id, or processes are unknown.
    """
    capture.expect("kernel", KERNEL_FIELDS)
    capture.expect("api", CALL_FIELDS)
    return _with_launches(capture)[2]


@per_capture
def _named(capture: Capture, kind: str) -> NamedEvents:
    return _read(capture, kind, SPANS)[0]


@per_capture
def _with_launches(capture: Capture) -> tuple[NamedEvents, NamedEvents, KernelCalls | None]:
    threads = Factorizer(sparse=True)
    calls, columns = _read(capture, "api", CALL_FIELDS, lambda block: _joined_on(block, threads))
    of_threads, columns["thread"] = threads.ranked(columns["thread"])
    table = CallTable.build(columns.pop("correlation"), of_threads, columns["thread"])
    if table is None or len(calls.ids) > _FIELD:
        return calls, _read(capture, "kernel", KERNEL_FIELDS)[0], None
    join = _Join(calls, columns, of_threads, table)
    kernels, packed = _read(capture, "kernel", KERNEL_FIELDS, join.joined)
    if not join.possible:
        return calls, kernels, None
    number, keys = join.launches(packed["launch"])
    return calls, kernels, KernelCalls(number, keys, packed["call_ns"], packed["queue_ns"])


def _read(
    capture: Capture, kind: str, fields: tuple[str, ...], more: Callable[[Columns], Columns] = lambda _: {}
) -> tuple[NamedEvents, Columns]:
    """Return the names and selected durations of events, and what ``more`` makes of each block of fields."""
    names, name = Factorizer(), NAME_FIELDS[capture.view.names] if kind == "kernel" else "name"

    def pack(columns: Columns) -> Columns:
        ids = columns[name]
        if name != "name":
            ids = np.where(ids == MISSING, columns["name"], ids)
        duration = narrow(columns["end_ns"] - columns["start_ns"])
        return {"code": names.of(ids), "duration_ns": duration, **more(columns)}

    packed = capture.stream(kind, tuple(dict.fromkeys((*fields, "name", name))), pack)
    ids, code = names.ranked(packed.pop("code"))
    duration_ns = packed.pop("duration_ns")
    if capture.view.selection.narrows:  # rows clipped by several NVTX ranges have several parts
        duration_ns = narrow(capture.durations(kind))
    return NamedEvents(ids, code, duration_ns), packed


def _joined_on(calls: Columns, threads: Factorizer) -> Columns:
    """Return what launches are joined on.

    A call ends at ``end_high`` * 2^32 + ``end_low`` ns: the higher half takes a byte in the first 18 minutes.
    """
    return {
        "thread": threads.of(calls["global_tid"]),
        "correlation": narrow(calls["correlation_id"]),
        "end_high": _smallest(calls["end_ns"] >> _HALF),
        "end_low": calls["end_ns"].astype(np.uint32),
    }


def _smallest(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers in as few bytes as they take."""
    return values.astype(
        np.result_type(*map(np.min_scalar_type, (values.min(initial=0), values.max(initial=0))))
    )


# A launch in 64 bits: the numbers of the thread and of the call's name, and the device, each in 20 bits.
_FIELD_BITS = 20
_FIELD = (1 << _FIELD_BITS) - 1
_HALF = 32  # bits


class _Join:
    """Joins kernels to their calls block by block. It is not ``possible`` for those of unknown processes."""

    def __init__(self, named: NamedEvents, calls: Columns, threads: NDArray[Any], table: CallTable) -> None:
        self._named, self._calls, self._threads, self._table = named, calls, threads, table
        self._launch, self.possible = Factorizer(sparse=True), True

    def joined(self, columns: Columns) -> Columns:
        """Return launch number, time of the call, and time from its end to the kernel's start."""
        named, calls, device = self._named, self._calls, columns["device_id"]
        if columns["global_pid"].min(initial=0) == MISSING or not ((device >= 0) & (device <= _FIELD)).all():
            self.possible = False  # the former in trimmed exports
        positions = self._table.of(columns["correlation_id"], columns["global_pid"])
        met = positions >= 0
        keys = calls["thread"][positions].astype(np.int64) << _FIELD_BITS | device
        keys = np.where(met, keys << _FIELD_BITS | named.code[positions], NO_CALL)
        end = (calls["end_high"][positions].astype(np.int64) << _HALF) + calls["end_low"][positions]
        queue = np.where(met, columns["start_ns"] - end, 0)
        return {
            "launch": self._launch.of(keys),
            "call_ns": named.duration_ns[positions],
            "queue_ns": narrow(queue),
        }

    def launches(self, numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the launch of each kernel, and the keys of each launch, as ``KernelCalls`` has them."""
        launches, number = self._launch.ranked(numbers)
        thread, device, name = (launches >> shift & _FIELD for shift in (2 * _FIELD_BITS, _FIELD_BITS, 0))
        known = launches != NO_CALL
        keys = np.full((len(launches), 3), MISSING)
        keys[known] = np.stack(
            [self._threads[thread[known]], device[known], self._named.ids[name[known]]], axis=1
        )
        return number, keys
