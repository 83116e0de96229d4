"""List the sections of the page. To add one, write a function that makes it, and add its line here."""

from __future__ import annotations

from nsyswrap.render.page.html import Section
from nsyswrap.render.page.sections import ranks, steps, summary, tables, timeline

# From the top of the page to the bottom.
SECTIONS = (
    Section("ranks", "Ranks", ranks.ranks),
    Section("answer", "Answer", summary.answer),
    Section("findings", "Findings", summary.findings, of_gpu=True),
    Section("steps", "Steps", steps.steps, of_gpu=True, turn=1),
    Section("timeline", "Timeline", timeline.timeline, turn=2),
    Section("kernels", "Kernels", tables.kernels, of_gpu=True),
    Section("ranges", "Ranges and modules", tables.ranges),
    Section("idle", "GPU idle time", tables.idle, of_gpu=True, turn=1),
    Section("latency", "Launch latency", tables.latency, of_gpu=True),
    Section("copies", "Copies", tables.copies, of_gpu=True),
    Section("conditions", "Conditions", summary.conditions),
    Section("program", "Program and checks", summary.head),
)
