"""Find the idle time that no other finding explains, so that an idle GPU never goes without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.blockers import blocked_gaps
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.gpu_operations import MEMCPY
from nsyswrap.capture.intervals import NOTHING, IntervalSet, difference, joined
from nsyswrap.capture.schema import PAGE_FAULT, UM_TO_HOST

_MOSTLY_PERCENT = 20.0  # of the time: a GPU that is idle for longer gets a finding in any case
_TO_HOST = "pages_to_host"
_CAUSE_OF = {_TO_HOST: "migration"}  # other findings are named after their cause
# The order counts: of equal times, the first is the largest.
_KINDS: dict[str, FindingKind] = {
    "profiler": "idle_profiler",
    "queued": "idle_queued",
    "load": "idle_load",
    "allocate": "idle_allocate",
    "synchronise": "idle_synchronise",
    "launch": "idle_launch",
    "copy": "idle_copy",
    "host": "idle_host",
    "call": "idle_call",
    "migration": "idle_migration",
    _TO_HOST: "idle_pages_to_host",
    "unknown": "idle_unknown",
}


def idle_time(context: AdviceContext, known: Sequence[Finding]) -> list[Finding]:
    """Return a finding for each cause with much idle time that the known findings leave.

    If the GPU is mostly idle and there would be none at all, the largest cause counts.
    """
    explained = joined(*(piece.evidence for piece in known)) if known else NOTHING
    to_host = _end_with_pages_to_host(context)

    def left(name: str) -> IntervalSet:
        gaps = to_host if name == _TO_HOST else ~to_host
        return difference(context.idle(gaps, (_CAUSE_OF.get(name, name),)), explained)

    spent = context.gaps.spent_ns  # at least what is left: most causes are not worth a closer look
    covers = {name: left(name) for name in _KINDS if context.worth(spent[_CAUSE_OF.get(name, name)])}
    found = (_finding(context, *item) for item in covers.items() if context.worth(item[1].length))
    findings = [one for one in found if context.worth(one.ceiling_ns or 0)]
    if findings or known:
        return findings
    covers = {name: difference(left(name), context.others) for name in _KINDS}
    idle = min(sum(cover.length for cover in covers.values()), context.most_ns)
    if 0 < _MOSTLY_PERCENT * context.window_ns <= 100.0 * idle:
        findings = [_finding(context, *max(covers.items(), key=lambda item: item[1].length))]
    return findings


def _end_with_pages_to_host(context: AdviceContext) -> NDArray[np.bool_]:
    """Return which gaps end with a page that the host touched: an eviction or a prefetch is another cause."""
    gaps = context.gaps
    to_host = np.zeros(len(gaps), dtype=bool)
    rows = np.flatnonzero(gaps.parts["migration"] > 0)
    if len(rows):
        moved = context.capture.whole.columns(MEMCPY, "copy_kind", "migration_cause")
        fetched = (moved["copy_kind"] == UM_TO_HOST) & (moved["migration_cause"] == PAGE_FAULT)
        to_host[rows] = fetched[gaps.operations.row[gaps.after[rows]]]
    return to_host


def _finding(context: AdviceContext, name: str, cover: IntervalSet) -> Finding:
    numbers: dict[str, Any] = {"cause": _CAUSE_OF.get(name, name)}
    numbers["computes"] = bool(context.operations.computes.any())
    if name == "launch":
        launches = context.launches
        numbers["all_first"] = bool(len(launches) and launches.first.all())
        numbers["all_graphs"] = bool(len(launches) and launches.of_graph.all())
    if name == "queued":
        numbers |= blocked_gaps(context, cover)
    return context.finding(_KINDS[name], cover, "gpu_idle", idle_ns=cover.length, **numbers)
