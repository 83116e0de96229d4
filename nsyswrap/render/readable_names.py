"""Readable kernel names for screens: tables in which different kernels never share a name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import alike

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nsyswrap.reports.table import Table

with lazy_imports():
    from nsyswrap.analysis import kernel_names


def readable_tables(tables: Sequence[Table]) -> list[Table]:
    """Return the tables with readable kernel names, each kernel with one name in all of them."""
    columns = [(table, column) for table in tables for column in table.columns if column.kernels]
    readable = distinct_names(
        {text for table, column in columns for text in table.names(column) if text is not None}
    )
    return [_renamed(table, readable) for table in tables]


def _renamed(table: Table, readable: Mapping[str, str]) -> Table:
    columns = [column.name for column in table.columns if column.kernels]
    texts, others = (
        {name: [text and readable[text] for text in names[name]] for name in columns if name in names}
        for names in (table.data, table.other_names)
    )
    return replace(table, data={**table.data, **texts}, other_names=others)


def distinct_names(names: Iterable[str]) -> dict[str, str]:
    """Return the readable form of each name. Equal readable forms are numbered in the order of the names."""
    readable = {name: readable_name(name) for name in sorted(names)}
    for group in alike(readable):
        readable.update({name: f"{readable[name]} #{number}" for number, name in enumerate(group, 1)})
    for group in alike(readable):  # a full name may equal a numbered one
        readable.update({name: name for name in group})
    return readable


def readable_name(name: str) -> str:
    """Return the readable form of a kernel name; an NVTX range before it stays."""
    head, slash, tail = name.rpartition("/")
    return head + slash + kernel_names.readable(tail)
