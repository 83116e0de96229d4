"""Which events the page keeps one by one: all of a small capture, else the longest and those around gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_gaps import idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.lanes import Lane

_GAPS = 8  # the longest ones
_BESIDE = 12  # events on each side of one, of each lane


def chosen(capture: Capture, lanes: Sequence[Lane], most: int) -> list[NDArray[Any]]:
    """Return the positions of the kept events of each lane, ascending; about ``most`` together."""
    total = sum(map(len, lanes))
    if total <= most:
        return [np.arange(len(lane)) for lane in lanes]
    longest = max(most // (2 * len(lanes)), 10)
    gaps = _longest_gaps(capture)
    kept = [np.union1d(_longest(lane, longest), _beside(lane, gaps)) for lane in lanes]
    calls = np.unique(np.concatenate([lane.call[rows] for lane, rows in zip(lanes, kept, strict=True)]))
    return [np.union1d(rows, _rows(lane, calls)) for lane, rows in zip(lanes, kept, strict=True)]


def _longest(lane: Lane, count: int) -> NDArray[Any]:
    if len(lane) <= count:
        return np.arange(len(lane))
    return np.argpartition(lane.start_ns - lane.end_ns, count)[:count]


def _longest_gaps(capture: Capture) -> list[tuple[int, int]]:
    gaps = idle(capture)
    order = np.argsort(-gaps.duration_ns, kind="stable")[:_GAPS]
    return list(zip(gaps.start_ns[order].tolist(), gaps.end_ns[order].tolist(), strict=True))


def _beside(lane: Lane, gaps: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Return the events of a lane before, in and after the gaps."""
    found = [np.empty(0, np.int64)]
    for start, end in gaps:
        first, last = np.searchsorted(lane.start_ns, (start, end))
        before, after = max(first - _BESIDE, 0), min(last + _BESIDE, len(lane))
        inside = np.arange(before, after)
        found.append(inside if len(inside) <= 4 * _BESIDE else np.append(inside[:_BESIDE], inside[-_BESIDE:]))
    return np.unique(np.concatenate(found))


def _rows(lane: Lane, calls: NDArray[Any]) -> NDArray[Any]:
    """Return which events of a lane are these API calls."""
    return np.flatnonzero((lane.row >= 0) & np.isin(lane.row, calls[calls >= 0]))
