"""Define what a report is: its columns, the events it needs, and how its rows are computed and ordered.

A report is a constant, in a file of its own. ``Report.make`` does the same for each, in this order:

1. it checks the options, and raises NotInCapture if the whole capture lacks a group of ``needs``
2. ``read_ahead`` reads the fields of ``reads``, each table in one pass; ``compute`` returns columns and notes
3. the rows are sorted by ``order``, and ``conclude`` gets them as they will be shown
4. the notes become texts, and all is a Table, unrounded: formats round

``reads`` makes no difference but to time and memory. Several reports of a command are read ahead together
first; what ``reads`` lacks is read when it is asked for. ``packs`` names the kinds whose columns ``compute``
streams. After a report that is written in turn, what no later one has in ``reads`` is freed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fnmatch import fnmatchcase
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import Statistics
from nsyswrap.analysis.correlation import process_notes
from nsyswrap.analysis.finding import Note
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.units import EXACT_TENTHS, NEAR_TIE, TIE, Rounding, Unit, round_tenth
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import EVENTS
from nsyswrap.reports.nsys import NAMES as NSYS
from nsyswrap.reports.wording.notes import note_texts

with lazy_imports():
    import pandas as pd

    from nsyswrap.analysis import kernel_names
    from nsyswrap.capture import frames
    from nsyswrap.reports.wording import checks  # of a table without events


Values = NDArray[Any] | Sequence[str | None]

NOTHING_SELECTED = "no events in the selection"
_BY_NAME: Any = None


@dataclass(frozen=True)
class Column:
    """One column: ``name`` is for machines and ends in the unit, ``header`` is what nsys or a person writes.

    ``drop_order``: the column with the highest number is left out first on a narrow screen; one below 0
    never is. ``unit``: if it is no text and its name has none.
    ``era``: only the tables of that era have the column. ``kernels``: some of its texts are kernel names.
    ``is_key``: rows are told apart by it, so that other texts are shortened first.
    ``is_sentence``: its texts are sentences. Such a column comes last. ``signed``: its values are
    differences, which people read with a sign. ``bar``: they are percentages that a screen draws, too.
    ``of_source``: it says which capture or rank a row is of. --top counts the rows of each.
    ``only_with``: the kind of event without which a table does not have the column.
    """

    name: str
    header: str
    help: str
    drop_order: int = 0
    unit: Unit = _BY_NAME
    era: Rounding | None = None
    kernels: bool = False
    is_sentence: bool = False
    is_key: bool = False
    signed: bool = False
    bar: bool = False
    of_source: bool = False
    only_with: str = ""

    def __post_init__(self) -> None:
        """Take the unit from the name if none is given."""
        if self.unit is _BY_NAME:
            named = (unit for unit in Unit if f"_{self.name}".endswith(f"_{unit.value}"))
            object.__setattr__(self, "unit", next(named, Unit.TEXT))

    @classmethod
    def count(cls, name: str, header: str, text: str, drop_order: int = 0, **more: Any) -> Column:
        """Return a column of how many there are of something."""
        return cls(name, header, text, drop_order, Unit.COUNT, **more)

    @classmethod
    def number(cls, name: str, header: str, text: str, drop_order: int = 0, **more: Any) -> Column:
        """Return a column of numbers without a unit: codes, levels, ranks."""
        return cls(name, header, text, drop_order, Unit.NUMBER, **more)

    @property
    def is_timestamp(self) -> bool:
        """Return True if the times in it are points in time, not durations."""
        return self.name.endswith(("start_ns", "end_ns"))


@dataclass(frozen=True)
class Order:
    """One key of a report's row order. ``rounded`` sorts by the printed value, as nsys does."""

    column: str
    descending: bool = False
    rounded: bool = False


BY_TOTAL = (Order("total_ns", descending=True),)


