"""Unified memory: bytes migrated and page faults of the whole capture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import UM_TO_DEVICE, UM_TO_HOST
from nsyswrap.reports.table import Column, Report, Result, Schema
from nsyswrap.reports.unified_memory import migration_notes, migrations


def compute(capture: Capture) -> Result:
    """Return the one row. Values without events are missing, but CPU page faults are 0."""
    to_device, to_host = (migrations(capture, way) for way in (UM_TO_DEVICE, UM_TO_HOST))
    on_cpu = capture.columns("um_cpu_fault", "address")["address"]
    on_gpu = capture.columns("um_gpu_fault", "address", "faults")
    addresses = [
        part[part != MISSING]
        for part in (on_cpu, on_gpu["address"], to_device["address"], to_host["address"])
    ]
    everywhere = all(map(len, addresses))  # as in nsys, missing if one of the four is empty
    pages = np.concatenate(addresses)
    return Result(
        {
            "to_device_bytes": _sum(to_device["bytes"]),
            "to_host_bytes": _sum(to_host["bytes"]),
            "cpu_faults": np.array([len(on_cpu)]),
            "gpu_faults": _sum(on_gpu["faults"]),
            "lowest_address": np.array([pages.min() if everywhere else MISSING]),
            "highest_address": np.array([pages.max() if everywhere else MISSING]),
        },
        migration_notes(capture),
    )


def _sum(values: NDArray[Any]) -> NDArray[Any]:
    return np.array([values.sum() if len(values) else MISSING])


SCHEMA = Schema(
    "um_total_sum",
    "Unified Memory Totals Summary",
    Column("to_device_bytes", "Total HtoD Migration Size", "migrated from host to device"),
    Column("to_host_bytes", "Total DtoH Migration Size", "migrated from device to host"),
    Column.count("cpu_faults", "Total CPU Page Faults", "number of page faults on the CPU"),
    Column.count("gpu_faults", "Total GPU PageFaults", "number of page faults on GPUs"),
    Column(
        "lowest_address",
        "Minimum Virtual Address",
        "lowest page faulted on or migrated; missing where the CPU, GPUs or a direction had none",
        2,
    ),
    Column("highest_address", "Maximum Virtual Address", "highest such page", 1),
)

REPORT = Report(
    SCHEMA, needs=(("memcpy",), ("um_cpu_fault",), ("um_gpu_fault",)), compute=compute, empty_answers=True
)
