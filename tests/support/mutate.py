"""How much the tests guard: change an operator or a constant of the package, and see whether a test fails.

``python tests/support/mutate.py analysis capture --count 40 --seed 1`` draws 40 of all comparisons, signs,
booleans and constants of these packages, and changes one at a time in a copy of the tree. For each it runs
the fast tests of the module, those whose file has its name, and then those of its package. The changes that
no test notices are printed as survivors. Some of them change nothing that matters; for the others a test is
missing. ``--only analysis/steps/__init__.py:120:14`` makes such a change again. ``--also reports`` runs the
tests of another package, too. ``--few`` runs one case of each test of the package, slow tests included, which
takes half of the time. It runs one process at the lowest priority.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
_OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_NOT_RUN = ("annotation", "returns")  # fields of types
_CAUTIOUS = ("frozen", "slots", "kw_only", "strict")  # arguments that only catch mistakes in the code
_LIMIT_S, _SLOWER = 60, 4  # a run ends after this and so many times what the tests took unchanged
_MEMORY = 12 << 30
KILLED, SURVIVED, SLOW = "killed", "SURVIVED", "killed: time limit"


class Mutation(NamedTuple):
    """A change of one place: ``old`` at byte ``at`` of the module becomes ``new``."""

    module: str
    line: int
    column: int
    kind: str
    at: int
    old: str
    new: str

    @property
    def place(self) -> str:
        """The place, as ``--only`` takes it."""
        return f"{self.module}:{self.line}:{self.column}"


class _Finder(ast.NodeVisitor):
    """Collects the mutations of a module."""

    def __init__(self, module: str, source: bytes) -> None:
        self.module, self.source, self.found = module, source, list[Mutation]()
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _add(self, kind: str, at: int, old: str, new: str) -> None:
        line = self.source.count(b"\n", 0, at) + 1
        self.found.append(Mutation(self.module, line, at - self._starts[line - 1] + 1, kind, at, old, new))

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _operator(self, kind: str, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        if type(operator) not in _OPERATORS:
            return
        begin, end = self._span(left)[1], self._span(right)[0]
        old, new = _OPERATORS[type(operator)]
        pattern = rb"#[^\n]*|(" + re.escape(old).replace(r"\ ", r"\s+").encode() + rb")"
        for match in re.finditer(pattern, self.source[begin:end]):
            if match[1]:
                self._add(kind, begin + match.start(), match[1].decode(), new)
                return

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name not in _NOT_RUN:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave out texts: before Python 3.12 the places in them are wrong."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _CAUTIOUS:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._operator("comparison", left, operator, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("boolean", left, node.op, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(map(_is_text_or_type, (node.left, node.right))):
            masks = isinstance(node.op, (ast.BitAnd, ast.BitOr))
            self._operator("boolean" if masks else "sign", node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_text_or_type(node.value):
            self._operator("sign", node.target, node.op, node.value)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        begin, end = self._span(node)[0], self._span(node.operand)[0]
        old = self.source[begin:end].decode()
        if isinstance(node.op, (ast.Not, ast.Invert)) and "(" not in old:
            self._add("boolean", begin, old, "")
        elif isinstance(node.op, ast.USub) and old == "-":
            self._add("sign", begin, old, "+")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        begin, end = self._span(node)
        old, value = self.source[begin:end].decode(), node.value
        if isinstance(value, bool):
            self._add("boolean", begin, old, str(not value))
        elif isinstance(value, int):
            self._add("constant", begin, old, str(value + 1))
        elif isinstance(value, float):
            self._add("constant", begin, old, repr(value * 1.5 + (value == 0)))


def _is_text_or_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, (int, float))
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple)) or (
        isinstance(node, ast.Name) and node.id.lstrip("_")[:1].isupper() and not node.id.isupper()
    )


def mutations(module: Path, root: Path = ROOT) -> list[Mutation]:
    """Return all mutations of a module of the package, in order of their places."""
    source = module.read_bytes()
    finder = _Finder(str(module.relative_to(root / "nsyswrap")), source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.found), key=lambda one: one.at)


def mutated(source: bytes, one: Mutation) -> bytes:
    """Return a module's source with the mutation."""
    old = one.old.encode()
    assert source[one.at : one.at + len(old)] == old
    return source[: one.at] + one.new.encode() + source[one.at + len(old) :]


