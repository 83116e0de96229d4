"""Compare the combinations of parameters by one measure, over their repeats: a table and a verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.comparability import RANKED, differing, machine_of
from nsyswrap.analysis.compare.model import Setup
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.errors import UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import shorten_all, unknown
from nsyswrap.base.units import Unit, human
from nsyswrap.reports.runs.tables import FIGURES, LABEL, Parameters, combination, figures, text_of
from nsyswrap.reports.table import Column, Schema, Table, table_of
from nsyswrap.reports.wording.comparisons import some_of

if TYPE_CHECKING:
    from nsyswrap.reports.runs.find import RecordedRun
    from nsyswrap.reports.runs.gather import RunResult

_NAME_WIDTH = 60  # characters of a combination's name in a sentence
_FIRST_TO_GO, _STAYS = 4, -1  # the order in which columns are dropped if a table is too wide
MACHINE = Column("machine", "Recorded With", "GPU, driver and nsys; in a ranking those that differ")
_PROGRAM = "program"
_LARGE = 100  # a ratio from here on is a whole number


@dataclass(frozen=True)
class _Repeats:
    """The runs of one combination; ``results`` has those of each rank, ``runs`` counts the runs.

    ``measured`` has the measure and the label of each run that is done, in ascending order. Times of 0 are
    left out: such a run had nothing to measure.
    """

    results: Sequence[RunResult]
    runs: int
    measured: Sequence[tuple[float, str]]

    @property
    def run(self) -> RecordedRun:
        return self.results[0].run

    @property
    def values(self) -> list[float]:
        return [value for value, _ in self.measured]

    @property
    def median(self) -> float | None:
        return median(self.values) if self.measured else None

    @property
    def spread_percent(self) -> float | None:
        """(Largest - smallest) / median, or None with fewer than two runs."""
        if len(self.measured) <= 1 or not self.median:
            return None
        return 100 * (self.values[-1] - self.values[0]) / self.median


def combinations(results: Sequence[RunResult]) -> dict[tuple[str, ...], list[RunResult]]:
    """Return the results of each combination, by their ``key_of``.

    Repeats on other GPUs, with another driver or nsys, are not merged. Runs without a capture are beside the
    first that has one.
    """
    groups: dict[tuple[str, ...], list[RunResult]] = {}
    keyed = [(key_of(result), result) for result in results]
    of_name = {key[0]: key for key, result in reversed(keyed) if result.totals}
    for own, result in keyed:
        key = own if result.totals else of_name.get(own[0], own)
        groups.setdefault(key, []).append(result)
    return groups


def setup_of(group: Sequence[RunResult]) -> Setup:
    """Return the setup of a combination: that of its runs with a capture."""
    return next((one.setup for one in group if one.totals), group[0].setup)


def key_of(result: RunResult) -> tuple[str, ...]:
    """Return a key that repeats of one combination share if they can be merged."""
    return (combination(result.run), *machine_of(result.setup))


def chosen_measure(results: Sequence[RunResult], name: str = "") -> Column:
    """Return the column with this name, or without a name the one that tells most of the GPU's work.

    That is the time in kernels. If graphs were recorded as a whole, it is the time the GPU was busy, because
    no kernel has their time. Without GPU work it is the recorded time, or else the wall time. Raises
    UsageError with the columns there are.
    """
    by_name = {column.name: column for column in FIGURES}
    if name not in by_name:  # the screen has headers
        typed = name.casefold().removesuffix("%").strip()
        name = next((column.name for column in FIGURES if column.header.casefold() == typed), name)
    if name and name not in by_name:
        raise UsageError(*unknown("figure", name, by_name))
    totals = [result.totals or {} for result in results]
    for figure, evidence in (("busy_ns", "graphs"), ("kernel_ns", "kernels"), ("recorded_ns", "recorded_ns")):
        if not name and any(total.get(evidence) for total in totals):
            return by_name[figure]
    return by_name[name or "wall_s"]


def compare(
    results: Sequence[RunResult], parameters: Parameters, by: str = "", top: int | None = None
) -> Table:
    """Return a row for each of the first ``top`` combinations, and a verdict on all of them.

    The lowest median is first: with ``by`` of all, else of those that can be ranked. Combinations without the
    measure are last.
    """
    measure = chosen_measure(results, by)
    repeats = [_repeats(group, measure) for group in combinations(results).values()]
    others = _apart([one for one in repeats if one.measured])
    on = {id(one): ", ".join(_differences(one, others)) for one in repeats}
    repeats.sort(key=lambda one: (one.median is None, "" if by else on[id(one)], one.median or 0.0))
    listed = repeats[:top]
    is_labeled = len({(on[id(one)], *parameters.of(one.run)) for one in repeats}) < len(repeats)
    lowest = _extremes(measure)[0]
    in_groups = bool(others) and not by
    order = f"{lowest} first" + (f" on each {' and '.join(others)}" if in_groups else "")
    if len(listed) < len(repeats):
        of_all = f"{len(listed)} of {len(repeats)}"
        order = of_all if in_groups else f"the {len(listed)} {lowest} of {len(repeats)}"
    schema = Schema(
        "by_combination",
        f"{measure.header} by configuration, {order}",
        *((LABEL,) if is_labeled else ()),
        *_parameter_columns(parameters, repeats),
        *((MACHINE,) if others else ()),
        *_figure_columns(measure),
    )
    rows = [
        (
            *((one.run.name or None,) if is_labeled else ()),
            *parameters.of(one.run),
            *((on[id(one)] or None,) if others else ()),
            *(len(one.measured), one.runs, one.median),
            *((one.values[0], one.values[-1]) if one.measured else (None, None)),
            one.spread_percent,
        )
        for one in listed
    ]
    if others:
        causes = "; ".join(f"{about}: {some_of(values)}" for about, values in others.items())
        state = "Not ranked, as" if in_groups else "In order, but not compared:"
        verdict = f"{state} the runs differ in more than their parameters: {causes}."
    else:
        verdict = _verdict([one for one in repeats if one.measured], parameters, measure)
    return replace(table_of(schema, rows), verdict=verdict)


def runs_of(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Return the results of each run: several if it has ranks."""
    runs: dict[tuple[str, str, bool], list[RunResult]] = {}
    for number, result in enumerate(results):
        label = result.run.label if result.run.rank is not None else f"{number}"
        runs.setdefault((result.run.batch, label, result.run.rank is None), []).append(result)
    return list(runs.values())


