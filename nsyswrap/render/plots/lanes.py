"""Lanes of the timeline plot: the part of each bin of time that every kind of event takes.

The lanes are those of ``render.timeline``. One has at most BINS values for each kind, however many events
there are. Sub-lanes of a stream are drawn as one, and so are a thread's calls of other kinds left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.intervals import overlap, union
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import Style
from nsyswrap.render.timeline import lanes as model
from nsyswrap.render.timeline import names
from nsyswrap.render.timeline.names import CALLS, COPIES, KERNELS, RANGES, gpu_name, name_of, style_of

BINS = 600  # each about a pixel on a screen

MOST_STREAMS = 16
MOST_THREADS, MOST_LEVELS = 6, 3
_FAMILIES = (KERNELS, COPIES, CALLS, RANGES)  # in the order of the legend
_SINGLE = 4  # bins; a longer NVTX range is drawn by itself


class Kind(NamedTuple):
    """A kind of event, sorted as in the legend. A kind that ``hangs`` is drawn from the lane's upper edge."""

    order: int
    label: str
    color: Style
    hangs: bool = False


def _kind(kind: names.Kind) -> Kind:
    family, _ = kind
    name = name_of(kind)
    complete = family not in (KERNELS, CALLS) or name == "CUDA graph" or name.endswith(" products")
    label = name if complete else f"{name} {family}"
    return Kind(_FAMILIES.index(family), label, style_of(kind), hangs=family == COPIES)


NVTX_RANGE = _kind((RANGES, "range"))


class Range(NamedTuple):
    """An NVTX range that is drawn by itself; times in ns."""

    start_ns: int
    end_ns: int
    name: str | None


@dataclass(frozen=True)
class Lane:
    """One row of the timeline: for each kind the part of each bin that it takes, and single ranges."""

    label: str
    shares: dict[Kind, NDArray[Any]]
    ranges: list[Range] = field(default_factory=list)


def bins(start_ns: int, end_ns: int) -> NDArray[Any]:
    """Return the BINS + 1 bin edges of a window in ns. A window shorter than BINS ns has fewer."""
    return np.unique(np.linspace(start_ns, max(end_ns, start_ns + 1), BINS + 1).round().astype(np.int64))


def gpu_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return a lane for each of the busiest streams, and the number of streams without a lane."""
    streams: list[list[model.Lane]] = []
    for lane in model.streams(capture):
        if lane.level == 0:
            streams.append([])
        streams[-1].append(lane)
    kept = _busiest([_time(parts) for parts in streams], MOST_STREAMS)
    lanes = [
        Lane(f"{gpu_name(capture, parts[0].device, model=False)} {parts[0].title}", _shares(parts, edges))
        for parts in (streams[i] for i in kept)
    ]
    return lanes, len(streams) - len(kept)


def host_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return the lanes of the busiest threads, and the number of threads without a lane.

    The NVTX lanes of a thread are above its API lane.
    """
    drawn = [lane for lane in model.threads(capture) if lane.family in (CALLS, RANGES)]
    threads = [list(parts) for _, parts in groupby(drawn, lambda lane: lane.owner)]
    kept = _busiest([_time(parts) for parts in threads], MOST_THREADS)
    lanes = [lane for i in kept for part in threads[i] for lane in _host_lane(part, edges)]
    return lanes, len(threads) - len(kept)


def host_times(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end of all CUDA API calls and NVTX ranges that have a lane, in ns."""
    drawn = [lane for lane in model.threads(capture) if lane.family in (CALLS, RANGES)]
    none = np.empty(0, np.int64)
    start, end = ([none, *(getattr(lane, name) for lane in drawn)] for name in ("start_ns", "end_ns"))
    return np.concatenate(start), np.concatenate(end)


def _time(lanes: Sequence[model.Lane]) -> int:
    return sum(int((lane.end_ns - lane.start_ns).sum()) for lane in lanes)


def _busiest(time_ns: Sequence[int], most: int) -> list[int]:
    """Return the positions of the ``most`` longest times, ascending."""
    return sorted(np.argsort(-np.array(time_ns), kind="stable")[:most].tolist())


def _host_lane(lane: model.Lane, edges: NDArray[Any]) -> Iterator[Lane]:
    """Yield the lane of calls or of one level of ranges if it has something in the bins."""
    if lane.family == CALLS:
        if taken := _shares([lane], edges):
            yield Lane(f"{lane.group} API", taken)
        return
    if lane.level >= MOST_LEVELS:
        return
    long = (
        (lane.end_ns - lane.start_ns >= _SINGLE * np.diff(edges).max())
        & (lane.end_ns > edges[0])
        & (lane.start_ns < edges[-1])
    )
    taken = _shares([lane], edges, ~long)
    single = np.flatnonzero(long).tolist()
    names = [lane.names[lane.name[i]].removeprefix(":") for i in single]
    spans = zip(lane.start_ns[long].tolist(), lane.end_ns[long].tolist(), names, strict=True)
    ranges = [Range(*span) for span in spans]
    if taken or ranges:
        yield Lane("" if lane.level else f"{lane.group} NVTX", taken, ranges)


def _shares(
    lanes: Sequence[model.Lane], edges: NDArray[Any], which: NDArray[Any] | slice = slice(None)
) -> dict[Kind, NDArray[Any]]:
    """Return for each kind the part of every bin in which at least one of its events was open.

    The lanes have the same kinds. Events outside all bins are left out.
    """
    start, end, series = (
        np.concatenate([getattr(lane, name)[which] for lane in lanes])
        for name in ("start_ns", "end_ns", "series")
    )
    share_of: dict[Kind, NDArray[Any]] = {}
    for number in np.flatnonzero(np.bincount(series)).tolist():
        mine = series == number
        cover = union(start[mine], end[mine])
        taken = overlap(cover.start, cover.end, edges[:-1], edges[1:])
        if taken.any():
            kind = _kind(lanes[0].kinds[number])
            share_of[kind] = share_of.get(kind, 0) + taken / np.diff(edges)
    return share_of