class Copy:
    """A copy of the tree, with the tests that run in it."""

    def __init__(self, root: Path, also: Sequence[str], tier: str) -> None:
        self.root, self.also, self.tier = root, also, tier
        self._edits = 0
        self._unusable: dict[str, list[str]] = {}
        self._took_s: dict[str, float] = {}
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, files.decode().split("\0")):
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)

    def ask(self, one: Mutation) -> str:
        """Return what the tests say of a mutation."""
        module = self.root / "nsyswrap" / one.module
        source = module.read_bytes()
        package = one.module.partition("/")[0]
        folders = [f"tests/{name}" for name in (package, *self.also) if (self.root / "tests" / name).is_dir()]
        for folder in folders:  # unchanged, before the change is made
            self._prepare(folder)
        self._write(module, mutated(source, one))
        try:
            named = self._named(one.module, package)
            stages = [named] if named else []
            stages += [[folder, *(f"--ignore={name}" for name in named)] for folder in folders]
            for stage in stages:
                limit_s = _LIMIT_S + _SLOWER * max(self._took_s[folder] for folder in folders)
                code = self._run([*stage, "-x"], limit_s, folders)
                if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                    return SLOW if code is None else KILLED
        finally:
            self._write(module, source)
        return SURVIVED

    def _prepare(self, folder: str) -> None:
        """Find the tests that fail in a copy without any change, and how long all of them take."""
        if folder in self._took_s:
            return
        begun, log = time.monotonic(), self.root / "unchanged.txt"
        self._run([folder, "-rfE", "--tb=no"], 3600, [], log)
        self._took_s[folder] = time.monotonic() - begun
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", log.read_text(), re.MULTILINE)
        self._unusable[folder] = failed
        print(f"{folder}: {self._took_s[folder]:.0f} s unchanged, left out: {failed}", flush=True)

    def _named(self, module: str, package: str) -> list[str]:
        """Return the test files with the name of a module; that of a package is its folder's."""
        path = Path(module)
        stem = (path.parent.name if path.stem == "__init__" else path.stem).strip("_")
        found = sorted((self.root / "tests" / package).rglob(f"test_*{stem}*.py"))
        return [str(one.relative_to(self.root)) for one in found]

    def _write(self, module: Path, source: bytes) -> None:
        """Write a module with a time of its own: compiled code is told by size and time in seconds."""
        self._edits += 1
        module.write_bytes(source)
        os.utime(module, (self._edits, self._edits))

    def _run(
        self, arguments: Sequence[str], limit_s: float, folders: Sequence[str], log: Path | None = None
    ) -> int | None:
        """Return pytest's exit code, or None if the time limit ended it."""
        left_out = [f"--deselect={name}" for folder in folders for name in self._unusable[folder]]
        options = ["-q", "-p", "no:cacheprovider", self.tier, *left_out]
        scratch = self.root / "scratch"
        scratch.mkdir(exist_ok=True)
        with (log or Path(os.devnull)).open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *arguments],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root), "TMPDIR": str(scratch)},
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_confine,  # noqa: PLW1509 - no threads here
            )
            try:
                return child.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                shutil.rmtree(scratch, ignore_errors=True)


def _confine() -> None:
    """Let a change that loops for ever, or takes all memory, harm nobody else."""
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def drawn(packages: Sequence[str], count: int, seed: int) -> Iterator[Mutation]:
    """Yield random mutations of packages, each once."""
    every: list[Mutation] = []
    for package in packages:
        at = ROOT / "nsyswrap" / package
        for module in sorted(at.rglob("*.py")) if at.is_dir() else [at]:
            every += mutations(module)
    yield from random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311 - no secret


def named(places: Sequence[str]) -> Iterator[Mutation]:
    """Yield the mutations at places as they are printed."""
    for place in places:
        module = ROOT / "nsyswrap" / place.partition(":")[0]
        yield from (one for one in mutations(module) if place in (one.place, one.place.rpartition(":")[0]))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("packages", nargs="*", default=["analysis", "capture", "reports", "record"])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE:LINE[:COLUMN]")
    parser.add_argument("--also", nargs="+", default=[], metavar="PACKAGE", help="whose tests run, too")
    parser.add_argument("--few", action="store_const", const="--few", default="--fast", dest="tier")
    parser.add_argument("--list", action="store_true", help="print the changes without running tests")
    options = parser.parse_args()
    chosen = (
        list(named(options.only))
        if options.only
        else list(drawn(options.packages, options.count, options.seed))
    )
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), options.also, options.tier) if not options.list else None
        for one in chosen:
            result = copy.ask(one) if copy else ""
            results[result] += 1
            module = (copy.root if copy else ROOT) / "nsyswrap" / one.module  # the tree may change meanwhile
            text = module.read_bytes().splitlines()[one.line - 1].decode().strip()
            print(f"{result:<9} {one.place} {one.kind} {one.old!r} -> {one.new!r}: {text}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in results.items()))


if __name__ == "__main__":
    main()
