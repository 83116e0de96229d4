"""Find runs that were profiled on the same node at the same time: they disturb each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from nsyswrap.base.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.reports.runs.find import RecordedRun


def shared_nodes(runs: Sequence[RecordedRun]) -> list[int | None]:
    """Return for each run how many others ran on its node meanwhile; None if node or times are not known.

    The ranks of one run are no others.
    """
    spans = [_span(run) for run in runs]
    by_node: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for run, span in zip(runs, spans, strict=True):
        if span:
            of_node = by_node.setdefault(run.node, {})
            first, last = of_node.get(_key(run), span)
            of_node[_key(run)] = (min(first, span[0]), max(last, span[1]))
    edges = {
        node: tuple(sorted(edge) for edge in zip(*of_node.values(), strict=True))
        for node, of_node in by_node.items()
    }
    others: list[int | None] = []
    for run, span in zip(runs, spans, strict=True):
        if not span:
            others.append(None)
            continue
        first, last = by_node[run.node][_key(run)]
        starts, ends = edges[run.node]
        others.append(bisect_left(starts, last) - bisect_right(ends, first) - 1)
    return others


def shared_note(runs: Sequence[RecordedRun]) -> str:
    """Return a note on runs that shared a node; empty if there are none."""
    together = zip(runs, shared_nodes(runs), strict=True)
    count = len({_key(run) for run, others in together if others})
    if not count:
        return ""
    return f"{counted(count, 'runs')} shared a node with other profiled runs; see shared_node in results.csv"


def _key(run: RecordedRun) -> tuple[str, str]:
    return run.batch, run.label


def _span(run: RecordedRun) -> tuple[float, float] | None:
    """Return start and end of a run in seconds; None if node, start or duration is not known."""
    if not (run.node and run.started and run.wall_s):
        return None
    try:
        began = datetime.fromisoformat(run.started)
    except ValueError:
        return None
    began = began if began.tzinfo else began.replace(tzinfo=timezone.utc)
    return began.timestamp(), began.timestamp() + run.wall_s
