"""OS runtime summary: CPU time in calls of the C library and the threads library, by function."""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import OSRT_CALL
from nsyswrap.reports.summaries import GroupedRows, time_summary
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per name id of the calls that were traced."""
    traced = capture.columns("osrt", "event_class")["event_class"] == OSRT_CALL
    ids, codes = distinct(capture.name_ids("osrt")[traced])
    names = [capture.text(int(i)) for i in ids]
    return Result(time_summary(GroupedRows(codes, names, capture.durations("osrt")[traced]), "calls", "name"))


SCHEMA = Schema(
    "osrt_sum",
    "OS Runtime Summary",
    *time_columns(
        Column.count("calls", "Num Calls", "number of calls"),
        Column("name", "Name", "function of the C or threads library"),
    ),
)

REPORT = Report(SCHEMA, needs=(("osrt",),), compute=compute, order=BY_TOTAL)
