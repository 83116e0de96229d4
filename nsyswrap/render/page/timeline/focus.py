"""Where a reader should look: the time that a timeline opens on, and the spots whose events it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import largest_first
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.judged_part import main_steps
from nsyswrap.analysis.steps import Steps
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import RANGES

_GAPS = 8  # the longest GPU gaps
_OUTLIERS = 4  # the longest outlier steps
_PLACES = 3  # the longest intervals of a finding
_LEAST_AROUND_NS = 20_000  # on each side of a spot
_EDGE = 0.005  # of the time with GPU work: what lies apart by itself at either end


class Focus(NamedTuple):
    """Times in ns. ``opens`` is the time that is seen first, and ``why`` names it.

    ``gpu`` is the time with nearly all GPU work; None without any. ``findings`` has the longest interval of
    each finding by its name. ``spots`` are times whose events matter, best first.
    """

    opens: tuple[int, int]
    why: str
    gpu: tuple[int, int] | None
    findings: dict[str, tuple[int, int]]
    spots: list[tuple[int, int]]


def focus(capture: Capture, findings: Sequence[Finding], ends: tuple[int, int]) -> Focus:
    """Return the focus of a timeline from ``ends[0]`` to ``ends[1]``."""
    gpu = _gpu_work(capture)
    steady = main_steps(capture)
    places: dict[str, tuple[int, int]] = {
        one.kind: _longest(one, 1)[0] for one in findings if len(one.evidence.start)
    }
    top = next(iter(places.values()), None)
    if capture.view.selection.windowed:
        opens, why = (capture.window.start_ns, capture.window.end_ns), "selected part"
    elif steady is not None:
        opens, why = steady.window, "steady part"
    elif top is not None:
        opens, why = _around(*top, share=2), "largest finding"
    else:
        opens, why = gpu or ends, "GPU work" if gpu else "all"
    opens = (max(opens[0], ends[0]), min(opens[1], ends[1]))
    spots = _spots(capture, findings, steady) if gpu else []
    return Focus(opens if opens[1] > opens[0] else ends, why, gpu, places, spots)


def lane_of(lanes: Sequence[Lane], start_ns: int, end_ns: int) -> int:
    """Return the position of the lane with the event that is most like a part of time; -1 if none is in it.

    NVTX ranges are not what costs time.
    """
    best, found = 0.0, -1
    for i, lane in enumerate(lanes):
        part = lane.meeting(start_ns, end_ns)
        start, end = lane.start_ns[part], lane.end_ns[part]
        if lane.family == RANGES or not len(start):
            continue
        common = np.minimum(end, end_ns) - np.maximum(start, start_ns)
        both = np.maximum(end, end_ns) - np.minimum(start, start_ns)
        alike = float((common / np.maximum(both, 1)).max())
        if alike > best:
            best, found = alike, i
    return found


def _gpu_work(capture: Capture) -> tuple[int, int] | None:
    """Return the time in which all but the outermost parts of the GPU work ran."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return None
    start, end = operations.start_ns, np.maximum.accumulate(operations.end_ns)
    work = np.cumsum(operations.end_ns - operations.start_ns)
    first = int(np.searchsorted(work, _EDGE * work[-1], "right"))
    last = int(np.searchsorted(work, (1 - _EDGE) * work[-1]))
    return int(start[min(first, len(start) - 1)]), int(end[min(last, len(end) - 1)])


@per_capture
def longest_gaps(capture: Capture) -> list[tuple[int, int]]:
    """Return the longest GPU gaps, the longest first."""
    gaps = gaps_of(capture)
    return [(int(gaps.start_ns[i]), int(gaps.end_ns[i])) for i in gaps.longest(_GAPS)]


def _around(start: int, end: int, share: float = 0.25) -> tuple[int, int]:
    more = max(int(share * (end - start)), _LEAST_AROUND_NS)
    return start - more, end + more


def _longest(finding: Finding, most: int) -> list[tuple[int, int]]:
    """Return the longest intervals of the time that a finding is about, the longest first."""
    cover = finding.evidence
    order = largest_first(cover.end - cover.start, most)
    return list(zip(cover.start[order].tolist(), cover.end[order].tolist(), strict=True))


def _spots(capture: Capture, findings: Sequence[Finding], steady: Steps | None) -> list[tuple[int, int]]:
    spots: list[tuple[int, int]] = []
    if steady is not None:
        numbers = np.flatnonzero(steady.steady & ~steady.outlier)
        length = steady.duration_ns
        typical = numbers[np.argsort(length[numbers], kind="stable")][len(numbers) // 2 :][:1]
        outliers = np.flatnonzero(steady.outlier)
        outliers = outliers[np.argsort(-length[outliers], kind="stable")][:_OUTLIERS]
        rows = [*typical.tolist(), *outliers.tolist()]
        spots += [(int(steady.start_ns[i]), int(steady.end_ns[i])) for i in rows]
    for finding in findings:
        spots += [_around(*place) for place in _longest(finding, _PLACES)]
    for place in longest_gaps(capture):  # their ends: nothing runs in between
        spots += [_around(end, end) for end in place]
    if not steady and not findings:
        middle = sum(_gpu_work(capture) or (0, 0)) // 2
        spots.insert(0, _around(middle, middle))
    return spots