def _repeats(group: Sequence[RunResult], measure: Column) -> _Repeats:
    runs = runs_of(group)
    known = [(value, ranks[0].run.label) for ranks in runs if (value := _value(ranks, measure)) is not None]
    return _Repeats(group, len(runs), sorted(one for one in known if one[0] or _unit(measure) is not Unit.NS))


def _value(ranks: Sequence[RunResult], measure: Column) -> float | None:
    """Return the value of a run, the median of its ranks; None unless all ranks are done and have it."""
    factor = NS_PER_S if measure.name.endswith("_s") else 1
    values = [figures(result)[measure.name] for result in ranks if result.run.outcome == "done"]
    known = [value * factor for value in values if value is not None]
    return median(known) if known and len(known) == len(ranks) else None


def _parameter_columns(parameters: Parameters, repeats: Sequence[_Repeats]) -> tuple[Column, ...]:
    """Return the columns of the parameters. One that is the same for all is dropped first."""
    values = zip(*(parameters.of(one.run) for one in repeats), strict=True)
    return tuple(
        replace(column, drop_order=_FIRST_TO_GO) if len(repeats) > 1 and len(set(own)) == 1 else column
        for column, own in zip(parameters.columns, values, strict=True)
    )


def _figure_columns(measure: Column) -> tuple[Column, ...]:
    name, unit = measure.name.removesuffix("_s").removesuffix("_ns"), _unit(measure)
    suffix = "_ns" if unit is Unit.NS else ""
    return (
        Column.count("done", "Done", "finished runs with a value", 2),
        Column.count("runs", "Runs", "planned or found runs", 2),
        Column(f"med_{name}{suffix}", "Median", "median of the finished runs", _STAYS, unit=unit),
        Column(f"min_{name}{suffix}", "Min", "smallest value", 3, unit=unit),
        Column(f"max_{name}{suffix}", "Max", "largest value", 3, unit=unit),
        Column("spread_percent", "Spread", "(max - min) / median; missing for a single run", 1),
    )


def _extremes(measure: Column) -> tuple[str, str]:
    """Return the words for the lowest and the highest value."""
    return ("fastest", "slowest") if _unit(measure) is Unit.NS else ("lowest", "highest")


def _unit(measure: Column) -> Unit:
    """Return the unit of the values here. Seconds become ns, as all times on a screen."""
    return Unit.NS if measure.name.endswith("_s") else measure.unit


def _apart(ranking: Sequence[_Repeats]) -> dict[str, list[str]]:
    """Return what keeps them from being ranked, with its values. A plan can name several programs."""
    others = differing(setup_of(one.results) for one in ranking)
    programs = dict.fromkeys(filter(None, (_program(one) for one in ranking if not one.run.planned)))
    return {**others, **({_PROGRAM: list(programs)} if len(programs) > 1 else {})}


