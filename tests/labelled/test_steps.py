"""The steps of programs with known loops: their label, their number and their time."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered import renamed, scaled
from labels import HERE, read_entries

from nsyswrap.analysis.gpu_operations import gpu_operations_of
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

every = pytest.mark.parametrize("name", RECORDED)


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


@every
def test_steps_are_disjoint_and_hold_what_is_launched_in_them(name: str, folder: Path) -> None:
    capture = open_capture(unpacked(name, folder))
    ends = gpu_operations_of(capture).end_ns
    for of_process in steps_of(capture):
        for steps in (of_process, *of_process.others):
            assert (steps.end_ns >= steps.start_ns).all()
            assert (steps.start_ns[1:] >= steps.end_ns[:-1]).all()
            assert not len(steps) or steps.start_ns[0] < ends.max()
        if of_process.found:
            spans = np.array(of_process.stretches)
            inside = int(of_process.duration_ns[of_process.steady].sum())
            assert int((spans[:, 1] - spans[:, 0]).sum()) == inside


def said(path: Path, factor: float = 1) -> list[Any]:
    return [
        (one.steady.tolist(), one.warm_up, (one.duration_ns / factor).round(-1).tolist())
        for one in steps_of(open_capture(path))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED[::3])
def test_another_clock_changes_nothing(name: str, folder: Path, tmp_path: Path) -> None:
    path = unpacked(name, folder)
    assert said(scaled(path, tmp_path / "longer.sqlite", 10), 10) == said(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECORDED if "range" in LABELS[name]][::2])
def test_other_names_change_no_marked_step(name: str, folder: Path, tmp_path: Path) -> None:
    path = unpacked(name, folder)
    if LABELS[name]["range"].count("*"):
        pytest.skip("the numbers in its names are what makes them steps")
    assert said(renamed(path, tmp_path / "renamed.sqlite")) == said(path)
