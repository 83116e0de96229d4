"""What is said of the arithmetic of programs with a busy GPU: the cause, and nothing of healthy ones."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from labels import HERE, read_entries

from nsyswrap.analysis.advice import products
from nsyswrap.analysis.answer import answer_of
from nsyswrap.api import open_capture

FOLDER = HERE / "gpu_busy"
LABELS = read_entries(FOLDER)
FIRST = {
    "features_float64": "fp64_kernels",
    "gpt2_float32": "fp32_products",
    "gpt2_vocabulary": "misaligned_products",
    "lightning_float32": "fp32_products",
    "odd_width": "misaligned_products",
}
RECORDED = sorted(path.name.removesuffix(".sqlite.xz") for path in (FOLDER / "captures").glob("*.xz"))
KINDS = {check.__name__ for check in products.CHECKS}


@pytest.mark.parametrize("recording", [one for one in RECORDED if LABELS[one]["healthy"] or one in FIRST])
def test_the_cause_is_first_and_healthy_programs_have_none(recording: str, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(lzma.decompress((FOLDER / "captures" / f"{recording}.sqlite.xz").read_bytes()))
    answer = answer_of(open_capture(path))
    kinds = [finding.kind for finding in answer.findings]
    if recording in FIRST:
        assert kinds[0] == FIRST[recording]
    else:
        assert not KINDS.intersection(kinds)


def test_every_cause_of_arithmetic_is_recorded() -> None:
    causes = {one for one in RECORDED if LABELS[one]["cause"].startswith(("FP32 pro", "FP64", "misaligned"))}
    assert causes - FIRST.keys() == {"jax_float64"}  # its events were lost
