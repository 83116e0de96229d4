"""The summary screen: what ran where, whether to trust it, and four tables, in under 50 lines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.analysis.diagnostics.summary_line import trust
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import find_report
from nsyswrap.reports.table import read_ahead

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Table

# Report, rows shown.
SECTIONS = (("cuda_gpu_sum", 10), ("memcpy_bandwidth", 4), ("launch_overhead", 3), ("cuda_api_sum", 5))


@dataclass(frozen=True)
class Summary:
    """The parts of the screen, in order: plain lines, then tables with the number of rows to show.

    ``ending``: how the run ended, if not well.
    """

    ending: str
    command: str
    origin: str
    trust: list[str]
    tables: list[tuple[Table, int | None]]


def summarise(capture: Capture) -> Summary:
    """Make the summary of a capture; tables it cannot answer are left out, and the trust line says why."""
    tables: list[tuple[Table, int | None]] = []
    sections = [(find_report(name), top) for name, top in SECTIONS]
    read_ahead(capture, [report for report, _ in sections])
    for report, top in sections:
        try:
            tables.append((report.make(capture), top))
        except NotInCapture:
            continue
    return Summary(capture.ending, _command(capture), _origin(capture), trust(capture), tables)


def has_gpu_work(capture: Capture) -> bool:
    """Whether anything ran on a GPU."""
    return any(capture.has(kind) for kind in ("kernel", "memcpy", "memset", "graph"))


def _command(capture: Capture) -> str:
    """The command line, its program by name alone: the folder of an interpreter tells nothing."""
    program, *arguments = capture.info.command or ("",)
    return shlex.join([program.rpartition("/")[2], *arguments]) if program else ""


def _origin(capture: Capture) -> str:
    info = capture.info
    parts = [
        _gpus(capture),
        f"driver {info.driver_version}" if info.driver_version else "",
        f"CUDA {info.cuda_version}" if info.cuda_version else "",
        f"nsys {info.exporter_version}" if info.exporter_version else "an nsys before 2022",
    ]
    return " · ".join(part for part in parts if part)


def _gpus(capture: Capture) -> str:
    """Name the GPUs of the machine, and how many of them did something."""
    names = capture.info.gpus
    if not names:
        return "no GPU named"
    counts = {name: names.count(name) for name in names}
    listed = " + ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    used = [device for _, device, _ in gpu_operations_of(capture).by_device()]
    if len(set(used)) < len(used) or not 0 < len(used) < len(names):  # an id is its process'
        return listed
    return f"{len(used)} of {listed}" if len(counts) == 1 else f"{len(used)} of {len(names)} GPUs: {listed}"
