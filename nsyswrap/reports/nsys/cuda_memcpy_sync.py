"""Copies that block the host: cudaMemcpy* without Async.

The thread waits for the copy, and for all earlier work in its stream. cudaMemcpy*Async with pinned memory
does not wait. Copies that do not block are left out: those within one device, and those of up to 64 kB from
host to device.
"""

from __future__ import annotations

import re

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.expert_rules import COPY_COLUMNS, READS, ROWS, started_by
from nsyswrap.reports.table import Report, Result, Schema

HOST_TO_DEVICE = 1  # kind of copy
CALLS = re.compile("cudaMemcpy(?!.*Async)", re.IGNORECASE)
UNBLOCKED_BYTES = 64_000  # from host to device; 64 KiB would be 65,536


def compute(capture: Capture, rows: int) -> Result:
    """Return one row per copy and synchronous call that started it."""
    copy = capture.columns("memcpy", "bytes", "copy_kind", "src_device_id", "dst_device_id")
    source, target = copy["src_device_id"], copy["dst_device_id"]
    small = (copy["copy_kind"] == HOST_TO_DEVICE) & (copy["bytes"] <= UNBLOCKED_BYTES)
    # To nsys a source that is known and a target that is not are one device.
    inside = (source != MISSING) & ((source == target) | (target == MISSING))
    return started_by(capture, "memcpy", ~small & ~inside, CALLS, rows)


SCHEMA = Schema("cuda_memcpy_sync", "CUDA Synchronous Memcpy", *COPY_COLUMNS)

REPORT = Report(
    SCHEMA,
    needs=(("memcpy",), ("api",)),
    compute=compute,
    options=(ROWS,),
    rows_from=("memcpy",),
    reads={"memcpy": (*READS["memcpy"], "copy_kind", "src_device_id", "dst_device_id"), "api": READS["api"]},
)
