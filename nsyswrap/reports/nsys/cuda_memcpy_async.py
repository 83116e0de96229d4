"""Asynchronous copies that block the host: cudaMemcpy*Async from or to pageable memory.

The driver copies such memory through a buffer of its own, and the call can block in that time, so nothing
overlaps. With pinned memory (cudaMallocHost, cudaHostRegister; ``pin_memory`` in PyTorch) the copy is
asynchronous.
"""

from __future__ import annotations

import re

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PAGEABLE
from nsyswrap.reports.expert_rules import COPY_COLUMNS, READS, ROWS, memory_kind_notes, started_by
from nsyswrap.reports.table import Report, Result, Schema

CALLS = re.compile("cudaMemcpy.*Async", re.IGNORECASE)


def compute(capture: Capture, rows: int) -> Result:
    """Return one row per copy and asynchronous call that started it."""
    source, target = capture.columns("memcpy", "src_kind", "dst_kind").values()
    pageable = (source == PAGEABLE) | (target == PAGEABLE)
    copies = started_by(capture, "memcpy", pageable, CALLS, rows)
    return Result(copies.data, (*memory_kind_notes(capture, "memcpy"), *copies.notes))


SCHEMA = Schema("cuda_memcpy_async", "CUDA Async Memcpy with Pageable Memory", *COPY_COLUMNS)

REPORT = Report(
    SCHEMA,
    needs=(("memcpy",), ("api",)),
    compute=compute,
    options=(ROWS,),
    rows_from=("memcpy",),
    reads={"memcpy": READS["memcpy"], "api": READS["api"]},
)
