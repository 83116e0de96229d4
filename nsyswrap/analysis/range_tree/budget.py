"""Split the time of a device among the nodes of the range tree: each nanosecond has one node and one state.

States have the precedence of ``step_budget``: compute, then communication, then copies, then idle. If several
operations of one state run, the time is that of the first to start. Idle time is that of the operation that
ended it; idle time at the end of what is looked at has no node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.intervals import NOTHING, joined, union
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import KINDS, GpuOperations, communicating, pieces_of, places_of
from nsyswrap.analysis.range_texts import BACKWARD
from nsyswrap.analysis.range_tree.tree import NOWHERE, range_tree_of
from nsyswrap.capture.capture import Capture

STATES = COMPUTE, COMMUNICATION, COPY, IDLE = ("compute", "communication", "copy", "idle")


@dataclass(frozen=True, eq=False)
class NodeTime:
    """The time of one process on one device by part: node (-1: none), number in STATES, backward, ns."""

    global_pid: int
    device_id: int
    node: NDArray[Any]
    state: NDArray[Any]
    backward: NDArray[Any]
    ns: NDArray[Any]


def node_times(view: Capture) -> list[NodeTime]:
    """Return the parts of each process and device in the window of a view; they add up to the window."""
    tree, pieces, gaps = range_tree_of(view.whole), pieces_of(view), gaps_of(view)
    place = _places(view, pieces)
    times = []
    for process, device, rows in pieces.by_device():
        mine = pieces.of(rows)
        part, state, ns = _busy(view, mine)
        first, last = gaps.rows_of(process, device)
        gap = np.arange(first, last)
        at = np.concatenate((place[rows][part], gaps.after[gap]))
        times.append(
            NodeTime(
                process,
                device,
                np.append(tree.node, NOWHERE)[at],
                np.append(state, np.full(len(gap), STATES.index(IDLE))),
                np.append(tree.phase, 0)[at] == BACKWARD,
                np.append(ns, gaps.duration_ns[gap]),
            )
        )
    return times


def _places(view: Capture, pieces: GpuOperations) -> NDArray[Any]:
    """Return the position of each piece's operation among those of the whole capture."""
    places = np.empty(len(pieces), np.int64)
    for kind, of_kind in places_of(view.whole).items():
        mine = np.flatnonzero(pieces.kind == KINDS.index(kind))
        places[mine] = of_kind[pieces.row[mine]]
    return places


def _busy(view: Capture, operations: GpuOperations) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return positions, states and times in ns of the operations: the time that is theirs alone."""
    communicates = communicating(view, operations)
    layers = (operations.computes & ~communicates, communicates, ~operations.computes)
    taken, parts = NOTHING, []
    for number, which in enumerate(layers):
        rows = np.flatnonzero(which)
        start, end = operations.start_ns[rows], operations.end_ns[rows]
        reached = np.maximum.accumulate(end)
        begin = np.maximum(start, np.append(start[:1], reached[:-1]))
        begin = np.minimum(begin, end)
        parts.append((rows, np.full(len(rows), number), end - begin - taken.within(begin, end)))
        taken = joined(taken, union(start, end))
    position, state, ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return position, state, ns
