"""The kernel section: the table of kernels, to sort and filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.page.html import Section, missing, section
from nsyswrap.render.page.tables import open_table

if TYPE_CHECKING:
    from nsyswrap.render.page.html import Markup
    from nsyswrap.render.page.subject import Subject


def kernels(subject: Subject) -> Markup:
    """Return the table of kernels, or why it is missing."""
    table = subject.table("cuda_gpu_kern_sum")
    return section(
        "kernels",
        "Kernels",
        open_table(table) if table is not None else None,
        missing(subject.missing("cuda_gpu_kern_sum")),
    )


SECTION = Section("kernels", "Kernels", kernels, reads=("cuda_gpu_kern_sum",), of_gpu=True)
