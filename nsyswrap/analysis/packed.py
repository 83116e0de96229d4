"""Read the names and durations of kernels and API calls, and their joins, into a few bytes a row.

The columns themselves are not kept: reports that group all rows, and look at no single one, need no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.codes import Numbering
from nsyswrap.analysis.arrays.groups import number_texts
from nsyswrap.analysis.names import name_codes, strip_version
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.per_capture import discard, per_capture
from nsyswrap.capture.schema import NAMED, PROCESS_MASK, SPANS
from nsyswrap.capture.stream import looked_up, narrow
from nsyswrap.capture.view_options import NAME_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

    Columns = dict[str, NDArray[Any]]

NO_CALL = -1
CALL_FIELDS = (*NAMED, "global_tid", "correlation_id")
KERNEL_FIELDS = (*NAMED, "device_id", "correlation_id", "global_pid")
_MOST_PROCESSES = 64


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


def forget_calls(capture: Capture) -> None:
    """Free the names and durations of API calls, until they are asked for again."""
    discard(capture, _named, "api")


def launched(capture: Capture) -> Launched | None:
    """Return the calls of all kernels, or None if a table cannot find them.

    That is so if calls share a correlation id, or processes are unknown.
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
    calls, table = _calls(capture)
    names, launch = Numbering(), Numbering(sparse=True)
    packed = _kernels(capture, table, names, launch)
    threads = table.threads if table and table.possible else None
    del table  # the copies below need its memory
    duration = _durations(capture, "kernel", packed["duration_ns"])
    kernels = Named(*names.ranked(packed.pop("code")), duration)
    if threads is None:
        return calls, kernels, None
    launches, number = launch.ranked(packed["launch"])
    keys = _unpacked(launches, threads, calls.ids)
    return calls, kernels, Launched(number, keys, packed["call_ns"], packed["queue_ns"])


def _kernels(capture: Capture, table: _CallTable | None, names: Numbering, launch: Numbering) -> Columns:
    fields, ids = _name_fields(capture, "kernel")

    def pack(columns: Columns) -> Columns:
        duration = narrow(columns["end_ns"] - columns["start_ns"])
        packed = {"code": names.of(ids(columns)), "duration_ns": duration}
        return packed | (table.joined(columns, launch) if table else {})

    return capture.stream("kernel", tuple(dict.fromkeys([*KERNEL_FIELDS, *fields])), pack)


def _calls(capture: Capture) -> tuple[Named, _CallTable | None]:
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
    packed["duration_ns"] = _durations(capture, "api", packed["duration_ns"])
    ids, packed["code"] = names.ranked(packed["code"])
    of_threads, packed["thread"] = threads.ranked(packed["thread"])
    processes, rows = _by_process(packed, of_threads) if len(ids) <= _FIELD else (of_threads, [])
    named = Named(ids, packed.pop("code"), packed.pop("duration_ns"))
    return named, _CallTable(named, Calls(of_threads, **packed), processes, rows) if rows else None


def _by_process(calls: Columns, threads: NDArray[Any]) -> tuple[NDArray[Any], list[slice]]:
    """Sort the calls by process and correlation id. Return the processes, and the rows of each.

    There are none, and the calls stay as they are, if two calls of a process have the same id, if ids or
    processes are unknown, or if there are many processes.
    """
    processes, owner = np.unique(threads & PROCESS_MASK, return_inverse=True)
    correlation = calls["correlation"]
    if MISSING in threads or len(processes) > _MOST_PROCESSES or correlation.min(initial=0) == MISSING:
        return processes, []
    owners = looked_up(owner.astype(np.uint8), calls["thread"])
    order, rows = _order(owners, correlation, len(processes))
    del correlation, owners  # the sorted copies need the memory
    if (order[1:] < order[:-1]).any():
        for name in calls:
            calls[name] = looked_up(calls[name], order)
    return processes, rows


def _order(
    owners: NDArray[Any], correlation: NDArray[Any], processes: int
) -> tuple[NDArray[Any], list[slice]]:
    """Return the calls by process and id, and where those of each process are; nothing if ids repeat."""
    order, rows = np.empty(len(owners), np.uint32), [slice(0)]
    for process in range(processes):
        mine = np.flatnonzero(owners == process).astype(np.uint32)
        ids = looked_up(correlation, mine)
        if (ids[1:] <= ids[:-1]).any():
            by_id = np.argsort(ids)
            mine, ids = mine[by_id], ids[by_id]
            if (ids[1:] == ids[:-1]).any():
                return order[:0], []
        rows.append(slice(rows[-1].stop, rows[-1].stop + len(mine)))
        order[rows[-1]] = mine
        del mine, ids
    return order, rows[1:]


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
    """The API calls by process and correlation id: ``rows`` has those of each process, in order of ids."""

    def __init__(self, named: Named, calls: Calls, processes: NDArray[Any], rows: Sequence[slice]) -> None:
        self._named, self._calls = named, calls
        self._processes = list(zip(processes.tolist(), rows, strict=True))
        self.threads, self.possible = calls.threads, True

    def joined(self, columns: Columns, launch: Numbering) -> Columns:
        """Return launch number, time of the call, and time from its end to the kernel's start."""
        named, calls, device = self._named, self._calls, columns["device_id"]
        if columns["global_pid"].min(initial=0) == MISSING or not ((device >= 0) & (device <= _FIELD)).all():
            self.possible = False  # the former in trimmed exports
        positions = self._positions(columns["correlation_id"], columns["global_pid"] & PROCESS_MASK)
        met = positions >= 0
        keys = calls.thread[positions].astype(np.int64) << _FIELD_BITS | device
        keys = np.where(met, keys << _FIELD_BITS | named.code[positions], NO_CALL)
        end = (calls.end_high[positions].astype(np.int64) << _HALF) + calls.end_low[positions]
        queue = np.where(met, columns["start_ns"] - end, 0)
        return {"launch": launch.of(keys), "call_ns": named.duration_ns[positions], "queue_ns": narrow(queue)}

    def _positions(self, correlation: NDArray[Any], owner: NDArray[Any]) -> NDArray[Any]:
        """Return the position of each kernel's call; -1 without a call."""
        positions = np.full(len(correlation), -1)
        for process, rows in self._processes:
            ids, mine = self._calls.correlation[rows], np.flatnonzero(owner == process)
            if not len(mine):
                continue
            known = correlation[mine]
            wanted = np.clip(known, ids[0], ids[-1]).astype(ids.dtype)
            # Kernels in a row have ids in a row: a small part is searched.
            first, last = np.searchsorted(ids, wanted.min()), np.searchsorted(ids, wanted.max())
            at = first + np.searchsorted(ids[first : last + 1], wanted)
            positions[mine] = np.where(ids[at] == known, at + rows.start, -1)
        return positions
