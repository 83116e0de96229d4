"""Lanes of what analysis finds: the steps of the program, and the causes of GPU idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.render.timeline.lanes import Lane
from nsyswrap.render.timeline.owners import gpu_name, process_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

STEPS, IDLE = ("steps", "idle by cause")
WARM_UP, STEADY, OUTLIER, LEFT_OUT = range(4)
_STEP_KINDS = ("warm-up", "steady step", "outlier step", "other step")


def steps(capture: Capture) -> Iterator[Lane]:
    """Yield the steps of each process with GPU work; none of those that cannot be told."""
    if not len(gpu_operations_of(capture)):
        return
    found = [one for one in steps_of(capture) if len(one)]
    selection = capture.view.selection
    for one in found:
        start, end = one.start_ns, one.end_ns
        kind = np.full(len(one), LEFT_OUT)
        kind[one.steady] = STEADY
        kind[one.outlier] = OUTLIER
        kind[: one.warm_up] = WARM_UP
        number = np.arange(len(one)) + one.first
        if selection.windowed:
            inside = np.flatnonzero((end > capture.window.start_ns) & (start < capture.window.end_ns))
            start, end, kind, number = (part[inside] for part in (start, end, kind, number))
        if len(start):
            process = f", process {process_text(one.global_pid)}" if len(found) > 1 else ""
            names = [f"step {i}" for i in number.tolist()]
            columns = (start, end, kind, np.arange(len(start)))
            title = f"{one.label or 'steps'}{process}"
            yield _lane(STEPS, one.global_pid, ("steps", title), columns, (_STEP_KINDS, names))


def idle(capture: Capture) -> Iterator[Lane]:
    """Yield the idle time of each process on each GPU, a part for each cause."""
    if not len(gpu_operations_of(capture)):
        return
    gaps = gaps_of(capture)
    gap, start, end, cause = gaps.segments
    several = len({process for process, *_ in gaps.owners}) > 1
    first = 0
    for process, device, last in gaps.owners:
        mine = np.flatnonzero((gap >= first) & (gap < last) & (end > start))
        first = last
        if not len(mine):
            continue
        mine = mine[np.argsort(start[mine], kind="stable")]
        title = "idle, by cause" + (f", process {process_text(process)}" if several else "")
        columns = (start[mine], end[mine], cause[mine], cause[mine])
        names = list(CAUSES.values())
        yield _lane(IDLE, process, (gpu_name(capture, device), title), columns, (tuple(CAUSES), names))


def _lane(
    family: str,
    owner: int,
    place: tuple[str, str],
    columns: tuple[NDArray[Any], ...],
    names: tuple[Sequence[str], list[str]],
) -> Lane:
    start, end, series, name = columns
    nothing = np.broadcast_to(np.array(-1, np.int32), (len(start),))
    return Lane(
        family=family,
        owner=owner,
        group=place[0],
        title=place[1],
        start_ns=start,
        end_ns=end,
        series=series.astype(np.int32),
        kinds=[(family, kind) for kind in names[0]],
        name=name.astype(np.int32),
        names=names[1],
        row=nothing,
        call=nothing,
    )
