"""API summary: CPU time in CUDA runtime and driver calls, by function."""

from __future__ import annotations

from nsyswrap.analysis.names import strip_version
from nsyswrap.analysis.packed import packed_events
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.summaries import GroupedRows, time_summary
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per name id: names that differ only in the version suffix stay apart, as in nsys."""
    calls = packed_events(capture, "api")
    names = list(map(strip_version, capture.texts(calls.ids)))
    return Result(time_summary(GroupedRows(calls.code, names, calls.duration_ns), "calls", "name"))


SCHEMA = Schema(
    "cuda_api_sum",
    "CUDA API Summary",
    *time_columns(
        Column.count("calls", "Num Calls", "number of calls"),
        Column("name", "Name", "API function, without a version suffix of four digits"),
    ),
)

REPORT = Report(
    SCHEMA, needs=(("api",),), compute=compute, order=BY_TOTAL, reads={"api": NAMED}, packs=("api",)
)
