"""What the comparison comes to, in sentences: best, worst, and whether repeats tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import shorten_all
from nsyswrap.base.units import Unit, human
from nsyswrap.reports.runs.combinations import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.reports.runs.combinations import Repeats
    from nsyswrap.reports.runs.find import Run
    from nsyswrap.reports.runs.parameters import Parameters
    from nsyswrap.reports.table import Column

_NAME_WIDTH = 60  # characters of a combination's name in a sentence


def verdict(ranking: Sequence[Repeats], parameters: Parameters, measure: Column) -> str:
    """Say which combination is best and which is worst, with figures; ``ranking``: the least first."""
    if not ranking:
        return f"Nothing to compare: no run that is done has {measure.name}."
    if len(ranking) == 1:
        return _alone(ranking[0], measure)
    best, worst, names = ranking[0], ranking[-1], _names(ranking, parameters)
    if best.median == worst.median:
        alike = f"the same median in all {len(ranking)} combinations, {shown(best.median or 0, measure)}"
        return " ".join([f"{measure.name}: {alike}.", *_largest_spread(ranking, names)])
    least, most = ("best", "worst") if _is_time(measure) else ("least", "most")
    said = (
        f"{measure.name}: {least} {names[0]}, {_range(best, measure)}; "
        f"{most} {names[-1]}, {_range(worst, measure)}{_ratio(best, worst)}."
    )
    return " ".join([said, *_doubts(ranking), *_largest_spread(ranking, names)])


def _alone(one: Repeats, measure: Column) -> str:
    """Say of a single combination which of its runs lie farthest apart."""
    name = shorten_all([one.results[0].run.name], _NAME_WIDTH)[0]
    of = f"{measure.name} of {name}" if name else measure.name
    if len(one.measured) == 1:
        return f"{of}: {shown(one.values[0], measure)}, one run alone."
    (low, first), (high, last) = one.measured[0], one.measured[-1]
    return (
        f"{of} over {len(one.measured)} runs: median {shown(one.median or 0, measure)}, "
        f"from {shown(low, measure)} ({first}) to {shown(high, measure)} ({last})"
        + (f"; spread {_percent(one)}." if one.spread_percent is not None else ".")
    )


def _doubts(ranking: Sequence[Repeats]) -> list[str]:
    """Say what keeps the order from being certain."""
    best, worst = ranking[0], ranking[-1]
    if any(len(one.measured) == 1 for one in (best, worst)):
        return ["With one run of a combination there is no spread to hold the difference against."]
    if best.values[-1] >= worst.values[0]:
        return ["Their ranges over repeats overlap: best and worst cannot be told apart."]
    alike = sum(one.values[0] <= best.values[-1] for one in ranking[1:])
    return [f"{alike} more cannot be told from the first: the ranges overlap."] if alike else []


def _largest_spread(ranking: Sequence[Repeats], names: Sequence[str]) -> list[str]:
    known = [(one, name) for one, name in zip(ranking, names, strict=True) if one.spread_percent is not None]
    if not known:
        return []
    widest, name = max(known, key=lambda one: one[0].spread_percent or 0)
    return [f"Largest spread over repeats: {_percent(widest)} ({name})."]


def _names(ranking: Sequence[Repeats], parameters: Parameters) -> list[str]:
    """Name the combinations by their labels, or by their parameters where labels are not all different."""
    runs = [one.results[0].run for one in ranking]
    labels = [run.name for run in runs]
    values = [_said(parameters, run) for run in runs]
    both = [f"{label} ({value})" for label, value in zip(labels, values, strict=True)]
    found = next((names for names in (labels, values) if len(set(names)) == len(names)), both)
    return shorten_all(found, _NAME_WIDTH)


def _said(parameters: Parameters, run: Run) -> str:
    pairs = zip(parameters.columns, parameters.of(run), strict=True)
    return " ".join(f"{column.header}={value}" for column, value in pairs if value is not None)


def _range(one: Repeats, measure: Column) -> str:
    low, high = (shown(value, measure) for value in (one.values[0], one.values[-1]))
    middle = shown(one.median or 0, measure)
    return f"{middle} ({low} to {high} in {len(one.measured)} runs)" if len(one.measured) > 1 else middle


def _ratio(best: Repeats, worst: Repeats) -> str:
    return f", {worst.median / best.median:.2f} times that" if best.median and worst.median else ""


def _percent(one: Repeats) -> str:
    return f"{human(one.spread_percent, Unit.PERCENT)} %"


def _is_time(measure: Column) -> bool:
    return measure.name.endswith(("_ns", "_s"))
