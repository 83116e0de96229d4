"""Match the communication kernels of several ranks, and compute how long each rank waited in them.

All ranks of a communicator call its collectives in the same order. So the k-th kernel of a name in the i-th
communication stream of one rank belongs to the k-th kernel of the others. This needs no common clock. A
collective's kernel starts on each rank as that rank arrives, and ends on all ranks when the last one has
arrived. So the last rank has the shortest kernel, and the extra time of the others is waiting.

This holds for all-reduce, all-gather, reduce-scatter and all-to-all. In a broadcast or a send one side may
run ahead: those kernels count as communication but are not matched. Communicators are told apart where the
captures have the payloads of NCCL's NVTX ranges, which nsys exports only with --include-json or
--include-blobs. From version 2.26 on, NCCL puts the id of the communicator into the range of each call; the
id is the same on all its ranks, and a kernel belongs to the range that launched it. Elsewhere all ranks with
collectives of a name count as one group. If the kernels of a group are not at the same time, even with the
clocks shifted to fit, they are not the same collectives.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, text_codes
from nsyswrap.analysis.finding import Note, Numbers
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, communicating, gpu_operations_of
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.base.errors import NsyswrapError
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.export import Export
from nsyswrap.capture.intervals import IntervalSet, union
from nsyswrap.capture.open import open_export
from nsyswrap.capture.per_capture import per_capture

UNKNOWN = ""
_ID, _SIZE, _RANKS = "NCCL communicator ID", "Message size [bytes]", "No. of ranks"  # NCCL's fields
# A name and a whole number: decimal, with commas or without, or hexadecimal
_IN_JSON = regex(r'"([^"]+)"\s*:\s*"?(?:0x([0-9a-fA-F]{1,16})|(\d[\d,]{0,25}))(?![\w.])')
_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_HEADER = struct.Struct("<4I2Q")  # domain, flags, schema, flags, bytes of the payload, bytes of all
_NUMBERS = {_ID: struct.Struct("<Q"), _SIZE: struct.Struct("<Q"), _RANKS: struct.Struct("<I")}
_MOST_BYTES = 2**63 - 1
_SCHEMA = 2  # position of the schema in the header


class NcclCall(NamedTuple):
    """What the payload of a call of NCCL says: communicator, message size, and the ranks at its creation.

    ``communicator`` is UNKNOWN, and the other fields are None, if the capture does not have them.
    """

    communicator: str = UNKNOWN
    size_bytes: int | None = None
    ranks: int | None = None


@per_capture
def nccl_calls(capture: Capture) -> list[NcclCall]:
    """Return the call of NCCL that launched each kernel, without fields if the capture does not have it."""
    kernels = capture.columns("kernel", "row")["row"] - 1
    found = [NcclCall()] * len(kernels)
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


@per_capture
def communicator_ranks(capture: Capture) -> dict[str, int]:
    """Return the number of ranks of each communicator whose creation was recorded with its payload."""
    sizes: dict[str, set[int]] = {}
    for _, _, calls in _calls(capture).values():
        for call in calls:
            if call.ranks is not None:
                sizes.setdefault(call.communicator, set()).add(call.ranks)
    return {name: ranks.pop() for name, ranks in sizes.items() if len(ranks) == 1}


@per_capture
def _calls(capture: Capture) -> Mapping[int, tuple[NDArray[Any], NDArray[Any], list[NcclCall]]]:
    """Return start and end in ns of NCCL's calls and their payload, by thread and start."""
    try:
        rows = sorted(_ranges(open_export(capture.path)), key=lambda row: row[:3])
    except (NsyswrapError, AttributeError):  # an Arrow export answers no SQL
        return {}
    by_thread: dict[int, list[tuple[int, int, NcclCall]]] = {}
    for thread, start, end, call in rows:
        by_thread.setdefault(thread, []).append((start, end, call))
    return {
        thread: (
            np.array([start for start, _, _ in of_thread]),
            np.array([end for _, end, _ in of_thread]),
            [call for _, _, call in of_thread],
        )
        for thread, of_thread in by_thread.items()
    }


