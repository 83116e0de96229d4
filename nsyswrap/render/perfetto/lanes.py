"""The rows of a trace: processes of the host, GPUs, and the lanes in them, with their numbers and names."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.capture import Capture

_FIRST_OWN = ID_MASK + 1  # no process or thread has such a number


class Lane(NamedTuple):
    """One lane: ``process`` and ``thread`` are its numbers in the trace."""

    process: int
    thread: int
    name: str


class Lanes:
    """Processes and lanes, in the order in which they are to be shown.

    Processes and threads of the host keep the numbers of the operating system. GPUs, streams and the lanes
    beside a lane get numbers that none of these has, and no two the same; so does what has none, or 0, which
    Perfetto takes for the idle process.
    """

    def __init__(self, capture: Capture) -> None:
        """Start without lanes; names are those of ``capture``."""
        self.names: dict[int, str] = {}  # of processes, by their number in the trace
        self.heads: list[str] = []  # what places an event in each lane
        self._lanes: list[Lane] = []
        self._capture = capture.whole
        self._free = count(_FIRST_OWN)
        self._numbers: dict[object, int] = {}
        self._ranks = _ranks(self._capture)

    def process(self, global_pid: int) -> int:
        """Return the number of a process of the host; one that another machine had first gets its own."""
        if global_pid in self._numbers:
            return self._numbers[global_pid]
        known = global_pid != MISSING
        number = global_pid >> PID_SHIFT & ID_MASK if known else 0
        # Its first thread has its number, and its name.
        _, name = self._capture.threads.get(global_pid | number, (None, None))
        name = name or ("process" if known else "unknown process")
        if global_pid in self._ranks:
            name += f", rank {self._ranks[global_pid]}"
        return self._add(global_pid, next(self._free) if number in (0, *self.names) else number, name)

    def gpu(self, machine: int, device: int) -> int:
        """Return the number of a GPU, which stands in the trace as a process."""
        key = ("gpu", machine, device)
        if key in self._numbers:
            return self._numbers[key]
        numbered = "GPU" if device == MISSING else f"GPU {device}"
        name = self._capture.gpu_names.get(device, "")
        return self._add(key, next(self._free), f"{numbered} {name}".strip())

    def _add(self, key: object, number: int, name: str) -> int:
        self.names[number] = name
        self._numbers[key] = number
        return number

    def thread(self, global_tid: int, sublane: int) -> int:
        """Add a thread of the host, or a lane beside it, and return its position among the lanes."""
        known = global_tid != MISSING
        process = self.process(global_tid & ~ID_MASK if known else MISSING)
        _, name = self._capture.threads.get(global_tid, (None, None))
        number = (global_tid & ID_MASK if known and not sublane else 0) or next(self._free)
        named = name or ("thread" if known else "unknown thread")
        return self.add(Lane(process, number, named + beside(sublane)))

    def own(self, process: int, name: str) -> int:
        """Add a lane that is no thread, and return its position."""
        return self.add(Lane(process, next(self._free), name))

    def add(self, lane: Lane) -> int:
        """Add a lane and return its position."""
        self._lanes.append(lane)
        self.heads.append(f'"pid":{lane.process},"tid":{lane.thread}')
        return len(self._lanes) - 1

    def metadata(self) -> Iterator[str]:
        """Yield the events that name and order processes and lanes."""
        for order, (number, name) in enumerate(self.names.items()):
            head = f'"pid":{number},"tid":{number}'
            yield _named("process_name", head, "name", name)
            yield _named("process_sort_index", head, "sort_index", order)
        for order, (lane, head) in enumerate(zip(self._lanes, self.heads, strict=True)):
            yield _named("thread_name", head, "name", lane.name)
            yield _named("thread_sort_index", head, "sort_index", order)


def beside(sublane: int) -> str:
    """Return what follows the name of a lane beside another."""
    return f" ({sublane + 1})" if sublane else ""


def _named(what: str, head: str, key: str, value: str | int) -> str:
    return f'{{"ph":"M","name":"{what}",{head},"args":{{"{key}":{json.dumps(value)}}}}}'


def _ranks(capture: Capture) -> dict[int, int]:
    """Return the MPI rank of each process, by global process id."""
    if not capture.has("mpi_rank"):
        return {}
    found = capture.columns("mpi_rank", "global_tid", "rank")
    return dict(zip((found["global_tid"] & ~ID_MASK).tolist(), found["rank"].tolist(), strict=True))
