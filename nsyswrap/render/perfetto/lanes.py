"""Number and name the processes, GPUs and lanes of a trace."""

from __future__ import annotations

from itertools import count
from typing import Literal, NamedTuple

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import (
    IN_STREAM,
    STEPS,
    gpu_name,
    place_of,
    process_name,
    sublane_suffix,
    thread_name,
)

_FIRST_FREE = ID_MASK + 1  # larger than any process or thread number


class Track(NamedTuple):
    """A track of the trace: a process, a GPU, or a lane of one.

    ``parent`` is the position of the track around it. ``process`` and ``thread`` are its numbers in the
    trace. A counter has a unit.
    """

    kind: Literal["process", "gpu", "thread", "lane", "counter"]
    name: str
    process: int
    thread: int = 0
    parent: int | None = None
    unit: str = ""


class Lanes:
    """The tracks of a trace, in display order. A position among them names a track.

    Host processes and threads keep the numbers of the operating system. GPUs, streams and sub-lanes get
    unused numbers. So do processes and threads without a number or with number 0, which Perfetto takes for
    the idle process.
    """

    def __init__(self) -> None:
        """Start without tracks."""
        self.tracks: list[Track] = []
        self._free = count(_FIRST_FREE)
        self._used: set[int] = set()  # numbers of processes

    def add(self, track: Track) -> int:
        """Add a track, and return its position."""
        self.tracks.append(track)
        return len(self.tracks) - 1

    def add_below(self, parent: int, name: str, unit: str = "") -> int:
        """Add a lane below a process, a GPU or a thread, or a counter if it has a unit."""
        process = self.tracks[parent].process
        kind: Literal["counter", "lane"] = "counter" if unit else "lane"
        return self.add(Track(kind, name, process, next(self._free), parent, unit))

    def number(self, wanted: int) -> int:
        """Return this number, or a free one if it is 0 or used by a process of another machine."""
        number = next(self._free) if wanted == 0 or wanted in self._used else wanted
        self._used.add(number)
        return number

    def thread_number(self, wanted: int) -> int:
        """Return the number of a thread; a free one instead of 0."""
        return wanted or next(self._free)


class CaptureLanes:
    """The tracks of one capture. ``label``, such as ``rank 0``, tells captures apart; empty for one."""

    def __init__(self, lanes: Lanes, capture: Capture, label: str = "") -> None:
        """Name tracks as the capture does."""
        self.lanes = lanes
        self._capture = capture.whole
        self._label = f"{label}: " if label else ""
        self._tracks: dict[object, int] = {}
        self._ranks = {} if label else _ranks(self._capture)

    def process(self, global_pid: int) -> int:
        """Return the track of a host process."""
        if global_pid not in self._tracks:
            number = 0 if global_pid == MISSING else global_pid >> PID_SHIFT & ID_MASK
            name = process_name(self._capture, global_pid)
            if global_pid in self._ranks:
                name += f", rank {self._ranks[global_pid]}"
            track = Track("process", self._label + name, self.lanes.number(number))
            self._tracks[global_pid] = self.lanes.add(track)
        return self._tracks[global_pid]

    def gpu(self, machine: int, device: int) -> int:
        """Return the track of a GPU."""
        key = ("gpu", machine, device)
        if key not in self._tracks:
            name = self._label + gpu_name(self._capture, device)
            self._tracks[key] = self.lanes.add(Track("gpu", name, self.lanes.number(0)))
        return self._tracks[key]

    def group(self, name: str) -> int:
        """Return the track that holds a group of curves."""
        key = ("group", name)
        if key not in self._tracks:
            track = Track("gpu", self._label + name, self.lanes.number(0))
            self._tracks[key] = self.lanes.add(track)
        return self._tracks[key]

    def lane(self, lane: Lane) -> int:
        """Return a track for a lane of steps or of idle time: the idle time of a GPU is below it."""
        if lane.family == STEPS:
            return self.lanes.add_below(self.group(lane.group), lane.title)
        gpu = place_of(lane.owner, lane.device, IN_STREAM).gpu
        return self.lanes.add_below(self.gpu(*gpu), lane.title)

    def thread(self, global_tid: int) -> int:
        """Return the lane of a host thread."""
        key = ("thread", global_tid)
        if key not in self._tracks:
            known = global_tid != MISSING
            parent = self.process(global_tid & ~ID_MASK if known else MISSING)
            process = self.lanes.tracks[parent].process
            number = self.lanes.thread_number(global_tid & ID_MASK if known else 0)
            self._tracks[key] = self.lanes.add(
                Track("thread", thread_name(self._capture, global_tid), process, number, parent)
            )
        return self._tracks[key]

    def thread_lane(self, global_tid: int, name: str, sublane: int) -> int:
        """Return a lane of a host thread: itself, one below it with this name, or a sub-lane of either."""
        thread = self.thread(global_tid)
        if not name and not sublane:
            return thread
        title = name or self.lanes.tracks[thread].name
        return self.lanes.add_below(thread, title + sublane_suffix(sublane))


def _ranks(capture: Capture) -> dict[int, int]:
    """Return the MPI rank of each process, by global process id."""
    if not capture.has("mpi_rank"):
        return {}
    columns = capture.columns("mpi_rank", "global_tid", "rank")
    return dict(zip((columns["global_tid"] & ~ID_MASK).tolist(), columns["rank"].tolist(), strict=True))
