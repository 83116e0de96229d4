"""Calls that make the host wait for the GPU: cudaDeviceSynchronize and cudaStreamSynchronize.

A thread that waits launches nothing, so the GPU is idle after the wait. Wait as late as possible, and only
for the work that is needed: for an event (cudaEventSynchronize), or in a stream instead of the host
(cudaStreamWaitEvent).
"""

from __future__ import annotations

import re

import numpy as np

from nsyswrap.analysis.names import calls_named, look_up
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.expert_rules import LONGEST, ROWS, limited, take
from nsyswrap.reports.table import Column, Report, ReportOption, Result, Schema

CALLS = re.compile("cuda(Device|Stream)Synchronize", re.IGNORECASE)


def compute(capture: Capture, rows: int, process: int, thread: int) -> Result:
    """Return one row per call, the longest first."""
    calls = calls_named(capture, CALLS)
    call = capture.columns("api", "start_ns", "end_ns", "global_tid", "name")
    processes, threads = process_ids(call["global_tid"]), thread_ids(call["global_tid"])
    for wanted, ids in ((process, processes), (thread, threads)):
        calls = calls[ids[calls] == wanted] if wanted >= 0 else calls
    duration = (call["end_ns"] - call["start_ns"])[calls]
    order = np.argsort(-duration, kind="stable")
    data = {
        "duration_ns": duration,
        "start_ns": call["start_ns"][calls],
        "process_id": processes[calls],
        "thread_id": threads[calls],
        "api_name": look_up(call["name"][calls], capture.text),
    }
    return Result(*limited(take(data, order), rows, LONGEST))


SCHEMA = Schema(
    "cuda_api_sync",
    "CUDA Synchronization APIs",
    Column("duration_ns", "Duration", "time the host waited in the call"),
    Column("start_ns", "Start", "when the call began", 1),
    Column("process_id", "PID", "process that waited"),
    Column("thread_id", "TID", "thread that waited"),
    Column("api_name", "API Name", "API function, with its version"),
)

REPORT = Report(
    SCHEMA,
    needs=(("api",),),
    compute=compute,
    options=(
        ROWS,
        ReportOption("process", -1, "only calls of the process with this id; negative: of all"),
        ReportOption("thread", -1, "only calls of the thread with this id; negative: of all"),
    ),
)
