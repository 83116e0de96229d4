"""Tables about scenarios: several variants side by side, and one operation timed by several clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nsyswrap.analysis.advice import advice_of
from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import Comparison, Key, Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.step_budget import COMPUTE
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.compare.conclusion import headline, largest_part
from nsyswrap.reports.compare.tables import change_percent
from nsyswrap.reports.insight.nvtx_phases import REPORT as PHASES
from nsyswrap.reports.insight.timing_audit import REPORT as AUDIT
from nsyswrap.reports.insight.timing_audit import STEADY
from nsyswrap.reports.table import Column, Report, Schema, Table, table_of

VARIANT = Column("variant", "Variant", "variant of the scenario")
_OPERATOR = Column("operator", "Operator", "timed implementation")
_PHASE_COLUMNS = ("launches", "api_med_ns", "queued_med_ns", "kernel_med_ns", "copy_med_ns", "sync_med_ns")
_AUDIT_COLUMNS = ("verdict", "instances", "host_med_ns", "should_med_ns", "error_med_percent")
_GPU_COLUMNS = (
    Column.count("kernels", "Kernels", "kernel executions"),
    Column("kernel_ns", "Kernel Time", "sum of the kernels' durations"),
    Column.count("graphs", "Graphs", "whole-graph executions, whose kernels are not recorded", 3),
    Column("graph_ns", "Graph Time", "sum of the graphs' durations", 3),
    Column("launch_ns", "Launch API", "CPU time in the calls that launched kernels and graphs"),
    Column.count("copies", "Copies", "copies and unified memory migrations"),
    Column("copied_bytes", "Copied", "sum of the bytes copied"),
    Column(
        "copy_ns", "Copy Time", "sum of the copies' durations; with managed memory part of the kernel time"
    ),
)

GPU_BYVARIANT = Schema(
    "gpu_by_variant",
    "GPU work by variant",
    VARIANT,
    *(column for column in _GPU_COLUMNS if not column.name.startswith("graph")),
)

TIMING_BYVARIANT = Schema(
    "timing_by_variant",
    "Program timing and nsys timing per iteration",
    VARIANT,
    _OPERATOR,
    Column("program_med_ns", "Program", "median measured by the program"),
    *(column for column in PHASES.columns if column.name in _PHASE_COLUMNS),
)

AUDIT_BYVARIANT = Schema(
    "audit_by_variant",
    "Timing check by variant",
    VARIANT,
    _OPERATOR,
    Column("program_med_ns", "Program", "median measured by the program, over all verdicts"),
    *(column for column in AUDIT.columns if column.name in _AUDIT_COLUMNS),
)

PROFILER_BYVARIANT = Schema(
    "profiler_by_variant",
    "Results of the program's own profiler, without nsys",
    VARIANT,
    _OPERATOR,
    Column("program_med_ns", "Program", "median measured by the program with its profiler on"),
    Column.count("launches", "Launches", "launches during profiling"),
    Column.count("cpu_ops", "Operators", "PyTorch operators (aten) that the profiler recorded on the CPU"),
    Column.count("kernels", "Kernels", "kernels that the profiler recorded"),
    Column("kernel_med_ns", "Kernel Med", "median duration of the recorded kernels"),
    Column("nsys_med_ns", "nsys Med", "nsys' median for the same operator, from the run under nsys"),
)

SCENARIO_RUNS = Schema(
    "scenario_runs",
    "All scenario runs",
    Column("scenario", "Scenario", "name of the scenario"),
    VARIANT,
    Column("outcome", "Outcome", "done, skipped or failed, with the reason"),
    *_GPU_COLUMNS,
)

AGREES_PERCENT = 10
_UNEXPLAINED = "unexplained; run it again"

# Clock of a run -> what it is called, and what it measures besides the kernel.
CLOCKS = {
    "sync": ("perf_counter", "includes launch and wait"),
    "event": ("cuda.Event", "includes GPU idle time"),
    "profiler": ("torch.profiler", _UNEXPLAINED),
}
LOOK_FOR = (
    "torch.profiler and nsys time the kernel itself. perf_counter with a synchronization includes the "
    "launch and the wait. cuda.Event includes GPU idle time between its two records. Below 20 µs this "
    "overhead can exceed the kernel time."
)

CROSS_CHECK = Schema(
    "cross_check",
    "One operation timed by four clocks, one run each",
    Column("operator", "Operator", "timed operation"),
    Column("clock", "Clock", "clock of the measurement"),
    Column.count("launches", "Launches", "executions of the operation, including warm-up"),
    Column("median_ns", "Median", "median of the timed executions"),
    Column("beyond_ns", "Above Kernel", "median minus nsys' median kernel time"),
    Column("beyond_percent", "Above Kernel", "the same as a share of nsys' kernel time"),
    Column("note", "Note", f"reason for a difference of more than {AGREES_PERCENT} %"),
)


def gpu_by_variant(captures: Mapping[str, Capture]) -> Table:
    """Return kernels, launches and copies of each variant's capture."""
    wanted = [column.name for column in GPU_BYVARIANT.columns[1:]]
    rows = [(label, *map(gpu_totals(capture).__getitem__, wanted)) for label, capture in captures.items()]
    return table_of(GPU_BYVARIANT, rows)


