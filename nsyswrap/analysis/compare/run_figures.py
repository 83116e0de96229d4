"""Take the figures of one run from its capture: all that a comparison, a baseline or a table of runs needs.

Counts and totals are those of nsys' own tables. A typical time is a trimmed mean, and its error comes from
blocks of consecutive values: see ``Groups.trimmed``. The figures hold no column of the capture, so that the
next capture can be read after this one is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from nsyswrap.analysis.compare.kernel_rows import kernel_rows
from nsyswrap.analysis.compare.median_step import median_step
from nsyswrap.analysis.compare.model import Group, Key, Row, RunFigures
from nsyswrap.analysis.compare.module_rows import module_rows
from nsyswrap.analysis.compare.rows import SteadyWindows, api_rows, bounded, copy_rows, range_rows
from nsyswrap.analysis.compare.setup import setup_of
from nsyswrap.analysis.compare.step_rows import budget_rows, launch_rows, step_rows, total_rows
from nsyswrap.analysis.judged_part import READS as JUDGED
from nsyswrap.analysis.judged_part import JudgedPart, judged_parts
from nsyswrap.analysis.steps import choices_of
from nsyswrap.analysis.steps.shared_loop import Choice
from nsyswrap.base.run_folder import RunFolder, run_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import ViewOptions

_SHAPE = tuple(f"{field}_{axis}" for field in ("grid", "block") for axis in "xyz")
_READS = {
    **JUDGED,
    "kernel": (*JUDGED["kernel"], *_SHAPE),
    "memcpy": (*JUDGED["memcpy"], "bytes", "src_kind", "dst_kind", "copy_count"),
    "memset": (*JUDGED["memset"], "bytes", "mem_kind"),
}


def run_figures(capture: Capture, label: str = "") -> RunFigures:
    """Return the figures of the selected part of a capture. ``label`` names the run, by default its file.

    Raises NotInCapture if there are too many processes or events, or no such steps as the view names.
    """
    view = capture.decided().viewed(names="full", nvtx_names=False)
    with view.exact():
        for kind, fields in _READS.items():
            if view.whole.has(kind):
                view.whole.columns(kind, *fields)  # each table in one pass
        folder = run_of(capture.source)
        run = RunFolder(folder).read_run() if folder else {}
        parts = sorted(judged_parts(view), key=_busy_ns, reverse=True)
        windows = SteadyWindows.of(parts)
        rows: dict[Key, Row] = {}
        left_out: dict[Group, int] = {}
        of_group: dict[Group, dict[Key, dict[str, Any]]] = {
            "total": total_rows(view, run),
            "step": step_rows(parts),
            "budget": budget_rows(view, parts),
            "launch": launch_rows(view),
            "module": module_rows(view, windows),
            "kernel": kernel_rows(view, windows),
            "api": api_rows(view, windows),
            "copy": copy_rows(view, windows),
            "range": range_rows(view, windows),
        }
        for group, every in of_group.items():
            made, more = bounded(every)
            rows |= made
            left_out |= {group: more} if more else {}
        step = median_step(parts[0]) if parts else None
        label = label or str(capture.source)
        # The steps are those of the process with most GPU work, as the answer has them.
        steps = int(parts[0].steps.steady.sum()) if parts and parts[0].steps.found else 0
        loop = parts[0].steps.loop if parts else ""
        origin = _Origin(capture.path, capture.source, capture.view, label)
        return RunFigures(label, setup_of(view, run), rows, steps, left_out, step, loop, origin)


class _Origin(NamedTuple):
    """The capture of a run, which is opened again if another loop is to be judged."""

    path: Path
    source: Path
    view: ViewOptions
    label: str

    def choices(self) -> Mapping[str, Choice]:
        """Return the loops by which the run can be judged, by what tells them apart."""
        return choices_of(Capture(self.path, source=self.source, view=replace(self.view, loop="")))

    def judged_by(self, loop: str) -> RunFigures:
        """Return the figures of the run with this loop judged."""
        return run_figures(
            Capture(self.path, source=self.source, view=replace(self.view, loop=loop)), self.label
        )


def _busy_ns(part: JudgedPart) -> int:
    return sum(int(budget.busy_ns.sum()) for budget in part.budgets)
