"""What each device did in each step of the program: compute, exposed communication and copies, idle by cause.

A step ends when the GPU work launched in its occurrence is complete and the next occurrence begins; the next
step begins there. So it lasts as long as the GPU's work where the host runs ahead, and as long as the host's
where the GPU waits. Work on a stream that works in fewer than half of the steps does not count for this.
The host's part of a step is its window: from the start of its occurrence to that of the next one. "Runs
ahead by" is the time from the end of this window to the completion of the step's GPU work. Neither is the
duration of the step.
Occurrences are those of the NVTX range that repeats on a launching thread. Without such a range they are
those of the repeating sequence of launches. --steps NAME or --steps 10-13 choose them.

The steady part leaves out warm-up: leading steps that take unusually long or launch something else than most.
Outliers are steady steps of more than 1.5 times the median duration. They belong to the steady part.
The median step is the steady step whose duration is the lower median, so its parts add up.

Each nanosecond of a step has one state. If several hold at once, the first of this list counts: compute, by
class of kernel in the order of the columns; communication kernels, which are exposed if nothing computes
meanwhile; copies, memsets and migrations of unified memory; idle. Whole-graph executions are compute. So
compute, exposed communication, exposed copies and idle add up to the duration. Communication and copies that
ran beside something earlier in this list have columns of their own: overlapped time.

Idle time has the cause that gpu_idle gives it: what the thread was doing that launched the next operation.
If several things hold at once, the first counts: profiler, loading, allocating, synchronizing, launching,
copying, other calls, code outside CUDA. During the launch call of the next operation only profiler and
loading come before launching. An operation that was launched already may have waited for another process of
the capture. While work of that process ran on the device, the cause is the other process.

Each process has its own steps. A device that did not work in the steady part has no rows for steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, check_pairs
from nsyswrap.analysis.gpu_operations import GRAPH, KINDS, MEMCPY, MEMSET, operation_notes
from nsyswrap.analysis.judged_process import READS, JudgedProcess, judged_processes
from nsyswrap.analysis.range_texts import HOLDING, WAITING, gil_parts
from nsyswrap.analysis.range_texts import STATES as GIL_STATES
from nsyswrap.analysis.step_budget import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    IDLE,
    OTHER_PROCESS,
    TimeBreakdown,
    budgets_of,
)
from nsyswrap.analysis.steps import Steps
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids
from nsyswrap.reports.table import Column, Report, Result, Schema, Values
from nsyswrap.reports.wording.notes import joined_texts, note_text
from nsyswrap.reports.wording.states import CAUSE_NAMES

Rows = dict[str, NDArray[Any]]

CAPTURE, SELECTED, STEADY, MEDIAN, STEP = ("capture", "selected part", "steady part", "median step", "step")
WARM_UP, OUTLIER, LEFT_OUT = "warm-up", "outlier", "left out"
_WORTH_PERCENT = 1.0  # of the time: states with less are not in the verdict
_TEXTS = {**CAUSE_NAMES, OTHER_PROCESS: "another process used the device"}
STATE_COLUMNS = {
    **{state: f"{state}_ns" for state in COMPUTE},
    COMMUNICATION: "communication_exposed_ns",
    MEMCPY: "copy_exposed_ns",
    **{f"idle_{cause}": f"idle_{cause}_ns" for cause in IDLE},
}
_GIL_COLUMNS = {state: f"idle_host_gil_{state}_ns" for state in GIL_STATES}
_PARTS = {
    "compute_ns": "compute",
    STATE_COLUMNS[COMMUNICATION]: "exposed communication",
    STATE_COLUMNS[MEMCPY]: "exposed copies",
}


def compute(capture: Capture) -> Result:
    """Return the rows of the capture, the steady parts and the median steps, then one per step and device."""
    windowed = capture.view.selection.windowed
    processes = () if windowed else judged_processes(capture)
    steps = [(process.steps, _devices(process)) for process in processes if process.steps.has_steady]
    # Without steps, what is judged of the processes is all of the capture.
    every = (
        budgets_of(capture)
        if steps or windowed
        else [one for process in processes for one in process.budgets]
    )
    rows = [
        *(_added(_rows(budget, SELECTED if windowed else CAPTURE)) for budget in every),
        *(_steady_part(device, of_process) for of_process, devices in steps for device in devices),
        *(_median_step(device, of_process) for of_process, devices in steps for device in devices),
        *(_by_step(devices) for _, devices in steps),
    ]
    data = {
        column.name: np.concatenate(
            [block.get(column.name, np.full(len(block["row"]), MISSING)) for block in rows]
        )
        for column in SCHEMA.columns  # the host's are those of steps alone
    }
    if gil_parts(capture) is None:
        data |= {column: np.full(len(data["row"]), MISSING) for column in _GIL_COLUMNS.values()}
    return Result(data, (*operation_notes(capture), *_notes(capture, processes)))


def _devices(process: JudgedProcess) -> list[Rows]:
    """Return the rows of all steps of a process, for each device that worked in the steady part."""
    steps = process.steps
    start, end = int(steps.start_ns[0]), int(steps.end_ns[-1])
    selection = replace(process.view.view.selection, start_ns=start, end_ns=end, spans=())
    every = process.view.viewed(selection=selection)
    judged = {budget.device_id for budget in process.budgets}
    check_pairs(len(judged) * len(steps), len(steps), "GPUs and steps")
    return [
        _rows(budget, STEP, np.arange(len(steps)) + steps.first, _marks(steps))
        | {"host_window_ns": steps.host_ns, "runs_ahead_ns": steps.runs_ahead_ns}
        for budget in budgets_of(every, (steps.start_ns, steps.end_ns))
        if budget.device_id in judged
    ]


def _by_step(devices: Sequence[Rows]) -> Rows:
    """Return the rows of several devices by step, then device."""
    together = {name: np.concatenate([device[name] for device in devices]) for name in devices[0]}
    order = np.argsort(together["step"], kind="stable")
    return {name: values[order] for name, values in together.items()}


def _rows(
    budget: TimeBreakdown, kind: str, step: NDArray[Any] | None = None, mark: NDArray[Any] | None = None
) -> Rows:
    count = len(budget.start_ns)
    state_ns = budget.state_ns
    busy, compute_ns = budget.busy_ns, sum(state_ns[state] for state in COMPUTE)
    return {
        "row": np.full(count, kind, object),
        "step": np.full(count, MISSING) if step is None else step,
        "mark": np.full(count, None, object) if mark is None else mark,
        "process_id": process_ids(np.full(count, budget.global_pid)),
        "device_id": np.full(count, budget.device_id),
        "start_ns": budget.start_ns,
        "duration_ns": budget.duration_ns,
        "busy_ns": busy,
        "compute_ns": np.asarray(compute_ns),
        "idle_ns": budget.duration_ns - busy,
        **{column: state_ns[state] for state, column in STATE_COLUMNS.items()},
        STATE_COLUMNS[MEMCPY]: state_ns[MEMCPY] + state_ns[MEMSET],
        "communication_overlapped_ns": budget.overlapped_ns[COMMUNICATION],
        "copy_overlapped_ns": budget.overlapped_ns[COPY],
        **{_GIL_COLUMNS[state]: budget.gil_ns.get(state, np.zeros(count, np.int64)) for state in GIL_STATES},
    }


def _marks(steps: Steps) -> NDArray[Any]:
    marks = np.full(len(steps), None, object)
    marks[~steps.steady] = LEFT_OUT
    marks[: steps.warm_up] = WARM_UP
    marks[steps.outlier] = OUTLIER
    return marks


def _steady_part(device: Rows, steps: Steps) -> Rows:
    """Return the row of the steady part: the sums over its steps."""
    steady = {name: values[steps.steady] for name, values in device.items()}
    unnamed = {
        "row": [STEADY],
        "step": [MISSING],
        "mark": [None],
        "runs_ahead_ns": [MISSING],
    }  # no sum of these
    return {**_added(steady), **{name: np.array(value) for name, value in unnamed.items()}}


def _added(rows: Rows) -> Rows:
    """Return one row with the sums of all times, from the start of the first one."""
    times = {name: values.sum(keepdims=True) for name, values in rows.items() if name.endswith("_ns")}
    first = {name: values[:1] for name, values in rows.items()}
    return {**first, **times, "start_ns": first["start_ns"]}


def _median_step(device: Rows, steps: Steps) -> Rows:
    """Return the row of the first steady step whose duration is the lower median."""
    numbers = np.flatnonzero(steps.steady)
    durations = steps.duration_ns[numbers]
    middle = numbers[durations == np.sort(durations)[(len(numbers) - 1) // 2]][:1]
    rows = {name: values[middle] for name, values in device.items()}
    return {**rows, "row": np.array([MEDIAN], object)}


def _notes(capture: Capture, processes: Sequence[JudgedProcess]) -> Iterator[str]:
    if capture.view.selection.windowed:
        yield "the selected part is judged; without --time and --nvtx, steps are detected"
    for process in processes:
        if process.steps.why_none:
            who = f" of process {process.process_id}" if len(processes) > 1 else ""
            yield f"no steady part{who}: {note_text(process.steps.why_none)}"
        else:
            yield from joined_texts([process.steps.remarks])


def conclude(_: Capture, data: Mapping[str, Values]) -> str:
    """Return how busy the GPU was in the judged part, and why it was idle."""
    rows, processes = np.asarray(data["row"]), np.asarray(data["process_id"])
    steady = rows == STEADY
    whole = np.isin(rows, (CAPTURE, SELECTED)) & ~np.isin(processes, processes[steady])
    judged = np.concatenate((np.flatnonzero(steady), np.flatnonzero(whole)))
    spent = {
        column.name: int(np.asarray(data[column.name])[judged].sum())
        for column in SCHEMA.columns
        if column.unit is Unit.NS
    }
    total = max(spent["duration_ns"], 1)
    added = f", sum of {len(judged)} process and device pairs" if len(judged) > 1 else ""
    idle = {f"idle_{cause}_ns": text for cause, text in _TEXTS.items()}
    return (
        f"GPU busy {percent(100 * spent['busy_ns'] / total)} of the {rows[judged[0]]} "
        f"({_steps(data)}{duration(spent['duration_ns'])}{added}){_shares(spent, _PARTS, total)}. Idle "
        f"{percent(100 * spent['idle_ns'] / total)}{_shares(spent, idle, total)}.{_gil_text(data, spent)}"
    )


def _gil_text(data: Mapping[str, Values], spent: Mapping[str, int]) -> str:
    """Return how much of the host code held Python's lock or waited for it; empty if that was not traced."""
    host_ns = spent["idle_host_ns"]
    if not host_ns or (np.asarray(data[_GIL_COLUMNS[HOLDING]]) == MISSING).any():
        return ""
    shares = {state: percent(100 * spent[column] / host_ns) for state, column in _GIL_COLUMNS.items()}
    return f" Of the host code {shares[HOLDING]} held Python's GIL, {shares[WAITING]} waited for it."


