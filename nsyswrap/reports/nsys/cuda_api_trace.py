"""API trace: every CUDA runtime and driver call, with its result and its thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.names import event_names
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.capture.stream import looked_up
from nsyswrap.reports.table import Column, Order, Report, Result, Schema, Values

_NO_THREADS = "this export has no ThreadNames: priorities and names of threads are left empty"


def compute(capture: Capture) -> Result:
    """Return one row per call, in row order."""
    api = capture.columns("api", "start_ns", "return_value", "correlation_id", "global_tid")
    names = event_names(capture, "api")  # this takes the most memory beside its result, so it comes first
    threads = _threads(capture, api["global_tid"])
    return Result(
        {
            "start_ns": api["start_ns"],
            "duration_ns": capture.durations("api"),
            "name": names,
            "return_value": api["return_value"],
            "correlation_id": api["correlation_id"],
            **threads,
        },
        () if capture.threads else (_NO_THREADS,),
    )


def _threads(capture: Capture, global_tids: NDArray[np.int64]) -> dict[str, Values]:
    """Return what the calls of a thread have in common."""
    known, positions = distinct(global_tids)
    threads = [capture.threads.get(thread, (None, None)) for thread in known.tolist()]
    priorities = [MISSING if priority is None else priority for priority, _ in threads]
    names = TextColumn(positions, [name for _, name in threads])
    del positions  # the codes of the names are half as large
    columns = {
        "process_id": process_ids(known),
        "thread_id": thread_ids(known),
        "thread_priority": np.array(priorities, np.int64),
    }
    return {**{name: _of_calls(of, names.codes) for name, of in columns.items()}, "thread_name": names}


def _of_calls(values: NDArray[np.int64], codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the value of each call's thread. One that all threads have is stored once."""
    if len(set(values.tolist())) == 1:
        return np.broadcast_to(values[:1], len(codes))
    return looked_up(values, codes)


SCHEMA = Schema(
    "cuda_api_trace",
    "CUDA API Trace",
    Column("start_ns", "Start", "when the call began"),
    Column("duration_ns", "Duration", "CPU time in the call"),
    Column("name", "Name", "API function, without a version suffix of four digits"),
    Column.number("return_value", "Result", "what the function returned; 0 is success"),
    Column("correlation_id", "CorrID", "what the call shares with the operations it started", 3),
    Column("process_id", "Pid", "process that called", 2),
    Column("thread_id", "Tid", "thread that called", 1),
    Column.number("thread_priority", "T-Pri", "priority of the thread", 4),
    Column("thread_name", "Thread Name", "name of the thread"),
)

REPORT = Report(
    SCHEMA,
    needs=(("api",),),
    compute=compute,
    order=(Order("start_ns"),),
    reads={"api": (*NAMED, "return_value", "correlation_id", "global_tid")},
)
