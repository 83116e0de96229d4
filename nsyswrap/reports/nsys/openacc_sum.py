"""OpenACC summary: time in data movements, launches and waits, by kind of event and source line."""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import group_keys, number_texts
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.summaries import GroupedRows, time_summary
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per printed name, over all OpenACC tables."""
    events = capture.columns("openacc", "source_file", "source_line")
    places, keys = group_keys(capture.name_ids("openacc"), events["source_file"], events["source_line"])
    names = [_name(capture, *map(int, key)) for key in zip(*keys, strict=True)]
    return Result(
        time_summary(GroupedRows(*number_texts(places, names), capture.durations("openacc")), "calls", "name")
    )


def _name(capture: Capture, name_id: int, file_id: int, line: int) -> str | None:
    """Return ``name@file:line``, or the name if no file was recorded, or None if a text is lost."""
    name, file = capture.text(name_id), capture.text(file_id)
    if file_id == MISSING:
        return name
    return None if name is None or file is None or line == MISSING else f"{name}@{file}:{line}"


SCHEMA = Schema(
    "openacc_sum",
    "OpenACC Summary",
    *time_columns(
        Column.count("calls", "Num Calls", "number of events"),
        Column("name", "Name", "kind of event, with the directive's file and line where known"),
    ),
)

REPORT = Report(SCHEMA, needs=(("openacc",),), compute=compute, order=BY_TOTAL)
