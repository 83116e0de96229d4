"""Unified memory: which instructions of the CPU caused page faults."""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import Column, Order, Report, Result, Schema
from nsyswrap.reports.unified_memory import window_notes


def compute(capture: Capture) -> Result:
    """Return one row per instruction; from nsys 2025 on per instruction and source line."""
    if capture.view.rounding == "legacy":
        codes, [ids] = group_keys(capture.name_ids("um_cpu_fault"))
        names = [capture.text(int(i)) for i in ids]
        return Result({"cpu_faults": np.bincount(codes), "instruction": names}, window_notes(capture))
    events = capture.columns("um_cpu_fault", "name", "source_file", "source_line")
    codes, (ids, files, lines) = group_keys(*events.values())
    return Result(
        {
            "cpu_faults": np.bincount(codes),
            "instruction": [capture.text(int(i)) for i in ids],
            "source_file": [capture.text(int(i)) for i in files],
            "source_line": lines,
        },
        (*window_notes(capture), *capture.notes_on_fields("um_cpu_fault", "source_file", "source_line")),
    )


SCHEMA = Schema(
    "um_cpu_page_faults_sum",
    "Unified Memory CPU Page Faults Summary",
    Column.count("cpu_faults", "CPU Page Faults", "number of page faults on the CPU"),
    Column("instruction", "CPU Instruction Address", "function, or address, that faulted"),
    Column("source_file", "Source File", "source file of the instruction, if known", era="2025"),
    Column.number("source_line", "Source Line", "line in the source file; 0: unknown", era="2025"),
)

REPORT = Report(
    SCHEMA, needs=(("um_cpu_fault",),), compute=compute, order=(Order("cpu_faults", descending=True),)
)
