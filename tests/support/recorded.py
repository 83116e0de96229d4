"""The run folders recorded on a GPU: those that ship with nsyswrap, and those kept for the tests alone."""

import lzma
import shutil
import zipfile
from functools import cache
from pathlib import Path

from nsyswrap.base.run_folder import EXPORT, PROGRAM_OUTPUT

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "nsyswrap" / "recorded"  # what `nsyswrap demo` shows; read as they are
PICTURED = SHIPPED / "add2" / "both"  # what the pictures in docs/ show
KEPT = ROOT / "tests" / "data" / "recorded"  # their exports are compressed
CROSS_CHECKS = ROOT / "tests" / "data" / "cross_check"
GOLDEN = ROOT / "tests" / "data" / "golden"  # scenario/variant.zip: nsys' CSVs
PACKED = f"{EXPORT}.xz"
# What the scenarios are recorded with, for small files. The storm is one that still fills the launch queue.
ARGUMENTS = {
    "ddp": ("--warmup", "1", "--iterations", "4"),
    "copies": ("--warmup", "1", "--iterations", "3"),
    "graphs": ("--warmup", "2", "--iterations", "8"),
    "inference": ("--tokens", "4", "--warmup", "2", "--iterations", "5"),
    "ladder": ("--iterations", "11"),
    "storm": ("--launches", "4000", "--warmup", "0", "--repeat", "1"),
}

# Runs beside a scenario's own, without goldens: the scenario, some of its variants, and what they are given.
BESIDE = {"add2_queued": ("add2", ("second", "none"), ("--n", "16777216", "--warmup", "100", "--queued"))}

# Captures of each kind: kernels of one name and of many, copies, ranks, threads, graphs, streams, a full
# queue.
DOZEN = (
    *("add/grid", "add2/both", "copies/faults", "copies/pinned", "ddp/straggler", "gelu/compile"),
    *("graphs/nodes", "hybrid/threads", "nvtx/host", "overlap/four_streams", "rules/wasteful", "storm/busy"),
)


def write_goldens(name: str, contents: dict[str, bytes]) -> None:
    """Keep what nsys wrote of the run ``scenario/variant``, a CSV by report."""
    path = GOLDEN / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for report, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(f"{report}.csv"), content, zipfile.ZIP_DEFLATED)


@cache
def goldens(name: str) -> dict[str, bytes]:
    """Return what nsys wrote of the run ``scenario/variant``, by report."""
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        return {file.removesuffix(".csv"): archive.read(file) for file in archive.namelist()}


def run_names() -> list[str]:
    """Every recorded run, ``scenario/variant``, those without a capture too."""
    found = [path for folder in (SHIPPED, KEPT) for path in folder.glob(f"*/*/{PROGRAM_OUTPUT}")]
    return sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in found)


def capture_names() -> list[str]:
    """Every recorded run that has a capture."""
    return [name for name in run_names() if (SHIPPED / name).exists() or (KEPT / name / PACKED).exists()]


def golden_names() -> list[str]:
    """Every recorded run of which there is what nsys wrote."""
    return [name for name in capture_names() if name.partition("/")[0] not in BESIDE]


def pictured(kind: str, scratch: Path) -> Path:
    """Return the capture of which docs/ show the plot of this kind. A roofline needs one with shapes."""
    if kind != "roofline":
        return PICTURED
    export = scratch / "resnet.sqlite"
    export.write_bytes(lzma.decompress((ROOT / "tests/data/flops/resnet.sqlite.xz").read_bytes()))
    return export


def run_folder(name: str, scratch: Path) -> Path:
    """Return the run folder ``scenario/variant``; what is packed is unpacked into ``scratch``."""
    if (SHIPPED / name).exists():
        return SHIPPED / name
    return unpacked(KEPT / name, scratch / name)


def unpacked(folder: Path, target: Path) -> Path:
    """Copy a packed run folder to ``target``, unless it is there already, and return that."""
    if target.exists():
        return target
    target.mkdir(parents=True)
    shutil.copy(folder / PROGRAM_OUTPUT, target)
    if (folder / PACKED).exists():
        (target / EXPORT).write_bytes(lzma.decompress((folder / PACKED).read_bytes()))
    return target
