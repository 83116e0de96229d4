"""Choose the part of a capture that is judged: the steady part of each process, or the whole of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import MOST_PROCESSES, check_number, gpu_operations_of, windows
from nsyswrap.analysis.launches import READS as LAUNCH_READS
from nsyswrap.analysis.step_budget import TimeBreakdown, budgets_of
from nsyswrap.analysis.steps import Steps, steps_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import process_ids

# The fields that steps, and launches in them, are computed from, by kind of event.
READS = {
    **LAUNCH_READS,
    "nvtx": (*SPANS, "event_type", "global_tid", "end_global_tid", "domain_id", "text", "text_id"),
}


@dataclass(frozen=True)
class JudgedProcess:
    """One process of a capture in the view that is judged, with its steps.

    ``view`` is clipped to the steady part if there is one.
    """

    view: Capture
    steps: Steps

    @property
    def process_id(self) -> int:
        """The id of the process; MISSING if the export lacks it."""
        return int(process_ids(np.array([self.steps.global_pid]))[0])

    @cached_property
    def budgets(self) -> list[TimeBreakdown]:
        """What each device did, by steady step; by the whole window if there are no steps."""
        return _budgets(self.view, self.steps if self.steps.has_steady else None)

    def finish(self) -> None:
        """Make the budgets and free all else that was computed from the view; it can be large."""
        _ = self.budgets, self.window
        self.view.release(but=_budgets)

    @cached_property
    def window(self) -> IntervalSet:
        """The time that is judged, over all devices."""
        return windows(self.view, gpu_operations_of(self.view))

    @property
    def window_ns(self) -> int:
        """The duration of what is judged."""
        return self.window.length

    @cached_property
    def typical(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Starts and ends in ns of the steady steps without outliers; of the window if there are no steps."""
        if not self.steps.has_steady:
            return self.window
        which = self.steps.steady & ~self.steps.outlier
        return self.steps.start_ns[which], self.steps.end_ns[which]


@per_capture
def _budgets(view: Capture, steps: Steps | None) -> list[TimeBreakdown]:
    """Return the budgets of a view, by steady step if there are steps; other parts of it share them."""
    if steps is None:
        return budgets_of(view)
    return budgets_of(view, (steps.start_ns[steps.steady], steps.end_ns[steps.steady]))


def judged_processes(capture: Capture) -> tuple[JudgedProcess, ...]:
    """Return the judged part of each process with GPU work. What the user selects is judged as it is.

    A process whose work only touches an end of the selected time is left out.
    Raises NotInCapture if there are too many processes.
    """
    operations = gpu_operations_of(capture)
    processes = operations.processes
    check_number(len(processes), MOST_PROCESSES, "processes with GPU work", "select some with --process")
    selection = capture.view.selection.decided(as_nsys=False)
    if selection.windowed:
        selection = replace(selection, clip=True)
        of_process = {}
        why = Note("selected_is_judged", {})
    else:
        of_process = {steps.global_pid: steps for steps in steps_of(capture)}
        why = Note("no_launch_calls", {})
    judged = []
    for process in processes:
        steps = of_process[process] if process in of_process else Steps.none(process, why)
        chosen = selection
        if len(processes) > 1 and process != MISSING:
            chosen = replace(chosen, processes=(int(process_ids(np.array([process]))[0]),))
        if steps.has_steady:
            (start, end), stretches = steps.window, steps.stretches
            chosen = replace(chosen, start_ns=start, end_ns=end, clip=True)
            chosen = replace(chosen, spans=stretches) if len(stretches) > 1 else chosen
        view = capture.viewed(selection=chosen)
        if len(gpu_operations_of(view)):
            judged.append(JudgedProcess(view, steps))
        elif not selection.windowed:  # nothing ran in the steps: all of the process is judged
            chosen = replace(
                chosen, start_ns=selection.start_ns, end_ns=selection.end_ns, spans=(), clip=selection.clip
            )
            why = Note("no_work_in_steps", {"label": steps.label})
            judged.append(JudgedProcess(capture.viewed(selection=chosen), Steps.none(process, why)))
    return tuple(judged)


def whole_processes(capture: Capture) -> tuple[JudgedProcess, ...]:
    """Return all of each process with GPU work, from its first to its last operation.

    A process whose work only touches an end of the selected time is left out.
    """
    selection = replace(capture.view.selection.decided(as_nsys=False), clip=True)
    processes = gpu_operations_of(capture).processes
    several = len(processes) > 1
    numbers = process_ids(np.array(processes, np.int64)).tolist()
    views = (
        capture.viewed(selection=replace(selection, processes=(number,)) if several else selection)
        for number in numbers
    )
    return tuple(
        JudgedProcess(view, Steps.none(process, Note("all_is_judged", {})))
        for process, view in zip(processes, views, strict=True)
        if len(gpu_operations_of(view))
    )


def main_process(processes: Sequence[JudgedProcess]) -> JudgedProcess | None:
    """Return the process with the most GPU work: that whose steps are in a headline."""
    return max(
        processes, key=lambda process: sum(int(one.busy_ns.sum()) for one in process.budgets), default=None
    )


def steady_process(capture: Capture) -> JudgedProcess | None:
    """Return the steady part of the process with the most GPU work; None without one.

    None, too, of more processes than can be judged.
    """
    if not 0 < len(gpu_operations_of(capture).processes) <= MOST_PROCESSES:
        return None
    main = main_process(judged_processes(capture))
    return main if main is not None and main.steps.has_steady else None


def main_steps(capture: Capture) -> Steps | None:
    """Return the steps of the process with the most GPU work; None without a steady part."""
    main = steady_process(capture)
    return main.steps if main else None


def chosen_views(capture: Capture) -> tuple[Capture, ...]:
    """Return the views with the steps that the user names, one a process; without a name the capture."""
    if not capture.view.steps:
        return (capture,)
    return tuple(part.view for part in judged_processes(capture)) or (capture,)
