"""List the sections of the page. To add one, write a module with a ``SECTION`` and add its name here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.render.page.html import Section
    from nsyswrap.render.page.subject import Subject

# From the top of the page to the bottom.
NAMES = (
    "ranks",
    "answer",
    "findings",
    "steps",
    "timeline",
    "kernels",
    "classes",
    "ranges",
    "gpu_gaps",
    "latency",
    "copies",
    "figures",
    "conditions",
    "head",
)


def all_sections() -> list[Section[Subject]]:
    """Return the sections of ``NAMES`` in the order of the page."""
    return [importlib.import_module(f"{__name__}.{name}").SECTION for name in NAMES]