def _steps(data: Mapping[str, Values]) -> str:
    """Return the number of steady steps and the duration of the median one, if only one process has any."""
    rows, marks = np.asarray(data["row"]), np.asarray(data["mark"])
    medians = np.flatnonzero(rows == MEDIAN)
    if len(ascending(np.asarray(data["process_id"])[medians])) != 1:
        return ""
    steady = (rows == STEP) & ((marks == None) | (marks == OUTLIER))  # noqa: E711 - of each element
    count = len(ascending(np.asarray(data["step"])[steady]))
    steps = counted(count, "steps")
    return f"{steps}, median {duration(np.asarray(data['duration_ns'])[medians[0]])}, in total\x20"


def _shares(spent: Mapping[str, int], texts: Mapping[str, str], total: int) -> str:
    parts = [
        f"{text} {percent(100 * spent[column] / total)}"
        for column, text in sorted(texts.items(), key=lambda item: -spent[item[0]])
        if 100 * spent[column] >= _WORTH_PERCENT * total
    ]
    return f": {', '.join(parts)}" if parts else ""


_TITLES = {"fft": "FFT", "gemm": "GEMM", "rng": "RNG"}
_LATER = ("fft_kernel",)  # columns that came later are the last ones


def _class_column(state: str) -> Column:
    column, name = STATE_COLUMNS[state], state.removesuffix("_kernel")
    if state == GRAPH:
        return Column(
            column, "Graphs", "part of the compute: whole-graph executions without other kernels", 9
        )
    return Column(
        column,
        _TITLES.get(name, name.capitalize()),
        f"part of the compute: {name} kernels, as in kernel_class_sum",
        9,
    )


