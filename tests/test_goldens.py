"""The parity reports equal what nsys itself printed, cell by cell, on real captures.

tests/data/golden holds what nsys 2025.3 says of the captures in nsyswrap/recorded. The public exports of
older formats lie outside this repository: they are compared where their folder is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsyswrap import open_capture
from nsyswrap.formats import csv
from nsyswrap.reports import NAMES, find

if TYPE_CHECKING:
    from nsyswrap.capture import KernelNames
    from nsyswrap.units import Rounding

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "data" / "golden"
RECORDED = ROOT / "nsyswrap" / "recorded"
PUBLIC = ROOT.parent / "shared" / "exports"

PARITY = [name for name in NAMES if find(name).layer == "parity"]
# Golden file: report, and how kernels are called in it.
FILES: dict[str, tuple[str, KernelNames]] = {
    **{name: (name, "full") for name in PARITY},
    "cuda_gpu_kern_sum_base": ("cuda_gpu_kern_sum", "base"),
    "cuda_gpu_kern_sum_mangled": ("cuda_gpu_kern_sum", "mangled"),
}
CAPTURES = [
    "add/1x1",
    "add/1x256",
    "add/grid",
    "add/prefetch",
    "add2/both",
    "add2/first",
    "add2/none",
    "add2/second",
]
PUBLIC_GOLDENS = [
    path for path in sorted(PUBLIC.glob("golden/*/*.csv")) if path.stem in FILES and path.stat().st_size
]


def csv_of(export: Path, golden: str, rounding: Rounding) -> str:
    report, names = FILES[golden]
    [content] = csv.render([open_capture(export, names=names).report(report, rounding=rounding)]).values()
    return content


def printed(golden: Path) -> str:
    """What nsys printed; to a terminal it adds a blank line."""
    return golden.read_bytes().decode().rstrip("\n") + "\n"


def test_there_are_six_parity_reports_and_none_is_left_out_here() -> None:
    assert len(PARITY) == 6


def test_every_recorded_capture_is_compared() -> None:
    found = {f"{path.parent.parent.name}/{path.parent.name}" for path in RECORDED.glob("*/*/report.sqlite")}
    assert found == set(CAPTURES)


@pytest.mark.parametrize("golden", FILES)
@pytest.mark.parametrize("capture", CAPTURES)
def test_recorded_captures(capture: str, golden: str) -> None:
    said = printed(GOLDEN / capture / f"{golden}.csv")
    assert csv_of(RECORDED / capture / "report.sqlite", golden, "2025") == said


def test_every_golden_is_compared() -> None:
    files = {path.relative_to(GOLDEN) for path in GOLDEN.glob("*/*/*")}
    assert files == {Path(capture, f"{golden}.csv") for capture in CAPTURES for golden in FILES}


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
@pytest.mark.parametrize("golden", PUBLIC_GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_public_exports(golden: Path) -> None:
    rounding: Rounding = "2025" if "h200" in golden.parent.name else "legacy"
    export = PUBLIC / f"{golden.parent.name}.sqlite"
    assert csv_of(export, golden.stem, rounding) == printed(golden)


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
def test_the_public_exports_are_all_compared() -> None:
    assert len(PUBLIC_GOLDENS) == 66
    assert len({golden.parent for golden in PUBLIC_GOLDENS}) == 10
