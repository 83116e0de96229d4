"""The columns in front of every table: what tells a run apart, and its parameters, a column each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nsyswrap.base.units import Unit
from nsyswrap.reports.table import Column

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nsyswrap.reports.runs.find import Run

_PREFIX = "parameter_"
_LARGEST = 2**63

RUN = Column("run", "Run", Unit.TEXT, "run folder or capture, as short as tells it from the others")
LABEL = Column(
    "label", "Label", Unit.TEXT, "what the plan calls the combination; of what was not planned, the run"
)
BATCH = Column("batch", "Batch", Unit.TEXT, "folder of the batch, where there are several")
REPEAT = Column("repeat", "Repeat", Unit.NUMBER, "which of the repeats of its combination")


class Parameters:
    """The parameters of runs as columns, in the order they first occur; of several batches the batch first.

    A column of numbers alone is one of numbers, any other one of texts. A parameter with the name of a column
    in ``taken`` is called ``parameter_<name>``.
    """

    def __init__(self, runs: Sequence[Run], taken: Collection[str]) -> None:
        """Look at every run's parameters."""
        kinds: dict[str, set[type]] = {}
        for run in runs:
            for name, value in (run.parameters or {}).items():
                kinds.setdefault(name, set()).add(type(plain(value)))
        self._kinds = {name: _kind(found) for name, found in kinds.items()}
        self._batch = any(run.batch for run in runs)
        columns = [BATCH] if self._batch else []
        for name, kind in self._kinds.items():
            used = {*taken, *(column.name for column in columns)}
            columns.append(_column(name, used, Unit.TEXT if kind is str else Unit.NUMBER))
        self.columns = tuple(columns)

    def of(self, run: Run) -> tuple[object, ...]:
        """Return the value of each column; None where the run has no such parameter."""
        batch = (run.batch or None,) if self._batch else ()
        values = ((plain((run.parameters or {}).get(name)), kind) for name, kind in self._kinds.items())
        return (*batch, *(None if value is None else kind(value) for value, kind in values))


def combination(run: Run) -> str:
    """Return what is the same for all repeats of a combination, and differs between two.

    What was not planned repeats nothing: it is a combination of its own.
    """
    facts = [run.batch, run.what, run.parameters or {}] if run.planned else [run.label]
    return json.dumps(facts, sort_keys=True)


def plain(value: object) -> int | float | str | None:
    """Return a parameter as a number or a text that any file can hold."""
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST:
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "backslashreplace").decode()


def _kind(found: set[type]) -> type:
    """Return what all the values of a parameter can be written as."""
    return next((kind for kind in (str, float) if kind in found), int)


def _column(name: str, used: Collection[str], unit: Unit) -> Column:
    shown = str(plain(name))
    unique = shown
    while unique in used:
        unique = _PREFIX + unique
    return Column(unique, shown, unit, "parameter of the plan")
