"""Memsets that block the host: cudaMemset* without Async, on pinned or managed memory.

The thread waits until the memory is set. cudaMemsetAsync does not wait.
"""

from __future__ import annotations

import re

import numpy as np

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import MANAGED, PINNED
from nsyswrap.reports.expert_rules import READS, ROWS, memory_columns, memory_kind_notes, started_by
from nsyswrap.reports.table import Column, Report, Result, Schema

CALLS = re.compile("cudaMemset(?!.*Async)", re.IGNORECASE)


def compute(capture: Capture, rows: int) -> Result:
    """Return one row per memset and synchronous call that started it."""
    waits = np.isin(capture.columns("memset", "mem_kind")["mem_kind"], (PINNED, MANAGED))
    memsets = started_by(capture, "memset", waits, CALLS, rows)
    return Result(memsets.data, (*memory_kind_notes(capture, "memset"), *memsets.notes))


SCHEMA = Schema(
    "cuda_memset_sync",
    "CUDA Synchronous Memset",
    *memory_columns("memset", Column("mem_kind", "Memory Kind", "kind of memory set")),
)

REPORT = Report(
    SCHEMA,
    needs=(("memset",), ("api",)),
    compute=compute,
    options=(ROWS,),
    rows_from=("memset",),
    reads={"memset": READS["memset"], "api": READS["api"]},
)
