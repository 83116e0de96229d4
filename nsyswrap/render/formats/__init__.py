"""The output formats of ``report --format``, one module each.

A new format is a module that ends with ``FORMAT = Format(...)``, and its name in ``NAMES``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nsyswrap.analysis.answer import Answer
    from nsyswrap.base.errors import UnreadCapture
    from nsyswrap.base.units import TimeUnit
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection
    from nsyswrap.reports.answer import AnswerLine
    from nsyswrap.reports.make import MissingReport
    from nsyswrap.reports.table import Table

    Content = str | bytes | Iterator[bytes]  # an iterator yields a large text in blocks, as UTF-8

NAMES = ("text", "csv", "tsv", "json", "brief", "markdown", "parquet")  # in the order of --help
_SAME = ("csv", "tsv", "json", "parquet")
ENDINGS = {".txt": "text", ".md": "markdown", **{f".{name}": name for name in _SAME}}  # of files


class Layout(
    NamedTuple
):  # a completion in the shell makes these types: as dataclasses they take 5 times as long
    """How tables are laid out. A format reads the fields that it has a use for.

    ``top`` limits the rows of each table. ``csv_safe`` guards cells that a spreadsheet would run as
    formulas, a terminal or GitHub as commands. ``width`` is in terminal columns; ``color`` allows escape
    sequences. ``ascii`` is for a terminal that lacks all other characters.
    """

    top: int | None = None
    time_unit: TimeUnit = "auto"
    csv_safe: bool = False
    width: int = 100
    color: bool = False
    ascii: bool = False


class Document(NamedTuple):
    """Tables to write, the captures they are made of by label, and the reports that are missing.

    ``answers`` are the answers that stand before the tables and their lines, by label of the capture.
    ``job`` is the answer over all ranks, with its lines, if the captures are ranks and no report is named.
    ``not_read`` are the captures that were asked for and cannot be read.
    """

    tables: Sequence[Table]
    captures: Mapping[str, Capture] = MappingProxyType({})
    selection: Selection | None = None
    missing: Sequence[MissingReport] = ()
    answers: Mapping[str, tuple[Answer | None, Sequence[AnswerLine]]] = MappingProxyType({})
    not_read: Sequence[UnreadCapture] = ()
    job: tuple[Answer, Sequence[AnswerLine]] | None = None


class Format(NamedTuple):
    """An output format. ``render`` returns ``{file name: content}``, one file for each table or one for all.

    ``for_people``: kernel names may be shortened to readable ones. ``has_envelope``: the text says what was
    selected and which reports are missing, so that a document without tables is worth writing.
    ``has_answers``: the answer of each capture comes first. ``is_binary``: contents are bytes.
    ``one_table``: programs expect one table, so that reports have to be named. ``without_reports``: the
    content is of captures, not of reports.
    """

    render: Callable[[Document, Layout], Mapping[str, Content]]
    for_people: bool = False
    has_envelope: bool = False
    has_answers: bool = False
    is_binary: bool = False
    one_table: bool = False
    without_reports: bool = False


def in_one(contents: Iterable[Content]) -> Iterator[bytes]:
    """Yield texts one after the other, with an empty line between."""
    separator = b""
    for content in contents:
        yield separator
        if isinstance(content, str):
            yield content.encode("utf-8", "surrogateescape")
        else:
            yield from [content] if isinstance(content, bytes) else content
        separator = b"\n"


def find_format(name: str) -> Format:
    """Return the format with this name, one of ``NAMES``."""
    output_format: Format = importlib.import_module(f"nsyswrap.render.formats.{name}").FORMAT
    return output_format
