"""Group repeated runs: one row per combination of parameters, the lowest value of a measure first.

The verdict says in sentences which combination is best and whether the repeats can tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError
from nsyswrap.base.text import shorten_all
from nsyswrap.base.units import NS_PER_S, Unit, human
from nsyswrap.reports.runs.tables import FIGURES, LABEL, combination, figures
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult
    from nsyswrap.reports.runs.tables import Parameters
    from nsyswrap.reports.table import Table


_NAME_WIDTH = 60  # characters of a combination's name in a sentence
_FIRST_TO_GO, _STAYS = 4, -1  # where a table is too wide: the details of columns


def comparison_verdict(ranking: Sequence[Repeats], parameters: Parameters, measure: Column) -> str:
    """Return sentences on the best and the worst combination. ``ranking`` has the lowest median first."""
    if not ranking:
        return f"Nothing to compare: no run that is done has {measure.name}."
    if len(ranking) == 1:
        return _alone(ranking[0], measure)
    best, worst, names = ranking[0], ranking[-1], _names(ranking, parameters)
    if best.median == worst.median:
        alike = f"the same median in all {len(ranking)} combinations, {shown(best.median or 0, measure)}"
        return " ".join([f"{measure.name}: {alike}.", *_largest_spread(ranking, names)])
    least, most = ("best", "worst") if _is_time(measure) else ("least", "most")
    sentence = (
        f"{measure.name}: {least} {names[0]}, {_range(best, measure)}; "
        f"{most} {names[-1]}, {_range(worst, measure)}{_ratio(best, worst)}."
    )
    return " ".join([sentence, *_doubts(ranking), *_largest_spread(ranking, names)])


def _alone(one: Repeats, measure: Column) -> str:
    """Return a sentence on the range of a single combination's runs."""
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
    """Return sentences on why the order may not hold."""
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
    """Return the labels of the combinations, or their parameters if labels repeat."""
    runs = [one.results[0].run for one in ranking]
    labels = [run.name for run in runs]
    values = [_parameter_text(parameters, run) for run in runs]
    both = [f"{label} ({value})" for label, value in zip(labels, values, strict=True)]
    distinct = next((names for names in (labels, values) if len(set(names)) == len(names)), both)
    return shorten_all(distinct, _NAME_WIDTH)


def _parameter_text(parameters: Parameters, run: RecordedRun) -> str:
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


@dataclass(frozen=True)
class Repeats:
    """The runs of one combination, and the measure of those that are done, in ascending order.

    A time of 0 is left out, because nothing was measured.
    """

    results: Sequence[RunResult]
    measured: Sequence[tuple[float, str]]  # and the run's label

    @property
    def values(self) -> list[float]:
        """Return the measured values."""
        return [value for value, _ in self.measured]

    @property
    def median(self) -> float | None:
        """Return the median over the repeats."""
        return median(self.values) if self.measured else None

    @property
    def spread_percent(self) -> float | None:
        """Return the range of the repeats in percent of their median, or None for fewer than two."""
        middle = self.median
        return (
            100 * (self.values[-1] - self.values[0]) / middle if middle and len(self.measured) > 1 else None
        )


