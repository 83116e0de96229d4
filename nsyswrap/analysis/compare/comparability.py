"""What keeps runs from being compared, ranked or merged, and what else is known of their conditions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import median

from nsyswrap.analysis.compare.model import Obstacle, Setup, Side

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


def remarks_of(base: Side, new: Side) -> tuple[str, ...]:
    """Return what readers must know of the conditions, a sentence each."""
    return (*_unknowns(base, new), *_clocks(base, new), *_power_limits(base, new), *_others(base, new))


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
        values = [_distinct(text(run.setup) for run in side.runs) for side in (base, new)]
        known = {value for side in values for value in side}
        if len(known) > 1:
            ours, theirs = (" and ".join(side) or "not known" for side in values)
            # Runs of one side with different commands are a mistake.
            deliberate = about == _DELIBERATE and max(map(len, values)) == 1
            obstacles.append(Obstacle(about, ours, theirs, is_deliberate=deliberate))
    return obstacles


def _disturbances(base: Side, new: Side) -> Iterable[Obstacle]:
    checks: dict[str, Callable[[Side], str]] = {
        "lost events": lambda side: _runs([run for run in side.runs if run.setup.lost_events], side),
        "another process on the GPU": lambda side: _runs(
            [run for run in side.runs if run.setup.other_processes], side
        ),
        "throttling": lambda side: "" if _always_at_power_limit(base, new) else _throttled(side),
    }
    for about, text in checks.items():
        sides = text(base), text(new)
        if any(sides):
            yield Obstacle(about, sides[0] or "none", sides[1] or "none")


def _throttled(side: Side) -> str:
    setups = [run.setup for run in side.runs if (run.setup.throttled_percent or 0) > MOST_THROTTLED_PERCENT]
    if not setups:
        return ""
    most = max(setup.throttled_percent or 0 for setup in setups)
    reasons = ", ".join(_distinct(setup.throttle_reason for setup in setups)) or "reason not known"
    return f"{_runs(setups, side)}, up to {most:.0f} % of the samples: {reasons}"


def _runs(some: Sequence[object], side: Side) -> str:
    if not some:
        return ""
    return f"{len(some)} of {len(side.runs)} runs" if len(side.runs) > 1 else "1 run"


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


def _unknowns(base: Side, new: Side) -> Iterable[str]:
    facts: dict[str, Callable[[Setup], bool]] = {
        **{about: partial(_lacks, text) for about, text in _EQUAL.items()},
        "other processes on the GPU": lambda setup: setup.other_processes is None,
        "throttling": lambda setup: setup.throttled_percent is None,
        "SM clock": lambda setup: not setup.sm_clock_mhz,
    }
    # Without CUDA graphs there is no graph mode to know.
    unknown = [
        about
        for about, lacks in facts.items()
        if about != "CUDA graphs" and any(lacks(run.setup) for run in (*base.runs, *new.runs))
    ]
    if unknown:
        yield f"not recorded; assumed equal: {', '.join(unknown)}"


def _clocks(base: Side, new: Side) -> Iterable[str]:
    clocks = sm_clock(base), sm_clock(new)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > _CLOCK_DIFFERS:
        yield f"the SM clock differs: {clocks[0]:.0f} / {clocks[1]:.0f} MHz"


def _power_limits(base: Side, new: Side) -> Iterable[str]:
    if _always_at_power_limit(base, new):
        shares = _power_shares(base, new)
        yield f"all runs were at the power limit, for {shares[0]:.0f} / {shares[1]:.0f} % of the samples"


def _others(base: Side, new: Side) -> Iterable[str]:
    versions = sorted({name for side in (base, new) for run in side.runs for name in run.setup.versions})
    texts: dict[str, Callable[[Setup], str]] = {
        "node": lambda setup: setup.node,
        "commit": lambda setup: setup.commit,
        **{name: partial(_version, name) for name in versions},
    }
    for about, text in texts.items():
        values = [_distinct(text(run.setup) for run in side.runs) for side in (base, new)]
        if all(values) and len({*values[0], *values[1]}) > 1:
            yield f"{about}: {some_of(values[0])} / {some_of(values[1])}"


def _lacks(text: Callable[[Setup], str], setup: Setup) -> bool:
    return not text(setup)


def _version(name: str, setup: Setup) -> str:
    return setup.versions.get(name, "")


def some_of(values: Sequence[str]) -> str:
    """Return the first three values, and how many more there are."""
    return ", ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")  # noqa: PLR2004


def _distinct(values: Iterable[str]) -> list[str]:
    """Return the known values once each, in their order."""
    return list(dict.fromkeys(filter(None, values)))
