"""The summary screen: what ran where, whether to trust it, and four tables, in under 50 lines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.errors import NotInCapture
from nsyswrap.join import launches
from nsyswrap.report import read_ahead
from nsyswrap.reports import find

if TYPE_CHECKING:
    from nsyswrap.capture import Capture
    from nsyswrap.report import Table

# Report, rows shown.
SECTIONS = (("cuda_gpu_sum", 10), ("memcpy_bandwidth", 6), ("launch_overhead", None), ("cuda_api_sum", 5))
_DIAGNOSTICS_SHOWN = 2


@dataclass(frozen=True)
class Summary:
    """The parts of the screen, in order: plain lines, then tables with the number of rows to show."""

    command: str
    origin: str
    trust: list[str]
    tables: list[tuple[Table, int | None]]


def summarise(capture: Capture) -> Summary:
    """Make the summary of a capture; tables it cannot answer are left out, and the trust line says why."""
    tables: list[tuple[Table, int | None]] = []
    sections = [(find(name), top) for name, top in SECTIONS]
    read_ahead(capture, [report for report, _ in sections])
    for report, top in sections:
        try:
            tables.append((report.make(capture), top))
        except NotInCapture:
            continue
    return Summary(_command(capture), _origin(capture), trust(capture), tables)


def trust(capture: Capture) -> list[str]:
    """Say what was seen, what nsys warns of, and what of it is missing."""
    lines = [f"seen: {', '.join(_seen(capture))} · {_diagnosis(capture)}"]
    lines += [f"  nsys: {diagnostic.text}" for diagnostic in capture.diagnostics[:_DIAGNOSTICS_SHOWN]]
    graphs = capture.count("graph")
    if graphs:
        lines.append(
            f"  {graphs:,} whole-graph executions hide their kernels here: profile with --graphs node"
        )
    return lines


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
    kinds = [kind for kind in ("kernel", "memcpy", "memset") if capture.has(kind)]
    used = {
        int(device) for kind in kinds for device in np.unique(capture.columns(kind, "device_id")["device_id"])
    }
    if not 0 < len(used) < len(names):
        return listed
    return f"{len(used)} of {listed}" if len(counts) == 1 else f"{len(used)} of {len(names)} GPUs: {listed}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _seen(capture: Capture) -> list[str]:
    kernels = _count(capture.count("kernel"), "kernel") + _launch_note(capture)
    copies, memsets = (
        _count(capture.count("memcpy"), "copy", "copies"),
        _count(capture.count("memset"), "memset"),
    )
    return [kernels, copies, memsets, _count(capture.count("api"), "API call")]


def _launch_note(capture: Capture) -> str:
    if not capture.has("kernel"):
        return ""
    if not capture.has("api"):
        return " (no launch calls recorded)"
    pairs = launches(capture)
    calls = len(np.unique(pairs.api))
    lost = f", {pairs.without_call:,} without their call" if pairs.without_call else ""
    return f" from {_count(calls, 'launch', 'launches')}{lost}"


def _diagnosis(capture: Capture) -> str:
    if not capture.has("diagnostic"):
        return "this export carries no diagnostics"
    losses = sum(diagnostic.loss for diagnostic in capture.diagnostics)
    warnings = len(capture.diagnostics)
    dropped = f"{losses} about missing events" if losses else "no dropped events reported"
    return f"{_count(warnings, 'warning') if warnings else 'no warnings'}, {dropped}"
