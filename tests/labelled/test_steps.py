"""The steps of programs with known loops: their label, their number and their time."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

import pytest
from labels import HERE, read_entries
from sampled import sampled

from nsyswrap.analysis.steps import Steps, steps_of
from nsyswrap.api import open_capture

FOLDER = HERE / "steps"
CAPTURES = FOLDER / "captures"
LABELS = read_entries(FOLDER)
RECORDED = sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.xz"))
TRUTH = json.loads((CAPTURES / "truth.json").read_text(encoding="utf-8"))
LARGEST = 300_000  # bytes of a recording
COUNTED = 0.05  # of the steps may be missed or found in addition: an unmarked first or last one
# What is said of these is known to be wrong, or cannot be told.
UNKNOWN = {"recompiling", "whisper_one_shot"}

every = sampled("name", RECORDED, fast=8)


@cache
def unpacked(name: str, folder: Path) -> Path:
    packed = (CAPTURES / f"{name}.sqlite.xz").read_bytes()
    assert len(packed) <= LARGEST
    path = folder / f"{name}.sqlite"
    path.write_bytes(lzma.decompress(packed))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("steps")


def longest(path: Path) -> Steps:
    """Return the steps of the process with the longest ones."""
    return max(steps_of(open_capture(path)), key=lambda steps: int(steps.duration_ns.sum()))


def judged(name: str) -> tuple[str, int]:
    """Return the label of the loop that a human would judge, and its count in the recording."""
    label = LABELS[name]
    counts = {loop["label"]: loop["count"] for loop in label["loops"]}
    return label["judged"], label.get("cut", counts.get(label["judged"], 0))


def test_there_are_enough() -> None:
    assert len(RECORDED) >= 20
    assert set(RECORDED) <= LABELS.keys()
    assert TRUTH.keys() == set(RECORDED)


@every
def test_the_loop_that_a_human_would_judge_is_judged(name: str, folder: Path) -> None:
    steps, (_, count) = longest(unpacked(name, folder)), judged(name)
    if name in UNKNOWN:
        pytest.skip("not to be told from the capture")
    assert abs(len(steps) - count) <= max(2, COUNTED * count)
    if "range" in LABELS[name]:
        assert (steps.label, len(steps)) == (f"'{LABELS[name]['range']}'", count)


@pytest.mark.parametrize(
    "name", [name for name in RECORDED if "range" in LABELS[name] and "cut" not in LABELS[name]]
)
def test_steps_last_as_long_as_the_program_measured(name: str, folder: Path) -> None:
    steps = longest(unpacked(name, folder))
    seconds = TRUTH[name][judged(name)[0]]
    assert int(steps.duration_ns.sum()) * 1e-9 == pytest.approx(seconds, rel=0.01)
