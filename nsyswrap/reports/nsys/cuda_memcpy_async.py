"""Asynchronous copies that were none: cudaMemcpy*Async from or to pageable host memory.

The driver has to copy such memory through a buffer of its own, and the call may block meanwhile: nothing
overlaps with it. Pinned memory (cudaMallocHost, cudaHostRegister; in PyTorch ``pin_memory``) makes the copy
what its name says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.capture.schema import PAGEABLE
from nsyswrap.reports.expert_rules import COPY_COLUMNS, ROWS, memory_kinds, started_by
from nsyswrap.reports.table import Report, Schema

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.expert_rules import Arrays

CALLS = re.compile("cudaMemcpy.*Async", re.IGNORECASE)


def compute(capture: Capture, rows: int) -> Arrays:
    """Return one row per copy and asynchronous call that started it."""
    source, target = memory_kinds(capture, "memcpy")
    return started_by(capture, "memcpy", (source == PAGEABLE) | (target == PAGEABLE), CALLS, rows)


SCHEMA = Schema(
    name="cuda_memcpy_async",
    title="CUDA Async Memcpy with Pageable Memory",
    columns=COPY_COLUMNS,
)

REPORT = Report(
    schema=SCHEMA,
    needs=(("memcpy",), ("api",)),
    compute=compute,
    options=(ROWS,),
    rows_from=("memcpy",),
)
