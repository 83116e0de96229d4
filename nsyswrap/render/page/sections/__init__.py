"""List the sections of the page. To add one, write a module with a ``SECTION`` and add it here."""

from __future__ import annotations

from nsyswrap.render.page.sections import conditions, kernels, ranges, ranks, steps, summary, tables, timeline

# From the top of the page to the bottom.
SECTIONS = (
    ranks.SECTION,
    summary.ANSWER,
    summary.FINDINGS,
    steps.SECTION,
    timeline.SECTION,
    kernels.KERNELS,
    ranges.SECTION,
    tables.IDLE,
    tables.LATENCY,
    tables.COPIES,
    conditions.SECTION,
    summary.HEAD,
)