def combinations(results: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Return the results of each combination, by its key."""
    groups: dict[str, list[RunResult]] = {}
    for result in results:
        groups.setdefault(combination(result.run), []).append(result)
    return groups


def chosen_measure(results: Sequence[RunResult], name: str = "") -> Column:
    """Return the column with this name. Without a name, choose the most telling one that the runs have.

    That is kernel time, or GPU busy time if graphs were recorded whole, whose kernels are not known. Then
    follow recorded time and wall time. Raises UsageError with the names of the columns.
    """
    by_name = {column.name: column for column in FIGURES}
    if name and name not in by_name:
        raise UsageError(f"there is no figure {name!r} to compare by", f"figures: {' '.join(by_name)}")
    totals = [result.totals or {} for result in results]
    for figure, needed in (("busy_ns", "graphs"), ("kernel_ns", "kernels"), ("recorded_ns", "recorded_ns")):
        if not name and any(total.get(needed) for total in totals):
            return by_name[figure]
    return by_name[name or "wall_s"]


def by_combination(
    groups: Sequence[Sequence[RunResult]], parameters: Parameters, measure: Column, top: int | None = None
) -> Table:
    """Return a row for each of the first ``top`` combinations, by ascending median, unknown ones last."""
    repeats = sorted((_repeats(group, measure) for group in groups), key=_rank)
    listed = repeats[:top]
    front = _constant_first_to_go(parameters, repeats)
    named = _needs_label(repeats, parameters)
    of = f"the {len(listed)} least of {len(repeats)}" if len(listed) < len(repeats) else "the least first"
    schema = Schema(
        name="by_combination",
        title=f"{measure.header} by combination, {of}",
        columns=((LABEL,) if named else ()) + front + _figures(measure),
    )
    rows = [
        (
            *((one.results[0].run.name or None,) if named else ()),
            *parameters.of(one.results[0].run),
            *(len(one.measured), len(one.results), one.median),
            *((one.values[0], one.values[-1]) if one.measured else (None, None)),
            one.spread_percent,
        )
        for one in listed
    ]
    return table_of(schema, rows)


def ranked(groups: Sequence[Sequence[RunResult]], measure: Column) -> list[Repeats]:
    """Return the combinations that have the measure, by ascending median."""
    return [one for one in sorted((_repeats(group, measure) for group in groups), key=_rank) if one.measured]


def unit_of(measure: Column) -> Unit:
    """Return the unit of the values in this table, in which times in seconds become ns."""
    return Unit.NS if measure.name.endswith("_s") else measure.unit


def shown(value: float, measure: Column) -> str:
    """Return a value of the measure as text for people."""
    return human(value, unit_of(measure)) + (" %" if measure.unit is Unit.PERCENT else "")


def _repeats(group: Sequence[RunResult], measure: Column) -> Repeats:
    factor = NS_PER_S if measure.name.endswith("_s") else 1
    done = [(figures(result)[measure.name], result.run) for result in group if result.run.outcome == "done"]
    known = [(value * factor, run.label) for value, run in done if value is not None]
    return Repeats(group, sorted(one for one in known if one[0] or unit_of(measure) is not Unit.NS))


def _rank(one: Repeats) -> tuple[bool, float]:
    return (one.median is None, one.median or 0.0)


def _needs_label(repeats: Sequence[Repeats], parameters: Parameters) -> bool:
    """Return True if two combinations have the same parameters."""
    return len({parameters.of(one.results[0].run) for one in repeats}) < len(repeats)


def _constant_first_to_go(parameters: Parameters, repeats: Sequence[Repeats]) -> tuple[Column, ...]:
    """Return the columns of the parameters. One with a single value is left out first."""
    values = zip(*(parameters.of(one.results[0].run) for one in repeats), strict=True)
    constant = len(repeats) > 1
    return tuple(
        replace(column, drop_order=_FIRST_TO_GO) if constant and len(set(given)) == 1 else column
        for column, given in zip(parameters.columns, values, strict=True)
    )


def _figures(measure: Column) -> tuple[Column, ...]:
    name, unit = measure.name.removesuffix("_s").removesuffix("_ns"), unit_of(measure)
    suffix = "_ns" if unit is Unit.NS else ""
    return (
        Column("done", "Done", Unit.COUNT, "runs that are done and have the measure", 2),
        Column("runs", "Runs", Unit.COUNT, "runs that were planned, or found", 2),
        Column(f"med_{name}{suffix}", "Median", unit, f"median of {measure.name} over those done", _STAYS),
        Column(f"min_{name}{suffix}", "Min", unit, "least of them", 3),
        Column(f"max_{name}{suffix}", "Max", unit, "largest of them", 3),
        Column(
            "spread_percent", "Spread", Unit.PERCENT, "(largest - least) / median; missing for one alone", 1
        ),
    )