def _at(calls: tuple[NDArray[Any], NDArray[Any], list[NcclCall]] | None, time_ns: int) -> NcclCall:
    if calls is None:
        return NcclCall()
    starts, ends, of_thread = calls
    last = int(np.searchsorted(starts, time_ns, "right")) - 1
    return of_thread[last] if last >= 0 and time_ns < ends[last] else NcclCall()


def _ranges(export: Export) -> Iterator[tuple[int, int, int, NcclCall]]:
    """Yield thread, start, end and payload of each range with a communicator of NCCL."""
    table = schema.EVENTS["nvtx"].table
    there = export.tables.get(table, [])
    payloads = [name for name in ("jsonText", "jsonTextId", "binaryData") if name in there]
    if not payloads or not {"end", "domainId"} <= set(there):
        return
    offsets = _offsets(export) if "binaryData" in payloads else {}
    columns = ", ".join(payloads)
    where = " OR ".join(f"{name} IS NOT NULL" for name in payloads)
    rows = export.rows(
        f"SELECT globalTid, start, end, domainId, {columns} FROM {table} WHERE end >= start AND ({where})"  # noqa: S608 - names of ours
    )
    for thread, start, end, domain, *values in rows:
        payload = dict(zip(payloads, values, strict=True))
        text = payload.get("jsonText") or export.strings.get(payload.get("jsonTextId") or 0, "")
        fields = _in_json(text) or _in_bytes(payload.get("binaryData"), offsets.get(domain, {}))
        if _ID in fields and all(isinstance(number, int) for number in (thread, start, end)):
            size = fields.get(_SIZE, 0)
            known = size if 0 < size <= _MOST_BYTES else None
            yield thread, start, end, NcclCall(f"{fields[_ID]:x}", known, fields.get(_RANKS))


def _in_json(text: object) -> dict[str, int]:
    found = _IN_JSON.findall(text) if isinstance(text, str) else []
    return {
        name: int(hexadecimal, 16) if hexadecimal else int(decimal.replace(",", ""))
        for name, hexadecimal, decimal in found
        if name in _NUMBERS
    }


def _offsets(export: Export) -> dict[int, dict[int, dict[str, int]]]:
    """Return where NCCL's fields are in a payload, by domain and schema: libraries number theirs alike."""
    if not {"domainId", "schemaId", "name", "offset"} <= set(export.tables.get(_ENTRIES, ())):
        return {}
    offsets: dict[int, dict[int, dict[str, int]]] = {}
    rows = export.select(
        _ENTRIES, ("domainId", "int"), ("schemaId", "int"), ("name", "text"), ("offset", "int")
    )
    for domain, number, name, offset in rows:
        if name in _NUMBERS and domain is not None and number is not None:
            offsets.setdefault(domain, {}).setdefault(number, {})[name] = offset or 0
    return offsets


