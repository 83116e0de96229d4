"""Each noun of the code has one class, and each class is named by a noun."""

import re
from collections import Counter

from reference import DOCS, public_classes

from nsyswrap.base import errors

# Endings of participles and adjectives, in the last word of a name
NO_NOUN = re.compile(r"(ed|ing|en|able|ible|ful|less|ive|ous)$")
NOUNS = {"Executable", "Finding", "Screen", "Setting", "Table", "Timing", "Wording"}
FAILURES = {"Miscounted", "Unreadable"}  # exceptions: their names say what failed


def last_word(name: str) -> str:
    return str(re.findall(r"[A-Za-z][a-z0-9]*", name)[-1])


def test_no_two_public_classes_share_a_name() -> None:
    names = Counter(name for name, _, _ in public_classes())
    assert {name for name, count in names.items() if count > 1} == set()


def test_each_public_class_is_named_by_a_noun() -> None:
    failures = FAILURES | {name for name, one in vars(errors).items() if isinstance(one, type)}
    others = {name for name, _, _ in public_classes()} - failures
    assert {name for name in others if NO_NOUN.search(last_word(name))} == {
        name for name in others if last_word(name) in NOUNS
    }


def test_each_public_class_is_in_the_glossary() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert [name for name, _, _ in public_classes() if f"| `{name}`, `" not in page] == []
    assert [name for name, _, text in public_classes() if not text] == []
