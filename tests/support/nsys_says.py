"""What the nsys on this machine says of an export, and what we say, in the same form."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from waiting import PATIENCE_S

from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Rounding, TimeUnit
from nsyswrap.render.formats import csv
from nsyswrap.reports import parse

RULES = (
    "cuda_memcpy_async",
    "cuda_memcpy_sync",
    "cuda_memset_sync",
    "cuda_api_sync",
    "gpu_gaps",
    "gpu_time_util",
)
# Those that name kernels: they take :base, :mangled and :nvtx-name. Where an export is older than green
# contexts, nsys makes no report that it is asked for after cuda_gpu_trace.
NAMED = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_sum",
    "cuda_api_gpu_sum",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "cuda_gpu_trace",
)
UNITS: dict[TimeUnit, str] = {"ns": "nsec", "us": "usec", "ms": "msec", "s": "sec"}


def era_of(nsys: str) -> Rounding:
    """The era of an nsys: how it rounds and names."""
    said = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    return "2025" if int(said.split("version ")[1][:4]) >= 2025 else "legacy"


def said_by(  # noqa: PLR0913 - all that nsys can be asked for
    nsys: str, export: Path, reports: Sequence[str], unit: TimeUnit = "ns", *, time: str = "", nvtx: str = ""
) -> dict[str, str]:
    """Return what `nsys stats` and `nsys analyze` write, by report as it was asked for; empty: skipped.

    ``time`` and ``nvtx`` are what --filter-time and --filter-nvtx take.
    """
    out = export.parent / f"nsys-{unit}-{len(list(export.parent.iterdir()))}"
    for report in reports:  # a filter is a part of the file's name, slashes too
        (out / f"x_{report.partition(':')[0]}_nvtx={nvtx}").parent.mkdir(parents=True, exist_ok=True)
    filters = [f"--filter-{key}={text}" for key, text in (("time", time), ("nvtx", nvtx)) if text]
    said = ["-q", "--format=csv", f"--output={out / 'x'}", f"--timeunit={UNITS[unit]}", *filters]
    for command in ("stats", "analyze"):
        asked = [name for name in reports if (name.split(":")[0] in RULES) == (command == "analyze")]
        wanted = [argument for report in asked for argument in ("-r", report)]
        if asked:
            subprocess.run(
                [nsys, command, *said, *wanted, export], check=True, capture_output=True, timeout=PATIENCE_S
            )
    named = re.escape(nvtx).replace("/", "[/-]")  # nsys 2025 writes no slash
    filtered = rf"_start=-?\d+_end=-?\d+|_nvtx={named}" if filters else "$"
    files = {str(file.relative_to(out)): file for file in out.rglob("*.csv")}
    written = {
        re.sub(filtered, "", name.removeprefix("x_").removesuffix(".csv")): file.read_text(encoding="utf-8")
        for name, file in files.items()
    }
    return {name: written[name.replace(":", "_")] for name in reports}


def made_by_us(capture: CaptureReader, asked: str, rounding: Rounding, unit: TimeUnit = "ns") -> str:
    """Return our CSV of a report, in nsys' way of asking for it; nothing where it has no rows."""
    try:
        table = parse(asked).make(capture.viewed(rounding=rounding))
    except NotInCapture:
        return ""
    [content] = csv.render([table], time_unit=unit).values()
    return content if len(table) else ""
