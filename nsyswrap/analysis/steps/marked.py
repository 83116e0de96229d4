"""Read the steps that nsyswrap's hook in the program marked, with the numbers that they have there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.nvtx_ranges import marks_named, range_labels
from nsyswrap.analysis.range_texts import MODULES_DOMAIN, SHAPES_END
from nsyswrap.analysis.steps.label import LoopLabel
from nsyswrap.analysis.steps.occurrences import ApiCalls, Occurrences
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_START_END, PROCESS_MASK
from nsyswrap.capture.stream import one_of

_STEP = re.compile(r"step (\d+)@nsyswrap")
_LEAST = 3  # steps without shapes
MARKED = "step"  # what these steps are called on the screen and in --steps


def marked_numbers(whole: Capture) -> tuple[int, int] | tuple[None, None]:
    """Return the numbers of the first and the last marked step in any process; None if there are none."""
    if not whole.has("nvtx"):
        return None, None
    rows = np.flatnonzero(one_of(whole.columns("nvtx", "event_type")["event_type"], NVTX_START_END))
    matches = [_STEP.fullmatch(text or "") for text in range_labels(whole, rows)[1]]
    numbers = [int(match[1]) for match in matches if match]
    return (min(numbers), max(numbers)) if numbers else (None, None)


def marked_steps(whole: Capture, process: int, calls: ApiCalls) -> Occurrences | None:
    """Return the marked steps of a process, or None if there are none or if some in between are missing.

    A step in which the recording or the program ended is none.
    """
    if not whole.has("nvtx"):
        return None
    events = whole.columns("nvtx", "event_type", "start_ns", "end_ns", "global_tid")
    mine = one_of(events["event_type"], NVTX_START_END) & (events["end_ns"] >= events["start_ns"])
    # nsys ends what is open when it stops, so that a step that ends exactly then was cut.
    mine &= events["end_ns"] != whole.info.duration_ns
    rows = np.flatnonzero(mine & (events["global_tid"] & PROCESS_MASK == process))
    if not len(rows):
        return None
    codes, texts = range_labels(whole, rows)
    numbers = np.array([int(match[1]) if (match := _STEP.fullmatch(text or "")) else -1 for text in texts])
    number = numbers[codes]
    order = np.argsort(number, kind="stable")[np.count_nonzero(number < 0) :]
    start, end, number = events["start_ns"][rows[order]], events["end_ns"][rows[order]], number[order]
    if not len(number) or (np.diff(number) != 1).any() or (np.diff(start) < 0).any():
        return None
    # What was launched before the first recorded step is not known, so nothing is a first use then.
    firsts = np.sort(calls.start_ns[calls.first]) if number[0] == 0 else np.empty(0, np.int64)
    ends = np.append(start[1:], end[-1])
    return Occurrences(
        LoopLabel.of_range(MARKED),
        start,
        ends,
        differs=_with_shapes(whole, process, ends),
        first_uses=np.searchsorted(firsts, ends) > np.searchsorted(firsts, start),
        first=int(number[0]),
        is_marked=True,
    )


def _with_shapes(whole: Capture, process: int, ends: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the first steps, with shapes of operations, which cost time; none if few others are left."""
    events = whole.columns("nvtx", "start_ns", "global_tid")
    marks = marks_named(whole, SHAPES_END, MODULES_DOMAIN)
    times = events["start_ns"][marks[events["global_tid"][marks] & PROCESS_MASK == process]]
    differs: NDArray[np.bool_] = ends <= (times.min() if len(times) else 0)
    return differs & (np.count_nonzero(~differs) >= _LEAST)
