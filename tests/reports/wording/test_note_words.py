"""The catalogue of notes has words for each kind of note, and no others."""

import ast
from pathlib import Path

import nsyswrap
from nsyswrap.reports.wording import comparisons, notes

TEXTS = {**notes.TEXTS, **comparisons.TEXTS}


def test_each_kind_of_note_has_words_and_each_word_a_kind() -> None:
    package = Path(nsyswrap.__file__).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in package.glob("analysis/**/*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    kinds = {
        part.value
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Note", "clocks.note")
        for part in ast.walk(node.args[0])
        if isinstance(part, ast.Constant)
    }
    assert len(kinds) > len(TEXTS) / 2
    assert kinds - TEXTS.keys() == set()
    assert TEXTS.keys() - texts == set()
