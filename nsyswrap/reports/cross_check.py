"""One operation timed by several clocks, each in a run of its own, held against nsys' kernel times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Unit
from nsyswrap.reports.insight.nvtx_phases import REPORT as PHASES
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Table

AGREES_PERCENT = 10
_UNEXPLAINED = "unexplained: run it again"

# Clock of a run -> what it is called, and what it measures besides the kernel.
CLOCKS = {
    "sync": ("perf_counter", "holds launch and wait too"),
    "event": ("cuda.Event", "holds idle GPU time too"),
    "profiler": ("torch.profiler", _UNEXPLAINED),
}
LOOK_FOR = (
    "torch.profiler and nsys time the kernel itself; perf_counter with a synchronise holds the launch and "
    "the wait too, and cuda.Event the time between its two records in which no kernel ran. The longer the "
    "kernel, the less that matters: under 20 µs it can outweigh the kernel."
)

REPORT = Report(
    name="cross_check",
    title="The same launches by four clocks, each in a run of its own",
    layer="analysis",
    needs=(),
    columns=(
        Column("operator", "Operator", Unit.TEXT, "operation that was timed"),
        Column("clock", "Clock", Unit.TEXT, "what timed it"),
        Column("launches", "Launches", Unit.COUNT, "times the operation was run, the warm-up too"),
        Column("median_ns", "Median", Unit.NS, "median of the timed ones"),
        Column("beyond_ns", "Over Kernel", Unit.NS, "median less nsys' median kernel time"),
        Column("beyond_percent", "Over", Unit.PERCENT, "the same as percent of nsys' kernel time"),
        Column("note", "Note", Unit.TEXT, f"where it is off by more than {AGREES_PERCENT} %: why"),
    ),
    compute=no_capture,
)


def cross_check(
    capture: Capture, under_nsys: dict[str, Any], by_clock: Mapping[str, dict[str, Any]]
) -> Table:
    """Return a row per operator and clock, and nsys' own.

    ``under_nsys`` and ``by_clock`` are what the script measured in the run of the capture and in those
    without nsys. Raises NotInCapture where nsys recorded no kernel of an operation.
    """
    names = [column.name for column in PHASES.columns]
    phases = {str(row[0]): dict(zip(names, row, strict=True)) for row in PHASES.make(capture).rows()}
    rows: list[tuple[object, ...]] = []
    for timing in under_nsys["timings"]:
        operator, launches = timing["operator"], timing["launches"]
        kernel = phases.get(timing["range"], {}).get("kernel_med_ns")
        if not kernel:
            raise NotInCapture(
                f"{REPORT.name}: {capture.source} holds no kernels inside the NVTX range {timing['range']!r}",
                f"see how nsys fared: nsyswrap report {capture.source}",
            )
        recorded = _recorded(phases, timing)
        note = "" if recorded == launches else f"of {launches} the program made"
        rows.append((operator, "nsys", recorded, kernel, 0.0, 0.0, note))
        for clock, result in by_clock.items():
            [own] = [found for found in result["timings"] if found["operator"] == operator]
            rows.append((operator, *_row(clock, own, float(str(kernel)), launches)))
    return table_of(REPORT, rows)


def _recorded(phases: Mapping[str, Mapping[str, object]], timing: dict[str, Any]) -> int:
    """Count the launches that nsys recorded of an operation, in its timed ranges and in its warm-up."""
    timed, warmed = phases[timing["range"]], phases.get(f"warm-up {timing['range']}")
    found = [row for row in (timed, warmed) if row]
    return round(sum(float(str(row["launches"])) * int(str(row["instances"])) for row in found))


def _row(clock: str, timing: dict[str, Any], kernel_ns: float, launches: int) -> tuple[object, ...]:
    name, reason = CLOCKS[clock]
    median_ns = timing["median_us"] * 1e3
    beyond = median_ns - kernel_ns
    percent = 100 * beyond / kernel_ns
    note = ""
    if abs(percent) > AGREES_PERCENT:
        note = reason if beyond > 0 else _UNEXPLAINED
    if timing["launches"] != launches:
        note = f"nsys' run made {launches} launches"
    return name, timing["launches"], median_ns, beyond, percent, note
