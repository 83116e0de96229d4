"""Repeats held together: one row a combination of parameters, the least of a measure first, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError
from nsyswrap.base.units import Unit, human
from nsyswrap.reports.runs.parameters import LABEL, combination
from nsyswrap.reports.runs.tables import FIGURES, figures
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.reports.runs.gather import Result
    from nsyswrap.reports.runs.parameters import Parameters
    from nsyswrap.reports.table import Table

_NS_PER_S = 10**9
_FIRST_TO_GO, _STAYS = 4, -1  # where a table is too wide: the details of columns


@dataclass(frozen=True)
class Repeats:
    """The runs of one combination, and the measure of those that are done, in ascending order.

    A time of 0 is left out: there was nothing to take the time of.
    """

    results: Sequence[Result]
    measured: Sequence[tuple[float, str]]  # and the run's label

    @property
    def values(self) -> list[float]:
        """The measure alone."""
        return [value for value, _ in self.measured]

    @property
    def median(self) -> float | None:
        """The median over the repeats."""
        return median(self.values) if self.measured else None

    @property
    def spread_percent(self) -> float | None:
        """How far apart the repeats are, of their median; None where there are none to compare."""
        middle = self.median
        return (
            100 * (self.values[-1] - self.values[0]) / middle if middle and len(self.measured) > 1 else None
        )


def combinations(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results of each combination, by its key."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(combination(result.run), []).append(result)
    return found


def chosen_measure(results: Sequence[Result], name: str = "") -> Column:
    """Return the column with this name; without one, what says most: GPU work where any was seen.

    That is the time in kernels, and where graphs were recorded as a whole the time the GPU was busy: what
    ran in them is in no kernel. Raises UsageError with the columns there are.
    """
    by_name = {column.name: column for column in FIGURES}
    if name and name not in by_name:
        raise UsageError(f"there is no figure {name!r} to compare by", f"figures: {' '.join(by_name)}")
    totals = [result.totals or {} for result in results]
    for figure, seen in (("busy_ns", "graphs"), ("kernel_ns", "kernels"), ("recorded_ns", "recorded_ns")):
        if not name and any(total.get(seen) for total in totals):
            return by_name[figure]
    return by_name[name or "wall_s"]


def by_combination(
    groups: Sequence[Sequence[Result]], parameters: Parameters, measure: Column, top: int | None = None
) -> Table:
    """Return a row for each of the first ``top`` combinations: the least median first, none known last."""
    repeats = sorted((_repeats(group, measure) for group in groups), key=_rank)
    shown = repeats[:top]
    front = _constant_first_to_go(parameters, repeats)
    named = _needs_label(repeats, parameters)
    of = f"the {len(shown)} least of {len(repeats)}" if len(shown) < len(repeats) else "the least first"
    report = Report(
        name="by_combination",
        title=f"{measure.header} by combination, {of}",
        layer="analysis",
        needs=(),
        columns=((LABEL,) if named else ()) + front + _figures(measure),
        compute=no_capture,
    )
    rows = [
        (
            *((one.results[0].run.name or None,) if named else ()),
            *parameters.of(one.results[0].run),
            *(len(one.measured), len(one.results), one.median),
            *((one.values[0], one.values[-1]) if one.measured else (None, None)),
            one.spread_percent,
        )
        for one in shown
    ]
    return table_of(report, rows)


def ranked(groups: Sequence[Sequence[Result]], measure: Column) -> list[Repeats]:
    """Return the combinations that can be compared, the least median first."""
    return [one for one in sorted((_repeats(group, measure) for group in groups), key=_rank) if one.measured]


def unit_of(measure: Column) -> Unit:
    """Return the unit of the values here: what is in seconds elsewhere is in ns, as all times on a screen."""
    return Unit.NS if measure.name.endswith("_s") else measure.unit


def shown(value: float, measure: Column) -> str:
    """Write a value of the measure for a person."""
    return human(value, unit_of(measure)) + (" %" if measure.unit is Unit.PERCENT else "")


def _repeats(group: Sequence[Result], measure: Column) -> Repeats:
    factor = _NS_PER_S if measure.name.endswith("_s") else 1
    done = [(figures(result)[measure.name], result.run) for result in group if result.run.outcome == "done"]
    known = [(value * factor, run.label) for value, run in done if value is not None]
    return Repeats(group, sorted(one for one in known if one[0] or unit_of(measure) is not Unit.NS))


def _rank(one: Repeats) -> tuple[bool, float]:
    return (one.median is None, one.median or 0.0)


def _needs_label(repeats: Sequence[Repeats], parameters: Parameters) -> bool:
    """Whether parameters alone do not tell the combinations apart."""
    return len({parameters.of(one.results[0].run) for one in repeats}) < len(repeats)


def _constant_first_to_go(parameters: Parameters, repeats: Sequence[Repeats]) -> tuple[Column, ...]:
    """Return the columns of the parameters; one that is the same for all is the first to be left out."""
    values = zip(*(parameters.of(one.results[0].run) for one in repeats), strict=True)
    constant = len(repeats) > 1
    return tuple(
        replace(column, detail=_FIRST_TO_GO) if constant and len(set(given)) == 1 else column
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
