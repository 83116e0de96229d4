"""The parameters of a block: its grid, and its points."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nsyswrap.record.batch.plan.expand import REPEAT, VARIANT
from nsyswrap.record.batch.plan.parameters import PARAMETER, Unusable, Value, of_toml
from nsyswrap.record.batch.plan.toml_table import LIST, TABLES, Table, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NAME = re.compile(PARAMETER)
_AGAIN = "to run the same several times, write repeat = N"


def read(run: Table) -> dict[str, Any]:
    """Return ``grid`` and ``points`` of a [[runs]] as fields of Block; raises PlanError."""
    grid = _grid(run.table("grid"))
    points = _points(run, grid)
    check_names(run, [*grid, *(points[0] if points else ())])
    return {"grid": grid, "points": points}


def _grid(table: Table) -> dict[str, tuple[Value, ...]]:
    found = {name: tuple(_value(table, name, one) for one in table.get(name, LIST)) for name in table.content}
    for name, values in found.items():
        check_different(table, f"{name} =", [value.text for value in values])
    return found


def _points(run: Table, grid: Mapping[str, Any]) -> tuple[dict[str, Value], ...]:
    listed = run.get("points", TABLES, ())
    points = [Table(content, f"{run.where}: point {i}") for i, content in enumerate(listed, 1)]
    _check_points(points, grid)
    found = tuple({name: _value(point, name, one) for name, one in point.content.items()} for point in points)
    texts = [{name: value.text for name, value in sorted(point.items())} for point in found]
    check_different(run, "the point", map(shown, texts))
    return found


def check_different(table: Table, what: str, texts: Iterable[str]) -> None:
    """Refuse a value that stands in a list twice."""
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            table.refuse(f"{what} {text} stands there twice", _AGAIN)
        seen.add(text)


def check_names(run: Table, names: Sequence[str]) -> None:
    """Refuse what cannot be the name of a parameter, or is one without being asked for."""
    for name in names:
        if not _NAME.fullmatch(name):
            run.refuse(
                f"{name!r} cannot be the name of a parameter", "letters, digits, _ and -, a letter first"
            )
        if name == REPEAT or (name == VARIANT and "scenario" in run.content):
            run.refuse(
                f"{name!r} is a parameter already",
                f"{{{name}}} is replaced without being named in grid or points",
            )


def _check_points(points: Sequence[Table], grid: Mapping[str, Any]) -> None:
    """All points have the same parameters, and none of the grid's."""
    for point in points:
        wanted, found = set(points[0].content), set(point.content)
        if not found:
            point.refuse("there is nothing in it", "as in points = [ { block = 128, unroll = 1 } ]")
        if wanted != found:
            odd = ", ".join(sorted(wanted ^ found))
            point.refuse(f"not every point has {odd}", "give each point the same parameters")
        if both := found & set(grid):
            point.refuse(f"{', '.join(sorted(both))} stands in grid too", "leave it in one of the two")


def _value(table: Table, name: str, found: object) -> Value:
    try:
        return of_toml(found)
    except Unusable as error:
        table.refuse(f"{name} = {shown(found)} is {error}")
