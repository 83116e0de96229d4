"""The labelled set is complete, its labels name known findings, and its programs vary as they should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from labels import FINDINGS, FOLDERS, HERE, KEYS, PROGRAMS, Label, read_labels

SETS = {folder: read_labels(folder) for folder in FOLDERS}
LABELS = [label for labels in SETS.values() for label in labels.values()]
SHARED = {"common", "pieces"}  # files that programs import or include
START_UP = re.compile(r"\bstart_up\((\d+(?:\.\d+)?)\)")
RANGE = re.compile(r"(?:nvtx\.range|nvtx\.annotate|nvtxRangePushA|nvtxRangePush)\(\"([^\"]+)\"")

each = pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)


def source(label: Label) -> str:
    return label.program.read_text(encoding="utf-8")


def ranges(folder: Path) -> set[str]:
    return {name for label in SETS[folder].values() for name in RANGE.findall(source(label))}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_program_has_a_label_and_every_label_a_program(folder: Path) -> None:
    programs = {
        path.name
        for path in (folder / PROGRAMS).iterdir()
        if path.suffix in {".py", ".cu"} and path.stem not in SHARED
    }
    assert {label.program.name for label in SETS[folder].values()} == programs


def test_names_are_unique() -> None:
    assert len({label.name for label in LABELS}) == len(LABELS)


@each
def test_a_label_names_known_findings_once(label: Label) -> None:
    named = [label.first, label.then, *label.accept, *label.never]
    given = [name for name in named if name]
    assert set(given) <= FINDINGS
    assert len(set(given)) == len(given)


@each
def test_a_label_is_whole(label: Label) -> None:
    assert label.never
    assert label.steps >= 0
    assert label.gpus >= 1
    assert label.first or not (label.then or label.accept)  # a healthy program has no second cause
    assert re.fullmatch(r"\S.*\.", label.why)


@each
def test_a_label_agrees_with_the_source_on_start_up_and_ranges(label: Label) -> None:
    seconds = [float(number) for number in START_UP.findall(source(label))]
    assert bool(seconds) == label.startup
    assert all(1.5 <= number <= 3.5 for number in seconds)
    assert bool(RANGE.findall(source(label))) == label.nvtx


@pytest.mark.parametrize(("folder", "least"), [(FOLDERS[0], 24), (FOLDERS[1], 8)], ids=("first", "held_out"))
def test_a_set_varies(folder: Path, least: int) -> None:
    labels = SETS[folder].values()
    assert len(labels) >= least
    assert 2 * sum(label.startup for label in labels) >= len(labels)
    assert 3 * sum(not label.nvtx for label in labels) >= len(labels)


def test_a_quarter_of_the_programs_is_healthy() -> None:
    assert 4 * sum(not label.first for label in LABELS) >= len(LABELS)


def test_two_causes_and_two_ranks_are_among_them() -> None:
    labels = SETS[HERE].values()
    assert sum(bool(label.then) for label in labels) >= 2
    assert any(label.gpus == 2 for label in labels)


def test_the_sets_share_no_range_names() -> None:
    first, held_out = map(ranges, FOLDERS)
    assert first
    assert held_out
    assert not first & held_out


def test_most_findings_stand_first_somewhere() -> None:
    first = {label.first for label in SETS[HERE].values()} - {""}
    # Wrong timing and damaged captures have captures of their own among the tests of their reports. What a
    # busy GPU could save, and garbage collection, have a set of their own.
    elsewhere = {
        "garbage_collection",
        "unfused_attention",
        "parameter_updates",
        "casts",
        "layout_copies",
        "elementwise_chains",
        "last_wave",
        "copy_bound",
        "timed_launch_only",
        "timed_earlier_work",
        "lost_events",
        "faulting_kernels",
        "waiting_for_pages",
    }
    assert first == FINDINGS - elsewhere


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.toml").write_text('[one]\nprogram = "one.py"\nfrist = ""\n', encoding="utf-8")
    with pytest.raises(TypeError, match="frist"):
        read_labels(tmp_path)


def test_the_keys_of_labels_stand_in_the_readme() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    assert {key for key in KEYS if f"`{key}`" not in readme} == set()
