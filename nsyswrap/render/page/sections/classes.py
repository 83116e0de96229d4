"""The kernel class section: the kernel time of each capture, as a bar split by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.base.units import duration, percent
from nsyswrap.render import colors
from nsyswrap.render.page.bars import Part, stacked_bar
from nsyswrap.render.page.html import Section, empty, missing, section
from nsyswrap.render.page.tables import folded_table

if TYPE_CHECKING:
    from nsyswrap.render.page.html import Markup
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table


def classes(subject: Subject) -> Markup:
    """Return a bar for each capture. The most kernel time is as wide as the page."""
    tables = subject.tables("kernel_class_sum")
    longest = max((_total(table) for table in tables.values()), default=0)
    bars = (
        stacked_bar(
            subject.heading(label, f"{duration(_total(table))} of kernel time"), _parts(table), longest
        )
        for label, table in tables.items()
        if len(table)
    )
    table = subject.table("kernel_class_sum")
    return section(
        "classes",
        "Kernel classes",
        empty(subject, "kernel_class_sum"),
        *bars,
        folded_table(table) if table is not None else None,
        missing(subject.missing("kernel_class_sum")),
    )


def _total(table: Table) -> int:
    return int(np.asarray(table.data["total_ns"]).sum())


def _parts(table: Table) -> list[Part]:
    shares = np.asarray(table.data["time_percent"]).tolist()
    totals = np.asarray(table.data["total_ns"]).tolist()
    return [
        Part(str(name), total, percent(share), colors.style_of(colors.KERNELS, str(name)))
        for name, total, share in zip(table.data["class"], totals, shares, strict=True)
    ]


SECTION = Section("classes", "Kernel classes", classes, reads=("kernel_class_sum",), of_gpu=True)
