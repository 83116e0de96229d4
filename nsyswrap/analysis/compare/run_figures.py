"""Take the figures of one run from its capture: all that a comparison, a baseline or a table of runs needs.

Counts and totals are those of nsys' own tables. A typical time is a trimmed mean, and its error comes from
blocks of consecutive values: see ``GroupBy.trimmed``. The figures hold no column of the capture, so that the
next capture can be read after this one is closed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from nsyswrap.analysis.compare.kernel_rows import kernel_keys, kernel_rows
from nsyswrap.analysis.compare.median_step import median_step
from nsyswrap.analysis.compare.model import Group, Key, RowFigures, RunFigures
from nsyswrap.analysis.compare.module_rows import module_rows
from nsyswrap.analysis.compare.rows import SteadyWindows, api_rows, bounded, copy_rows, range_rows
from nsyswrap.analysis.compare.setup import setup_of
from nsyswrap.analysis.compare.step_rows import budget_rows, launch_rows, step_rows, total_rows
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.energy import energy_of
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.judged_process import READS as JUDGED
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.steps import choices_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import ViewOptions

_SHAPE = tuple(f"{field}_{axis}" for field in ("grid", "block") for axis in "xyz")
# What operations, their launches and the keys of kernels are made of, and no row.
_JOINED = ("correlation_id", "global_pid", "device_id", "context_id", "stream_id", "graph_node_id")
_ONCE = {**dict.fromkeys(KINDS, _JOINED), KERNEL: (*_JOINED, *_SHAPE), "api": ("correlation_id",)}
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
        run = capture.run_facts
        setup = setup_of(view, run)
        _make_tables(view.whole)
        judged = judged_processes(view)
        for process in judged if len(judged) > 1 else ():  # a process alone can be the whole view
            process.finish()
        processes = sorted(judged, key=_busy_ns, reverse=True)
        step = median_step(processes[0]) if processes else None
        windows = SteadyWindows.of(processes)
        rows: dict[Key, RowFigures] = {}
        left_out: dict[Group, int] = {}
        of_group: dict[Group, dict[Key, dict[str, Any]]] = {
            "total": total_rows(view, run),
            "step": step_rows(processes),
            "budget": budget_rows(view, processes),
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
        label = label or str(capture.source)
        # The steps are those of the process with most GPU work, as the answer has them.
        steps = int(processes[0].steps.steady.sum()) if processes and processes[0].steps.has_steady else 0
        energy = energy_of(view, processes[0]) if processes else None
        setup = replace(setup, step_joules=energy.step_joules if energy else None)
        again = partial(_again, capture.path, capture.source, capture.view)
        return RunFigures(
            *(label, setup, rows, steps, left_out, step),
            loop=processes[0].steps.loop if processes else "",
            choices=cache(lambda: choices_of(again(""))),
            judged_by=lambda loop: run_figures(again(loop), label),
        )


def _make_tables(whole: Capture) -> None:
    """Make what the rows are computed from, and free the columns of it: those of kernels are the largest."""
    gpu_operations_of(whole)
    launches_of(whole)
    if whole.has(KERNEL):
        kernel_keys(whole)
    whole.release_columns(_ONCE)
    if not whole.has("nvtx"):  # ranges are joined to launches, too
        whole.release(launch_pairs_of)


def _again(path: Path, source: Path, view: ViewOptions, loop: str) -> Capture:
    """Open a capture once more, to judge another loop of it."""
    return Capture(path, source=source, view=replace(view, loop=loop))


def _busy_ns(process: JudgedProcess) -> int:
    return sum(int(budget.busy_ns.sum()) for budget in process.budgets)
