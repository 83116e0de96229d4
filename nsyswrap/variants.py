"""Several captures of one scenario side by side: one row per variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.join import outermost_launches
from nsyswrap.operations import durations
from nsyswrap.report import Column, Report, Table
from nsyswrap.reports.nvtx_phases import REPORT as PHASES
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.capture import Capture
    from nsyswrap.report import Values

_VARIANT = Column("variant", "Variant", Unit.TEXT, "variant of the scenario")
_PHASE_COLUMNS = ("launches", "api_med_ns", "queue_med_ns", "kernel_med_ns", "sync_med_ns")


def _no_capture(_: Capture) -> Mapping[str, Values]:
    raise NotImplementedError("a table of several captures is made by its own function")


GPU_BY_VARIANT = Report(
    name="gpu_by_variant",
    title="GPU work by variant",
    layer="analysis",
    needs=(),
    columns=(
        _VARIANT,
        Column("kernels", "Kernels", Unit.COUNT, "kernel executions"),
        Column("kernel_ns", "Kernel Time", Unit.NS, "sum of the kernels' durations"),
        Column("launch_ns", "Launch API", Unit.NS, "CPU time in the launch calls"),
        Column("copies", "Copies", Unit.COUNT, "copies and unified-memory migrations"),
        Column("copied_bytes", "Copied", Unit.BYTES, "sum of their bytes"),
        Column(
            "copy_ns",
            "Copy Time",
            Unit.NS,
            "sum of their durations; with managed memory part of the kernel's",
        ),
    ),
    compute=_no_capture,
)

TIMING_BY_VARIANT = Report(
    name="timing_by_variant",
    title="What Python measured, and what nsys saw, per iteration",
    layer="analysis",
    needs=(),
    columns=(
        _VARIANT,
        Column("operator", "Operator", Unit.TEXT, "implementation that was timed"),
        Column("python_med_ns", "Python", Unit.NS, "median the program itself measured, under nsys"),
        *(column for column in PHASES.columns if column.name in _PHASE_COLUMNS),
    ),
    compute=_no_capture,
)


def gpu_by_variant(captures: Mapping[str, Capture]) -> Table:
    """Return kernels, launches and copies of each variant's capture."""
    rows = [(variant, *_gpu_totals(capture)) for variant, capture in captures.items()]
    return _table(GPU_BY_VARIANT, rows)


def timing_by_variant(captures: Mapping[str, Capture], measured: Mapping[str, dict[str, Any]]) -> Table:
    """Put each timing a program printed beside nsys' phases of its NVTX range.

    A timing has ``range``, ``operator`` and ``median_us``.
    """
    rows: list[tuple[object, ...]] = []
    for variant, capture in captures.items():
        phases = capture.report("nvtx_phases")
        by_range = {str(row[0]): row for row in phases.rows()}
        places = [[column.name for column in PHASES.columns].index(name) for name in _PHASE_COLUMNS]
        for timing in measured[variant]["timings"]:
            row = by_range.get(timing["range"])
            seen = [row[place] if row else None for place in places]
            rows.append((variant, timing["operator"], timing["median_us"] * 1e3, *seen))
    return _table(TIMING_BY_VARIANT, rows)


def _gpu_totals(capture: Capture) -> tuple[object, ...]:
    kernel_ns = int(durations(capture, "kernel").sum()) if capture.has("kernel") else 0
    launch_ns: int | None = 0
    if capture.has("kernel"):  # whose calls may not have been recorded: that is no zero
        launch_ns = int(outermost_launches(capture).api_ns.sum()) if capture.has("api") else None
    has_copies = capture.has("memcpy")
    copied = int(capture.columns("memcpy", "bytes")["bytes"].sum()) if has_copies else 0
    copy_ns = int(durations(capture, "memcpy").sum()) if has_copies else 0
    return capture.count("kernel"), kernel_ns, launch_ns, capture.count("memcpy"), copied, copy_ns


def _table(report: Report, rows: Sequence[tuple[object, ...]]) -> Table:
    columns = zip(*rows, strict=True) if rows else [() for _ in report.columns]
    data: dict[str, Any] = {
        column.name: list(values)
        if column.unit is Unit.TEXT
        else np.array([np.nan if value is None else value for value in values])
        for column, values in zip(report.columns, columns, strict=True)
    }
    return Table(report, data)
