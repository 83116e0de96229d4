"""Make reports of captures, combine the tables of several captures, and remember why one cannot answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import printable
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import ReportRequest
from nsyswrap.reports.table import Column, Schema, Table, Values, read_ahead

Step = Callable[[str], AbstractContextManager[None]]

CAPTURE = Column("capture", "Capture", "label of the capture", of_source=True)


def combine(tables: Sequence[tuple[str, Table]]) -> Table:
    """Return one table of one report's tables, given with the labels of their captures.

    There must be at least one table, and all of one era. A note that not all tables have names its capture.
    """
    made = [table for _, table in tables]
    fullest = max(made, key=lambda table: len(table.columns))  # of captures with all kinds of events
    schema = fullest.schema.with_columns((CAPTURE, *fullest.schema.columns))
    data: dict[str, Values] = {CAPTURE.name: [label for label, table in tables for _ in range(len(table))]}
    for column in fullest.columns:
        parts = (table.data.get(column.name, np.full(len(table), MISSING)) for table in made)
        data[column.name] = _joined(list(parts), column)
    selections = dict.fromkeys(table.selection for table in made if table.selection)
    verdicts = [printable(f"{label}: {table.verdict}") for label, table in tables if table.verdict]
    return replace(
        made[0],
        schema=schema,
        data=data,
        notes=_notes(tables),
        selection=" | ".join(selections),
        verdict="\n".join(verdicts),
        left_out=sum(table.left_out for table in made),
        other_names=[name for table in made for name in table.other_names],
        paragraphs=tuple(one for table in made for one in table.paragraphs),
    )


def _joined(parts: Sequence[Values], column: Column) -> Values:
    if column.unit is Unit.TEXT:
        return [text for part in parts for text in part]
    arrays = [np.asarray(part) for part in parts if len(part)]
    if any(array.dtype.kind == "f" for array in arrays):
        arrays = [
            array if array.dtype.kind == "f" else np.where(array == MISSING, np.nan, array)
            for array in arrays
        ]
    return np.concatenate(arrays) if arrays else np.asarray(parts[0])


def _notes(tables: Sequence[tuple[str, Table]]) -> tuple[str, ...]:
    labels_of: dict[str, list[str]] = {}
    for label, table in tables:
        for note in dict.fromkeys(table.notes):
            labels_of.setdefault(note, []).append(label)
    return tuple(
        text
        for note, labels in labels_of.items()
        for text in ([note] if len(labels) == len(tables) else [f"{label}: {note}" for label in labels])
    )


class MissingReport(NamedTuple):
    """A report that a capture cannot answer, and why.

    ``suffix`` is that of the request, ``capture`` the label of the capture.
    """

    schema: Schema
    suffix: str
    capture: str
    error: NotInCapture

    @property
    def label(self) -> str:
        """The name of the report, with its options."""
        return self.schema.name + self.suffix

    @property
    def reason(self) -> str:
        """What is missing in which report and capture, and the command that collects it."""
        return f"{self.error.message}; {self.error.hint}"

    def text(self, within: object = "", *, several: bool = False) -> str:
        """Return the reason without the report, as ``NotInCapture.text`` does."""
        return f"{self.error.text(within, several=several)}; {self.error.hint}"


@dataclass
class MadeReports:
    """The tables that were made, by report and capture label in the order asked for, and those missing.

    ``of_several``: several captures were asked for, even if fewer can be read.
    """

    tables: dict[str, dict[str, Table]] = field(default_factory=dict)
    missing: list[MissingReport] = field(default_factory=list)
    of_several: bool = False

    def attempt(
        self, schema: Schema, make: Callable[[], Table], *, capture: str = "", suffix: str = ""
    ) -> None:
        """Call ``make``. Add its table, or the reason why it raises NotInCapture."""
        try:
            self.tables.setdefault(schema.name + suffix, {})[capture] = make()
        except NotInCapture as error:
            self.missing.append(MissingReport(schema, suffix, capture, error))

    def combined(self) -> list[Table]:
        """Return one table for each report: of several captures, with a column of their labels in front.

        Several captures count as such even if only one of them can answer.
        """
        labels = {label for tables in self.tables.values() for label in tables}
        labels |= {missing.capture for missing in self.missing}
        made = [tables for tables in self.tables.values() if tables]
        if len(labels) <= 1 and not self.of_several:
            return [table for tables in made for table in tables.values()]
        return [combine(list(tables.items())) for tables in made]


def _no_step(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def make_reports(
    captures: Mapping[str, Capture], requests: Sequence[ReportRequest], step: Step = _no_step
) -> MadeReports:
    """Make each report of each capture; ``captures`` are by label.

    ``step(message)`` is entered around each piece of work, to show progress.
    """
    reports = MadeReports()
    _read(captures, requests, step)
    if len(requests) == 1 and (free := requests[0].report.alone):
        for capture in captures.values():
            message = f"making {requests[0].report.name} …"
            with step(message), suppress(NotInCapture):  # the report says why
                free(capture)
    for request in requests:
        one = _make_one(request, captures, step)
        reports.tables |= one.tables
        reports.missing += one.missing
    return reports


def make_in_turn(
    captures: Mapping[str, Capture], requests: Sequence[ReportRequest], step: Step = _no_step
) -> Iterator[MadeReports]:
    """Yield each report of all captures, as ``make_reports`` makes them, and keep none.

    Together they can be larger than memory. What no report after them reads is not kept either.
    """
    _read(captures, requests, step)
    for number, request in enumerate(requests, 1):
        yield _make_one(request, captures, step)
        later = [one.report.reads for one in requests[number:]]
        unread = {
            kind: set(fields).difference(*(reads.get(kind, ()) for reads in later))
            for kind, fields in request.report.reads.items()
        }
        for capture in captures.values():
            capture.release_columns(unread)


def _read(captures: Mapping[str, Capture], requests: Sequence[ReportRequest], step: Step) -> None:
    for capture in captures.values():
        with step(f"reading {capture.source} …"):
            read_ahead(capture, [request.report for request in requests])


def _make_one(request: ReportRequest, captures: Mapping[str, Capture], step: Step) -> MadeReports:
    reports = MadeReports()
    for label, capture in captures.items():
        with step(f"making {request.report.name} …"):
            make = partial(request.make, capture)
            reports.attempt(request.report.schema, make, capture=label, suffix=request.suffix)
    return reports
