"""Who is timed: each answers from the same export, in a process of its own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from made_ranges import add_ranges
from measure import Cost, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.base.nsys.find import Nsys

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "nsyswrap" / "recorded" / "add2" / "both"
KERNELS = "cuda_gpu_kern_sum"
SUMMARIES = (KERNELS, "cuda_api_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_kern_exec_sum")
# All five summaries; that of the kernels alone, and what comes near to it; what is short, and its measure.
NSYS, OURS = "nsys stats", "nsyswrap"
OURS_ALONE, PANDAS, NSYS_AI = "nsyswrap (kernels)", "pandas (kernels)", "nsys-ai (top kernels)"
SCREEN, IMPORT_PANDAS = "nsyswrap report add2/both", "import pandas"
# Two runs are compared, read as a default screen reads one; and both with NVTX ranges in them.
REPORT, COMPARE, COMPARE_RANGES = "nsyswrap report", "nsyswrap compare", "nsyswrap compare (NVTX)"
HELP, IMPORT_CLICK = "nsyswrap --help", "import click"


@dataclass(frozen=True)
class Contender:
    """What is run: ``argv(export, folder)`` may write into the folder, and into an export that is its own."""

    name: str
    argv: Callable[[Path, Path], list[str]]
    own_copy: bool = False


def on_export(nsys: Nsys) -> list[Contender]:
    """Return those that summarize an export; nsys-ai only where it is installed."""
    found = [
        Contender(NSYS, lambda export, folder: by_nsys(nsys, export, folder)),
        Contender(OURS, lambda export, folder: by_us(nsys, SUMMARIES, export, _one_file(folder))),
        Contender(OURS_ALONE, lambda export, folder: by_us(nsys, [KERNELS], export, _one_file(folder))),
        Contender(PANDAS, by_pandas),
    ]
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    # nsys-ai writes indexes into what it reads. Offline its time is that of trying to download what it lacks.
    if program := shutil.which("nsys-ai", path=places):
        top = [program, "skill", "run", "top_kernels"]
        found.append(Contender(NSYS_AI, lambda export, _: [*top, str(export)], own_copy=True))
    return found


def on_two_exports() -> list[Contender]:
    """Return the comparison of an export with a copy, after the screen that it is held against."""
    return [
        Contender(REPORT, lambda export, _: [sys.executable, "-m", "nsyswrap", "report", str(export)]),
        Contender(COMPARE, _compare),
        Contender(
            COMPARE_RANGES, lambda export, folder: _compare(export, folder, ranges=True), own_copy=True
        ),
    ]


def _compare(export: Path, folder: Path, *, ranges: bool = False) -> list[str]:
    if ranges:
        add_ranges(export)
    other = shutil.copy(export, folder / "new.sqlite")
    return [sys.executable, "-m", "nsyswrap", "compare", str(export), str(other)]


def at_the_start() -> list[Contender]:
    """Return what is short, each before the import that it is held against."""
    python, ours = [sys.executable, "-c"], [sys.executable, "-m", "nsyswrap"]
    return [
        Contender(SCREEN, lambda *_: [*ours, "report", str(SMALL)]),
        Contender(IMPORT_PANDAS, lambda *_: [*python, IMPORT_PANDAS]),
        Contender(HELP, lambda *_: [*ours, "--help"]),
        Contender(IMPORT_CLICK, lambda *_: [*python, IMPORT_CLICK]),
    ]


def by_nsys(nsys: Nsys, export: Path, folder: Path) -> list[str]:
    """Write ``folder``/x_<report>.csv."""
    said = ["stats", "-q", *_asked(SUMMARIES), "--format=csv", f"--output={folder / 'x'}"]
    return [nsys.path, *said, str(export)]


def by_us(nsys: Nsys, reports: Sequence[str], export: Path, into: Sequence[str]) -> list[str]:
    """Write the reports as this nsys rounds and names."""
    rounding = "2025" if nsys.release >= (2025,) else "legacy"
    ours = [sys.executable, "-m", "nsyswrap", "report", str(export), *_asked(reports)]
    return [*ours, *into, f"--rounding={rounding}"]


def by_pandas(export: Path, folder: Path) -> list[str]:
    """Write the kernel summary into ``folder``, unrounded."""
    script = Path(__file__).with_name("with_pandas.py")
    return [sys.executable, str(script), str(export), str(folder / f"{KERNELS}.csv")]


def timed(contenders: Sequence[Contender], export: Path, rounds: int, scratch: Path) -> dict[str, list[Cost]]:
    """Run each in turn, ``rounds`` times over, so that what else the machine does hits all alike."""
    costs: dict[str, list[Cost]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            with tempfile.TemporaryDirectory(dir=scratch) as name:
                folder = Path(name)
                read = Path(shutil.copy(export, folder)) if contender.own_copy else export
                costs[contender.name].append(measured(contender.argv(read, folder), environment()))
    return costs


def environment() -> dict[str, str]:
    """Return variables with which a child imports this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def _one_file(folder: Path) -> list[str]:
    return ["--format=csv", f"--output={folder / 'all.csv'}"]


def _asked(reports: Sequence[str]) -> list[str]:
    return [argument for report in reports for argument in ("-r", report)]
