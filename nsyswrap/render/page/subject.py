"""What a page is about: captures by label, and the reports of them, each made once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import find_report, summary
from nsyswrap.reports.combine import combine
from nsyswrap.reports.table import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection
    from nsyswrap.reports.table import Table


def part_shown(selection: Selection) -> str:
    """Say what is selected; how rows at its ends are taken is said by each table, unless it is asked for."""
    said = str(selection)
    return said.rpartition("; ")[0] if selection.windowed and selection.clip is None else said


class Subject:
    """Captures, what ran in each, and their tables."""

    def __init__(
        self, captures: Mapping[str, Capture], job: Job | None = None, reads: Iterable[str] = ()
    ) -> None:
        """Take one capture or more, by label; ``job``: what they, and perhaps others, are the ranks of.

        ``reads``: the reports that will be asked for, so that one pass over a table reads all they need.
        """
        reports = [find_report(name) for name in (*reads, *(name for name, _ in summary.SECTIONS))]
        self.captures = captures
        self.job = job
        for capture in captures.values():
            read_ahead(capture, reports)
        self.summaries = {label: summary.summarise(capture) for label, capture in captures.items()}
        self._known = {
            (label, table.report.name): table
            for label, made in self.summaries.items()
            for table, _ in made.tables
        }
        self._missing: dict[tuple[str, str], str] = {}

    @property
    def selected(self) -> str:
        """Which part of the captures is shown, where it is the same of all; empty where that is all."""
        selections = [capture.view.selection for capture in self.captures.values()]
        if self.job is not None:  # a rank may be a process of a capture
            selections = [replace(selection, processes=()) for selection in selections]
        parts = set(map(part_shown, selections))
        return parts.pop() if len(parts) == 1 else ""

    @property
    def within(self) -> str:
        """What to say behind what was not found."""
        narrow = any(capture.view.selection.narrows for capture in self.captures.values())
        return " in what is selected" if narrow else ""

    @property
    def several(self) -> bool:
        """Whether captures are held side by side."""
        return len(self.captures) > 1

    def tables(self, name: str) -> dict[str, Table]:
        """Return one report of each capture that can answer it, by label."""
        for label, capture in self.captures.items():
            if (label, name) not in {*self._known, *self._missing}:
                try:
                    self._known[label, name] = find_report(name).make(capture)
                except NotInCapture as error:
                    self._missing[label, name] = f"{error}; {error.hint}"
        return {label: self._known[label, name] for label in self.captures if (label, name) in self._known}

    def missing(self, name: str) -> list[str]:
        """Return why captures cannot answer a report."""
        self.tables(name)
        return [reason for (_, report), reason in self._missing.items() if report == name]

    def why_empty(self, name: str, label: str) -> str:
        """Return why a report of a capture has no rows: the capture cannot answer it, or there are none."""
        table = self.tables(name).get(label)
        if table is None:
            return self._missing[label, name]
        return "; ".join(table.notes) or "it was looked for, and there is none"

    def table(self, name: str) -> Table | None:
        """Return one report of all captures as one table; None where no capture can answer it."""
        return self.as_one(self.tables(name))

    def as_one(self, tables: Mapping[str, Table]) -> Table | None:
        """Put tables of captures into one, with the labels in front where there are several captures."""
        if not tables:
            return None
        return combine(list(tables.items())) if self.several else next(iter(tables.values()))
