"""Several captures in one table: the rows of each in their order, with the capture's label in front."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.folder import EXPORT, REPORT
from nsyswrap.report import Column, Table
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.report import Values

CAPTURE = Column("capture", "Capture", Unit.TEXT, "label of the capture the row is of")
_SUFFIXES = {".sqlite", ".nsys-rep", ".qdrep"}


def together(tables: Sequence[tuple[str, Table]]) -> Table:
    """Return one table of the tables that one report makes of several captures, each with its label.

    At least one is needed, and all of one era. A note that is not of all of them names its capture.
    """
    made = [table for _, table in tables]
    report = replace(made[0].report, columns=(CAPTURE, *made[0].report.columns))
    data: dict[str, Values] = {CAPTURE.name: [label for label, table in tables for _ in range(len(table))]}
    for column in made[0].columns:
        data[column.name] = _joined([table.data[column.name] for table in made], column)
    selections = dict.fromkeys(table.selection for table in made if table.selection)
    verdicts = [f"{label}: {table.verdict}" for label, table in tables if table.verdict]
    return replace(
        made[0],
        report=report,
        data=data,
        notes=_notes(tables),
        selection=" | ".join(selections),
        verdict=" | ".join(verdicts),
    )


def _joined(parts: Sequence[Values], column: Column) -> Values:
    if column.unit is Unit.TEXT:
        return [text for part in parts for text in part]
    arrays = [np.asarray(part) for part in parts if len(part)]
    if any(array.dtype.kind == "f" for array in arrays):
        arrays = [_as_floats(array) for array in arrays]
    return np.concatenate(arrays) if arrays else np.asarray(parts[0])


def _as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """What is missing among integers stays missing among floats."""
    return array if array.dtype.kind == "f" else np.where(array == MISSING, np.nan, array)


def _notes(tables: Sequence[tuple[str, Table]]) -> tuple[str, ...]:
    said: dict[str, list[str]] = {}
    for label, table in tables:
        for note in dict.fromkeys(table.notes):
            said.setdefault(note, []).append(label)
    return tuple(
        text
        for note, labels in said.items()
        for text in ([note] if len(labels) == len(tables) else [f"{label}: {note}" for label in labels])
    )


def labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest labels that tell captures apart: ``runs/a`` and ``runs/b`` are a and b.

    A path that stands there twice gets a number: a, a (2).
    """
    exact = [Path(os.path.abspath(path)).parts for path in paths]  # noqa: PTH100 - symlinks keep their names
    different = len(set(exact))
    short = [_without_file(_given(path)) for path in paths]
    if different > 1:
        short = _without_common_end(short)
    found = _telling_apart(short, different) or _telling_apart(exact, different)
    return _numbered([os.fsencode(label).decode("utf-8", "backslashreplace") for label in found])


def _given(path: Path) -> tuple[str, ...]:
    """Return the parts of a path as the user knows it; what is no name (``.``, ``..``) gets one."""
    plain = os.path.normpath(path)
    return Path(os.path.abspath(path) if plain.startswith(".") else plain).parts  # noqa: PTH100


def _without_file(parts: tuple[str, ...]) -> tuple[str, ...]:
    """A run folder stands for its capture, and a file needs no suffix."""
    *folders, name = parts
    if name in (EXPORT, REPORT) and folders not in ([], [os.sep]):
        return tuple(folders)
    path = Path(name)
    return (*folders, path.stem if path.suffix in _SUFFIXES else name)


def _without_common_end(paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Take off the last parts that all the paths share, where something is left to tell them apart."""
    paths = list(paths)
    while len({parts[-1] for parts in paths}) == 1 < min(map(len, paths)):
        paths = [parts[:-1] for parts in paths]
    return paths


def _telling_apart(paths: Sequence[tuple[str, ...]], different: int) -> list[str]:
    """Join as few of the last parts as tell so many paths apart; nothing where all of them do not."""
    for count in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == different:
            return names
    return []


def _numbered(names: Sequence[str]) -> list[str]:
    made: dict[str, None] = {}  # in order, and quick to look up
    for name in names:
        again = (f"{name} ({number})" for number in range(2, len(names) + 2))
        made[name if name not in made else next(label for label in again if label not in made)] = None
    return list(made)
