"""The packet of a recording holds the answers to the questions about it, and allows no wrong one."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest
from labels import HERE
from questions import questions, score
from ran import ran

from nsyswrap.api import open_capture

pytestmark = pytest.mark.slow


def answer_from(packet: dict[str, Any], number: str) -> str:
    """Answer as a reader would that takes the packet at its word."""
    if number == "steps":
        return f"{packet['judged']['steps']} of {packet['judged']['of_steps']} steps"
    if packet["judged"]["withheld_because"]:
        return "lost_events"
    costly = [
        one["kind"]
        for one in packet["findings"]
        if one["saving_percent"] is None or one["saving_percent"] >= 5
    ]
    return costly[0] if costly else "none"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, packets = tmp_path_factory.mktemp("questions"), {}
    for one in questions():
        if one.recording not in packets:
            path = folder / Path(one.recording).stem
            path.write_bytes(lzma.decompress((HERE.parent / one.recording).read_bytes()))
            packets[one.recording] = open_capture(path).brief()
    return {one.id: answer_from(packets[one.recording], one.id.rpartition(".")[2]) for one in questions()}


def test_the_packets_answer_the_questions(answers: dict[str, str]) -> None:
    assert len(answers) >= 40
    wrong = {name: answers[name] for name, is_right in score(answers).items() if not is_right}
    assert wrong == {}


def test_wrong_answers_are_found(answers: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    first = next(iter(answers))
    file.write_text(json.dumps({**answers, first: "garbage_collection"}), encoding="utf-8")
    done = ran([sys.executable, str(HERE / "questions.py"), str(file)])
    assert done.returncode == 1
    assert f"wrong: {first}" in done.stdout
    asked = ran([sys.executable, str(HERE / "questions.py")], check=True)
    assert len(json.loads(asked.stdout)) == len(answers)
