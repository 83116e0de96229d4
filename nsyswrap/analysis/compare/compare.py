"""Compare two sides of runs row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.model import GROUPS, Comparison, Judgement, Limits, Pair

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Key, Side

_ORDER = {group: number for number, group in enumerate(GROUPS)}


def compare(base: Side, new: Side, limits: Limits | None = None, *, anyway: bool = False) -> Comparison:
    """Pair the rows of both sides and judge them."""
    del anyway
    keys: dict[Key, None] = dict.fromkeys(key for run in (*base.runs, *new.runs) for key in run.rows)
    pairs = [
        Pair(
            key,
            tuple(run.rows.get(key) for run in base.runs),
            tuple(run.rows.get(key) for run in new.runs),
            Judgement("not judged"),
        )
        for key in keys
    ]
    pairs.sort(key=lambda pair: (_ORDER[pair.key.group], -abs(pair.cost_ns), pair.key))
    return Comparison(base, new, tuple(pairs), limits or Limits(), no_verdicts="not judged yet")