def timing_by_variant(captures: Mapping[str, Capture], measured: Mapping[str, dict[str, Any]]) -> Table:
    """Return each timing that a program printed, beside nsys' phases of its NVTX range.

    A timing has ``range``, ``operator`` and ``median_us``. A variant without a capture was run without nsys.
    """
    return _beside(TIMING_BYVARIANT, captures, measured, PHASES, _PHASE_COLUMNS)


def audit_by_variant(captures: Mapping[str, Capture], measured: Mapping[str, dict[str, Any]]) -> Table:
    """Return each timing that a program printed, beside the verdicts on its NVTX range without warm-up.

    There is a row per verdict, or one without if the variant ran without nsys or the range is not there.
    """
    return _beside(AUDIT_BYVARIANT, captures, measured, AUDIT, _AUDIT_COLUMNS)


def _beside(
    schema: Schema,
    captures: Mapping[str, Capture],
    measured: Mapping[str, dict[str, Any]],
    report: Report,
    names: Sequence[str],
) -> Table:
    """Return each timing beside the columns of these names in each row that a report has of its range."""
    rows: list[tuple[object, ...]] = []
    for variant, result in measured.items():
        of_range: dict[object, list[list[object]]] = {}
        for row in _rows(captures[variant], report) if variant in captures else ():
            if row.get("phase", STEADY) == STEADY:
                of_range.setdefault(row["range"], []).append([row[name] for name in names])
        for timing in result["timings"]:
            front = variant, timing["operator"], timing["median_us"] * 1e3
            rows += [(*front, *row) for row in of_range.get(timing["range"], [[None] * len(names)])]
    return table_of(schema, rows)


def profiler_by_variant(captures: Mapping[str, Capture], measured: Mapping[str, dict[str, Any]]) -> Table:
    """Return what profilers inside the programs recorded: a row for each timing with ``profiler``."""
    under_nsys = {variant: result for variant, result in measured.items() if variant in captures}
    timed = timing_by_variant(captures, under_nsys).data
    nsys_ns = dict(zip(timed["operator"], timed["kernel_med_ns"], strict=True))
    rows = [
        (
            variant,
            timing["operator"],
            timing["median_us"] * 1e3,
            *(timing["profiler"][name] for name in ("launches", "cpu_ops", "kernels")),
            _ns(timing["profiler"]["kernel_median_us"]),
            nsys_ns.get(timing["operator"]),
        )
        for variant, result in measured.items()
        for timing in result["timings"]
        if timing.get("profiler")
    ]
    return table_of(PROFILER_BYVARIANT, rows)


