"""Find which of some packages a Python program imports, without running it.

Its script, or the module that ``-m`` names, is read with the modules beside it that it imports. Packages that
are installed are not read. An import that the program can do without does not count: inside ``try``, and for
types alone. What is imported by a name made at run time is not found.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import Unreadable

# Packages of JAX and those that need it.
JAX = frozenset(
    ("jax", "jaxlib", "flax", "optax", "equinox", "haiku", "chex", "orbax", "brax", "numpyro", "diffrax")
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_WITH_VALUE = ("W", "X")  # options of Python
_MOST_FILES, _MOST_BYTES = 200, 1_000_000  # a file
_HEAD_BYTES = 200


def first_import(argv: Sequence[str], packages: frozenset[str]) -> str:
    """Return the first of these packages that the program of a command line imports; empty for none."""
    roots, waiting = _start(argv)
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        source, path = waiting.pop(0)
        if path is not None and path in seen:
            continue
        if path is not None:
            seen.add(path)
            source = _read(path) if _is_file(path) else ""  # reading a pipe would empty it
        for name, folder in _imports(source, path):
            top = name.partition(".")[0]
            if folder is None and top in packages:
                return top
            beside = roots if folder is None else [folder]
            waiting += [("", file) for file in _files(name, beside) if file not in seen]
    return ""


def _start(argv: Sequence[str]) -> tuple[list[Path], list[tuple[str, Path | None]]]:
    """Return the folders that modules beside the program are in, and its code or its file."""
    place = next((place for place, word in enumerate(argv) if _PYTHON.fullmatch(Path(word).name)), None)
    if place is None:
        script = shutil.which(argv[0])
        is_python = script is not None and b"python" in _head(Path(script)).partition(b"\n")[0]
        return ([Path(script).parent], [("", Path(script))]) if script and is_python else ([], [])
    words = iter(argv[place + 1 :])
    for word in words:
        if not word.startswith("-") or word == "-":
            path = Path(word)
            path = path / "__main__.py" if not word.endswith(".py") else path
            return [path.parent], [("", path)]
        if word.startswith("--"):
            continue
        flag = next((letter for letter in word[1:] if letter in ("m", "c", *_WITH_VALUE)), "")
        value = word.partition(flag)[2] or next(words, "") if flag else ""
        if flag == "m":
            here = [Path.cwd()]
            return here, [("", file) for file in _files(f"{value}.__main__", [*here, *map(Path, sys.path)])]
        if flag == "c":
            return [Path.cwd()], [(value, None)]
    return [], []


def _files(name: str, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that the import of a module reads, in the first folder that has it."""
    parts = name.split(".")
    for root in roots:
        found = False
        for count in range(1, len(parts) + 1):
            module = root.joinpath(*parts[:count])
            for path in (module.with_suffix(".py"), module / "__init__.py"):
                if _is_file(path):
                    found = True
                    yield path
        if found:
            return


def _imports(source: str, path: Path | None) -> Iterator[tuple[str, Path | None]]:
    """Yield the modules that code imports, and of each relative import the folder that it begins in."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Try) and node.handlers:
            waiting += [*node.orelse, *node.finalbody]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.parents if path is not None else ()
            folder = above[node.level - 1] if 0 < node.level <= len(above) else None
            if folder is not None or not node.level:
                base = f"{node.module}." if node.module else ""
                yield from ((f"{base}{alias.name}", folder) for alias in node.names)
        else:
            waiting += ast.iter_child_nodes(node)


def _is_file(path: Path) -> bool:
    try:
        return paths.is_file(path)
    except Unreadable:
        return False


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
