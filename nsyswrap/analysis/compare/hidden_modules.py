"""Modules that cannot be compared, as one side did not record the modules inside of them.

The own time of a module is without the modules inside of it. Where those are not recorded, as in a compiled
model or with a smaller depth, it has their time, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from nsyswrap.analysis.compare.model import Side

_DOT = "."


def hidden_modules(base: Side, new: Side) -> frozenset[str]:
    """Return the modules that have others inside on one side alone, and what is inside of them."""
    sides = _modules(base), _modules(new)
    every = sides[0] | sides[1]
    if not all(sides) or _is_one_module(*sides) or _is_one_module(*reversed(sides)):
        return every
    outer = tuple(frozenset(_around(side)) for side in sides)
    closed = {name for name in sides[0] & sides[1] if (name in outer[0]) != (name in outer[1])}
    return frozenset(name for name in every if name in closed or closed.intersection(_outer_names(name)))


def hidden_remarks(base: Side, new: Side) -> Iterable[str]:
    """Yield why modules are not compared, if so."""
    with_modules = [side for side in (base, new) if _modules(side)]
    if len(with_modules) == 1:
        yield f"only {with_modules[0].name} was recorded with --modules: modules are not compared"
    elif hidden := hidden_modules(base, new):
        numbers = f"{len(_modules(base))} and {len(_modules(new))}"
        yield (
            f"the sides have different modules, {numbers}, as with torch.compile or another depth: "
            f"not compared: {counted(len(hidden), 'modules')}"
        )


def _modules(side: Side) -> frozenset[str]:
    return frozenset(key.name for run in side.runs for key in run.rows if key.group == "module")


def _is_one_module(few: AbstractSet[str], many: AbstractSet[str]) -> bool:
    """Return True if ``few`` may be models whose inside is not known. A model is named by its class."""
    return not any(_DOT in name for name in few) and (few < many or any(_DOT in name for name in many))


def _around(names: Iterable[str]) -> Iterable[str]:
    return (outer for name in names for outer in _outer_names(name))


def _outer_names(name: str) -> list[str]:
    """Return the names of the modules that a module may be in: a and a.b for a.b.c."""
    parts = name.split(_DOT)
    return [_DOT.join(parts[:number]) for number in range(1, len(parts))]