# Header, drop order and meaning of each cause of idle time.
_IDLE = {
    "profiler": ("Profiler", 5, "nsys worked in the thread that launched the next operation"),
    "load": ("Loading", 4, "that thread created a context, loaded modules or compiled kernels"),
    "allocate": ("Allocating", 4, "that thread allocated or freed memory"),
    "synchronise": ("Synchronizing", 2, "that thread was in a synchronizing call"),
    "launch": ("Launching", 2, "the thread was in a launch call, or the launch was on its way to the GPU"),
    "copy": ("Copy Calls", 3, "the thread was in a copy or memset call, or the copy was on its way"),
    "call": ("Other Calls", 5, "that thread was in another CUDA call"),
    "host": ("Host Code", 2, "that thread was in no CUDA call"),
    "queued": ("Queued", 3, "the next operation was launched already: a dependency, or GPU latency"),
    "migration": ("Migration", 5, "unified memory pages migrated before the next operation"),
    "unknown": ("Unexplained", 5, "no recorded call launched the next operation, or none followed"),
    OTHER_PROCESS: ("Other Process", 5, "queued or unexplained while another process worked on the device"),
}

_GIL_TEXTS = {
    HOLDING: ("Host GIL Held", "holding Python's global interpreter lock"),
    WAITING: ("Host GIL Wait", "waiting for Python's global interpreter lock"),
}


