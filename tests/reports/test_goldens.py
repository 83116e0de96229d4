"""The parity reports equal what nsys itself printed, cell by cell, on real captures.

tests/data/golden holds every CSV that nsys 2025.3 writes of the recorded captures. The public exports of
other eras lie outside this repository: they are compared where their folder is there.
"""

import lzma
from functools import cache
from pathlib import Path

import pytest
from recorded import DOZEN, ROOT, golden_names, goldens, run_folder
from sampled import sampled

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.units import Rounding
from nsyswrap.render.formats import csv
from nsyswrap.reports import NSYS, parse

PUBLIC = ROOT.parent / "shared" / "exports"

# Golden file: how the report was asked for.
FILES = {
    **{name: name for name in NSYS},
    "cuda_gpu_kern_sum_base": "cuda_gpu_kern_sum:base",
    "cuda_gpu_kern_sum_mangled": "cuda_gpu_kern_sum:mangled",
    "cuda_gpu_kern_sum_nvtx-name": "cuda_gpu_kern_sum:nvtx-name",
    "gpu_gaps_gap=1": "gpu_gaps:gap=1",
}
CAPTURES = golden_names()
every_capture = sampled("capture", CAPTURES, fast=DOZEN)
RECORDED_GOLDENS = [(name, golden) for name in CAPTURES for golden in goldens(name) if golden in FILES]
PUBLIC_GOLDENS = [path for path in sorted(PUBLIC.glob("golden/*/*.csv*")) if path.stat().st_size]


@cache
def opened(export: Path) -> CaptureReader:
    return open_capture(export)


def csv_of(export: Path, golden: str, rounding: Rounding) -> str:
    table = parse(FILES[golden]).make(opened(export).viewed(rounding=rounding))
    assert table.label == golden
    [content] = csv.render([table]).values()
    return content


def printed(golden: bytes) -> str:
    """What nsys printed; to a terminal it adds a blank line."""
    return golden.decode().rstrip("\n") + "\n"


def test_nothing_is_left_out_here() -> None:
    assert len(NSYS) == 32
    assert {golden for name in CAPTURES for golden in goldens(name)} - FILES.keys() == {"mpi_msg_size_sum"}
    assert FILES.keys() - {golden for _, golden in RECORDED_GOLDENS} == {
        "openacc_sum"
    }  # no runtime to record


@every_capture
def test_recorded_captures(capture: str, scratch: Path) -> None:
    export = run_folder(capture, scratch) / EXPORT
    for golden in (golden for name, golden in RECORDED_GOLDENS if name == capture):
        said = printed(goldens(capture)[golden])
        assert csv_of(export, golden, "2025") == said, golden


@every_capture
def test_what_nsys_has_no_csv_for_we_have_no_rows_for(capture: str, scratch: Path) -> None:
    export = opened(run_folder(capture, scratch) / EXPORT)
    for name in NSYS:
        try:
            rows = len(export.report(name))
        except NotInCapture:
            rows = 0
        assert bool(rows) == (name in goldens(capture)), name


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
@pytest.mark.parametrize(
    "golden",
    PUBLIC_GOLDENS,
    ids=[f"{path.parent.name}-{path.name.partition('.')[0]}" for path in PUBLIC_GOLDENS],
)
@pytest.mark.slow
def test_public_exports(golden: Path) -> None:
    rounding: Rounding = "2025" if "h200" in golden.parent.name else "legacy"
    export = PUBLIC / f"{golden.parent.name}.sqlite"
    content = lzma.decompress(golden.read_bytes()) if golden.suffix == ".xz" else golden.read_bytes()
    assert csv_of(export, golden.name.partition(".")[0], rounding) == printed(content)


@pytest.mark.skipif(not PUBLIC_GOLDENS, reason=f"no public exports in {PUBLIC}")
def test_the_public_exports_are_all_compared() -> None:
    assert len(PUBLIC_GOLDENS) == 134
    assert len({golden.parent for golden in PUBLIC_GOLDENS}) == 11