@dataclass(frozen=True)
class ReportOption:
    """A number that a report takes, as in ``-r gpu_gaps:gap=1``. ``least`` and ``most`` are its limits."""

    name: str
    default: int
    help: str
    least: int | None = None
    most: int | None = None

    def check(self, report: str, value: int) -> int:
        """Return ``value``. Raises UsageError if it is out of range."""
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            limits = [f"at least {self.least}"] if self.least is not None else []
            limits += [f"at most {self.most}"] if self.most is not None else []
            raise UsageError(f"{report}: {self.name}={value} is out of range", f"{' and '.join(limits)}")
        return value


@dataclass(frozen=True, init=False)
class Schema:
    """What a table is: its machine name, its title, its columns, and how a terminal shows its rows."""

    name: str
    title: str
    columns: tuple[Column, ...]
    layout: Literal["table", "paragraphs"]

    def __init__(
        self, name: str, title: str, *columns: Column, layout: Literal["table", "paragraphs"] = "table"
    ) -> None:
        vars(self).update(name=name, title=title, columns=columns, layout=layout)

    def with_columns(self, columns: Iterable[Column]) -> Schema:
        """Return the same with these columns instead."""
        return Schema(self.name, self.title, *columns, layout=self.layout)

    @property
    def layer(self) -> Literal["parity", "analysis"]:
        """Return "parity" for the reports of nsys, which equal `nsys stats` cell by cell; else "analysis"."""
        return "parity" if self.name in NSYS else "analysis"


class Paragraph(NamedTuple):
    """The heading of a row shown as a paragraph (empty: its text is the heading), and headings of other rows.

    The others are those that concern some of the same time. ``saving`` has braces for the time that a change
    saves.
    """

    heading: str
    others: tuple[str, ...]
    saving: str


@dataclass(frozen=True)
class Result:
    """What a report computes: a value per column and row, and notes for readers of the table.

    ``left_out`` counts the rows of the report that were not asked for, and ``other_names`` are the kernels in
    them. ``paragraphs`` has one for each row if the layout of the table is "paragraphs".
    """

    data: Mapping[str, Values]
    notes: tuple[Note | str, ...] = ()
    left_out: int = 0
    other_names: Sequence[str | None] = ()
    paragraphs: tuple[Paragraph, ...] = ()


