"""What a report is: named columns, what it needs, how it is computed and ordered. Nothing here formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nsyswrap import schema
from nsyswrap.errors import NotInCapture
from nsyswrap.reader import NULL
from nsyswrap.units import Rounding, Unit, round_tenth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from nsyswrap.capture import Capture
    from nsyswrap.stats import Statistics

    Values = NDArray[Any] | Sequence[str | None]
    Compute = Callable[[Capture], Mapping[str, Values]]


@dataclass(frozen=True)
class Column:
    """One column: ``name`` for machines (with its unit), ``header`` as nsys or a person writes it.

    ``detail`` says how soon it gives way where there is no room for all: the highest first, 0 last.
    """

    name: str
    header: str
    unit: Unit
    help: str
    detail: int = 0


@dataclass(frozen=True)
class Order:
    """One key of a report's row order; ``rounded`` sorts on the value as it is printed, as nsys does."""

    column: str
    descending: bool = False
    rounded: bool = False


@dataclass(frozen=True)
class Report:
    """A named table. ``needs`` lists groups of event kinds: of each group, one has to be there.

    ``compute`` returns a value per column and row, in ascending order of the rows' key; ``order`` sorts
    them, and equal rows stay as they are. ``parity`` reports equal nsys' own, cell by cell.
    """

    name: str
    title: str
    layer: Literal["parity", "analysis"]
    needs: tuple[tuple[str, ...], ...]
    columns: tuple[Column, ...]
    compute: Compute
    order: tuple[Order, ...] = ()

    def make(self, capture: Capture, rounding: Rounding = "2025") -> Table:
        """Compute the table; raises NotInCapture with what would collect the events it lacks."""
        for group in self.needs:
            if not any(capture.has(kind) for kind in group):
                kinds = [schema.EVENTS[kind] for kind in group]
                raise NotInCapture(
                    f"{self.name}: {capture.source} holds no {' or '.join(kind.title for kind in kinds)}",
                    f"none happened, or none were collected ({kinds[0].collect})",
                )
        data = dict(self.compute(capture))
        for order in reversed(self.order):
            data = _reorder(data, order, rounding)
        return Table(self, data, rounding)


@dataclass(frozen=True)
class Table:
    """A computed report: unrounded values per column, in row order, and the rounding formats print with."""

    report: Report
    data: Mapping[str, Values]
    rounding: Rounding = "2025"

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.data[self.report.columns[0].name])

    def rows(self) -> list[tuple[object, ...]]:
        """Return the rows as plain values: int, float, str, or None for missing."""
        columns = [_plain(self.data[column.name]) for column in self.report.columns]
        return list(zip(*columns, strict=True))

    @property
    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame: unrounded, columns named with their units."""
        from nsyswrap.frames import table_frame  # noqa: PLC0415 - pandas costs more than a small report

        return table_frame(self)


def no_capture(_: Capture) -> Mapping[str, Values]:
    """Stand for ``compute`` in a report over several captures, which a function of its own makes."""
    raise NotImplementedError


def table_of(report: Report, rows: Sequence[tuple[object, ...]]) -> Table:
    """Return a table of rows that were made elsewhere; None is a missing number."""
    columns = zip(*rows, strict=True) if rows else [() for _ in report.columns]
    data: dict[str, Values] = {
        column.name: [None if value is None else str(value) for value in values]
        if column.unit is Unit.TEXT
        else _numbers(values)
        for column, values in zip(report.columns, columns, strict=True)
    }
    return Table(report, data)


def _numbers(values: Sequence[Any]) -> NDArray[Any]:
    """Return integers as int64, anything else as float64, with what stands for a missing one."""
    whole = all(value is None or isinstance(value, int) for value in values)
    return np.array([(NULL if whole else np.nan) if value is None else value for value in values])


def _plain(values: Values) -> Sequence[object]:
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "f":
        return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN
    return [None if value == NULL else value for value in values.tolist()]


def _reorder(data: Mapping[str, Values], order: Order, rounding: Rounding) -> dict[str, Values]:
    key = np.asarray(data[order.column])
    if order.rounded:
        key = np.array([round_tenth(value, rounding) for value in key.tolist()])
    rows = np.argsort(-key if order.descending else key, kind="stable")
    return {
        name: values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
        for name, values in data.items()
    }


TIME_PERCENT = Column(
    "time_percent", "Time", Unit.PERCENT, "share of the total of the rows listed, not of the run"
)
TOTAL_TIME = Column("total_ns", "Total Time", Unit.NS, "sum of the durations")


def stat_columns(prefix: str = "", header: str = "", unit: Unit = Unit.NS) -> tuple[Column, ...]:
    """Return the five columns of statistics every nsys summary has, in nsys' order."""
    return tuple(
        Column(f"{prefix}{short}_{unit.value}", f"{header}{title}", unit, text, detail)
        for short, title, detail, text in (
            ("avg", "Avg", 5, "arithmetic mean"),
            ("med", "Med", 0, "median"),
            ("min", "Min", 8, "smallest value"),
            ("max", "Max", 7, "largest value"),
            ("std", "StdDev", 9, "sample standard deviation (n - 1); 0 for a single value"),
        )
    )


def stat_values(statistics: Statistics, prefix: str = "", unit: Unit = Unit.NS) -> dict[str, NDArray[Any]]:
    """Return the values of ``stat_columns``; min and max are missing in a group without values."""
    empty = statistics.count == 0
    return {
        f"{prefix}avg_{unit.value}": statistics.avg,
        f"{prefix}med_{unit.value}": statistics.med,
        f"{prefix}min_{unit.value}": np.where(empty, NULL, statistics.min),
        f"{prefix}max_{unit.value}": np.where(empty, NULL, statistics.max),
        f"{prefix}std_{unit.value}": statistics.std,
    }


def share(total: NDArray[Any]) -> NDArray[Any]:
    """Return each total as percent of their sum; missing (NaN) where the sum is 0."""
    whole = total.sum()
    return total * 100.0 / whole if whole else np.full(len(total), np.nan)
