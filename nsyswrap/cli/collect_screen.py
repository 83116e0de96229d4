"""What `collect` says while it reads and when it has: how far it is, the comparison, and what is lacking."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.cli.output import Look, note, progress_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.reports.runs.gather import Result
    from nsyswrap.reports.runs.tables import Parameters

_TO_COME = ("planned", "running")
_LISTED = 10  # runs that lack something, by name


def progress(runs: int) -> Callable[[Result], None]:
    """Return a callback that says on a terminal how far it is."""
    show, begun = progress_line(), time.monotonic()
    seen = {"read": 0, "damaged": 0}

    def on_result(result: Result) -> None:
        seen["read"] += 1
        seen["damaged"] += result.run.outcome == "damaged"
        left_s = (time.monotonic() - begun) / seen["read"] * (runs - seen["read"])
        rest = f", {left_s:.0f} s left" if seen["read"] < runs else ""
        show(f"{seen['read']:,} of {runs:,} captures, {seen['damaged']:,} damaged{rest}" if rest else "")

    return on_result


def comparison(results: Sequence[Result], parameters: Parameters, by: str, top: int) -> str:
    """Return the screen: the combinations, and what comparing them comes to."""
    from nsyswrap.render.formats.text import styled, table_lines  # noqa: PLC0415
    from nsyswrap.render.result_files import RESULTS  # noqa: PLC0415
    from nsyswrap.reports.runs.combinations import (  # noqa: PLC0415
        by_combination,
        chosen_measure,
        combinations,
        ranked,
        verdict,
    )

    groups, measure = list(combinations(results).values()), chosen_measure(results, by)
    table = by_combination(groups, parameters, measure, top)
    said = verdict(ranked(groups, measure), parameters, measure)
    look, whole = Look(), f"{RESULTS} has every run"
    return styled(table_lines(replace(table, verdict=said), look.width, whole=whole), color=look.color)


def list_lacking(results: Sequence[Result]) -> None:
    """Say how many runs ended how, where not all are done, and name those that went wrong, the first few."""
    from nsyswrap.render.formats.text import printable  # noqa: PLC0415

    outcomes = Counter(result.run.outcome for result in results)
    if set(outcomes) != {"done"}:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        note(f"nsyswrap: {len(results):,} runs: {counts}")
    lacking = [result for result in results if result.totals is None or result.run.outcome != "done"]
    wrong = [result for result in lacking if result.run.outcome not in _TO_COME]
    for result in wrong[:_LISTED]:
        why = result.run.message or ("" if result.totals else "no capture")
        said = f"{result.run.label}: {result.run.outcome}" + (f": {why}" if why else "")
        note(f"nsyswrap: {printable(said)}")
    if len(wrong) > _LISTED:
        note(f"nsyswrap: {len(wrong) - _LISTED:,} more like these")
