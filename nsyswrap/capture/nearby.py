"""Read a window of a large capture as if what lies far from it had not been recorded.

``NearbyExport`` has some rows of the large tables. Judging a window in it gives what judging it in the whole
gives, but for a few facts: ``WholeFacts`` has them, and is stored when the whole was read once.
``analysis.nearby`` says for which windows that is so.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.partial import part_of
from nsyswrap.capture.stream import Columns, in_blocks

if TYPE_CHECKING:
    from nsyswrap.capture.export import Export
    from nsyswrap.capture.schema import Wanted
    from nsyswrap.capture.sqlite_pages import Leaves


with lazy_imports():
    import hashlib

_MOST_BYTES = 8 << 20


class DeviceUse(NamedTuple):
    """When a process used a device: the start of its first operation and the end of the last, in ns."""

    global_pid: int
    device_id: int
    first_ns: int
    last_ns: int


class WholeFacts(NamedTuple):
    """What a window needs of a whole capture in which nothing is doubtful.

    - ``first_calls``: positions of the calls that launched a kernel as the first of its name in its process
    - ``unstarted``: positions of the calls that can copy, and started nothing
    - ``without_call``: positions of the operations without a launch call, by kind
    - ``measured``: positions of the NVTX ranges that seem to measure GPU work, see ``timing_audit``
    - ``longest_latency_ns``: the longest launch latency, see ``gpu_gaps``
    - ``best_rates``: of large copies, see ``advice.memory``
    - ``threads_meet``: True if threads of a process have to do with each other, see ``analysis.nearby``
    - ``recorded_pids``: the processes with a CUDA event
    - ``all_cuda_events``: see ``Capture``
    - ``graphs``: ids of CUDA graphs, MISSING for none, with the number of operations that each launch has
    - ``first_launches``: global ids of threads, with when each first launched, in ns, unless it waited before
    - ``framework`` and ``language``: see ``program_language``
    """

    first_calls: list[int]
    unstarted: list[int]
    without_call: dict[str, list[int]]
    measured: list[int]
    longest_latency_ns: float
    best_rates: list[tuple[int, float, float]]
    threads_meet: bool
    recorded_pids: list[int]
    all_cuda_events: int | None
    framework: str
    language: str
    graphs: list[tuple[int, int]]
    first_launches: list[tuple[int, int]]
    devices: list[DeviceUse]

    def packed(self) -> bytes:
        """Return the facts as JSON behind its checksum; nothing for more than windows gain from."""
        content = json.dumps(self).encode()
        return _marked(content) if len(content) < _MOST_BYTES else b""

    @classmethod
    def unpacked(cls, content: bytes) -> WholeFacts | None:
        """Return facts from what ``packed`` returned; None from anything else."""
        _, _, known = content.partition(b"\n")
        if content != _marked(known):
            return None
        facts = cls._make(json.loads(known))
        graphs, launches = ([(a, b) for a, b in pairs] for pairs in (facts.graphs, facts.first_launches))
        uses = list(itertools.starmap(DeviceUse, facts.devices))
        return facts._replace(graphs=graphs, first_launches=launches, devices=uses)


def _marked(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


class NearbyExport:
    """An export that has only these ``rows`` of some tables, from 0 and ascending, and ``facts`` of all."""

    def __init__(self, export: Export, rows: Mapping[str, NDArray[Any]], facts: WholeFacts) -> None:
        self._export, self._rows, self.facts = export, rows, facts
        self._read: dict[tuple[str, str], NDArray[Any]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the export has
        return getattr(self._export, name)

    def count(self, table: str) -> int:
        """Return the number of rows that are here."""
        return len(self._rows[table]) if table in self._rows else self._export.count(table)

    def columns(self, table: str, wanted: Wanted) -> list[NDArray[Any]]:
        """Return columns of the rows that are here, as an export does."""
        if table not in self._rows:
            return self._export.columns(table, wanted)
        missing = [item for item in wanted if (table, item[0]) not in self._read]
        for (name, _), values in zip(missing, self._new_columns(table, missing), strict=True):
            values.flags.writeable = False
            self._read[table, name] = values
        return [self._read[table, name] for name, _ in wanted]

    def _new_columns(self, table: str, wanted: Wanted) -> list[NDArray[Any]]:
        return part_of(self._export, table, wanted, self._rows[table])

    def stream(self, table: str, wanted: Wanted, work: Callable[[Columns], Columns]) -> Columns:
        """Return the arrays that ``work`` makes of columns, as an export does."""
        if table not in self._rows:
            return self._export.stream(table, wanted, work)
        columns = zip((name for name, _ in wanted), self.columns(table, wanted), strict=True)
        return in_blocks(dict(columns), work)

    def leaves(self, table: str) -> Leaves | None:
        """Return None for tables of which rows are left out: they are not read from pages."""
        return None if table in self._rows else self._export.leaves(table)

    def has_read(self, table: str, name: str) -> bool:
        """Return True if a column was read."""
        return (table, name) in self._read or (table not in self._rows and self._export.has_read(table, name))

    def release(self, table: str, names: Sequence[str]) -> None:
        """Free columns as an export does."""
        for name in names:
            self._read.pop((table, name), None)
        self._export.release(table, names)
