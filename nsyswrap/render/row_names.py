"""Name the rows of a comparison for people: readable kernel names, and states of a GPU in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.readable_names import distinct_names
from nsyswrap.reports.compare.tables import row_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.analysis.compare.model import Key


def row_names(keys: Iterable[Key]) -> dict[Key, str]:
    """Return a name for each row, without the grid of a kernel. Different kernels get different names."""
    every = list(keys)
    kernels = distinct_names({key.name for key in every if key.group == "kernel"})
    return {key: kernels[key.name] if key.group == "kernel" else row_name(key) for key in every}
