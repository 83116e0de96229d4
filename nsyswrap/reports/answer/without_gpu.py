"""What a capture without GPU work holds instead: NVTX ranges, calls of the OS, MPI, OpenMP and CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.no_gpu_work import no_gpu_work
from nsyswrap.analysis.no_gpu_work.evidence import run_facts
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import printable, shorten
from nsyswrap.base.units import duration
from nsyswrap.reports import find_report
from nsyswrap.reports.answer.line import Line, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.capture import Capture

# Reports with the total time of each name, the name in their last column.
_SUMMARIES = {
    "nvtx_sum": "NVTX ranges",
    "osrt_sum": "OS runtime calls",
    "mpi_event_sum": "MPI calls",
    "openmp_sum": "OpenMP",
    "openacc_sum": "OpenACC",
    "cuda_api_sum": "CUDA API calls",
}
_NAMES = 3  # of each summary
_NAME_WIDTH = 30


def without_gpu_lines(capture: Capture) -> Iterator[Line]:
    """Yield why there is no GPU work, and the names with the most time of everything else."""
    if capture.view.selection.narrows:
        yield Line("No GPU work in the selection", "verdict", "bad")
    else:
        cause = no_gpu_work(capture.whole, run_facts(capture.source))[0]
        yield Line(printable(str(cause)), "verdict", "bad", heading="No GPU work")
    for name, title in _SUMMARIES.items():
        yield from _longest(capture, name, title)


def _longest(capture: Capture, report: str, title: str) -> Iterator[Line]:
    try:
        table = find_report(report).make(capture)
    except NotInCapture:
        return
    names, totals = table.columns[-1].name, table.data["total_ns"]
    rows = [(name, ns) for name, ns in zip(table.data[names], totals, strict=True) if ns > 0][:_NAMES]
    if not rows:
        return
    # nsys puts the domain and a colon before a range; nothing before the colon is the default domain
    texts = [
        f"{shorten(printable(str(name)).removeprefix(':'), _NAME_WIDTH)} {duration(ns)}" for name, ns in rows
    ]
    more = report if len(table) > len(rows) else ""
    lines = [
        Line(f"{title}: {', '.join(texts[:count])}", "fact", report=more)
        for count in range(len(texts), 0, -1)
    ]
    yield first_line(lines)