def scenario_runs(runs: Sequence[tuple[str, str, str, Capture | None]]) -> Table:
    """Return a row per (scenario, variant, outcome, capture), without totals if there is no capture."""
    names = [column.name for column in _GPU_COLUMNS]
    rows = [(*labels, *map((gpu_totals(capture) if capture else {}).get, names)) for *labels, capture in runs]
    return table_of(SCENARIO_RUNS, rows)


def gpu_totals(capture: Capture) -> dict[str, int | None]:
    """Return totals of kernels, launches and copies; all None if CUDA was not traced."""
    if capture.info.cuda_traced is False and not any(map(capture.has, ("api", *KINDS))):
        return dict.fromkeys(column.name for column in _GPU_COLUMNS)
    launch_ns: int | None = int(launches_of(capture).api_ns.sum())
    if not capture.has("api") and (capture.has("kernel") or capture.has("graph")):
        launch_ns = None  # the calls were not recorded, so their time is not 0
    has_copies = capture.has("memcpy")
    return {
        "kernels": capture.count("kernel"),
        "kernel_ns": _total_ns(capture, "kernel"),
        "graphs": capture.count("graph"),
        "graph_ns": _total_ns(capture, "graph"),
        "launch_ns": launch_ns,
        "copies": capture.count("memcpy"),
        "copied_bytes": int(capture.columns("memcpy", "bytes")["bytes"].sum()) if has_copies else 0,
        "copy_ns": _total_ns(capture, "memcpy"),
    }


def _total_ns(capture: Capture, kind: str) -> int:
    return int(capture.durations(kind).sum()) if capture.has(kind) else 0


def _rows(capture: Capture, report: Report) -> list[dict[str, object]]:
    return [] if report.lacks(capture) else report.make(capture).records()


