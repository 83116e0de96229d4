"""NVTX Start/End range summary: CPU time in start/end ranges, by name."""

from __future__ import annotations

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_START_END
from nsyswrap.reports.summaries import NVTX_RANGE, NVTX_READS, NVTX_TIMES, nvtx_times
from nsyswrap.reports.table import BY_TOTAL, Report, Result, Schema


def compute(capture: Capture) -> Result:
    """Return one row per name."""
    return nvtx_times(capture, NVTX_START_END)


SCHEMA = Schema("nvtx_startend_sum", "NVTX Start/End Range Summary", *NVTX_TIMES, NVTX_RANGE)

REPORT = Report(SCHEMA, needs=(("nvtx",),), compute=compute, order=BY_TOTAL, reads=NVTX_READS)
