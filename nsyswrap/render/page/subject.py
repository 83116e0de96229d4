"""The captures of a page by label, and their reports, each made once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial

from nsyswrap.analysis.answer import Answer, whole_answer
from nsyswrap.analysis.judged_process import main_steps
from nsyswrap.analysis.no_gpu_work import has_gpu_work
from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.base.text import without_folders
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import find_report, summary
from nsyswrap.reports.make import MadeReports, combine
from nsyswrap.reports.summary import SummaryScreen
from nsyswrap.reports.table import Report, Table, Values

# The tables that take columns which are freed as soon as the summary is made; None: with all rows.
_TABLES = (("memcpy_bandwidth", None), ("launch_overhead", None), ("diagnostics", None))


def selection_text(capture: Capture) -> str:
    """Return the selection as text, with the rule for rows at its ends only if they stay whole."""
    selection = capture.view.selection
    whole = selection.windowed and selection.clip is False
    return capture.selected if whole else selection.criteria(capture.window) if selection.narrows else ""


def _without_paths(screen: SummaryScreen) -> SummaryScreen:
    """Return the summary without absolute paths."""
    return replace(
        screen,
        ending=without_folders(screen.ending),
        command=without_folders(screen.command),
        lines=[replace(line, sentence=without_folders(line.sentence)) for line in screen.lines],
        trust=screen.trust._replace(
            contents=without_folders(screen.trust.contents),
            remarks=[without_folders(line) for line in screen.trust.remarks],
        ),
    )


def _shareable(table: Table) -> Table:
    """Return the table without absolute paths in its sentences. Names of kernels and ranges stay."""
    data = {
        column.name: _texts(table.data[column.name])
        for column in table.columns
        if column.is_sentence or (table.schema.layout == "paragraphs" and column.unit is Unit.TEXT)
    }
    notes = tuple(map(without_folders, table.notes))
    return replace(table, data={**table.data, **data}, notes=notes, verdict=without_folders(table.verdict))


def _shareable_report(report: Report, capture: Capture, top: int | None) -> Table:
    return _shareable(report.make(capture) if top is None else report.make_top(capture, top))


def _texts(values: Values) -> list[str | None]:
    return [None if text is None else without_folders(str(text)) for text in values]


def _steady_view(capture: Capture) -> Capture:
    """Return the steady part of the process with the most GPU work, in all processes."""
    steps = main_steps(capture)
    if steps is None:
        return capture
    (start, end), spans = steps.window, steps.stretches
    selection = replace(capture.view.selection, start_ns=start, end_ns=end, clip=True)
    return capture.viewed(selection=replace(selection, spans=spans) if len(spans) > 1 else selection)


class Subject:
    """Captures, their summaries and their tables."""

    def __init__(self, captures: Mapping[str, Capture], job: RankJob | None = None) -> None:
        """Take captures by label. ``job`` has all ranks if the captures are ranks of one job."""
        # All sections show the same selection, so that their counts agree.
        self.captures = {label: capture.decided().viewed(shared=True) for label, capture in captures.items()}
        self.job = job
        self.is_part = False  # of the steady parts alone
        self.every = self  # the whole captures
        self.summaries = {
            label: _without_paths(summary.summarize(capture, alone=True, sections=_TABLES))
            for label, capture in self.captures.items()
        }
        self._reports = MadeReports()
        for label, screen in self.summaries.items():
            for table, _ in screen.tables:
                self._reports.tables.setdefault(table.label, {})[label] = _shareable(table)

    @property
    def selected(self) -> str:
        """The selection as text if all captures have the same, else empty."""
        every: Iterable[Capture] = self.captures.values()
        if self.job is not None:  # a rank may be one process of a capture
            every = [part.viewed(selection=replace(part.view.selection, processes=())) for part in every]
        parts = set(map(selection_text, every))
        return parts.pop() if len(parts) == 1 else ""

    @property
    def within(self) -> str:
        """The end of a sentence about absent events: empty, or that only a selection was searched."""
        narrow = any(capture.view.selection.narrows for capture in self.captures.values())
        return " in the selection" if narrow else ""

    def is_steady(self, label: str) -> bool:
        """Return True if the answer of a capture is about its steady part."""
        answer = self.summaries[label].answer
        return answer is not None and answer.scope == "steady part"

    def whole_answer(self, label: str) -> Answer | None:
        """Return how busy the GPU was in a whole capture; None if its answer is about that."""
        return whole_answer(self.captures[label]) if self.is_steady(label) else None

    @cached_property
    def steady(self) -> Subject | None:
        """The steady parts of the captures, whole captures where there is none; None if none has one."""
        if not any(map(self.is_steady, self.captures)):
            return None
        part = copy(self)
        part.is_part, part.every = True, self
        part.captures = {label: _steady_view(capture) for label, capture in self.captures.items()}
        part._reports = MadeReports()  # noqa: SLF001 - of this class
        return part

    def steps_shown(self, label: str) -> int:
        """Return the number of steps if what is shown of a capture is of them alone, else 0."""
        answer = self.summaries[label].answer
        return answer.steps.count if self.is_part and answer is not None and answer.steps else 0

    def kernel_names(self, label: str) -> set[str]:
        """Return the names of all kernels of a capture, of which each has one readable form on the page."""
        every = self.every.tables("cuda_gpu_kern_sum")[label]
        return {str(name) for name in every.data["name"]}

    def time_ns(self, label: str) -> int:
        """Return the time that is shown of a capture in ns, summed over devices and processes."""
        whole = None if self.is_part else self.whole_answer(label)
        answer = whole or self.summaries[label].answer
        return answer.window_ns if answer is not None else 0

    @property
    def has_gpu_work(self) -> bool:
        """True if something ran on a GPU in a capture, even outside the selection."""
        return any(map(has_gpu_work, self.captures.values()))

    @property
    def several(self) -> bool:
        """True if the page shows captures side by side."""
        return len(self.captures) > 1

    def heading(self, label: str, text: str) -> str:
        """Return a heading of one capture, with its label if there are several."""
        return f"'{label}': {text}" if self.several else text

    def tables(self, name: str, top: int | None = None) -> dict[str, Table]:
        """Return the tables of one report by label, for the captures that can answer it.

        If ``top`` rows are enough, the first use of the report says so.
        """
        report = find_report(name)
        by_label = self._reports.tables.setdefault(name, {})
        for label, capture in self.captures.items():
            if label not in {*by_label, *self._reasons(name)}:
                make = partial(_shareable_report, report, capture, top)
                self._reports.attempt(report.schema, make, capture=label)
        return {label: by_label[label] for label in self.captures if label in by_label}

    def _reasons(self, name: str) -> dict[str, str]:
        """Return why captures lack a report, without its name: the heading of the section says it."""
        return {
            part.capture: self.shareable(part.capture, part.text())
            for part in self._reports.missing
            if part.label == name
        }

    def shareable(self, label: str, text: str) -> str:
        """Return a text about a capture without absolute paths, because pages are sent to others."""
        return without_folders(text.replace(str(self.captures[label].source), label))

    def remarks(self, label: str) -> list[str]:
        """Return what readers must know about the file of a capture."""
        return [self.shareable(label, remark) for remark in self.captures[label].remarks]

    def missing(self, name: str) -> list[str]:
        """Return the reasons why captures cannot answer a report."""
        self.tables(name)
        return list(self._reasons(name).values())

    def why_empty(self, name: str, label: str) -> str:
        """Return the reason why a report of a capture has no rows."""
        table = self.tables(name).get(label)
        if table is None:
            return self._reasons(name)[label]
        return "; ".join(table.notes) or "none found"

    def table(self, name: str) -> Table | None:
        """Return one report of all captures as one table, or None if no capture can answer it."""
        return self.as_one(self.tables(name))

    def as_one(self, tables: Mapping[str, Table]) -> Table | None:
        """Combine tables into one. Several captures get a column of labels in front."""
        if not tables:
            return None
        return combine(list(tables.items())) if self.several else next(iter(tables.values()))
