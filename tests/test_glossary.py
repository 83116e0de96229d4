"""Each noun of the code has one class, and everything is named by what it is."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from reference import DOCS, public_classes, syntax_trees

from nsyswrap.base import errors

# Endings of participles and adjectives, in the last word of a name
NO_NOUN = re.compile(r"(ed|ing|en|able|ible|ful|less|ive|ous)$")
NOUNS = {"Executable", "Finding", "Screen", "Setting", "Table", "Timing", "Wording"}
FAILURES = {"Miscounted", "Unreadable"}  # exceptions: their names say what failed
# These say where something came from or whose it is: fields of any type could have such a name.
VAGUE = {
    "found",
    "said",
    "told",
    "shown",
    "mine",
    "own",
    "place",
    "part",
    "look",
    "looks",
    "lasting",
    "made",
    "asked",
    "having",
}
DEPRECATED = {("api/captures.py", "part")}  # in 0.4.0
Trees = Mapping[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    return syntax_trees()


def last_word(name: str) -> str:
    return str(re.findall(r"[A-Za-z][a-z0-9]*", name)[-1])


def test_no_two_public_classes_share_a_name(trees: Trees) -> None:
    names = Counter(name for name, _, _ in public_classes(trees))
    assert {name for name, count in names.items() if count > 1} == set()


def test_each_public_class_is_named_by_a_noun(trees: Trees) -> None:
    failures = FAILURES | {name for name, one in vars(errors).items() if isinstance(one, type)}
    others = {name for name, _, _ in public_classes(trees)} - failures
    assert {name for name in others if NO_NOUN.search(last_word(name))} == {
        name for name in others if last_word(name) in NOUNS
    }


def test_each_public_class_is_in_the_glossary(trees: Trees) -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    classes = public_classes(trees)
    assert [name for name, _, _ in classes if f"| `{name}`, `" not in page] == []
    assert [name for name, _, text in classes if not text] == []


def interface(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each function, parameter and attribute. Underscores around it do not count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name.strip("_")
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.strip("_")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.strip("_")
        elif isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)]
            names = (name for one in fields for name in ast.walk(one) if isinstance(name, ast.Name))
            yield from (
                (name.lineno, name.id.strip("_")) for name in names if isinstance(name.ctx, ast.Store)
            )


def test_functions_parameters_and_attributes_are_named_by_what_they_are(trees: Trees) -> None:
    vague = {
        (path, line, name) for path, tree in trees.items() for line, name in interface(tree) if name in VAGUE
    }
    assert {one for one in vague if (one[0], one[2]) not in DEPRECATED} == set()
    assert {(path, name) for path, _, name in vague} == DEPRECATED
    assert {
        path for path in trees if VAGUE & {part.strip("_") for part in path.removesuffix(".py").split("/")}
    } == set()


@pytest.mark.parametrize(
    "code",
    [
        "def part(): pass",
        "class A:\n    async def _part(self): pass",
        "def f(*, part=1): pass",
        "f = lambda part: 1",
        "def f(**part): pass",
        "class A:\n    part: int",
        "class A:\n    part = 1",
        "self._part = 1",
        "self.part, self.b = 1, 2",
        "self.part += 1",
        "for self.part in b: pass",
    ],
)
def test_a_vague_name_is_seen(code: str) -> None:
    assert "part" in {name for _, name in interface(ast.parse(code))}


@pytest.mark.parametrize(
    "code", ["part = a.part", "f(part=1)", "class A:\n    a: int = part", "def part_of(): pass"]
)
def test_other_names_are_free(code: str) -> None:
    assert "part" not in {name for _, name in interface(ast.parse(code))}


def private_names(tree: ast.Module) -> set[str]:
    """Return the names with an underscore in front that the code has."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_a_docstring_names_private_parts_that_its_module_has(trees: Trees) -> None:
    kinds = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assert {
        (path, name)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        for name in re.findall("``(_[a-z]\\w*)``", ast.get_docstring(node) or "")
        if name not in private_names(tree)
    } == {("render/text_exports.py", "_total")}  # how OpenMetrics ends the name of a counter