def _in_bytes(data: object, offsets: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    if not isinstance(data, bytes) or len(data) < _HEADER.size:
        return {}
    fields = offsets.get(_HEADER.unpack_from(data)[_SCHEMA], {})
    return {
        name: _NUMBERS[name].unpack_from(data, _HEADER.size + offset)[0]
        for name, offset in fields.items()
        if offset >= 0 and len(data) >= _HEADER.size + offset + _NUMBERS[name].size
    }


COMMUNICATION = "communication"
_MATCHABLE = regex(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce", re.IGNORECASE)
_FEWEST_RANKS = 2
_SLACK_NS = 100_000  # by which shifted clocks may be apart
_MOST_APART = 0.1  # part of a group's collectives whose kernels do not overlap
_FEWEST_TO_SHIFT = 4  # collectives: fewer always fit
# Communicator, or else the number of the stream in order of its first collective; kernel name
Key = tuple["str | int", str]


@dataclass(frozen=True)
class Collectives:
    """Matched collectives of one name: one row per member in ``ranks``, one column per collective.

    ``row`` is the position of the kernel among all kernels of the rank. Times are in ns since the start of
    the rank's capture. ``hidden_ns`` is the part of the wait in which own kernels of the rank ran.
    """

    name: str
    ranks: tuple[int, ...]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    hidden_ns: NDArray[Any]

    @property
    def waiting_ns(self) -> NDArray[Any]:
        """The time by which each rank's kernel is longer than the shortest of its collective, in ns."""
        return _waiting(self.start_ns, self.end_ns)

    @property
    def exposed_ns(self) -> NDArray[Any]:
        """The part of the wait in which no own kernel of the rank ran on its GPU, in ns."""
        return self.waiting_ns - self.hidden_ns  # type: ignore[no-any-return]

    @property
    def last(self) -> NDArray[Any]:
        """The row of the rank that arrived last at each collective; -1 if two arrived together."""
        waiting = self.waiting_ns
        one_last = (waiting == 0).sum(axis=0) == 1
        return np.where(one_last, waiting.argmin(axis=0), -1)


@dataclass(frozen=True)
class CollectiveMatches:
    """All matched collectives of a job, notes on what could not be matched, and why a verdict is withheld."""

    groups: tuple[Collectives, ...]
    notes: tuple[Note, ...]
    doubts: tuple[Note, ...] = ()

    def __len__(self) -> int:
        """Return the number of collectives."""
        return sum(group.row.shape[1] for group in self.groups)

    def waiting_by_kernel(self, member: int, kernels: int) -> NDArray[Any]:
        """Return the waiting time of one member in each of its kernels, in ns; 0 outside of collectives."""
        waiting = np.zeros(kernels, np.int64)
        for group in self.groups:
            if member in group.ranks:
                mine = group.ranks.index(member)
                waiting[group.row[mine]] = group.waiting_ns[mine]
        return waiting


def _waiting(start_ns: NDArray[Any], end_ns: NDArray[Any]) -> NDArray[Any]:
    duration = end_ns - start_ns
    return duration - duration.min(axis=0)  # type: ignore[no-any-return]


def communicates(capture: Capture) -> NDArray[Any]:
    """Mark the communication kernels, classified by their full names."""
    if not capture.has("kernel"):
        return np.empty(0, dtype=bool)
    codes, names = text_codes(capture.columns("kernel", "name")["name"], capture.text)
    marks = [classify(name, capture.view.classes) == COMMUNICATION for name in names]
    return np.array(marks, dtype=bool)[codes]  # type: ignore[no-any-return]


def match(members: Sequence[RankCapture]) -> CollectiveMatches:
    """Match the collectives of several ranks; one that is not selected on all its ranks is left out."""
    sequences = [_sequences(member.everything) for member in members]
    own_kernels = [_own_kernels(member.everything) for member in members]
    groups, notes, doubts = [], list[Note](), list[Note]()
    for key in dict.fromkeys(key for of_member in sequences for key in of_member):
        ranks = [number for number, of_member in enumerate(sequences) if key in of_member]
        counts = [len(sequences[number][key]) for number in ranks]
        name = key[1].partition("(")[0].partition("<")[0]
        if len(ranks) < _FEWEST_RANKS:
            notes.append(alone := Note("collective_alone", {"name": name}))
            if isinstance(key[0], int):  # otherwise the other ranks of the communicator were not profiled
                doubts.append(alone)
            continue
        if len(set(counts)) > 1:
            numbers: Numbers = {"name": name, "least": min(counts), "most": max(counts)}
            notes.append(Note("collectives_uneven", numbers))
            doubts.append(Note("collectives_uneven_doubt", numbers))
        rows = np.array([sequences[number][key][: min(counts)] for number in ranks])
        if apart := _apart(members, ranks, rows):
            numbers = {"name": name, "apart": apart, "of": rows.shape[1]}
            notes.append(Note("collectives_apart", numbers))
            doubts.append(Note("collectives_apart_doubt", numbers))
            continue
        kept = np.ones(rows.shape[1], dtype=bool)
        for number, mine in zip(ranks, rows, strict=True):
            kept &= np.isin(mine, selected_kernels(members[number]))
        rows = rows[:, kept]
        start, end = _times(members, ranks, rows)
        waited = start + (_waiting(start, end) if rows.shape[1] else 0)
        hidden = np.zeros_like(start)
        for i, (number, mine) in enumerate(zip(ranks, rows, strict=True)):
            devices = members[number].everything.columns("kernel", "device_id")["device_id"][mine]
            for device, cover in own_kernels[number].items():
                here = devices == device
                hidden[i, here] = cover.within(start[i, here], waited[i, here])
        groups.append(Collectives(key[1], tuple(ranks), rows, start, end, hidden))
    return CollectiveMatches(
        tuple(group for group in groups if group.row.shape[1]), tuple(notes), tuple(doubts)
    )


def _apart(members: Sequence[RankCapture], ranks: list[int], rows: NDArray[Any]) -> int:
    """Return how many collectives are not at the same time on all ranks; 0 if these are few.

    Each rank's clock is shifted so that the ends fit best. This needs no common clock.
    """
    if rows.shape[1] < _FEWEST_TO_SHIFT:
        return 0
    start, end = _times(members, ranks, rows)
    shift = np.median(end - end[0], axis=1).astype(np.int64)[:, None]
    apart = (start - shift).max(axis=0) > (end - shift).min(axis=0) + _SLACK_NS
    return int(apart.sum()) if apart.mean() > _MOST_APART else 0


def _sequences(capture: Capture) -> dict[Key, NDArray[Any]]:
    """Return the collectives of each Key by start, as positions among the rank's kernels."""
    if not capture.has("kernel"):
        return {}
    columns = capture.columns("kernel", "start_ns", "device_id", "context_id", "stream_id", "name")
    names = {i: capture.text(i) or "" for i in ascending(columns["name"]).tolist()}
    rows = np.flatnonzero(communicates(capture))
    rows = rows[np.argsort(columns["start_ns"][rows], kind="stable")]
    known = nccl_calls(capture) if len(rows) else []
    streams: dict[tuple[int, ...], int] = {}
    rows_by_key: dict[Key, list[int]] = {}
    places = zip(
        *(columns[field][rows].tolist() for field in ("device_id", "context_id", "stream_id")), strict=True
    )
    for row, place, name in zip(rows.tolist(), places, columns["name"][rows].tolist(), strict=True):
        if _MATCHABLE.search(names[name]):
            number = streams.setdefault(place, len(streams))
            rows_by_key.setdefault((known[row].communicator or number, names[name]), []).append(row)
    return {key: np.array(positions) for key, positions in rows_by_key.items()}


def _times(members: Sequence[RankCapture], ranks: list[int], rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Return start and end of the kernels in ``rows``, in ns."""
    times = [members[number].everything.columns("kernel", "start_ns", "end_ns") for number in ranks]
    return [
        np.array([time[field][mine] for time, mine in zip(times, rows, strict=True)])
        for field in ("start_ns", "end_ns")
    ]


def _own_kernels(capture: Capture) -> dict[int, IntervalSet]:
    """Return when kernels and graphs of the rank ran on each GPU, without communication."""
    operations = gpu_operations_of(capture)
    own = operations.computes & ~communicating(capture, operations)
    covers = {}
    for device in ascending(operations.device_id[own]).tolist():
        mine = own & (operations.device_id == device)
        covers[device] = union(operations.start_ns[mine], operations.end_ns[mine])
    return covers


def selected_kernels(member: RankCapture) -> NDArray[Any]:
    """Return the positions of a rank's selected kernels among all its kernels."""
    every, chosen = (c.columns("kernel", "row")["row"] for c in (member.everything, member.capture))
    return np.searchsorted(every, chosen)
