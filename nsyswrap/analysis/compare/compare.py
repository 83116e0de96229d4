"""Compare two sides of runs row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nsyswrap.analysis.compare.comparability import obstacles_of, remarks_of
from nsyswrap.analysis.compare.judgement import SideClocks, judge_rows, unjudged
from nsyswrap.analysis.compare.model import (
    FEWEST_RUNS,
    GROUPS,
    RECOMMENDED_RUNS,
    Comparison,
    Judgement,
    Obstacle,
    Pair,
    PairedFigures,
    RunFigures,
    Side,
    SlowdownLimits,
)
from nsyswrap.analysis.compare.module_rows import hidden_remarks
from nsyswrap.analysis.compare.pairing import have_same_steps, pair_rows
from nsyswrap.analysis.compare.stored_names import with_full_names
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.steps.loops import Choice, label_to_name, shared_loop
from nsyswrap.analysis.steps.occurrences import is_range
from nsyswrap.base.version import version

_MANY, _PERCENT = 20, 100
_ORDER = {group: number for number, group in enumerate(GROUPS)}


def compare(
    base: Side, new: Side, limits: SlowdownLimits | None = None, *, anyway: bool = False
) -> Comparison:
    """Return what differs between two sides.

    Rows are judged from three runs a side, if nothing keeps the sides from being compared. ``anyway`` judges
    also where only the command differs, which users do on purpose.
    """
    limits = limits or SlowdownLimits()
    (base, new), loop = with_one_loop([base, new])
    base, new = with_full_names(base, new)
    obstacles = obstacles_of(base, new)
    no_verdicts = _no_verdicts(base, new, obstacles, anyway=anyway)
    rows = pair_rows(base, new)
    judgements = (
        [unjudged(row, None) for row in rows]
        if no_verdicts
        else judge_rows(rows, limits, SideClocks.of(base, new))
    )
    judgements = [_unless_left_out(base, new, *both) for both in zip(rows, judgements, strict=True)]
    pairs = [
        Pair(row.key, row.base, row.new, judgement, row.base_key)
        for row, judgement in zip(rows, judgements, strict=True)
    ]
    pairs.sort(key=lambda pair: (_ORDER[pair.key.group], -abs(pair.cost_ns), pair.key))
    few = () if no_verdicts else few_runs(base, new)
    other_steps = () if have_same_steps(base, new) else _other_steps(base, new)
    one_loop = (Note("one_loop", {"loop": loop}),) if loop else ()
    hidden = hidden_remarks(base, new)
    others = (
        _other_versions(base, new)
        if any(judgement.outcome in ("slower", "faster") for judgement in judgements)
        else ()
    )
    remarks = (*few, *_left_out(base, new), *one_loop, *other_steps, *hidden, *others, *remarks_of(base, new))
    return Comparison(base, new, tuple(pairs), limits, obstacles, no_verdicts, remarks)


def _no_verdicts(base: Side, new: Side, obstacles: Sequence[Obstacle], *, anyway: bool) -> Note | None:
    """Return why nothing can be judged; None if it can."""
    serious = [found.about for found in obstacles if not (anyway and found.is_deliberate)]
    if serious:
        return Note("not_comparable", {"abouts": serious})
    numbers = len(base.runs), len(new.runs)
    if numbers == (1, 1):
        return Note("one_run_a_side", {})
    if min(numbers) < FEWEST_RUNS:
        return Note("too_few_runs", {"base": numbers[0], "new": numbers[1], "fewest": FEWEST_RUNS})
    return None


def few_runs(base: Side, new: Side) -> tuple[Note, ...]:
    """Return what few runs cannot exclude: they do not show that a program has two speeds.

    For such rows the error rate of a comparison does not hold.
    """
    numbers = len(base.runs), len(new.runs)
    if min(numbers) >= RECOMMENDED_RUNS:
        return ()
    chance = 2 ** (sum(numbers) - 1)  # all base runs at one speed and all new ones at the other
    many = _PERCENT * (1 - (1 - 1 / chance) ** _MANY)
    of_runs = {"base": numbers[0], "new": numbers[1], "recommended": RECOMMENDED_RUNS}
    return (Note("two_speeds", {**of_runs, "chance": chance, "rows": _MANY, "wrong_percent": many}),)


def _other_steps(base: Side, new: Side) -> tuple[Note, ...]:
    """Return that the steps of the runs are not the same, if a run has any."""
    if base.other_steps or new.other_steps:
        return (Note("old_steps", {}),)
    if not any(run.steps for run in (*base.runs, *new.runs)):
        return ()
    return (Note("other_steps", {}),)


def _other_versions(base: Side, new: Side) -> tuple[Note, ...]:
    """Return that a difference may be one between versions of nsyswrap, if others computed a baseline."""
    if not (base.nsyswrap or new.nsyswrap):
        return ()
    versions = [side.nsyswrap or version() for side in (base, new)]
    if versions[0] == versions[1]:
        return ()
    return (Note("other_versions", {"base": versions[0], "new": versions[1]}),)


def _unless_left_out(base: Side, new: Side, rows: PairedFigures, judgement: Judgement) -> Judgement:
    """Return the judgement; a row that a side may have left out is not called added or removed."""
    for side, of_side in ((base, rows.base), (new, rows.new)):
        if not any(of_side) and any(run.left_out.get(rows.key.group) for run in side.runs):
            return replace(judgement, why=(Note("maybe_left_out", {"side": side.name}),))
    return judgement


def _left_out(base: Side, new: Side) -> Iterable[Note]:
    for side in (base, new):
        groups = {group: max(run.left_out.get(group, 0) for run in side.runs) for group in GROUPS}
        if some := {group: number for group, number in groups.items() if number}:
            yield Note("rows_left_out", {"side": side.name, "groups": some})


# One loop by which all runs are judged: each alone can be judged by another one.


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
