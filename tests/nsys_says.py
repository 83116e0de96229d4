"""What the nsys on this machine says of an export, and what we say, in the same form."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from nsyswrap.errors import NotInCapture
from nsyswrap.formats import csv
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nsyswrap.capture import Capture
    from nsyswrap.units import Rounding, TimeUnit

RULES = (
    "cuda_memcpy_async",
    "cuda_memcpy_sync",
    "cuda_memset_sync",
    "cuda_api_sync",
    "gpu_gaps",
    "gpu_time_util",
)
UNITS: dict[TimeUnit, str] = {"ns": "nsec", "us": "usec", "ms": "msec", "s": "sec"}


def era_of(nsys: str) -> Rounding:
    """The era of an nsys: how it rounds and names."""
    said = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    return "2025" if int(said.split("version ")[1][:4]) >= 2025 else "legacy"


def said_by(
    nsys: str, export: Path, reports: Sequence[str], unit: TimeUnit = "ns", options: Sequence[str] = ()
) -> dict[str, str]:
    """Return what `nsys stats` and `nsys analyze` write, by report as it was asked for; empty: skipped.

    ``options`` are --filter-time and --filter-nvtx of stats; rules take ``:start=N:end=N:nvtx=...`` instead.
    """
    out = export.parent / f"nsys-{unit}-{len(list(export.parent.iterdir()))}"
    out.mkdir()
    for command, asked, more in (
        ("stats", [name for name in reports if name.split(":")[0] not in RULES], options),
        ("analyze", [name for name in reports if name.split(":")[0] in RULES], ()),
    ):
        if asked:
            said = ["-q", "--format=csv", f"--output={out / 'x'}", f"--timeunit={UNITS[unit]}", *more]
            wanted = [argument for report in asked for argument in ("--report", report)]
            subprocess.run(
                [nsys, command, *said, *wanted, export], check=True, capture_output=True, timeout=120
            )
    written = {file.stem.removeprefix("x_"): file.read_text(encoding="utf-8") for file in out.iterdir()}
    return {name: written[name.replace(":", "_")] for name in reports}


def made_by_us(
    capture: Capture, asked: str, rounding: Rounding, unit: TimeUnit = "ns", *, empty: bool = False
) -> str:
    """Return our CSV of a report, in nsys' way of asking for it; nothing where it has no rows.

    ``empty``: a header alone counts, as in what nsys says of a table without rows.
    """
    try:
        table = parse(asked).make(capture.viewed(rounding=rounding))
    except NotInCapture:
        return ""
    [content] = csv.render([table], time_unit=unit).values()
    return content if len(table) or empty else ""
