"""Lanes of what analysis finds: the steps of the program, and the causes of GPU idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.names import IDLE, STEPS, gpu_name, process_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.steps import Steps
    from nsyswrap.capture.capture import Capture

WARM_UP, STEADY, OUTLIER, LEFT_OUT = range(4)
_STEP_KINDS = ("warm-up", "steady step", "outlier step", "other step")


def steps(capture: Capture) -> Iterator[Lane]:
    """Yield the steps of each process with GPU work; none of those that cannot be told."""
    if not len(gpu_operations_of(capture)):
        return
    found = [one for one in steps_of(capture) if len(one)]
    selection = capture.view.selection
    for one in found:
        kind = np.full(len(one), LEFT_OUT, np.int32)
        kind[one.steady] = STEADY
        kind[one.outlier] = OUTLIER
        kind[: one.warm_up] = WARM_UP
        number = np.arange(len(one), dtype=np.int32)
        if selection.windowed:
            first, last = capture.window.start_ns, capture.window.end_ns
            number = number[(one.end_ns > first) & (one.start_ns < last)]
        if len(number):
            title = one.label.removeprefix("a sequence of ") or "steps"
            if len(found) > 1:
                title = f"process {process_text(one.global_pid)}: {title}"
            place = (STEPS, one.global_pid, "steps", title)
            kinds = [(STEPS, text) for text in _STEP_KINDS]
            names = [f"step {one.first + i}" for i in range(len(one))]
            spans = (one.start_ns[number], one.end_ns[number])
            yield Lane(*place, *spans, kinds, number, names, kind[number])


def longest_steps(capture: Capture) -> Steps | None:
    """Return the steps of the process with the longest steady part; None without steps."""
    if not len(gpu_operations_of(capture)):
        return None
    found = [one for one in steps_of(capture) if one.found]
    return max(found, key=lambda one: one.window[1] - one.window[0], default=None)


def idle(capture: Capture) -> Iterator[Lane]:
    """Yield the idle time of each process on each GPU, a part for each cause."""
    if not len(gpu_operations_of(capture)):
        return
    gaps = gaps_of(capture)
    gap = gaps.segments.gap
    several = len({process for process, *_ in gaps.owners}) > 1
    first = 0
    for process, device, last in gaps.owners:
        rows = slice(*np.searchsorted(gap, (first, last)))
        first = last
        start, end, cause = (part[rows] for part in gaps.segments[1:])
        if not (end > start).all():
            start, end, cause = (part[end > start] for part in (start, end, cause))
        if not len(start):
            continue
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end, cause = start[order], end[order], cause[order]
        title = f"idle, process {process_text(process)}" if several else "idle, by cause"
        causes = cause.astype(np.int32)
        kinds, names = [(IDLE, name) for name in CAUSES], list(CAUSES.values())
        place = (IDLE, process, gpu_name(capture, device), title)
        yield Lane(*place, start, end, kinds, causes, names, causes, device=device)
