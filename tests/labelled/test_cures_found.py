"""What is said before a cure: its cause first, with the ceiling that stands beside the gain in the README."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
from labels import HERE, read_entries

from nsyswrap.analysis.answer import answer_of
from nsyswrap.api import open_capture

FOLDER = HERE / "cures"
PACKED = {path.name.removesuffix(".sqlite.xz"): path for path in sorted((FOLDER / "captures").glob("*.xz"))}
FIRST = {
    "copy_bound": "copy_bound",
    "last_wave": "last_wave",
    "tf32": "fp32_products",
    "update_adam": "parameter_updates",
}
LARGEST = 300_000  # bytes of a recording
ROW = r"^\| {} \|[^|]*\|[^|]*\|[^|]*\|[^|]*\b(\d+) %"


def test_each_recording_is_the_one_before_a_cure() -> None:
    assert {f"{cause}_before" for cause in FIRST} == PACKED.keys()
    assert PACKED.keys() <= read_entries(FOLDER).keys()
    assert all(path.stat().st_size <= LARGEST for path in PACKED.values())


@pytest.mark.parametrize("cause", FIRST)
def test_the_cause_is_first_with_the_ceiling_of_the_table(cause: str, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(lzma.decompress(PACKED[f"{cause}_before"].read_bytes()))
    first = answer_of(open_capture(path)).findings[0]
    said = re.search(ROW.format(cause), (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert said
    assert (first.kind, round(first.ceiling_percent or 0)) == (FIRST[cause], int(said[1]))
