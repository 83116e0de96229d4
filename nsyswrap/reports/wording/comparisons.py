"""The words for what keeps runs from being compared, and for why rows of a comparison are judged or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nsyswrap.analysis.compare.model import GROUPS, Disturbance, Obstacle
from nsyswrap.analysis.finding import Numbers
from nsyswrap.base.units import Unit, human
from nsyswrap.reports.wording.numbers import Words

_NOT_KNOWN = "not known"
_ONE_OF = {"step": "steps", "budget": "steps", "api": "calls", "copy": "copies", "range": "ranges"}


def _clocks(n: Numbers) -> str:
    clocks = " / ".join(f"{clock:.0f}" if clock else _NOT_KNOWN for clock in (n["base_mhz"], n["new_mhz"]))
    return f"SM clock {clocks} MHz"


def _energy(n: Numbers) -> str:
    each = (human(n[name], Unit.JOULES) for name in ("base_joules", "new_joules"))
    return f"energy of a step: {' / '.join(each)} (not judged)"


def _left_out(n: Numbers) -> str:
    groups = ", ".join(f"{GROUPS[group]} ({rows:,})" for group, rows in n["groups"].items())
    return f"{n['side']}: rows with the least time were left out: {groups}"


TEXTS: Mapping[str, Words] = {
    # of a row
    "added": "added",
    "removed": "removed",
    "under_min_time": "under {min_time_ns} a run",
    "change_under_min_time": "differs by under {min_time_ns} a run",
    "only_first_launches": "only first launches",
    "absent_from_runs": "absent from {absent:d} of {runs:d} {side} runs",
    "no_time_in_runs": "no time in {absent:d} of {runs:d} {side} runs",
    "few_runs_of_side": "fewer than {fewest} {side} runs",
    "other_kernels": lambda n: f"other kernels: {n['base']:g} / {n['new']:g} first launches",
    "other_sizes": "copies of other sizes",
    "no_cost": "the baseline lacks the cost of a run: save it again",
    "typical_change": lambda n: f"typical time {n['ratio'] - 1:+.1%}".replace("%", " %"),
    "clock": _clocks,
    "clock_cause": lambda n: f"{_clocks(n)} could be the cause",
    "clock_cycles": lambda n: f"{_clocks(n)}; the cycles could still differ",
    "time_of_one": lambda n: (
        f"time of one; {n['base']:g} / {n['new']:g} {_ONE_OF.get(n['group'], 'launches')}"
    ),
    "base_row": "base: {name}",
    "first_launches_alone": "first launches alone",
    "modes_merged": "modes differ between runs: taken together",
    "maybe_left_out": "{side} may have it among the rows left out",
    # of all rows
    "not_comparable": lambda n: f"not comparable: {', '.join(n['abouts'])}",
    "one_run_a_side": "one run a side cannot tell noise from change",
    "too_few_runs": "{base:d} and {new:d} runs: verdicts need at least {fewest} a side",
    "two_speeds": lambda n: (
        f"{n['base']} and {n['new']} runs: a row with two speeds looks slower or faster by chance once in "
        f"{n['chance']} comparisons. With {n['rows']} such rows it is {n['wrong_percent']:.0f} % of them. "
        f"Make {n['recommended']} runs a side before you act."
    ),
    "one_loop": "all runs are judged by {loop}, the loop that they share",
    "old_steps": (
        "no steps are compared: those of the baseline are of an earlier definition; save it again: nsyswrap "
        "baseline save NAME PATH"
    ),
    "other_steps": "the runs have different steps: time by cause is that of the whole run",
    "other_versions": (
        "figures computed by nsyswrap {base} / {new}: save the baseline again if the CHANGELOG names a "
        "change of them"
    ),
    "rows_left_out": _left_out,
    "not_recorded": lambda n: f"not recorded; assumed equal: {', '.join(n['abouts'])}",
    "other_clocks": lambda n: f"the SM clock differs: {n['base_mhz']:.0f} / {n['new_mhz']:.0f} MHz",
    "at_power_limit": lambda n: (
        f"all runs were at the power limit, for {n['base']:.0f} / {n['new']:.0f} % of the samples"
    ),
    "step_energy": _energy,
    "other_values": lambda n: f"{n['about']}: {some_of(n['base'])} / {some_of(n['new'])}",
    "modules_on_one_side": "only {side} was recorded with --modules: modules are not compared",
    "other_modules": (
        "the sides have different modules, {base:d} and {new:d}, as with torch.compile or another depth: "
        "not compared: {hidden:modules}"
    ),
    # of a history
    "order_not_known": "The start of some runs is not known: points are in the order given.",
    "drawn_alone": lambda n: (
        f"Fewer than {n['fewest']} runs, drawn without a verdict: {', '.join(n['labels'])}."
    ),
}


def some_of(values: Sequence[str]) -> str:
    """Return the first three values, and how many more there are."""
    return ", ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")  # noqa: PLR2004


def worded_obstacle(obstacle: Obstacle) -> Obstacle:
    """Return an obstacle with what each side has as text."""
    return replace(obstacle, base=_value(obstacle.base), new=_value(obstacle.new))


def obstacle_text(obstacle: Obstacle, short: Callable[[list[str]], list[str]] = list) -> str:
    """Return an obstacle as text. A trouble that both sides have is no change."""
    base, new = short([_value(obstacle.base), _value(obstacle.new)])
    return f"{obstacle.about}: {f'on both sides {base}' if base == new else f'{base} → {new}'}"


def _value(value: str | tuple[str, ...] | Disturbance) -> str:
    """Return what a side has, as text. What is text stays as it is."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Disturbance):
        return " and ".join(value) or _NOT_KNOWN
    if not value.runs:
        return "none"
    runs = f"{value.runs} of {value.of} runs" if value.of > 1 else "1 run"
    if value.most_percent is None:
        return runs
    reasons = ", ".join(value.reasons) or "reason not known"
    return f"{runs}, up to {value.most_percent:.0f} % of the samples: {reasons}"
