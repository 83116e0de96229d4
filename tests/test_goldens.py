"""The parity reports equal what nsys itself printed, cell by cell, on real captures.

tests/data/golden holds every CSV that nsys 2025.3 writes of the recorded captures, also of reports that
nsyswrap does not make. The public exports of older formats lie outside this repository: they are compared
where their folder is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recorded import ROOT, capture_names, goldens, run_folder

from nsyswrap import open_capture
from nsyswrap.errors import NotInCapture
from nsyswrap.folder import EXPORT
from nsyswrap.formats import csv
from nsyswrap.reports import NAMES, find

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture import KernelNames
    from nsyswrap.units import Rounding

PUBLIC = ROOT.parent / "shared" / "exports"

PARITY = [name for name in NAMES if find(name).layer == "parity"]
# Golden file: report, and how kernels are called in it.
FILES: dict[str, tuple[str, KernelNames]] = {
    **{name: (name, "full") for name in PARITY},
    "cuda_gpu_kern_sum_base": ("cuda_gpu_kern_sum", "base"),
    "cuda_gpu_kern_sum_mangled": ("cuda_gpu_kern_sum", "mangled"),
}
CAPTURES = capture_names()
RECORDED_GOLDENS = [(name, golden) for name in CAPTURES for golden in goldens(name) if golden in FILES]
PUBLIC_GOLDENS = [
    path for path in sorted(PUBLIC.glob("golden/*/*.csv")) if path.stem in FILES and path.stat().st_size
]


def csv_of(export: Path, golden: str, rounding: Rounding) -> str:
    report, names = FILES[golden]
    [content] = csv.render([open_capture(export, names=names).report(report, rounding=rounding)]).values()
    return content


def printed(golden: bytes) -> str:
    """What nsys printed; to a terminal it adds a blank line."""
    return golden.decode().rstrip("\n") + "\n"


def test_there_are_six_parity_reports_and_none_is_left_out_here() -> None:
    assert len(PARITY) == 6


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.mark.parametrize(("capture", "golden"), RECORDED_GOLDENS)
def test_recorded_captures(capture: str, golden: str, scratch: Path) -> None:
    said = printed(goldens(capture)[golden])
    assert csv_of(run_folder(capture, scratch) / EXPORT, golden, "2025") == said


def test_every_recorded_capture_is_compared() -> None:
    on_the_host_alone = {"nvtx/host"}
    assert {capture for capture, _ in RECORDED_GOLDENS} == set(CAPTURES) - on_the_host_alone


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_nsys_has_no_csv_for_we_have_none_for(capture: str, scratch: Path) -> None:
    opened = open_capture(run_folder(capture, scratch))
    for name in PARITY:
        if name in goldens(capture):
            assert len(opened.report(name))
        else:
            with pytest.raises(NotInCapture):
                opened.report(name)


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
@pytest.mark.parametrize("golden", PUBLIC_GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_public_exports(golden: Path) -> None:
    rounding: Rounding = "2025" if "h200" in golden.parent.name else "legacy"
    export = PUBLIC / f"{golden.parent.name}.sqlite"
    assert csv_of(export, golden.stem, rounding) == printed(golden.read_bytes())


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
def test_the_public_exports_are_all_compared() -> None:
    assert len(PUBLIC_GOLDENS) == 66
    assert len({golden.parent for golden in PUBLIC_GOLDENS}) == 10
