"""Questions about the labelled recordings, for an agent that reads their packets, and scores of its answers.

    python tests/labelled/questions.py > questions.json        the questions: ids, texts, recordings
    python tests/labelled/questions.py answers.json            scores {"id": "answer in a sentence", ...}

What an answer must say, and must not, is in labels.toml: how each program was written, not what we say of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from labels import FOLDERS, HERE, Label, read_labels

_COUNT = 0.05  # of the steps may be missed or found in addition


class Question(NamedTuple):
    """A question on a recording. An answer must have one of ``must``, none of ``never``, as whole words."""

    id: str
    recording: str
    text: str
    must: tuple[str, ...]
    never: tuple[str, ...] = ()

    def score(self, answer: str) -> bool:
        """Return True if an answer says what it must, and nothing that it must not."""
        return any(_says(answer, one) for one in self.must) and not any(
            _says(answer, one) for one in self.never
        )


def _says(answer: str, words: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(words)}(?![\w.]*\w)", answer) is not None


def questions() -> Iterator[Question]:
    """Yield the questions: the main cause of each recording, and the number of its steps."""
    for folder in FOLDERS:
        for label in read_labels(folder).values():
            packed = folder / "captures" / f"{label.name}.sqlite.xz"
            recording = str(packed.relative_to(HERE.parent))
            causes = (label.first or "none", *(one or "none" for one in label.accept))
            text = "Which kind of finding costs most? Its kind, or none if nothing costs 5 % or more."
            yield Question(f"{label.name}.cause", recording, text, causes, _wrong(label))
            if label.steps:
                around = max(2, round(_COUNT * label.steps))
                counts = tuple(map(str, range(label.steps - around, label.steps + around + 1)))
                text = "How many steps are judged, of how many? Two numbers."
                yield Question(f"{label.name}.steps", recording, text, counts)


def _wrong(label: Label) -> tuple[str, ...]:
    return tuple(one for one in label.never if one not in (label.first, *label.accept))


def score(answers: Mapping[str, str]) -> dict[str, bool]:
    """Return for each question whether its answer is right; one without an answer is wrong."""
    return {one.id: one.score(answers.get(one.id, "")) for one in questions()}


def main() -> None:
    """Print the questions, or what is wrong in a file of answers and the score."""
    if len(sys.argv) == 1:
        listed = [{"id": one.id, "recording": one.recording, "question": one.text} for one in questions()]
        print(json.dumps(listed, indent=1))
        return
    scores = score(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    wrong = [name for name, is_right in scores.items() if not is_right]
    print(*(f"wrong: {name}" for name in wrong), f"{len(scores) - len(wrong)} of {len(scores)}", sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
