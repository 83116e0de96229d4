"""Render a comparison as one self-contained HTML page that needs no network."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nsyswrap.base.text import without_folders
from nsyswrap.render.page.document import document

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.render.page.html import Section

# The sections from the top of the page to the bottom. To add one, write a module with a ``SECTION``.
NAMES = ("conclusion", "growth", "step", "median", "rows", "setups")


def compare_page(comparison: Comparison) -> str:
    """Return the page: the conclusion, what grew and shrank, both steps by cause, and all rows."""
    sections: list[Section[Comparison]] = [
        importlib.import_module(f"{__name__}.{name}").SECTION for name in NAMES
    ]
    made = ((section.anchor, section.name, section.make(comparison)) for section in sections)
    return document(
        without_folders(f"{comparison.base.name} → {comparison.new.name}"),
        [(anchor, name, markup) for anchor, name, markup in made if markup is not None],
        styles=("page.css", "compare.css"),
    )
