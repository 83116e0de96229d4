"""Phrases that readers stumbled over do not come back into texts that people read; see English in STYLE."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COVERED = (
    *sorted(f"nsyswrap/{path.name}" for path in (ROOT / "nsyswrap").iterdir() if path.is_dir()),
    "scenarios",
)
MOST_WORDS = 20  # of a sentence
# What is banned, and what to write instead.
BANNED = {
    r"\b(is|are) no\b(?! (longer|more)\b)": "X is not a ...",
    r"\bthere (is|are) (no|none|nothing)\b": "no X named 'x', or X is missing",
    r"\bgo(es)? (together|with)\b": "--a cannot be used with --b",
    r"\b(nobody|somebody|who)\b": "the subject's name",
    r"\bwhat (it|nsys|you|is (selected|said|left out))\b": "the thing's name",
    r"\b(be it|that is why|should have been|one alone|look at|fills a buffer first)\b": "the fact",
    r"\bfare[ds]?\b|\bidle[sd]\b|\bin all\b(?! \w+ ?\w+s\b)": "took, left the GPU idle, in total",
    r"\bthe least first\b|\bno spread\b": "fastest first; cannot tell the difference from noise",
    r"passed over": "ignored, or not usable",
    r"\b(stands?|lies?|lie) (in|there|twice|beside|below)\b": "is in ..., occurs twice",
    r"^as in\b|[=A-Z], as in\b": "for example ...",
    r"\bleave .{0,40}\bout\b": "omit ...",
    r"\bgive another\b": "use another ...",
    r"\b(in the way|at work|with room|make room|free some room)\b": "exists, in use, free some disk space",
    r"(?i)(synchron|util|initial|optim|recogn)is(e[drs]?|ing|ation)\b(?!=)": "American spelling",
    r"(?i)colour|behaviour|neighbour|labell": "American spelling",
}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every string of a file that is not a docstring. What an f-string inserts is ``{}``."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            pieces = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, pieces))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in statements | parts
        ):
            yield node.lineno, node.value


@cache
def places(folder: str) -> list[tuple[str, str]]:
    """Return each text of a folder with its place. A text has a space and is no pattern."""
    return [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts(path)
        if " " in text.strip() and not re.search(r"\\|\(\?|\^", text)
    ]


@pytest.mark.parametrize("folder", COVERED)
def test_no_text_has_a_banned_phrase(folder: str) -> None:
    found = [
        f"{place}: {match[0]!r}, write {instead!r}: {text}"
        for place, text in places(folder)
        for banned, instead in BANNED.items()
        if (match := re.search(banned, text))
    ]
    assert found == []


@pytest.mark.parametrize("folder", COVERED)
def test_no_sentence_is_longer_than_twenty_words(folder: str) -> None:
    long = [
        f"{place}: {sentence}"
        for place, text in places(folder)
        for sentence in re.split(r"[.;:]\s|, (?=\d+ )|\n", text)
        if len(re.findall(r"[A-Za-z][\w'-]*|\{\}", sentence)) > MOST_WORDS
    ]
    assert long == []


@pytest.mark.parametrize(
    "text",
    [
        "x is no run folder",
        "there is no 'x'",
        "--a and --b do not go together",
        "'a' does not go with a command",
        "what it recorded lies in x",
        "it stands there twice",
        "write START/END, as in 1s/",
        "leave --variant out",
        "nsys was passed over",
        "timed with a synchronise",
    ],
)
def test_what_is_banned(text: str) -> None:
    assert any(re.search(banned, text) for banned in BANNED)
