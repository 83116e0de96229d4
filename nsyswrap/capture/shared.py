"""Read a capture as others may see it: without credentials, and without names of people in paths.

``nsyswrap redact`` removes more, from a copy of the file. This is for what is made of a capture and passed
on: pages, plots, Markdown, baselines and metrics. Different names stay different, so that all numbers stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact import places, values
from nsyswrap.capture.redact.search import REMOVED, Search
from nsyswrap.capture.schema import FieldKind, Wanted

_SEARCHED = {schema.EVENTS[kind].table for kind in ("nvtx", "diagnostic")}
_LINE = ":ARGUMENT_"


class SharedNames:
    """Texts as others see them. Different ones stay different: a second ``at redacted`` gets a number."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._redacted: dict[str, str] = {}  # of texts that change, and those with "redacted" in them
        self._originals: dict[str, str] = {}  # of the latter, by what is shown
        self._copies: Counter[str] = Counter()

    @property
    def replaced(self) -> frozenset[str]:
        """What is shown of the texts that were changed."""
        return frozenset(shown for text, shown in self._redacted.items() if shown != text)

    def of(self, texts: Iterable[str]) -> dict[str, str]:
        """Return what is shown of each text that is shown in another form."""
        known = dict.fromkeys(texts)
        changes = self._search.changes([text for text in known if text not in self._redacted])
        unchanged = (text for text in known if text not in changes)  # these keep their names
        for text in (*unchanged, *changes):
            new = changes.get(text, text)
            if REMOVED in new and text not in self._redacted:
                free = new
                while self._originals.setdefault(free, text) != text:
                    self._copies[new] += 1
                    free = f"{new} ({self._copies[new] + 1})"
                self._redacted[text] = free
        return {text: shown for text in known if (shown := self._redacted.get(text, text)) != text}

    def text(self, text: str) -> str:
        """Return a text that is no name as others see it."""
        return self._search.text(text)


class SharedExport:
    """An export whose texts are read as others may see them; everything else is that of the export."""

    def __init__(self, export: Export) -> None:
        self.original = export
        self._arrays: dict[tuple[str, str], NDArray[Any]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the export has
        return getattr(self.original, name)

    @cached_property
    def names(self) -> SharedNames:
        """The texts of the export as others see them."""
        rows = [row for table in places.NAMED_TABLES for row in self._pairs(table)]
        blocks = [value for name, value in rows if value and "ENVIRONMENT" in (name or "").upper()]
        return SharedNames(values.shared_search(blocks))

    @property
    def replaced(self) -> frozenset[str]:
        """What is shown of the texts that were changed."""
        return self.names.replaced

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts of StringIds by id."""
        strings = self.original.strings
        shown = self.names.of(strings.values())
        return {i: shown.get(text, text) for i, text in strings.items()} if shown else strings

    def texts(self, ids: Iterable[int]) -> dict[int, str]:  # noqa: ARG002 - as of an Export
        """Return the texts of StringIds by id: of all, because equal ones are numbered."""
        return self.strings

    def columns(self, table: str, wanted: Wanted) -> list[NDArray[Any]]:
        """Return columns as an export does."""
        columns = self.original.columns(table, wanted)
        if table not in _SEARCHED:
            return columns
        return [
            self._redacted_column(table, name, column) if kind == "text" else column
            for (name, kind), column in zip(wanted, columns, strict=True)
        ]

    def select(
        self, table: str, *wanted: tuple[str, FieldKind], required: bool = True
    ) -> list[tuple[Any, ...]]:
        """Return rows as an export does. Of a command line, arguments that are secrets are replaced."""
        if table == schema.CAPTURE_METADATA and wanted == places.PAIR:
            return self._metadata
        rows = self.original.select(table, *wanted, required=required)
        if table not in _SEARCHED:
            return rows
        shown = self.names.of(cell for row in rows for cell in row if isinstance(cell, str))
        return [tuple(shown.get(cell, cell) for cell in row) for row in rows] if shown else rows

    @cached_property
    def _metadata(self) -> list[tuple[Any, ...]]:
        return _named(self._pairs(schema.CAPTURE_METADATA), self.names.text)

    def release(self, table: str, names: Sequence[str]) -> None:
        """Free columns as an export does."""
        for name in names:
            self._arrays.pop((table, name), None)
        self.original.release(table, names)

    def _pairs(self, table: str) -> list[tuple[Any, ...]]:
        return self.original.select(table, *places.PAIR, required=False)

    def _redacted_column(self, table: str, name: str, column: NDArray[Any]) -> NDArray[Any]:
        if (table, name) not in self._arrays:
            shown = self.names.of(filter(None, column.tolist()))
            made = np.array([shown.get(text, text) for text in column.tolist()], object) if shown else column
            made.flags.writeable = False
            self._arrays[table, name] = made
        return self._arrays[table, name]


def shared_export(export: Export) -> Export:
    """Return an export whose texts are read as others may see them."""
    return export if isinstance(export, SharedExport) else cast("Export", SharedExport(export))


def shared_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line as others may see it."""
    rows = [(f"{_LINE}{i}", word) for i, word in enumerate(words)]
    return tuple(value for _, value in _named(rows, values.shared_search().text))


def _named(rows: Sequence[tuple[Any, ...]], redact: Callable[[str], str]) -> list[tuple[Any, ...]]:
    """Return names and values, of which arguments lack secrets, also those that only others give away."""
    line = {name: value for name, value in rows if name and value and places.ARGUMENT.search(name)}
    secret = dict(places.secret_arguments(line.items()))
    new = {name: REMOVED if name in secret else redact(value) for name, value in line.items()}
    return [(name, new.get(name, value)) for name, value in rows]
