"""The table over variants that each repair one thing in the one before: what stood first, what was gained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nsyswrap.analysis.advice import advice_of
from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import Comparison, Key, Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.step_budget import COMPUTE
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.compare.conclusion import headline, largest_part
from nsyswrap.reports.compare.tables import change_percent
from nsyswrap.reports.scenario_tables import VARIANT
from nsyswrap.reports.table import Column, Schema, Table, table_of

KERNELS = "kernels"
RUNGS = Schema(
    name="rungs",
    title="Rungs: each repairs one thing in the one above",
    columns=(
        VARIANT,
        Column(
            "repairs",
            "Repairs",
            Unit.TEXT,
            "finding on the rung above that this one is to repair; kernels: no finding",
        ),
        Column("stake_percent", "Share", Unit.PERCENT, "share of the steps above that it concerns"),
        Column("step_ns", "Step", Unit.NS, "mean duration of a step after warm-up"),
        Column("change_percent", "Change", Unit.PERCENT, "of the step, from the rung above"),
        Column("largest_part", "Largest Part", Unit.TEXT, "largest part of this change, as compare names it"),
        Column("largest_ns", "Saved", Unit.NS, "change of this part in a step"),
        Column("busy_percent", "Busy", Unit.PERCENT, "share of the steady steps with GPU work"),
        Column("first_finding", "First Finding", Unit.TEXT, "what report --advice names first", drop_order=1),
    ),
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
    comparison = compare(base, new, anyway=True)
    head = headline(comparison)
    if head is None or head.key.group != "step":
        return None, None, None
    part, cost_ns = largest_part(comparison, head)
    if part is None:
        return change_percent(head), None, None
    name = names_of(comparison)[part.key]
    return change_percent(head), f"idle: {name}" if part.key.name.startswith("idle_") else name, cost_ns
