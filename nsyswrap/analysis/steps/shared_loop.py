"""Choose the one loop by which equal runs, or the processes of a job, are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_LEAST_PART = 0.5  # of what the loop holds that a run alone would be judged by


class Choice(NamedTuple):
    """A loop by which a run can be judged.

    ``weight`` is the sum of its parts of the GPU time and of the time. ``judged``: this run alone would be
    judged by it.
    """

    label: str
    weight: float
    judged: bool = False


def shared_loop(runs: Sequence[Mapping[str, Choice]]) -> str:
    """Return the loop that all runs have and that holds most of their time; empty if they share none.

    ``runs`` have what tells a loop from others. One run at least would be judged by it alone. In each run the
    loop holds half of what that run's own loop holds: totals say more than a small loop.
    """
    own = [max((one.weight for one in run.values() if one.judged), default=0.0) for run in runs]
    weights = {
        loop: sum(run[loop].weight for run in runs)
        for loop in sorted(set.intersection(*map(set, runs)) if runs else ())
        if any(run[loop].judged for run in runs)
        and all(run[loop].weight >= _LEAST_PART * least for run, least in zip(runs, own, strict=True))
    }
    return max(weights, key=weights.__getitem__, default="")


def label_to_name(runs: Sequence[Mapping[str, Choice]], loop: str) -> str:
    """Return the label of a shared loop; empty if no run alone would be judged by one of another label."""
    label = next((label for run in runs if (label := run[loop].label)), "")
    judged = {one.label for run in runs for one in run.values() if one.judged and one.label}
    return label if judged - {label} else ""
