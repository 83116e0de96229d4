"""The tracks of a trace, and the slices in them as columns: names, categories and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import KINDS, names_of_kind
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.peaks import kernel_kinds
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import (
    IN_STREAM,
    NO_NAME,
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

    def _known(self, key: object, make: Callable[[], Track]) -> int:
        if key not in self._tracks:
            self._tracks[key] = self.lanes.add(make())
        return self._tracks[key]

    def process(self, global_pid: int) -> int:
        """Return the track of a host process."""
        number = 0 if global_pid == MISSING else global_pid >> PID_SHIFT & ID_MASK
        rank = f", rank {self._ranks[global_pid]}" if global_pid in self._ranks else ""
        name = f"{self._label}{process_name(self._capture, global_pid)}{rank}"
        return self._known(global_pid, lambda: Track("process", name, self.lanes.number(number)))

    def gpu(self, machine: int, device: int) -> int:
        """Return the track of a GPU."""
        return self._group(("gpu", machine, device), gpu_name(self._capture, device))

    def group(self, name: str) -> int:
        """Return the track that holds a group of curves or of steps."""
        return self._group(("group", name), name)

    def _group(self, key: tuple[object, ...], name: str) -> int:
        return self._known(key, lambda: Track("gpu", self._label + name, self.lanes.number(0)))

    def lane(self, lane: Lane) -> int:
        """Return a track for a lane of steps or of idle time: the idle time of a GPU is below it."""
        if lane.family == STEPS:
            return self.lanes.add_below(self.group(lane.group), lane.title)
        gpu = place_of(lane.owner, lane.device, IN_STREAM).gpu
        return self.lanes.add_below(self.gpu(*gpu), lane.title)

    def thread(self, global_tid: int) -> int:
        """Return the lane of a host thread."""
        own, of = (0, MISSING) if global_tid == MISSING else (global_tid & ID_MASK, global_tid & ~ID_MASK)
        lanes, parent, name = self.lanes, self.process(of), thread_name(self._capture, global_tid)
        place = lanes.tracks[parent].process
        make = lambda: Track("thread", name, place, lanes.thread_number(own), parent)  # noqa: E731
        return self._known(("thread", global_tid), make)

    def thread_lane(self, global_tid: int, name: str, sublane: int) -> int:
        """Return a lane of a host thread: itself, one below it with this name, or a sub-lane of either."""
        thread = self.thread(global_tid)
        if not name and not sublane:
            return thread
        title = name or self.lanes.tracks[thread].name
        return self.lanes.add_below(thread, title + sublane_suffix(sublane))


def _ranks(capture: Capture) -> dict[int, int]:
    if not capture.has("mpi_rank"):
        return {}
    columns = capture.columns("mpi_rank", "global_tid", "rank")
    return dict(zip((columns["global_tid"] & ~ID_MASK).tolist(), columns["rank"].tolist(), strict=True))


_LABELS = {"src_kind": "mem_kind", "dst_kind": "mem_kind"}  # fields that share a table of labels
# Shown by the slice itself, its lane or its arrow.
_DRAWN = (
    *("start_ns", "end_ns", "name", "base_name", "mangled_name", "copy_kind", "correlation_id"),
    *("global_tid", "global_pid", "device_id", "context_id", "stream_id", "event_class"),
)
_ZERO_IS_NONE = {"return_value", "green_context_id"}  # no error, no green context


class RunningKernels(NamedTuple):
    """How many kernels run on the GPU of each slice, from its start on and from its end on.

    ``track`` is the track of that counter; -1 for a slice on a GPU without one.
    """

    track: NDArray[Any]
    begin: NDArray[Any]
    end: NDArray[Any]


@dataclass(frozen=True)
class Slices:
    """Slices by lane and in drawing order, or points in time, with one entry each; times in ns.

    ``lane`` is a track, ``style`` a number in SliceStyles. ``arrows`` arrows begin at the slice, or end at it
    unless ``calling``; the first one has the number ``arrow``.
    """

    lane: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    style: NDArray[Any]
    arrow: NDArray[Any]
    arrows: NDArray[Any]
    calling: bool = False
    points: bool = False
    running: RunningKernels | None = None

    @classmethod
    def of(
        cls,
        lanes: Iterable[tuple[int, NDArray[Any]]],
        columns: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        *,
        calling: bool = False,
        points: bool = False,
    ) -> tuple[Slices, NDArray[Any]]:
        """Return the slices of tracks with the positions of their events, and these positions in that order.

        ``columns`` are starts, ends and styles.
        """
        ordered = sorted(lanes, key=itemgetter(0))
        none = np.empty(0, np.int64)
        rows = np.concatenate([none, *(rows for _, rows in ordered)])
        track = np.array([track for track, _ in ordered], np.int32)
        lane = np.repeat(track, [len(rows) for _, rows in ordered])
        nothing = np.zeros(len(lane), np.int32)
        start, end, style = (column[rows] for column in columns)
        return cls(lane, start, end, style, nothing, nothing, calling, points), rows


class Argument(NamedTuple):
    """An argument of each style: numbers, or positions in ``texts``. MISSING means that a style has none."""

    values: NDArray[Any]
    texts: Sequence[str] | None = None


@dataclass(frozen=True)
class KindStyles:
    """The appearances of one kind of event: numbers in ``names`` and ``groups``, and arguments.

    A viewer paints slices of one group in one color. There may be no groups.
    """

    kind: str
    name: NDArray[Any]
    names: Sequence[str | None]
    group: NDArray[Any]
    groups: Sequence[str]
    arguments: Mapping[str, Argument]


class SliceStyles:
    """The distinct styles of all slices."""

    def __init__(self) -> None:
        """Start without styles."""
        self.kinds: list[KindStyles] = []
        self.count = 0

    def plain(
        self,
        kind: str,
        codes: NDArray[Any],
        names: Sequence[str | None],
        group: NDArray[Any] | None = None,
        groups: Sequence[str] = (),
    ) -> NDArray[Any]:
        """Add styles that are only names; ``codes`` are numbers in ``names``. Return the style of each row.

        ``group`` has the position of each name's group in ``groups``.
        """
        numbers = np.arange(len(names))
        return self._add(
            KindStyles(kind, numbers, names, numbers if group is None else group, groups, {}), codes
        )

    def of_events(
        self, capture: Capture, kind: str, row: NDArray[Any], paths: Argument | None = None
    ) -> NDArray[Any]:
        """Add the styles of events, and return the style of each. Rows are those of ``capture``.

        ``paths`` are the NVTX ranges around the launch of each event.
        """
        if wanted := style_fields(kind):
            capture.columns(kind, *wanted)  # in one pass
        codes, names = _names(capture, kind)
        group, groups = kernel_kinds(capture) if kind == "kernel" else (codes * 0, [])
        columns = _columns(capture, kind)
        keys = [codes[row], group[row], *(values[row] for values in columns.values())]
        style, kept = group_keys(*keys, *([paths.values] if paths else []))
        arguments = _arguments(capture, kind, dict(zip(columns, kept[2:], strict=False)))
        if paths:
            arguments["nvtx_path"] = Argument(kept[-1], paths.texts)
        return self._add(KindStyles(kind, kept[0], names, kept[1], groups, arguments), style)

    def _add(self, of_kind: KindStyles, codes: NDArray[Any]) -> NDArray[Any]:
        styles: NDArray[Any] = (codes + self.count).astype(np.int32)
        self.kinds.append(of_kind)
        self.count += len(of_kind.name)
        return styles

    def names(self) -> tuple[NDArray[Any], list[str]]:
        """Return the number of each style's name, and the names of all kinds."""
        texts = [name or NO_NAME for kind in self.kinds for name in kind.names]
        starts = np.cumsum([0, *(len(kind.names) for kind in self.kinds)]).tolist()
        numbers = [kind.name + start for kind, start in zip(self.kinds, starts, strict=False)]
        return np.concatenate([np.empty(0, np.int64), *numbers]), texts


