"""NVTX range summary: CPU time in ranges, by name and style."""

from __future__ import annotations

from nsyswrap.analysis.nvtx_ranges import ALL
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.summaries import NVTX_RANGE, NVTX_READS, NVTX_TIMES, nvtx_times
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema

STYLE = Column("style", "Style", "PushPop: nested on one thread; StartEnd: free")


def compute(capture: Capture) -> Result:
    """Return one row per name and style."""
    return nvtx_times(capture, ALL)


SCHEMA = Schema("nvtx_sum", "NVTX Range Summary", *NVTX_TIMES, STYLE, NVTX_RANGE)

REPORT = Report(SCHEMA, needs=(("nvtx",),), compute=compute, order=BY_TOTAL, reads=NVTX_READS)