@dataclass(frozen=True)
class Report:
    """A table that is computed from a capture.

    ``needs`` lists groups of event kinds. The capture must hold events of one kind of each group.
    ``compute`` takes a capture, and the report's options by name. The rows of its result are in ascending
    order of their key. ``order`` sorts the rows; rows that are equal keep their places.
    ``options`` are the numbers that the report takes.
    ``empty_answers``: a table that is there without rows is an answer, as in nsys.
    ``rows_from``: the kinds without whose events a selection leaves no row, if not every group it needs.
    None if it can have rows without any event in the selection.
    ``qualifiers``: which of ``:base``, ``:mangled``, ``:nvtx-name`` the report takes.
    ``reads``: fields of large tables that ``compute`` reads, by kind, so that one pass reads them all.
    ``packs``: the kinds of ``reads`` whose columns are not kept; see ``analysis.packed``.
    ``conclude`` returns the verdict on the values in a sentence, or an empty text.
    ``compute_top`` takes a capture and a number, and computes so many of the first rows alone: those of a
    large table.
    ``judges_steps``: it is about the steps that the user names, if any. Others are not.
    ``alone`` is called before ``compute`` if no other report is made: it can free columns early.
    """

    schema: Schema
    needs: tuple[tuple[str, ...], ...]
    compute: Callable[..., Result]
    order: tuple[Order, ...] = ()
    options: tuple[ReportOption, ...] = ()
    empty_answers: bool = False
    rows_from: tuple[str, ...] | None = ()
    qualifiers: tuple[str, ...] = ()
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packs: tuple[str, ...] = ()
    conclude: Callable[[Capture, Mapping[str, Values]], str] | None = None
    compute_top: Callable[[Capture, int], Result] | None = None
    judges_steps: bool = False
    alone: Callable[[Capture], None] | None = None

    @property
    def name(self) -> str:
        """Return the name that users ask for."""
        return self.schema.name

    @property
    def title(self) -> str:
        """Return the title of its table."""
        return self.schema.title

    @property
    def layer(self) -> Literal["parity", "analysis"]:
        """Return the layer of its table."""
        return self.schema.layer

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of its table, those of both eras."""
        return self.schema.columns

    def _schema(self, whole: Capture) -> Schema:
        kept = [column for column in self.columns if not column.only_with or whole.has(column.only_with)]
        return self.schema.with_columns(kept) if len(kept) < len(self.columns) else self.schema

    def lacks(self, capture: Capture) -> list[tuple[str, ...]]:
        """Return the groups of which the whole capture holds no event, whatever is selected."""
        there = capture.whole.holds if self.empty_answers else capture.whole.has
        return [group for group in self.needs if not any(map(there, group))]

    def top(self, rows: int | None) -> Report:
        """Return the report of so many first rows alone if it can compute them, else the whole one."""
        compute = self.compute_top
        if compute is None or rows is None:
            return self
        return replace(self, compute=lambda viewed: compute(viewed, rows))

    def make(self, capture: Capture, **options: int) -> Table:
        """Compute the table. Raises NotInCapture with the command that collects what is missing."""
        checked = self._checked(options)
        for group in self.lacks(capture):
            kinds = [kind.title for name, kind in EVENTS.items() if name in group]
            raise NotInCapture(
                f"no {' or '.join(kinds)}",
                checks.why_absent([capture], group),
                source=capture.source,
                report=self.name,
                holds=True,
            )
        viewed = capture.decided(as_nsys=self.layer == "parity")
        read_ahead(viewed, [self])
        result, notes = self._result(viewed, checked)
        data, rest = dict(result.data), replace(result, data={})
        del result  # so that each column of a large table is there once while it is sorted
        for order in reversed(self.order):
            _reorder(data, order, capture.view.rounding)
        verdict = self.conclude(viewed, data) if self.conclude and self._rows(data) else ""
        return Table(
            self._schema(capture.whole),
            data,
            capture.view.rounding,
            note_texts(notes),
            viewed.selected,
            verdict=verdict,
            left_out=rest.left_out,
            other_names=rest.other_names,
            paragraphs=rest.paragraphs,
        )

    def _result(self, viewed: Capture, options: Mapping[str, int]) -> tuple[Result, Sequence[Note | str]]:
        if self._nothing_selected(viewed):
            return Result(_no_rows(self.schema)), [NOTHING_SELECTED]
        with viewed.exact():
            result = self.compute(viewed, **options)
        # Only names that begin with the NVTX range around the launch need the process of a kernel.
        ranges = viewed.view.nvtx_names and "nvtx-name" in self.qualifiers and viewed.has("kernel")
        notes = [*(process_notes(viewed.whole, "kernel") if ranges else ()), *result.notes]
        # That what is judged leaves no row is an answer.
        if viewed.view.selection.narrows and not self._rows(result.data) and not self.judges_steps:
            notes.append(NOTHING_SELECTED)
        return result, notes

    def _rows(self, data: Mapping[str, Values]) -> int:
        return len(data[self.columns[0].name])

    def _nothing_selected(self, viewed: Capture) -> bool:
        if not viewed.view.selection.narrows or self.empty_answers or self.rows_from is None:
            return False
        groups = (self.rows_from,) if self.rows_from else self.needs
        return any(not any(viewed.has(kind) for kind in group) for group in groups)

    def _checked(self, given: Mapping[str, int]) -> dict[str, int]:
        known = {option.name: option for option in self.options}
        for name in given.keys() - known.keys():
            takes = f"options: {', '.join(known)}" if known else "it has no options"
            raise UsageError(f"{self.name} has no option {name!r}", takes)
        return {
            name: option.check(self.name, given.get(name, option.default)) for name, option in known.items()
        }


def read_ahead(capture: Capture, reports: Iterable[Report]) -> None:
    """Read what these reports will ask for, each table in one pass. What is missing is skipped."""
    released = capture.whole.released
    wanted: dict[str, list[str]] = {}
    packed: dict[str, list[str]] = {}
    for report in reports:
        if report.reads and not report.lacks(capture):
            for kind, fields in report.reads.items():
                (packed if kind in report.packs else wanted).setdefault(kind, []).extend(fields)
    for kind, asked in packed.items():
        capture.expect(kind, asked)
    for kind, asked in wanted.items():
        if capture.has(kind):
            with suppress(NotInCapture):
                names = dict.fromkeys([*asked, *packed.get(kind, [])])
                capture.columns(kind, *(name for name in names if (kind, name) not in released))


@dataclass(frozen=True)
class Table:
    """A computed table: unrounded values per column in row order, and the rounding that formats print with.

    ``notes`` say what readers must know. ``selection`` says which part of the capture the table covers.
    ``suffix`` says how it was asked for, as nsys names its files (``gpu_gaps_gap=1``).
    ``verdict`` is the conclusion in one sentence; of several captures, a line of each.
    ``left_out`` counts rows of the report beyond those here. ``other_names`` and ``paragraphs`` are as in
    ``Result``: equal readable names are numbered among the other names, too.
    """

    schema: Schema
    data: Mapping[str, Values]
    rounding: Rounding = "2025"
    notes: tuple[str, ...] = ()
    selection: str = ""
    suffix: str = ""
    verdict: str = ""
    left_out: int = 0
    other_names: Sequence[str | None] = ()
    paragraphs: tuple[Paragraph, ...] = ()

    def __len__(self) -> int:
        return len(self.data[self.columns[0].name])

    @property
    def label(self) -> str:
        """Return the name and the suffix, which name the table's files."""
        return self.schema.name + self.suffix

    @property
    def verdicts(self) -> list[str]:
        """Return the verdict, or that of each of several captures; nothing if there is none."""
        several = any(column.of_source for column in self.columns)
        return list(filter(None, self.verdict.split("\n") if several else [self.verdict]))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table's era."""
        return tuple(column for column in self.schema.columns if column.era in (None, self.rounding))

    def first(self, top: int | None) -> Table:
        """Return the table with its first ``top`` rows: of each capture or rank if it holds several.

        ``left_out`` of the new table counts the others, too.
        """
        if top is None or len(self) <= top:
            return self
        rows: slice | NDArray[np.intp] = slice(top)
        if (source := self.columns[0]).of_source:
            seen: Counter[object] = Counter()
            numbers = []
            for one in self.plain(source, slice(None)):
                numbers.append(seen[one])
                seen[one] += 1
            rows = np.flatnonzero(np.array(numbers) < top)
        cut = replace(
            self,
            data={name: rows_of(values, rows) for name, values in self.data.items()},
            paragraphs=tuple(self.paragraphs[row] for row in np.arange(len(self))[rows] if self.paragraphs),
        )
        return replace(cut, left_out=self.left_out + len(self) - len(cut))

    def names_of(self, column: Column) -> Collection[str | None]:
        """Return the kernel names of a column, and those of the rows that were not computed."""
        shown: Collection[str | None] = self.data[column.name]
        return [*shown, *self.other_names] if self.other_names else shown

    def rows(self, top: int | None = None) -> list[tuple[object, ...]]:
        """Return the first ``top`` rows, or all, as plain int, float or str; None is missing."""
        columns = [self.plain(column, slice(top)) for column in self.columns]
        return list(zip(*columns, strict=True))

    def records(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the first ``top`` rows, or all, as plain values by the name of their column."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows(top)]

    def plain(self, column: Column, rows: slice) -> Sequence[object]:
        """Return these rows of a column as plain int, float or str; None is missing."""
        values = self.data[column.name][rows]
        if not isinstance(values, np.ndarray):  # asked first: it is the usual case, and the check is fast
            return list(values) if isinstance(values, TextColumn) else values
        if values.dtype.kind == "f":
            return [None if isnan(value) else value for value in values.tolist()]
        return [None if value == MISSING else value for value in values.tolist()]

    @property
    def frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame of unrounded values. Column names end in their units."""
        return pd.DataFrame({column.name: _pandas_values(self.data[column.name]) for column in self.columns})


def _pandas_values(values: Values) -> object:
    return np.asarray(values) if isinstance(values, TextColumn) else frames.pandas_values(values)


def _no_rows(schema: Schema) -> dict[str, Values]:
    return {
        column.name: [] if column.unit is Unit.TEXT else np.empty(0, np.int64) for column in schema.columns
    }


def table_of(schema: Schema, rows: Sequence[tuple[object, ...]]) -> Table:
    """Return a table of these rows; None is a missing value."""
    columns = zip(*rows, strict=True) if rows else [() for _ in schema.columns]
    data: dict[str, Values] = {
        column.name: [None if value is None else str(value) for value in values]
        if column.unit is Unit.TEXT
        else _numbers(values)
        for column, values in zip(schema.columns, columns, strict=True)
    }
    return Table(schema, data)


def _numbers(values: Sequence[Any]) -> NDArray[Any]:
    """Return int64 if all known values are integers, else float64. None becomes MISSING or NaN."""
    whole = all(value is None or isinstance(value, int) for value in values)
    return np.array([(MISSING if whole else np.nan) if value is None else value for value in values])


def _reorder(data: dict[str, Values], order: Order, rounding: Rounding) -> None:
    if len(data[order.column]) <= 1:
        return
    key = np.asarray(data[order.column])
    if order.rounded:
        key = rounded_tenths(key, rounding)
    if order.descending:
        key = ~key if key.dtype.kind == "i" else -key  # ~: what is missing comes last, as in SQL
    if (key[1:] >= key[:-1]).all():  # with NaN never: it is sorted then, too
        return
    rows = np.argsort(key, kind="stable")
    data.update((name, rows_of(data.pop(name), rows)) for name in tuple(data))


def arranged(table: Table, sort: str = "", match: str = "") -> Table:
    """Return a table with the rows of which a text matches, in the order of a column.

    ``match`` is a pattern such as ``*gemm*``; what is written in a text matches anywhere in it, also
    ``[CUDA memset]``. A kernel matches by its readable name, too: ``gemm tf32 #2``.
    ``sort`` is the name or the header of a column, the largest number first; a minus before it reverses that.
    A table without such a column stays in its order. What is missing comes last.
    """
    rows = np.arange(len(table))
    if match:
        texts = [one for one in table.columns if one.unit is Unit.TEXT]
        matches = [
            _matching(TextColumn.of(table.data[one.name]), match, kernels=one.kernels) for one in texts
        ]
        rows = np.flatnonzero(np.any(matches, axis=0)) if texts else rows
        found = f"{match!r} matches {len(rows):,} of {len(table):,} rows"
        table = replace(table, selection="; ".join(filter(None, (table.selection, found))))
    if column := column_named(table.columns, sort.removeprefix("-")):
        rows = rows[_order(table.plain(column, slice(None)), rows, ascending=sort.startswith("-"))]
        columns = tuple(replace(one, drop_order=-1) if one == column else one for one in table.schema.columns)
        table = replace(table, schema=table.schema.with_columns(columns))  # a narrow screen shows it, too
    data = {name: rows_of(values, rows) for name, values in table.data.items()}
    paragraphs = tuple(table.paragraphs[row] for row in rows.tolist()) if table.paragraphs else ()
    return replace(table, data=data, paragraphs=paragraphs)


def column_named(columns: Iterable[Column], name: str) -> Column | None:
    """Return the column with this name or header, which may have its unit: ``Med (ns)``; None without one."""
    wanted = name.casefold().partition(" (")[0]
    return next((one for one in columns if wanted in (one.name.casefold(), one.header.casefold())), None)


def _matching(texts: TextColumn, pattern: str, *, kernels: bool) -> NDArray[Any]:
    """Return for each row whether its text matches, or the readable name if these are kernels.

    Kernels of one readable name match by their number, too, as a screen has them: ``gemm tf32 #2``.
    """
    wanted = pattern.lower()
    numbered = kernel_names.distinct_names(filter(None, texts.texts)) if kernels else {}

    def matches(text: str) -> bool:
        names = [text]
        if kernels:
            names += [kernel_names.readable(text.rpartition("/")[2]), numbered.get(text, text)]
        return any(wanted in name or fnmatchcase(name, wanted) for name in map(str.lower, names))

    marks = np.array([text is not None and matches(text) for text in texts.texts], bool)
    return marks[np.asarray(texts.codes)]


def _order(values: Sequence[Any], rows: NDArray[np.intp], *, ascending: bool) -> NDArray[np.intp]:
    """Return the places of these rows in order; equal rows keep theirs. Texts ascend."""
    cells = [values[row] for row in rows.tolist()]
    known = [place for place, cell in enumerate(cells) if cell is not None]
    missing = [place for place, cell in enumerate(cells) if cell is None]
    are_texts = bool(known) and isinstance(cells[known[0]], str)
    known.sort(key=cells.__getitem__, reverse=ascending == are_texts)
    return np.array([*known, *missing], np.intp)


def rounded_tenths(values: NDArray[Any], rounding: Rounding) -> NDArray[Any]:
    """Return ``round_tenth`` of each value."""
    tenths = np.abs(values) * 10
    whole = np.floor(tenths)
    rounded: NDArray[Any] = np.copysign((whole + (tenths - whole > TIE)) / 10, values)
    for row in np.flatnonzero((tenths >= EXACT_TENTHS) | (np.abs(tenths - whole - TIE) <= NEAR_TIE)).tolist():
        rounded[row] = round_tenth(float(values[row]), rounding)
    return rounded


def rows_of(values: Values, rows: NDArray[np.intp] | slice) -> Values:
    """Return the values of these rows, in this order."""
    if isinstance(rows, slice):
        return values[rows]
    return values[rows] if isinstance(values, (np.ndarray, TextColumn)) else [values[row] for row in rows]


KERNEL_NAMES = ("base", "mangled", "nvtx-name")  # the qualifiers of most reports that name kernels

TIME_PERCENT = Column("time_percent", "Time", "share of the total of the listed rows, not of the run")
TOTAL_TIME = Column("total_ns", "Total Time", "sum of the durations")
FLOP_PER_S = Column("flop_per_s", "FLOP Rate", "FLOPs by time; empty if shapes tell of less than 80 %", 5)
PEAK_PERCENT = Column("peak_percent", "Of Peak", "share of the GPU's peak FLOP/s of the types", 5)


def stat_columns(
    prefix: str = "", header: str = "", unit: Unit = Unit.NS, of: str = "the durations"
) -> tuple[Column, ...]:
    """Return the five columns of statistics in nsys' summaries, in nsys' order. ``of`` names the values."""
    return tuple(
        Column(f"{prefix}{short}_{unit.value}", f"{header}{title}", f"{text} {of}{more}", drop_order)
        for short, title, drop_order, text, more in (
            ("avg", "Avg", 5, "arithmetic mean of", ""),
            ("med", "Med", 0, "median of", ""),
            ("min", "Min", 8, "smallest of", ""),
            ("max", "Max", 7, "largest of", ""),
            ("std", "StdDev", 9, "sample standard deviation (n - 1) of", "; 0 for a single value"),
        )
    )


def time_columns(count: Column, *others: Column) -> tuple[Column, ...]:
    """Return the columns of nsys' time summaries: share and sum of the time, count, statistics, others."""
    return (TIME_PERCENT, TOTAL_TIME, count, *stat_columns(), *others)


def stat_values(statistics: Statistics, prefix: str = "", unit: Unit = Unit.NS) -> dict[str, NDArray[Any]]:
    """Return the values of ``stat_columns``. Min and max are missing in a group without values."""
    least, most = statistics.min, statistics.max
    if not statistics.count.all():
        least, most = (np.where(statistics.count == 0, MISSING, values) for values in (least, most))
    return {
        f"{prefix}avg_{unit.value}": statistics.avg,
        f"{prefix}med_{unit.value}": statistics.med,
        f"{prefix}min_{unit.value}": least,
        f"{prefix}max_{unit.value}": most,
        f"{prefix}std_{unit.value}": statistics.std,
    }


def share(total: NDArray[Any]) -> NDArray[Any]:
    """Return each total as percent of their sum, or NaN if the sum is 0."""
    whole = total.sum()
    return total * 100.0 / whole if whole else np.full(len(total), np.nan)
