"""The programs with a busy GPU and their labels agree, and the set varies as its README says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from labels import HERE, PROGRAMS, folder_of, read_entries

FOLDERS = (folder_of("gpu_busy"), folder_of("gpu_busy_held_out"))
ENTRIES = [(folder, name, entry) for folder in FOLDERS for name, entry in read_entries(folder).items()]
SHARED = {"common.py", "pieces.cuh"}
KEYS = {"program", "gpus", "healthy", "foreign", "cause", "share", "cure", "steps", "why"}
IMPORTED = r"^(import|from) (transformers|torchvision|lightning|accelerate|jax)\b"
OTHERS = re.compile(IMPORTED + r"|torch\.compile\(|^@torch\.compile|\.compile\(\)", re.MULTILINE)
STEPS = re.compile(r"\bSTEPS(?:, [A-Z_]+)* = (\d+)")
CAUSE = re.compile(r"\bCAUSE = \"(.*)\"")

each = pytest.mark.parametrize(("folder", "name", "entry"), ENTRIES, ids=[name for _, name, _ in ENTRIES])


def source(folder: Path, entry: dict[str, Any]) -> str:
    program: str = entry["program"]
    return (folder / PROGRAMS / program).read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_program_has_a_label_and_every_label_a_program(folder: Path) -> None:
    files = {path.name for path in (folder / PROGRAMS).iterdir() if path.is_file()}
    assert files == SHARED | {entry["program"] for entry in read_entries(folder).values()}


@each
def test_a_label_is_whole(folder: Path, name: str, entry: dict[str, Any]) -> None:
    assert folder in FOLDERS
    assert Path(entry["program"]).stem == name
    assert entry.keys() - {"compile"} == KEYS
    assert ("compile" in entry) == entry["program"].endswith(".cu")
    assert entry["gpus"] == 1
    assert re.fullmatch(r"\S.*\.", entry["why"])


@each
def test_a_healthy_program_has_no_cause_and_another_has_one(
    folder: Path, name: str, entry: dict[str, Any]
) -> None:
    cause = CAUSE.search(source(folder, entry))
    assert entry["cause"] == (cause.group(1) if cause else "")
    assert bool(entry["cause"]) == bool(entry["cure"]) == (not entry["healthy"])
    assert name.startswith("healthy_") == entry["healthy"]
    assert entry["share"] <= 0.1 if entry["healthy"] else entry["share"] >= 0.15


@each
def test_a_label_agrees_with_the_source(folder: Path, name: str, entry: dict[str, Any]) -> None:
    text = source(folder, entry)
    steps = STEPS.search(text)
    assert steps, name
    assert int(steps.group(1)) == entry["steps"]
    assert 20 <= entry["steps"] <= 60
    assert bool(OTHERS.search(text)) == entry["foreign"]


def test_the_set_varies() -> None:
    here, apart = (read_entries(folder).values() for folder in FOLDERS)
    assert sum(entry["healthy"] for entry in here) >= 22
    assert sum(not entry["healthy"] for entry in here) >= 22
    assert sum(entry["healthy"] for entry in apart) == sum(not entry["healthy"] for entry in apart) == 6
    assert 2 * sum(entry["foreign"] for _, _, entry in ENTRIES) >= len(ENTRIES)


def test_no_program_is_in_both_sets() -> None:
    assert len({name for _, name, _ in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("name", sorted(SHARED))
def test_both_sets_share_the_same_pieces(name: str) -> None:
    first, second = ((folder / PROGRAMS / name).read_bytes() for folder in FOLDERS)
    assert first == second


def test_the_keys_of_labels_stand_in_the_readme() -> None:
    readme = (HERE / "gpu_busy" / "README.md").read_text(encoding="utf-8")
    assert {key for key in KEYS if f"`{key}`" not in readme} == set()


def test_the_pairs_of_cures_are_whole() -> None:
    cures = read_entries(HERE / "cures")
    causes = {name.removesuffix("_before") for name in cures if name.endswith("_before")}
    assert cures.keys() == {f"{cause}_{side}" for cause in causes for side in ("before", "after")}
    for name, entry in cures.items():
        cause, _, side = name.rpartition("_")
        assert (entry["program"], entry["arguments"]) == (f"{cause}.py", [side])
    assert causes | {"common"} == {path.stem for path in (HERE / "cures").glob("*.py")}
