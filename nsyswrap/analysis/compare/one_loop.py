"""Judge the runs of a comparison by one loop: each alone can be judged by another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nsyswrap.analysis.compare.model import RunFigures, Side
from nsyswrap.analysis.steps.loops import Choice, label_to_name, shared_loop
from nsyswrap.analysis.steps.occurrences import is_range


def with_one_loop(sides: Sequence[Side]) -> tuple[list[Side], str]:
    """Return the sides with all runs judged by the loop that they share; else that for each side alone.

    The text is the label of the loop; it is empty if each has that label anyway, or if the sides share none.
    """
    runs = [run for side in sides for run in side.runs]
    loop, label = _shared(runs)
    if loop:
        return [
            replace(side, runs=tuple(_judged_by(run, loop) for run in side.runs)) for side in sides
        ], label
    alone = len(sides) > 1 and _differ(runs)
    return [with_one_loop([side])[0][0] if alone else side for side in sides], ""


def _differ(runs: Sequence[RunFigures]) -> bool:
    return len({run.loop for run in runs if run.loop}) > 1


def _shared(runs: Sequence[RunFigures]) -> tuple[str, str]:
    """Return the loop that all runs share, and its label; empty if all are judged by the same anyway."""
    if not _differ(runs):
        return "", ""
    choices = [_choices(run) for run in runs if run.loop]
    loop = shared_loop(choices)
    return loop, label_to_name(choices, loop) if loop else ""


def _choices(run: RunFigures) -> Mapping[str, Choice]:
    """Return the loops by which a run can be judged; of a saved one that is the loop that was judged."""
    label = run.loop if is_range(run.loop) else ""
    return run.choices() if run.choices else {run.loop: Choice(label, 0.0, judged=True)}


def _judged_by(run: RunFigures, loop: str) -> RunFigures:
    return run if run.loop in ("", loop) or not run.judged_by else run.judged_by(loop)
