"""List the sections of the page. To add one, write a module with a ``SECTION`` and add it here."""

from __future__ import annotations

from nsyswrap.render.page.sections import ranks, steps, summary, tables, timeline

# From the top of the page to the bottom.
SECTIONS = (
    ranks.SECTION,
    summary.ANSWER,
    summary.FINDINGS,
    steps.SECTION,
    timeline.SECTION,
    tables.KERNELS,
    tables.RANGES,
    tables.IDLE,
    tables.LATENCY,
    tables.COPIES,
    summary.CONDITIONS,
    summary.HEAD,
)
