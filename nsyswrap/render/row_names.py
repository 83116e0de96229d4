"""Name the rows of a comparison for people: readable kernel names, and states of a GPU in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.render.readable_names import distinct_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.analysis.compare.model import Key

with lazy_imports():
    from nsyswrap.analysis import state_names, step_budget


def row_names(keys: Iterable[Key]) -> dict[Key, str]:
    """Return a name for each row, without the grid of a kernel. Different kernels get different names."""
    every = list(keys)
    kernels = distinct_names({key.name for key in every if key.group == "kernel"})
    return {key: kernels[key.name] if key.group == "kernel" else _name(key) for key in every}


def _name(key: Key) -> str:
    if key.group == "module":
        return f"{key.name}, {key.detail}"
    known = key.group == "budget" and key.name in step_budget.STATES  # a saved baseline may have others
    return state_names.state_name(key.name) if known else key.name
