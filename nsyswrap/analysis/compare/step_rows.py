"""The rows of totals, steps, time of a step by cause, and launch overhead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, rows_by
from nsyswrap.analysis.compare.model import WHOLE_RUN, ExcludedSteps, Key
from nsyswrap.analysis.compare.rows import TimedEvents, relative
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of, pieces_of, windows
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.analysis.step_budget import STATES, budgets_of
from nsyswrap.analysis.steps import parse_choice
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.selection import machine_ids

Fields = dict[Key, dict[str, Any]]


KERNEL_TIME, BUSY, SPAN, PROGRAM = (
    *("kernel time", "GPU busy time", "first to last GPU operation"),
    "program time",
)
FIRST_CALL, REPEAT_CALL, LATENCY, QUEUE = (
    *("first launch call", "repeat launch call"),
    *("launch latency", "queue time"),
)


def total_rows(capture: Capture, run: Mapping[str, Any]) -> Fields:
    """Return the totals of the run; what did not happen or is not known has no row.

    Busy time is that with any operation, summed over the GPUs. The time from the first to the last operation
    is that of all GPUs together.
    """
    totals: dict[str, tuple[int, float]] = {}
    operations, pieces = gpu_operations_of(capture), pieces_of(capture)
    if kernels := int(np.count_nonzero(operations.kind == KINDS.index(KERNEL))):
        totals[KERNEL_TIME] = kernels, int(capture.durations(KERNEL).sum())
    if len(operations):
        by_gpu = rows_by(machine_ids(pieces.global_pid), pieces.device_id).values()
        busy = sum(union(pieces.start_ns[rows], pieces.end_ns[rows]).length for rows in by_gpu)
        totals |= {BUSY: (len(operations), busy), SPAN: (1, windows(capture, operations).length)}
    if (program_s := run.get("program_s")) is not None:
        totals[PROGRAM] = 1, program_s * NS_PER_S
    return {
        Key("total", name): {"count": count, "total_ns": ns, "typical_ns": float(ns)}
        for name, (count, ns) in totals.items()
    }


def step_rows(processes: Sequence[JudgedProcess]) -> Fields:
    """Return the steps after warm-up by their label; ``processes`` has most GPU work first.

    Outliers, and steps beside the steady part, are in the mean and in no typical time. Of several processes
    with steps of one label, as the ranks of a job have them, the first counts.
    """
    fields: Fields = {}
    for process in processes:
        steps = process.steps
        key = Key("step", str(steps.label))
        if steps.has_steady and key not in fields:
            after = np.arange(len(steps)) >= steps.warm_up
            if parse_choice(process.view.view.steps)[1]:
                after = steps.steady
            ns, warm_up = steps.duration_ns[after], steps.duration_ns[: steps.warm_up]
            beside = steps.outlier[after] | ~steps.steady[after]
            codes = np.zeros(len(ns), np.int64)
            (row,) = TimedEvents([key], codes, ns, beside).rows().values()
            row["mean_error"] = relative(GroupBy(codes, 1).mean_error(ns), np.array([ns.mean()]))[0]
            row["aside"] = ExcludedSteps(
                len(warm_up), int(warm_up.sum()), int(np.count_nonzero(beside)), int(ns[beside].sum())
            )
            fields[key] = row
    return fields


def budget_rows(capture: Capture, processes: Sequence[JudgedProcess]) -> Fields:
    """Return the time of each state in a steady step and in the whole run, summed over processes and GPUs.

    The typical time is the mean of a steady step, outliers included, so that the states add up. ``count`` is
    the number of steady steps of the first process.
    """
    steps = [process for process in processes if process.steps.has_steady]
    # Without steps the judged parts are the whole run.
    whole = budgets_of(capture) if steps else [budget for process in processes for budget in process.budgets]
    fields: Fields = {}
    for state in STATES:
        if total := sum(int(budget.state_ns[state].sum()) for process in steps for budget in process.budgets):
            by_step = [_by_step(process, state) for process in steps]
            mean = sum(float(ns.mean()) for ns in by_step)
            squares = [
                float(GroupBy(np.zeros(len(ns), np.int64), 1).mean_error(ns)[0]) ** 2 for ns in by_step
            ]
            fields[Key("budget", state)] = {
                "count": len(by_step[0]),
                "total_ns": total,
                "typical_ns": mean,
                "error": relative(np.array([sum(squares) ** 0.5]), np.array([mean]))[0],
                "per_step_ns": mean,
            }
        if total := sum(int(budget.state_ns[state].sum()) for budget in whole):
            row = {"count": 1, "total_ns": total, "typical_ns": float(total)}
            fields[Key("budget", state, WHOLE_RUN)] = row
    return fields


def _by_step(process: JudgedProcess, state: str) -> NDArray[Any]:
    """Return the time of a state in each steady step, summed over the devices."""
    nothing = np.zeros(np.count_nonzero(process.steps.steady), np.int64)
    by_step: NDArray[Any] = sum((budget.state_ns[state] for budget in process.budgets), nothing)
    return by_step


def launch_rows(capture: Capture) -> Fields:
    """Return the calls of first and of repeat launches, and latency and queue time of repeats.

    Latency is that of launches into an idle stream, as in the report launch_overhead.
    """
    fields: Fields = {}
    for name, ns in _launch_times(launches_of(capture)):
        fields |= TimedEvents([Key("launch", name)], np.zeros(len(ns), np.int8), ns).rows()
    return fields


def _launch_times(launches: Launches) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield times in ns one after the other, as each takes as much memory as the starts of all launches."""
    yield FIRST_CALL, launches.api_ns[launches.first]
    again = launches.of(~launches.first)
    yield REPEAT_CALL, again.api_ns
    latency_ns = again.latency_ns
    yield LATENCY, latency_ns[again.uncontended & (latency_ns >= 0)]
    yield QUEUE, again.queue_ns