def _gil_column(state: str, header: str, meaning: str) -> Column:
    text = f"part of the idle time in host code: {meaning}; empty without --trace python-gil"
    return Column(_GIL_COLUMNS[state], header, text, 10)


SCHEMA = Schema(
    "step_budget",
    "Step time: compute, exposed communication and copies, idle by cause",
    Column(
        "row",
        "Row",
        "whole capture from first to last operation (or selected part), steady part, median step, "
        "or one step",
    ),
    Column.number("step", "Step", "number of the step, from 0 over the whole process", -1),
    Column("mark", "Mark", "warm-up, outlier, or left out of the steady part for another reason; else empty"),
    Column("process_id", "PID", "process of the step", 7),
    Column("device_id", "Device", "device of the process", 2),
    Column("start_ns", "Start", "start of the step, or of the part", 8),
    Column("duration_ns", "Duration", "from the end of the step before to its own", -1),
    Column("busy_ns", "Busy", "time with at least one operation of the process on the device", -1),
    Column("compute_ns", "Compute", "time with a kernel or graph that does not communicate", 1),
    *(_class_column(state) for state in COMPUTE if state not in _LATER),
    Column(STATE_COLUMNS[COMMUNICATION], "Exposed Comm", "communication kernels without compute", 1),
    Column(STATE_COLUMNS[MEMCPY], "Exposed Copy", "copies, memsets or migrations without a kernel", 1),
    Column("idle_ns", "Idle", "time without any operation of the process on the device", -1),
    *(
        Column(f"idle_{cause}_ns", header, f"part of the idle time: {meaning}", drop_order)
        for cause, (header, drop_order, meaning) in _IDLE.items()
    ),
    Column(
        "communication_overlapped_ns", "Overlapped Comm", "communication kernels overlapped with compute", 6
    ),
    Column(
        "copy_overlapped_ns", "Overlapped Copy", "copies, memsets or migrations overlapped with a kernel", 6
    ),
    *(_gil_column(state, *texts) for state, texts in _GIL_TEXTS.items()),
    Column("host_window_ns", "Host", "the step's window on the host, up to the start of the next one"),
    Column("runs_ahead_ns", "Runs Ahead By", "from the end of this window until the GPU work is done"),
    *map(_class_column, _LATER),
)

REPORT = Report(SCHEMA, needs=(KINDS,), compute=compute, reads=READS, conclude=conclude, judges_steps=True)
