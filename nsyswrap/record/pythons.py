"""Find the Python that the user means for a script or a module: it need not be the one of nsyswrap.

nsyswrap can be installed in an environment of its own, by pipx or uv, or beside the one that has PyTorch. In
this order count the active environment, the first line of the script, and the Python of nsyswrap or, if that
is only for nsyswrap, the first on PATH. A Python without the GPU package that the program imports is passed
over if another one has it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.files import head
from nsyswrap.base.run_tool import run_tool
from nsyswrap.record import python_imports
from nsyswrap.record.conditions import shebang

_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
_TOOLS = ("pipx/venvs/", "uv/tools/")  # in the path of an environment for one tool
_PACKAGES = python_imports.JAX | {"torch", "cupy", "numba", "tensorflow", "triton"}
# The start of a question to a Python: a file of the current folder is no module of its own.
NOT_HERE = "import sys; sys.path = [place for place in sys.path if place]; "
_HAS = "import importlib.util; sys.exit(not getattr(importlib.util.find_spec(sys.argv[1]), 'origin', None))"
_LIMIT_S = 10
_HERE = (".venv", "venv", "env")
_CONDA_LIST, _LIST_BYTES = Path("~/.conda/environments.txt"), 100_000


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
    package = python_imports.first_import(["python3", *(["-m"] if module else []), *command], _PACKAGES)
    if not package or _has(first, package):
        return first
    for other in others:
        if _has(other, package):
            return Interpreter(other.path, f"{first.path} has no {package}") if other.source else other
    return Interpreter(first.path, first.source, package)


def lacking(command: Sequence[str]) -> str:
    """Return the package that the program of a Python imports and that this Python lacks; empty for none."""
    package = python_imports.first_import(command, _PACKAGES)
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
