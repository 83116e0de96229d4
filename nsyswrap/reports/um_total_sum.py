"""Unified memory: bytes migrated and page faults of the whole capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.capture.schema import UM_TO_DEVICE, UM_TO_HOST
from nsyswrap.report import Column, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.report import Values


def migrations(capture: Capture, direction: int) -> dict[str, NDArray[Any]]:
    """Return ``address``, ``bytes`` and ``duration_ns`` of the copies that migrated pages one way."""
    copies = capture.columns("memcpy", "start_ns", "end_ns", "bytes", "address", "copy_kind")
    chosen = copies["copy_kind"] == direction
    return {
        "address": copies["address"][chosen],
        "bytes": copies["bytes"][chosen],
        "duration_ns": (copies["end_ns"] - copies["start_ns"])[chosen],
    }


def note_faults(capture: Capture) -> None:
    """Say it where no page fault is in the capture, and where faults of other times are counted."""
    if not (capture.whole.has("um_cpu_fault") or capture.whole.has("um_gpu_fault")):
        capture.note(
            "no page faults in this capture: none happened, or they were not traced "
            "(--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true)"
        )
    note_window(capture)


def note_window(capture: Capture) -> None:
    """Say it where page faults outside the window are counted, as nsys does."""
    selection = capture.view.selection
    if selection.windowed and not selection.clip and capture.whole.has("um_cpu_fault"):
        capture.note(
            "CPU page faults have no end: those outside the window are counted too (not with --clip yes)"
        )


def compute(capture: Capture) -> dict[str, Values]:
    """Return the one row; what there are no events of is missing, but for CPU page faults: there are 0."""
    note_faults(capture)
    to_device, to_host = (migrations(capture, way) for way in (UM_TO_DEVICE, UM_TO_HOST))
    on_cpu = capture.columns("um_cpu_fault", "address")["address"]
    on_gpu = capture.columns("um_gpu_fault", "address", "faults")
    addresses = [
        part[part != MISSING]
        for part in (on_cpu, on_gpu["address"], to_device["address"], to_host["address"])
    ]
    everywhere = all(map(len, addresses))  # as in nsys, nothing to say as soon as one of the four has none
    pages = np.concatenate(addresses)
    return {
        "to_device_bytes": _sum(to_device["bytes"]),
        "to_host_bytes": _sum(to_host["bytes"]),
        "cpu_faults": np.array([len(on_cpu)]),
        "gpu_faults": _sum(on_gpu["faults"]),
        "lowest_address": np.array([pages.min() if everywhere else MISSING]),
        "highest_address": np.array([pages.max() if everywhere else MISSING]),
    }


def _sum(values: NDArray[Any]) -> NDArray[Any]:
    return np.array([values.sum() if len(values) else MISSING])


REPORT = Report(
    name="um_total_sum",
    title="Unified Memory Totals Summary",
    layer="parity",
    needs=(("memcpy",), ("um_cpu_fault",), ("um_gpu_fault",)),
    columns=(
        Column("to_device_bytes", "Total HtoD Migration Size", Unit.BYTES, "migrated from host to device"),
        Column("to_host_bytes", "Total DtoH Migration Size", Unit.BYTES, "migrated from device to host"),
        Column("cpu_faults", "Total CPU Page Faults", Unit.COUNT, "number of page faults on the CPU"),
        Column("gpu_faults", "Total GPU PageFaults", Unit.COUNT, "number of page faults on GPUs"),
        Column(
            "lowest_address",
            "Minimum Virtual Address",
            Unit.ADDRESS,
            "lowest page faulted on or migrated; missing where the CPU, GPUs or a direction had none",
            2,
        ),
        Column("highest_address", "Maximum Virtual Address", Unit.ADDRESS, "highest such page", 1),
    ),
    compute=compute,
    empty_answers=True,
)
