"""Write trace events as lines of JSON by filling a template with columns, block by block.

A line is one ``%`` operation on its template, which is much faster than a JSON encoder. Each text is
encoded as JSON once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

BLOCK_ROWS = 20_000  # about 5 MB of text
_NS_PER_US = 1_000


class Texts(NamedTuple):
    """A column of texts that are already JSON: ``texts[codes[i]]``."""

    codes: NDArray[Any]
    texts: Sequence[str]


class Wide(NamedTuple):
    """A column of integers up to 64 bits, written as strings: JavaScript is exact only up to 2^53."""

    values: NDArray[Any]
    form: str = "%d"


Column: TypeAlias = "NDArray[Any] | Texts | Wide"


@dataclass(frozen=True)
class Section:
    """A part of a trace: its title, the number of its events, and their lines in blocks.

    ``kind`` is the kind of event in the capture. It is empty for arrows and counters.
    """

    title: str
    count: int
    blocks: Iterable[str]
    kind: str = ""


def encoded(names: Iterable[str | None]) -> list[str]:
    """Return names as JSON in ASCII. A missing name becomes ``(no name)``."""
    return [json.dumps(name or "(no name)") for name in names]


def micros(ns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return times as the two columns of ``%s.%03d``: whole microseconds and the remaining ns."""
    whole, rest = np.divmod(np.abs(ns), _NS_PER_US)
    if (ns < 0).any():  # nsys records some events before the start of the capture
        return np.array(
            [f"{'-' * (t < 0)}{us}" for t, us in zip(ns.tolist(), whole.tolist(), strict=True)]
        ), rest
    return whole, rest


def argument_slots(arguments: Mapping[str, Sequence[Column]]) -> str:
    """Return the template of the arguments. An argument with several columns is a list."""
    parts = [
        f"{json.dumps(key)}:" + ("%s" if len(columns) == 1 else f"[{','.join(['%s'] * len(columns))}]")
        for key, columns in arguments.items()
    ]
    return f'"args":{{{",".join(parts)}}}'


def lines(template: str, columns: Sequence[Column]) -> Iterator[str]:
    """Yield blocks of lines with commas between them. A line is the template filled with a row."""
    first = columns[0]
    rows = len(first if isinstance(first, np.ndarray) else first[0])
    for start in range(0, rows, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        cells = (_cells(column, part) for column in columns)
        yield ",\n".join(map(template.__mod__, zip(*cells, strict=True)))


def _cells(column: Column, part: slice) -> list[Any]:
    if isinstance(column, Texts):
        return [column.texts[code] for code in column.codes[part].tolist()]
    if isinstance(column, Wide):
        form = f'"{column.form}"'
        return ["null" if value == MISSING else form % value for value in column.values[part].tolist()]
    values: NDArray[Any] = column[part]
    if values.dtype == np.int64 and (values == MISSING).any():
        return ["null" if value == MISSING else value for value in values.tolist()]
    cells: list[Any] = values.tolist()
    return cells
