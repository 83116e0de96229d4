"""What keeps runs from being compared, ranked or merged, and what else is known of their conditions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

from nsyswrap.analysis.compare.model import Disturbance, Obstacle, RunFigures, Setup, Side
from nsyswrap.analysis.finding import Note

# Of the samples while the GPU worked. A run has 10 samples a second, so fewer are a moment, not a condition.
MOST_THROTTLED_PERCENT = 5.0
# A GPU at its power limit all the time works in its usual state: clocks are compared anyway.
POWER_LIMIT = "power limit"
_POWER_DIFFERS_PERCENT = 20.0
_CLOCK_DIFFERS = 0.01

# What must be equal, as text; empty if not known.
_EQUAL: dict[str, Callable[[Setup], str]] = {
    "GPU": lambda setup: ", ".join(
        f"{number} x {name}" if number > 1 else name for name, number in sorted(Counter(setup.gpus).items())
    ),
    "driver": lambda setup: setup.driver,
    "nsys": lambda setup: setup.nsys,
    "trace options": lambda setup: setup.options,
    "CUDA graphs": lambda setup: setup.graphs,
    "command": lambda setup: shlex.join(setup.command),
}
_DELIBERATE = "command"
RANKED = ("GPU", "driver", "nsys")  # what runs share that are ranked or merged: a plan varies the rest


def obstacles_of(base: Side, new: Side) -> tuple[Obstacle, ...]:
    """Return the reasons why the sides, or the runs of a side, cannot be compared.

    What is not known of a run is no obstacle.
    """
    return (*_differences(base, new), *_disturbances(base, new))


def remarks_of(base: Side, new: Side) -> tuple[Note, ...]:
    """Return what readers must know of the conditions."""
    return (
        *_unknowns(base, new),
        *_clocks(base, new),
        *_power_limits(base, new),
        *_energy(base, new),
        *_others(base, new),
    )


def machine_of(setup: Setup) -> tuple[str, ...]:
    """Return the values of RANKED, empty where they are not known: only runs of equal ones are merged."""
    return tuple(_EQUAL[about](setup) for about in RANKED)


def differing(setups: Iterable[Setup]) -> dict[str, list[str]]:
    """Return what keeps runs from being ranked, with its values."""
    every = zip(*map(machine_of, setups), strict=True)
    values = {about: _distinct(texts) for about, texts in zip(RANKED, every, strict=False)}
    return {about: known for about, known in values.items() if len(known) > 1}


def sm_clock(side: Side) -> float | None:
    """Return the median SM clock of the runs in MHz; None if not known."""
    known = [run.setup.sm_clock_mhz for run in side.runs if run.setup.sm_clock_mhz]
    return median(known) if known else None


def _differences(base: Side, new: Side) -> list[Obstacle]:
    obstacles = []
    for about, text in _EQUAL.items():
        ours, theirs = (tuple(_distinct(text(run.setup) for run in side.runs)) for side in (base, new))
        if len({*ours, *theirs}) > 1:
            # Runs of one side with different commands are a mistake.
            deliberate = about == _DELIBERATE and max(len(ours), len(theirs)) == 1
            obstacles.append(Obstacle(about, ours, theirs, is_deliberate=deliberate))
    return obstacles


def _disturbances(base: Side, new: Side) -> Iterable[Obstacle]:
    counted: dict[str, Callable[[RunFigures], object]] = {
        "lost events": lambda run: run.setup.lost_events,
        "another process on the GPU": lambda run: run.setup.other_processes,
    }
    disturbances = {
        about: tuple(Disturbance(sum(map(bool, map(of_run, one.runs))), len(one.runs)) for one in (base, new))
        for about, of_run in counted.items()
    }
    if not _always_at_power_limit(base, new):
        disturbances["throttling"] = (_throttled(base), _throttled(new))
    for about, (ours, theirs) in disturbances.items():
        if ours.runs or theirs.runs:
            yield Obstacle(about, ours, theirs)


def _throttled(side: Side) -> Disturbance:
    setups = [run.setup for run in side.runs if (run.setup.throttled_percent or 0) > MOST_THROTTLED_PERCENT]
    most = max((setup.throttled_percent or 0 for setup in setups), default=None)
    reasons = _distinct(setup.throttle_reason for setup in setups)
    return Disturbance(len(setups), len(side.runs), most, tuple(reasons))


def _always_at_power_limit(base: Side, new: Side) -> bool:
    """Return True if each run was at the power limit, and both sides for similar shares of their time."""
    runs = [run.setup for run in (*base.runs, *new.runs)]
    shares = _power_shares(base, new)
    return (
        all(setup.throttle_reason == POWER_LIMIT for setup in runs)
        and all((setup.throttled_percent or 0) > MOST_THROTTLED_PERCENT for setup in runs)
        and abs(shares[0] - shares[1]) <= _POWER_DIFFERS_PERCENT
    )


def _power_shares(base: Side, new: Side) -> list[float]:
    return [median(run.setup.throttled_percent or 0 for run in side.runs) for side in (base, new)]


def _unknowns(base: Side, new: Side) -> Iterable[Note]:
    setups = [run.setup for run in (*base.runs, *new.runs)]
    lacking = {
        **{about: not all(map(text, setups)) for about, text in _EQUAL.items()},
        "other processes on the GPU": any(setup.other_processes is None for setup in setups),
        "throttling": any(setup.throttled_percent is None for setup in setups),
        "SM clock": not all(setup.sm_clock_mhz for setup in setups),
    }
    # Without CUDA graphs there is no graph mode to know.
    if unknown := [about for about, lacks in lacking.items() if lacks and about != "CUDA graphs"]:
        yield Note("not_recorded", {"abouts": unknown})


def _clocks(base: Side, new: Side) -> Iterable[Note]:
    clocks = sm_clock(base), sm_clock(new)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > _CLOCK_DIFFERS:
        yield Note("other_clocks", {"base_mhz": clocks[0], "new_mhz": clocks[1]})


def _power_limits(base: Side, new: Side) -> Iterable[Note]:
    if _always_at_power_limit(base, new):
        yield Note("at_power_limit", dict(zip(("base", "new"), _power_shares(base, new), strict=True)))


def _energy(base: Side, new: Side) -> Iterable[Note]:
    known = [[run.setup.step_joules for run in side.runs if run.setup.step_joules] for side in (base, new)]
    if all(known):
        yield Note("step_energy", dict(zip(("base_joules", "new_joules"), map(median, known), strict=True)))


def _others(base: Side, new: Side) -> Iterable[Note]:
    sides = [[run.setup for run in side.runs] for side in (base, new)]
    values = {
        "node": [[setup.node for setup in side] for side in sides],
        "commit": [[setup.commit for setup in side] for side in sides],
    }
    for name in sorted({name for side in sides for setup in side for name in setup.versions}):
        values[name] = [[setup.versions.get(name, "") for setup in side] for side in sides]
    for about, (ours, theirs) in values.items():
        known = {"base": _distinct(ours), "new": _distinct(theirs)}
        if all(known.values()) and len({*known["base"], *known["new"]}) > 1:
            yield Note("other_values", {"about": about, **known})


def _distinct(values: Iterable[str]) -> list[str]:
    """Return the known values once each, in their order."""
    return list(dict.fromkeys(filter(None, values)))