def _ns(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e3


def cross_check(
    capture: Capture, under_nsys: dict[str, Any], by_clock: Mapping[str, dict[str, Any]]
) -> Table:
    """Return a row per operator and clock, and nsys' own.

    ``under_nsys`` and ``by_clock`` are what the script measured in the run of the capture and in those
    without nsys. Raises NotInCapture where nsys recorded no kernel of an operation.
    """
    phases = {str(row["range"]): row for row in PHASES.make(capture).records()}
    rows: list[tuple[object, ...]] = []
    for timing in under_nsys["timings"]:
        operator, launches = timing["operator"], timing["launches"]
        kernel = phases.get(timing["range"], {}).get("kernel_med_ns")
        if not kernel:
            raise NotInCapture(
                f"{CROSS_CHECK.name}: no kernels in NVTX range {timing['range']!r} of {capture.source}",
                f"list what was recorded: nsyswrap report {capture.source}",
            )
        recorded = _recorded(phases, timing)
        note = "" if recorded == launches else f"of {launches} launches of the program"
        rows.append((operator, "nsys", recorded, kernel, 0.0, 0.0, note))
        for clock, result in by_clock.items():
            [own] = [timing for timing in result["timings"] if timing["operator"] == operator]
            rows.append((operator, *_row(clock, own, float(str(kernel)), launches)))
    return table_of(CROSS_CHECK, rows)


def _recorded(phases: Mapping[str, Mapping[str, object]], timing: dict[str, Any]) -> int:
    """Return how many launches of an operation nsys recorded, in its timed ranges and its warm-up."""
    timed, warmed = phases[timing["range"]], phases.get(f"warm-up {timing['range']}")
    counted = [row for row in (timed, warmed) if row]
    return round(sum(float(str(row["launches"])) * int(str(row["instances"])) for row in counted))


def _row(clock: str, timing: dict[str, Any], kernel_ns: float, launches: int) -> tuple[object, ...]:
    name, reason = CLOCKS[clock]
    median_ns = timing["median_us"] * 1e3
    beyond = median_ns - kernel_ns
    percent = 100 * beyond / kernel_ns
    note = ""
    if abs(percent) > AGREES_PERCENT:
        note = reason if beyond > 0 else _UNEXPLAINED
    if timing["launches"] != launches:
        note = f"the run with nsys made {launches} launches"
    return name, timing["launches"], median_ns, beyond, percent, note


KERNELS = "kernels"
RUNGS = Schema(
    "rungs",
    "Rungs: each repairs one thing in the one above",
    VARIANT,
    Column("repairs", "Repairs", "finding on the rung above that this one is to repair; kernels: no finding"),
    Column("stake_percent", "Share", "share of the steps above that it concerns"),
    Column("step_ns", "Step", "mean duration of a step after warm-up"),
    Column("change_percent", "Change", "of the step, from the rung above"),
    Column("largest_part", "Largest Part", "largest part of this change, as compare names it"),
    Column("largest_ns", "Saved", "change of this part in a step"),
    Column("busy_percent", "Busy", "share of the steady steps with GPU work"),
    Column("first_finding", "First Finding", "what report --advice names first", 1),
)


class _Rung(NamedTuple):
    """What is known of a rung by itself; ``stakes``: the share in percent by finding, the first one first.

    The last stake is that of KERNELS, which are no finding: nsys does not see why a kernel takes its time.
    """

    side: Side
    step_ns: float | None
    busy_percent: float | None
    stakes: Mapping[str, float | None]


def rungs(
    captures: Mapping[str, Capture],
    repairs: Mapping[str, str],
    names_of: Callable[[Comparison], Mapping[Key, str]],
) -> Table:
    """Return a row per variant, in the order of the rungs; without steps in both, no change.

    ``repairs`` has the finding that a variant is to repair. ``names_of`` gives the rows of a comparison the
    names that people read.
    """
    known = [_rung(variant, capture) for variant, capture in captures.items()]
    rows = []
    for above, rung in zip([None, *known], known, strict=False):
        repaired = repairs.get(rung.side.name) or None
        stake = above.stakes.get(repaired) if above and repaired else None
        change, part, saved = _change(above.side, rung.side, names_of) if above else (None, None, None)
        first = next((name for name in rung.stakes if name != KERNELS), None)
        rows.append(
            (rung.side.name, repaired, stake, rung.step_ns, change, part, saved, rung.busy_percent, first)
        )
    return table_of(RUNGS, rows)


def _rung(variant: str, capture: Capture) -> _Rung:
    run = run_figures(capture, variant)
    steps = [row for key, row in run.rows.items() if key.group == "step"]
    longest = max(steps, key=lambda row: row.total_ns, default=None)
    budgets = [budget for part in judged_processes(capture) for budget in part.budgets]
    total = sum(int(budget.duration_ns.sum()) for budget in budgets)
    busy = sum(int(budget.busy_ns.sum()) for budget in budgets)
    kernels = sum(int(budget.state_ns[state].sum()) for budget in budgets for state in COMPUTE)
    findings = advice_of(capture).findings
    stakes: dict[str, float | None] = {one.kind: one.ceiling_percent for one in findings}
    return _Rung(
        Side(variant, (run,)),
        longest.total_ns / longest.count if longest else None,
        100 * busy / total if total else None,
        {**stakes, KERNELS: 100 * kernels / total if total else None},
    )


def _change(
    base: Side, new: Side, names_of: Callable[[Comparison], Mapping[Key, str]]
) -> tuple[float | None, str | None, float | None]:
    """Return the change of the step in percent, its largest part, and the change of that in ns."""
    comparison = compare(base, new)  # of one run a side: nothing is judged
    head = headline(comparison)
    if head is None or head.key.group != "step":
        return None, None, None
    part, cost_ns = largest_part(comparison, head)
    if part is None:
        return change_percent(head), None, None
    name = names_of(comparison)[part.key]
    return change_percent(head), f"idle: {name}" if part.key.name.startswith("idle_") else name, cost_ns
