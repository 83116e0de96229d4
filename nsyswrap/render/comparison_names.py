"""Names of the rows of a comparison that fit into a sentence and a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import shorten_all
from nsyswrap.render.row_names import row_names

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison, Key

_WIDEST = 60  # columns


def short_names(comparison: Comparison) -> dict[Key, str]:
    """Return a name for each row; names that differ stay different."""
    names = row_names(pair.key for pair in comparison.pairs)
    different = list(dict.fromkeys(names.values()))
    short = dict(zip(different, shorten_all(different, _WIDEST), strict=True))
    return {key: short[name] for key, name in names.items()}
