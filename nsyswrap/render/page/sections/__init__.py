"""The sections of the page, one module each. A new one is a module with a SECTION and its line in NAMES."""

from __future__ import annotations

# From the top of the page to its end.
NAMES = (
    "head",
    "ranks",
    "verdicts",
    "timeline",
    "kernels",
    "classes",
    "latency",
    "copies",
    "gpu_gaps",
)
