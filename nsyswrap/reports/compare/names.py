"""Name the rows of a comparison in words, but for kernels, whose full names they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Key

with lazy_imports():
    from nsyswrap.analysis import step_budget


def row_name(key: Key) -> str:
    """Return the name of a row: a module with what is measured of it, a state of the GPU in words."""
    if key.group == "module":
        return f"{key.name}, {key.detail}"
    known = key.group == "budget" and key.name in step_budget.STATES  # a saved baseline may have others
    return step_budget.state_name(key.name) if known else key.name
