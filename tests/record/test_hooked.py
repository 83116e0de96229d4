"""What the notes of the hook say about a run: which steps were recorded, and why some were not."""

import json
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.record.hooked import (
    HookNotes,
    MissingFunction,
    python_path,
    read,
    shortfall,
    variables,
    why_none,
)


def write(folder: Path, **processes: Any) -> None:
    for number, facts in enumerate(processes.values()):
        text = facts if isinstance(facts, str) else json.dumps(facts)
        (folder / f"{number + 10}.json").write_text(text)


def test_the_process_that_recorded_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        launcher={"pid": 1, "torch": True},
        other={"steps": 90, "torch": True},
        own={"steps": 20, "first": 10, "last": 13, "torch": True, "failures": ["a"]},
        cut='{"steps": 3',
        odd={"steps": "4", "first": None, "failures": 3},
        strange="[]",
    )
    (tmp_path / ".7.part").write_text("")
    (tmp_path / "12.steps").write_bytes(b"\x19\0\0\0\0\0\0\0")
    assert read(tmp_path) == HookNotes(6, 3, 25, 10, 13, failures=("a",))
    assert read(tmp_path / "missing") == HookNotes()


def test_memory_alone_loads_the_hook_and_marks_nothing() -> None:
    assert variables(RecordingOptions(memory=True)) == {"NSYSWRAP_HOOK_MEMORY": "1"}


@pytest.mark.parametrize(
    ("step_at", "hooked", "words"),
    [
        (None, HookNotes(1, 1, steps=1), "train ended after 1 step"),
        (
            None,
            HookNotes(1, 1, steps=14),
            "they were counted late, as another optimizer was expected to step, too",
        ),
        (None, HookNotes(1, 1, failures=("E: x",)), "the hook failed: E: x"),
        (None, HookNotes(), "no Python loaded nsyswrap's hook"),
        (None, HookNotes(2), "train never imported torch"),
        (None, HookNotes(2, 1), "no optimizer of PyTorch stepped outside of compiled code"),
        ("module", HookNotes(2), "train never imported torch"),
        ("module", HookNotes(2, 1), "no module was called"),
        ("call:a.b:c", HookNotes(2), "the program did not import a.b"),
        ("call:a.b:c", HookNotes(2, step_at_exists=True), "c of a.b was never called"),
        ("call:a.b:c", HookNotes(2, absent=MissingFunction("a.b", "c", ("d",))), "a.b has no function c"),
        ("call:a.b:c", HookNotes(2, absent=MissingFunction("a.b", "c", None)), "c of a.b cannot be called"),
        ("nvtx:epoch", HookNotes(2, 1), "no range of torch or nvtx was made"),
        ("nvtx:epoch", HookNotes(2, 1, step_at_exists=True), "no NVTX range 'epoch' ended"),
    ],
)
def test_why_there_are_none(step_at: str | None, hooked: HookNotes, words: str) -> None:
    message, hint = why_none(RecordingOptions(steps="10-13", step_at=step_at), hooked, "train")
    assert message == f"steps 10-13 were not recorded: {words}"
    assert hint


@pytest.mark.parametrize(
    ("hooked", "words"),
    [
        (HookNotes(1, 1, 20, 10, 13), ""),
        (HookNotes(1, 1, 12, 10), "recorded steps 10-11 of 10-13: train ended after 12 steps"),
        (HookNotes(1, 1, 11, 10), "recorded step 10 of 10-13: train ended after 11 steps"),
        (HookNotes(1, 1, 10, 10), "recorded only a part of step 10: train ended after 10 steps"),
        (HookNotes(1, 1, 20, 11, 13), "recorded steps 11-13 instead of 10-13: steps were counted late, as"),
        (HookNotes(1, 1, 5), ""),  # nothing was recorded, which is an error
    ],
)
def test_what_is_missing(hooked: HookNotes, words: str) -> None:
    said = shortfall(RecordingOptions(steps="10-13"), hooked, "train")
    assert said.startswith(words)
    assert bool(said) == bool(words)
    assert shortfall(RecordingOptions(), hooked, "train") == ""


def test_a_first_step_without_a_forward() -> None:
    hooked = HookNotes(1, 1, 20, 0, 3, unseen_start=True)
    assert shortfall(RecordingOptions(steps="0-3"), hooked, "train").startswith(
        "step 0 is recorded from its end on"
    )


def test_the_environment_of_the_hook(tmp_path: Path) -> None:
    assert variables(RecordingOptions(), tmp_path) == {}
    assert variables(RecordingOptions(steps="7", step_at="module"), tmp_path) == {
        "NSYSWRAP_HOOK_STEPS": "7-7",
        "NSYSWRAP_HOOK_STEP_AT": "module",
        "NSYSWRAP_HOOK_GC": "1",
        "NSYSWRAP_HOOK_NOTES": str(tmp_path),
    }
    assert python_path({}).endswith("/in_program/hook")
    assert python_path({"PYTHONPATH": "a:b"}).endswith("/in_program/hook:a:b")
