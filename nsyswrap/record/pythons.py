"""Find the Python that the user means for a script or a module, and which packages a program imports.

nsyswrap can be installed in an environment of its own, by pipx or uv, or beside the one that has PyTorch. In
this order count the active environment, the first line of the script, and the Python of nsyswrap or, if that
is only for nsyswrap, the first on PATH. A Python without the GPU package that the program imports is passed
over if another one has it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import Unreadable
from nsyswrap.base.files import head
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_tool import run_tool
from nsyswrap.record.conditions import shebang

# Packages of JAX and those that need it.
JAX = frozenset(
    ("jax", "jaxlib", "flax", "optax", "equinox", "haiku", "chex", "orbax", "brax", "numpyro", "diffrax")
)
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
_TOOLS = ("pipx/venvs/", "uv/tools/")  # in the path of an environment for one tool
_PACKAGES = JAX | {"torch", "cupy", "numba", "tensorflow", "triton"}
# The start of a question to a Python: a file of the current folder is no module of its own.
NOT_HERE = "import sys; sys.path = [place for place in sys.path if place]; "
_HAS = "import importlib.util; sys.exit(not getattr(importlib.util.find_spec(sys.argv[1]), 'origin', None))"
_LIMIT_S = 10
_HERE = (".venv", "venv", "env")
_CONDA_LIST, _LIST_BYTES = Path("~/.conda/environments.txt"), 100_000
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_WITH_VALUE = ("W", "X")  # options of Python
_MOST_FILES, _MOST_BYTES = 200, 1_000_000  # a file
_HEAD_BYTES = 200


# Which of some packages a program imports, without running it: its script or module is read with the modules
# beside it that it imports. Packages that are installed are not read. An import that the program can do
# without does not count: inside ``try``, and for types alone. What is imported by a name made at run time is
# not found.


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


# The Python that the user means: it need not be the one of nsyswrap.


@dataclass(frozen=True)
class Interpreter:
    """An interpreter. ``source`` says why it was taken, or is empty for our own.

    ``lacks`` is a package that the program imports, and that no Python has that was looked at.
    """

    path: str
    source: str = ""
    lacks: str = ""

    def runs(self, program: str) -> str:
        """Return a sentence that names the Python of a program; empty if it is ours."""
        return f"{program} runs with {self.path} ({self.source})" if self.source else ""


def choose(
    command: Sequence[str] = (),
    *,
    module: bool = False,
    ours_first: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Interpreter:
    """Return the Python for a script, or for a module and its arguments; without them that for any script.

    With ``ours_first`` the Python of nsyswrap counts before all others: the user has started that one.
    """
    candidates: dict[str, Interpreter] = {}
    ours = [Interpreter(sys.executable)] if ours_first else []
    for python in (*ours, *_candidates("" if module else "".join(command[:1]), environment)):
        candidates.setdefault(_prefix(python.path), python)
    first, *others = candidates.values()
    package = first_import(["python3", *(["-m"] if module else []), *command], _PACKAGES)
    if not package or _has(first, package):
        return first
    for other in others:
        if _has(other, package):
            return Interpreter(other.path, f"{first.path} has no {package}") if other.source else other
    return Interpreter(first.path, first.source, package)


def lacking(command: Sequence[str]) -> str:
    """Return the package that the program of a Python imports and that this Python lacks; empty for none."""
    package = first_import(command, _PACKAGES)
    return package if package and not _has(Interpreter(command[0], "named"), package) else ""


def beside(package: str) -> str:
    """Return the Python of an environment with a package: one here, or one that conda lists; or empty.

    Nothing is run: the file of the package is looked for.
    """
    try:
        listed = head(_CONDA_LIST.expanduser(), _LIST_BYTES).decode(errors="replace").splitlines()
    except (OSError, RuntimeError):  # there is no list, or no home
        listed = []
    for folder in map(Path, (*_HERE, *(line for line in listed if line and "\0" not in line))):
        python = folder / "bin" / "python"
        installed = f"lib/python3*/site-packages/{package}/__init__.py"
        if os.access(python, os.X_OK) and any(paths.matching(folder, installed, paths.ignore)):
            return str(python)
    return ""


def _candidates(script: str, environment: Mapping[str, str]) -> Iterator[Interpreter]:
    """Yield the Pythons in the order in which they count. ``#!/usr/bin/env python3`` names none of them."""
    search = environment.get("PATH", os.defpath).split(os.pathsep)
    active = [f"{environment[name]}/bin" for name in _ENVIRONMENTS if environment.get(name)]
    for folder in sorted(active, key=lambda one: search.index(one) if one in search else len(search)):
        yield from _named(_first_in(folder), "active environment")
    if script:
        yield from _named(shebang(Path(script), search=""), "first line of the script")
    ours, on_path = Interpreter(sys.executable), _named(_first_in(os.pathsep.join(search)), "first on PATH")
    is_tool = any(place in f"{Path(sys.prefix).as_posix()}/" for place in _TOOLS)
    yield from [*on_path, ours] if is_tool else [ours, *on_path]


def _named(path: str | None, source: str) -> Iterator[Interpreter]:
    if path:
        is_ours = _prefix(path) == os.path.realpath(sys.prefix)
        yield Interpreter(sys.executable) if is_ours else Interpreter(path, source)


def _first_in(search: str) -> str | None:
    return shutil.which("python", path=search) or shutil.which("python3", path=search)


def _prefix(path: str) -> str:
    return str(Path(os.path.realpath(Path(path).parent)).parent)  # /bin can be a link to /usr/bin


def _has(python: Interpreter, package: str) -> bool:
    """Return True if a Python can import a package, which is not imported. A mere folder is none."""
    if not python.source:
        return getattr(importlib.util.find_spec(package), "origin", None) is not None
    try:
        return run_tool([python.path, "-c", NOT_HERE + _HAS, package], _LIMIT_S).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
