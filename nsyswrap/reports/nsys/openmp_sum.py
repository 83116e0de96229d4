"""OpenMP summary: time in parallel regions, tasks, barriers and locks, by kind of event."""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.summaries import GroupedRows, time_summary
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per table and name id: as in nsys, a name in two tables has two rows.

    nsys has no fixed order of tables. Rows of equal total are sorted here by the tables' names.
    """
    codes, (_, ids) = group_keys(capture.columns("openmp", "table")["table"], capture.name_ids("openmp"))
    names = [capture.text(int(i)) for i in ids]
    return Result(time_summary(GroupedRows(codes, names, capture.durations("openmp")), "count", "name"))


SCHEMA = Schema(
    "openmp_sum",
    "OpenMP Summary",
    *time_columns(
        Column("count", "Count", "number of events"),
        Column("name", "Name", "kind of event, as the OpenMP runtime reports it"),
    ),
)

REPORT = Report(SCHEMA, needs=(("openmp",),), compute=compute, order=BY_TOTAL)