def style_fields(kind: str) -> list[str]:
    """Return the fields that styles of a kind of event are made of."""
    fields = schema.EVENTS[kind].fields.items()
    return [name for name, spec in fields if name == "name" or (name not in _DRAWN and spec.kind != "text")]


def _names(capture: Capture, kind: str) -> tuple[NDArray[Any], Sequence[str | None]]:
    if "name" in schema.EVENTS[kind].fields:
        return name_codes(capture, kind)
    if kind in KINDS:
        names = names_of_kind(capture, kind, capture.columns(kind, "row")["row"] - 1)
        return names.codes, names.texts
    return np.zeros(capture.count(kind), np.int64), [schema.EVENTS[kind].title]


def _columns(capture: Capture, kind: str) -> dict[str, NDArray[Any]]:
    """Return the fields beyond name, time and lane. Fields without any value are left out."""
    wanted = [name for name in style_fields(kind) if name != "name"]
    read = capture.columns(kind, *wanted) if wanted else {}
    for name in read.keys() & _ZERO_IS_NONE:
        read[name] = np.where(read[name] == 0, MISSING, read[name])
    return {name: values for name, values in read.items() if (values != MISSING).any()}


def _arguments(capture: Capture, kind: str, columns: Mapping[str, NDArray[Any]]) -> dict[str, Argument]:
    arguments: dict[str, Argument] = {}
    for name, values in columns.items():
        enum = _LABELS.get(name, name)
        if name[:-2] in ("grid", "block"):
            arguments.setdefault(name[:-2], _shape(columns, name[:-2]))
        elif enum in schema.ENUMS:
            arguments[name] = _texts(values, partial(_label, capture.labels(enum)))
        elif schema.EVENTS[kind].fields[name].kind == "string":
            arguments[name] = _texts(values, lambda number: capture.text(number) or NO_NAME)
        else:
            arguments[name] = Argument(values)
    return arguments


def _shape(columns: Mapping[str, NDArray[Any]], name: str) -> Argument:
    codes, sizes = group_keys(*(columns[f"{name}_{axis}"] for axis in "xyz"))
    return Argument(
        codes, [", ".join(map(str, size)) for size in zip(*map(np.ndarray.tolist, sizes), strict=True)]
    )


def _texts(values: NDArray[Any], text: Callable[[int], str]) -> Argument:
    known, codes = distinct(values)
    texts = ["" if number == MISSING else text(number) for number in known.tolist()]
    return Argument(np.where(values == MISSING, MISSING, codes), texts)


def _label(labels: Mapping[int, str], number: int) -> str:
    return labels.get(number, str(number))
