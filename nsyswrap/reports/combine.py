"""Combine the tables of several captures into one, with the capture's label in front of each row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.reports.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.reports.table import Values

CAPTURE = Column("capture", "Capture", Unit.TEXT, "label of the capture")


def combine(tables: Sequence[tuple[str, Table]]) -> Table:
    """Return one table of one report's tables, given with the labels of their captures.

    There must be at least one table, and all of one era. A note that not all tables have names its capture.
    """
    made = [table for _, table in tables]
    schema = replace(made[0].schema, columns=(CAPTURE, *made[0].schema.columns))
    data: dict[str, Values] = {CAPTURE.name: [label for label, table in tables for _ in range(len(table))]}
    for column in made[0].columns:
        data[column.name] = _joined([table.data[column.name] for table in made], column)
    selections = dict.fromkeys(table.selection for table in made if table.selection)
    verdicts = [f"{label}: {table.verdict}" for label, table in tables if table.verdict]
    return replace(
        made[0],
        schema=schema,
        data=data,
        notes=_notes(tables),
        selection=" | ".join(selections),
        verdict=" | ".join(verdicts),
        left_out=sum(table.left_out for table in made),
    )


def _joined(parts: Sequence[Values], column: Column) -> Values:
    if column.unit is Unit.TEXT:
        return [text for part in parts for text in part]
    arrays = [np.asarray(part) for part in parts if len(part)]
    if any(array.dtype.kind == "f" for array in arrays):
        arrays = [_as_floats(array) for array in arrays]
    return np.concatenate(arrays) if arrays else np.asarray(parts[0])


def _as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as floats, with NaN for MISSING."""
    return array if array.dtype.kind == "f" else np.where(array == MISSING, np.nan, array)


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
