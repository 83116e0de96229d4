"""Collectives: the communication kernels of several ranks that belong together, and who waited in them.

The k-th kernel of a name in the i-th communication stream of one rank belongs to the k-th of the others: a
collective is called by all of its ranks, in the same order. That needs no common clock. Its kernel starts on
each rank as soon as that rank has come to it, and ends when all have: so the last to arrive has the shortest
one, and what the others' last longer is waiting.

That holds for collectives that end on all ranks together: all-reduce, all-gather, reduce-scatter, all-to-all.
In a broadcast or a send one side may run ahead of the other; these are counted as communication, not matched.
Which ranks share a communicator is not known: all that have collectives of a name count as one group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import text_codes
from nsyswrap.analysis.kernel_names import classify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture

COMMUNICATION = "communication"
_TOGETHER = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce", re.IGNORECASE
)
_LEAST = 2
Key = tuple[int, str]  # the number of the stream, by its first collective, and the name


@dataclass(frozen=True)
class Collectives:
    """Matched collectives: for each of the member numbers in ``ranks`` a row, for each collective a column.

    ``row`` is the position of the kernel among all of the rank's, times are in ns since its capture's start.
    """

    name: str
    ranks: tuple[int, ...]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]

    @property
    def waiting_ns(self) -> NDArray[Any]:
        """What each rank's kernel lasted longer than the shortest."""
        lasting = self.end_ns - self.start_ns
        return lasting - lasting.min(axis=0)  # type: ignore[no-any-return]

    @property
    def last(self) -> NDArray[Any]:
        """The row of the rank that came last to each; -1 where two came together."""
        waiting = self.waiting_ns
        alone = (waiting == 0).sum(axis=0) == 1
        return np.where(alone, waiting.argmin(axis=0), -1)


@dataclass(frozen=True)
class Matched:
    """All matched collectives of a job, and what could not be matched, in words."""

    groups: tuple[Collectives, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of collectives."""
        return sum(group.row.shape[1] for group in self.groups)

    def waiting_by_kernel(self, member: int, kernels: int) -> NDArray[Any]:
        """Return the waiting of one member inside each of its kernels, in ns; 0 outside of collectives."""
        waiting = np.zeros(kernels, np.int64)
        for group in self.groups:
            if member in group.ranks:
                mine = group.ranks.index(member)
                waiting[group.row[mine]] = group.waiting_ns[mine]
        return waiting


def communicates(capture: Capture) -> NDArray[Any]:
    """Mark the kernels that communicate, by their full name, and return a mark per kernel."""
    if not capture.has("kernel"):
        return np.empty(0, dtype=bool)
    codes, names = text_codes(capture.columns("kernel", "name")["name"], capture.text)
    marks = [classify(name, capture.view.classes) == COMMUNICATION for name in names]
    return np.array(marks, dtype=bool)[codes]  # type: ignore[no-any-return]


def match(members: Sequence[Member]) -> Matched:
    """Match the collectives of several ranks. What is not selected on all of its ranks is left out."""
    found = [_sequences(member.everything) for member in members]
    groups, notes = [], dict[str, None]()
    for key in dict.fromkeys(key for sequences in found for key in sequences):
        having = [number for number, sequences in enumerate(found) if key in sequences]
        counts = [len(found[number][key]) for number in having]
        if len(having) < _LEAST:
            notes[f"collectives that one rank alone has are matched with nothing: {_short(key[1])}"] = None
            continue
        if len(set(counts)) > 1:
            said = f"{min(counts)} to {max(counts)} per rank; the first {min(counts)} are matched"
            notes[f"{_short(key[1])}: {said}, wrongly where not the last ones are missing"] = None
        rows = np.array([found[number][key][: min(counts)] for number in having])
        groups.append(_group(members, key[1], having, rows))
    return Matched(tuple(group for group in groups if group.row.shape[1]), tuple(notes))


def _sequences(capture: Capture) -> dict[Key, NDArray[Any]]:
    """Return the kernels of each stream and name, by start, as positions among all kernels of the rank."""
    if not capture.has("kernel"):
        return {}
    columns = capture.columns("kernel", "start_ns", "device_id", "context_id", "stream_id", "name")
    names = {i: capture.text(i) or "" for i in np.unique(columns["name"]).tolist()}
    rows = np.flatnonzero(communicates(capture))
    rows = rows[np.argsort(columns["start_ns"][rows], kind="stable")]
    streams: dict[tuple[int, ...], int] = {}
    found: dict[Key, list[int]] = {}
    places = zip(
        *(columns[field][rows].tolist() for field in ("device_id", "context_id", "stream_id")), strict=True
    )
    for row, place, name in zip(rows.tolist(), places, columns["name"][rows].tolist(), strict=True):
        if _TOGETHER.search(names[name]):
            number = streams.setdefault(place, len(streams))
            found.setdefault((number, names[name]), []).append(row)
    return {key: np.array(positions) for key, positions in found.items()}


def _group(members: Sequence[Member], name: str, having: list[int], rows: NDArray[Any]) -> Collectives:
    times = [members[number].everything.columns("kernel", "start_ns", "end_ns") for number in having]
    kept = np.ones(rows.shape[1], dtype=bool)
    for number, mine in zip(having, rows, strict=True):
        kept &= np.isin(mine, selected_kernels(members[number]))
    rows = rows[:, kept]
    start, end = (
        np.array([time[field][mine] for time, mine in zip(times, rows, strict=True)])
        for field in ("start_ns", "end_ns")
    )
    return Collectives(name, tuple(having), rows, start, end)


def selected_kernels(member: Member) -> NDArray[Any]:
    """Return the positions of a rank's selected kernels among all of the rank's."""
    every, chosen = (c.columns("kernel", "row")["row"] for c in (member.everything, member.capture))
    return np.searchsorted(every, chosen)


def _short(name: str) -> str:
    return name.partition("(")[0].partition("<")[0]
