"""Number and name the processes, GPUs and lanes of a trace."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.capture import Capture

_FIRST_FREE = ID_MASK + 1  # larger than any process or thread number


class Lane(NamedTuple):
    """A lane of the trace. ``process`` and ``thread`` are its numbers in the trace."""

    process: int
    thread: int
    name: str


class Lanes:
    """Processes and lanes, in display order.

    Host processes and threads keep the numbers of the operating system. GPUs, streams and sub-lanes get
    unused numbers. So do processes and threads without a number or with number 0, which Perfetto takes for
    the idle process.
    """

    def __init__(self, capture: Capture) -> None:
        """Start without lanes. Names come from ``capture``."""
        self.names: dict[int, str] = {}  # of processes, by their number in the trace
        self.heads: list[str] = []  # of each lane, the JSON members that place an event in it
        self._lanes: list[Lane] = []
        self._capture = capture.whole
        self._free = count(_FIRST_FREE)
        self._numbers: dict[object, int] = {}
        self._ranks = _ranks(self._capture)

    def process(self, global_pid: int) -> int:
        """Return the number of a host process. If another machine has used the number, use a free one."""
        if global_pid in self._numbers:
            return self._numbers[global_pid]
        known = global_pid != MISSING
        number = global_pid >> PID_SHIFT & ID_MASK if known else 0
        # The first thread has the number and the name of its process.
        _, name = self._capture.threads.get(global_pid | number, (None, None))
        name = name or ("process" if known else "unknown process")
        if global_pid in self._ranks:
            name += f", rank {self._ranks[global_pid]}"
        taken = number == 0 or number in self.names
        return self._add_process(global_pid, next(self._free) if taken else number, name)

    def gpu(self, machine: int, device: int) -> int:
        """Return the number of a GPU, which is a process in the trace."""
        key = ("gpu", machine, device)
        if key in self._numbers:
            return self._numbers[key]
        gpu = "GPU" if device == MISSING else f"GPU {device}"
        name = self._capture.gpu_names.get(device, "")
        return self._add_process(key, next(self._free), f"{gpu} {name}".strip())

    def _add_process(self, key: object, number: int, name: str) -> int:
        self.names[number] = name
        self._numbers[key] = number
        return number

    def thread(self, global_tid: int, sublane: int) -> int:
        """Add a lane for a host thread, or a sub-lane of it, and return its position among the lanes."""
        known = global_tid != MISSING
        process = self.process(global_tid & ~ID_MASK if known else MISSING)
        _, name = self._capture.threads.get(global_tid, (None, None))
        number = (global_tid & ID_MASK if known and not sublane else 0) or next(self._free)
        name = name or ("thread" if known else "unknown thread")
        return self._add(Lane(process, number, name + sublane_suffix(sublane)))

    def add_named(self, process: int, name: str) -> int:
        """Add a lane that is not a thread, and return its position."""
        return self._add(Lane(process, next(self._free), name))

    def _add(self, lane: Lane) -> int:
        self._lanes.append(lane)
        self.heads.append(f'"pid":{lane.process},"tid":{lane.thread}')
        return len(self._lanes) - 1

    def metadata(self) -> Iterator[str]:
        """Yield the events that name and order processes and lanes."""
        for order, (number, name) in enumerate(self.names.items()):
            head = f'"pid":{number},"tid":{number}'
            yield _metadata_event("process_name", head, "name", name)
            yield _metadata_event("process_sort_index", head, "sort_index", order)
        for order, (lane, head) in enumerate(zip(self._lanes, self.heads, strict=True)):
            yield _metadata_event("thread_name", head, "name", lane.name)
            yield _metadata_event("thread_sort_index", head, "sort_index", order)


def sublane_suffix(sublane: int) -> str:
    """Return the suffix of a sub-lane's name; empty for the lane itself."""
    return f" ({sublane + 1})" if sublane else ""


def _metadata_event(name: str, head: str, key: str, value: str | int) -> str:
    return f'{{"ph":"M","name":"{name}",{head},"args":{{"{key}":{json.dumps(value)}}}}}'


def _ranks(capture: Capture) -> dict[int, int]:
    """Return the MPI rank of each process, by global process id."""
    if not capture.has("mpi_rank"):
        return {}
    columns = capture.columns("mpi_rank", "global_tid", "rank")
    return dict(zip((columns["global_tid"] & ~ID_MASK).tolist(), columns["rank"].tolist(), strict=True))
