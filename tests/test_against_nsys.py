"""The parity reports equal what the nsys on this machine says, also of captures nobody recorded."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from tiny_export import API, COPY_KINDS, Row, call, kernel, memcpy, memset, opened, row, write

from nsyswrap import open_capture, schema
from nsyswrap.errors import NotInCapture
from nsyswrap.formats import csv
from nsyswrap.reports import NAMES, find

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture import KernelNames
    from nsyswrap.units import Rounding, TimeUnit

pytestmark = pytest.mark.nsys

PARITY = [name for name in NAMES if find(name).layer == "parity"]
NAMED = ("cuda_gpu_kern_sum", "cuda_gpu_sum", "cuda_kern_exec_sum")  # take :base and :mangled
UNITS: dict[TimeUnit, str] = {"ns": "nsec", "us": "usec", "ms": "msec", "s": "sec"}
KERNEL_NAMES: list[str | int] = [
    "a",
    "B",
    "add(int, float *)",
    "Z<(int)4>",
    "é(x)",
    "b, c",
    "Ab",
    "void f(T)",
    7,
    8,
]
CALL_NAMES: list[str | int] = [
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernel",
    "cudaGraphLaunch_v10000",
    "cuMemAlloc_v2",
    9,
    6,
]


@pytest.fixture(scope="module")
def rounding(nsys: str) -> Rounding:
    """The era of this nsys."""
    said = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    return "2025" if int(said.split("version ")[1][:4]) >= 2025 else "legacy"


def said_by(nsys: str, export: Path, reports: list[str], unit: TimeUnit = "ns") -> dict[str, str]:
    """Return what `nsys stats` writes; a report it skips is an empty file."""
    out = export.parent / f"nsys-{unit}"
    out.mkdir()
    asked = [argument for report in reports for argument in ("--report", report)]
    options = ["-q", "--format=csv", f"--output={out / 'x'}", f"--timeunit={UNITS[unit]}"]
    subprocess.run(
        [nsys, "stats", *options, *asked, str(export)], check=True, capture_output=True, timeout=120
    )
    written = {file.stem.removeprefix("x_"): file.read_text(encoding="utf-8") for file in out.iterdir()}
    return {name: next(text for stem, text in written.items() if stem.startswith(name)) for name in PARITY}


def made_by_us(export: Path, name: str, names: KernelNames, rounding: Rounding, unit: TimeUnit) -> str:
    try:
        table = open_capture(export, names=names).report(name, rounding=rounding)
    except NotInCapture:
        return ""
    [content] = csv.render([table], time_unit=unit).values()
    return content if len(table) else ""


def anything(dice: random.Random) -> list[Row]:
    """Rows in which ids repeat, names are missing, and times are equal or none."""

    def span() -> tuple[int, int]:
        start = dice.randrange(1000)
        return start, start + dice.choice((0, dice.randrange(6), dice.randrange(40_000)))

    def ids() -> tuple[int | None, int]:
        return dice.choice([None, *range(8)]), dice.choice([5, 100, 101])

    rows = []
    for _ in range(dice.randrange(1, 30)):
        correlation, pid = ids()
        short, mangled = dice.choice(KERNEL_NAMES), dice.choice([None, *KERNEL_NAMES])
        plain = kernel(dice.choice(KERNEL_NAMES), *span(), correlation, pid=pid, deviceId=dice.randrange(2))
        rows.append(Row(plain.table, {**plain.cells, "shortName": short, "mangledName": mangled}))
    for _ in range(dice.randrange(30)):
        correlation, pid = ids()
        rows.append(call(dice.choice(CALL_NAMES), *span(), correlation, pid=pid, tid=dice.choice([5, 100])))
    rows += [memcpy(dice.randrange(15), *span(), dice.randrange(10**9)) for _ in range(dice.randrange(30))]
    rows += [memset(*span(), dice.randrange(10**5)) for _ in range(dice.randrange(6))]
    labels = [row(COPY_KINDS, id=i, name="", label=label) for i, label in schema.COPY_KINDS.items() if i != 9]
    return [*rows, *labels]


@pytest.mark.parametrize("seed", range(24))
def test_any_capture_in_any_unit_with_any_names(
    seed: int, tmp_path: Path, nsys: str, rounding: Rounding
) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    export = write(tmp_path / "x.sqlite", *anything(dice))
    names: KernelNames = dice.choice(("full", "base", "mangled"))
    unit: TimeUnit = dice.choice(("ns", "us", "ms", "s"))
    suffix = "" if names == "full" else f":{names}"
    asked = [name + (suffix if name in NAMED else "") for name in PARITY]
    for name, text in said_by(nsys, export, asked, unit).items():
        assert made_by_us(export, name, names, rounding, unit) == text


@pytest.mark.parametrize("unit", UNITS)
def test_time_units_to_the_last_digit(unit: TimeUnit, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = random.Random(unit)  # noqa: S311 - no secret
    half = {"ns": 1, "us": 1, "ms": 50, "s": 50_000}[unit]  # what the last digit printed is rounded at
    kernels = []
    for number in range(300):
        duration = dice.randrange(10**5) * 2 * half + half
        kernels += [kernel(f"k{number:03}", 0, duration), kernel(f"k{number:03}", 0, duration + 1)]
    export = write(tmp_path / "x.sqlite", *kernels)
    text = said_by(nsys, export, PARITY, unit)["cuda_gpu_kern_sum"]
    assert made_by_us(export, "cuda_gpu_kern_sum", "full", rounding, unit) == text
    label = {"ns": "(ns)", "us": "(us)", "ms": "(ms)", "s": "(sec)"}[unit]
    assert text.startswith(f"Time (%),Total Time {label},Instances,")


def test_the_launch_of_no_kernel(tmp_path: Path, nsys: str) -> None:
    capture = opened(tmp_path, kernel("k", 5, 9, 1), empty=[API])
    assert said_by(nsys, capture.path, PARITY)["cuda_kern_exec_sum"] == ""
    with pytest.raises(NotInCapture):
        capture.report("cuda_kern_exec_sum")