def _program(one: _Repeats) -> str:
    return text_of(one.results[0], _PROGRAM)


def _differences(one: _Repeats, others: Mapping[str, Sequence[str]]) -> list[str]:
    values = zip((*RANKED, _PROGRAM), (*machine_of(setup_of(one.results)), _program(one)), strict=True)
    return [text for about, text in values if about in others and text]


def _verdict(ranking: Sequence[_Repeats], parameters: Parameters, measure: Column) -> str:
    """Return sentences on which combination is best and which is worst. ``ranking``: the least first."""
    if not ranking:
        return f"Nothing to compare: no finished run has the figure {measure.name}."
    if len(ranking) == 1:
        return _of_one_combination(ranking[0], measure)
    best, worst, names = ranking[0], ranking[-1], _names(ranking, parameters)
    spread = _largest_spread(ranking, names)
    if best.median == worst.median:
        alike = f"the same median for all {len(ranking)} configurations, {_as_text(best.median, measure)}"
        return " ".join([f"{measure.header}: {alike}.", *spread])
    least, most = _extremes(measure)
    times = worst.median / best.median if best.median and worst.median else 0
    ratio = f", {times:,.{2 if times < _LARGE else 0}f} times as much" if times else ""
    order = (
        f"{measure.header}: {least} '{names[0]}', {_range(best, measure)}; "
        f"{most} '{names[-1]}', {_range(worst, measure)}{ratio}."
    )
    return " ".join([order, *_doubts(ranking), *spread])


def _of_one_combination(one: _Repeats, measure: Column) -> str:
    name = shorten_all([one.run.name], _NAME_WIDTH)[0]
    of = f"{measure.header} of '{name}'" if name else measure.header
    if len(one.measured) == 1:
        return f"{of}: {_as_text(one.values[0], measure)}, one run."
    (low, first), (high, last) = one.measured[0], one.measured[-1]
    return (
        f"{of} over {len(one.measured)} runs: median {_as_text(one.median, measure)}, "
        f"from {_as_text(low, measure)} ({first}) to {_as_text(high, measure)} ({last})"
        + (f"; spread {_spread(one)}." if one.spread_percent is not None else ".")
    )


def _doubts(ranking: Sequence[_Repeats]) -> list[str]:
    """Return why the order is not certain."""
    best, worst = ranking[0], ranking[-1]
    single = [len(one.measured) == 1 for one in (best, worst)]
    if any(single):
        runs = "One run each" if all(single) else "Only one run of the first or the last"
        return [f"{runs}: cannot tell the difference from noise."]
    if best.values[-1] >= worst.values[0]:
        return ["The ranges of first and last overlap: cannot tell the difference from noise."]
    alike = sum(one.values[0] <= best.values[-1] for one in ranking[1:])
    ranges = "The range of 1 more configuration overlaps"
    if alike > 1:
        ranges = f"The ranges of {alike:,} more configurations overlap"
    return [f"{ranges} with the first: cannot tell the difference from noise."] if alike else []


def _largest_spread(ranking: Sequence[_Repeats], names: Sequence[str]) -> list[str]:
    known = [(one, name) for one, name in zip(ranking, names, strict=True) if one.spread_percent is not None]
    if not known:
        return []
    widest, name = max(known, key=lambda one: one[0].spread_percent or 0)
    return [f"Largest spread over repeats: {_spread(widest)} ('{name}')."]


def _names(ranking: Sequence[_Repeats], parameters: Parameters) -> list[str]:
    """Name the combinations by their labels, or by their parameters where labels are not all different."""
    labels = [one.run.name for one in ranking]
    values = []
    for one in ranking:
        pairs = zip(parameters.columns, parameters.of(one.run), strict=True)
        values.append(" ".join(f"{column.header}={value}" for column, value in pairs if value is not None))
    both = [f"{label} ({value})" for label, value in zip(labels, values, strict=True)]
    different = next((names for names in (labels, values) if len(set(names)) == len(names)), both)
    return shorten_all(different, _NAME_WIDTH)


def _range(one: _Repeats, measure: Column) -> str:
    middle, low, high = (_as_text(value, measure) for value in (one.median, one.values[0], one.values[-1]))
    return f"{middle} ({low} to {high} in {len(one.measured)} runs)" if len(one.measured) > 1 else middle


def _spread(one: _Repeats) -> str:
    return f"{human(one.spread_percent, Unit.PERCENT)} %"


def _as_text(value: float | None, measure: Column) -> str:
    return human(value or 0, _unit(measure)) + (" %" if measure.unit is Unit.PERCENT else "")
