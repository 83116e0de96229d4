"""Scenarios: plain scripts that each run one experiment. Finding them, building them, running them."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap import device
from nsyswrap.errors import ScenarioFailed, Unavailable, UsageError
from nsyswrap.folder import PROGRAM_OUTPUT
from nsyswrap.nsys import Options
from nsyswrap.nvcc import find_nvcc
from nsyswrap.program import Program
from nsyswrap.run import RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class Scenario:
    """One script: what it says of itself, its variants, the option that picks one, and what it needs."""

    path: Path
    constants: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The script's name."""
        return self.path.stem

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return str(self.constants["__doc__"]).strip().partition("\n")[0]

    @property
    def look_for(self) -> str:
        """One sentence: what to see in the closing table."""
        return str(self.constants["LOOK_FOR"])

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants, in the order they are run."""
        return tuple(self.constants["VARIANTS"])

    @cached_property
    def lacks(self) -> list[str]:
        """What this machine lacks of what the scenario needs, in words."""
        return [missing for need in self.constants["NEEDS"] if (missing := _NEEDS[need]())]

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line of the script."""
        return (sys.executable, str(self.path), *arguments)

    def build(self) -> str:
        """Build what the script runs, outside any measured run, and return its path.

        Raises ScenarioFailed or Unavailable.
        """
        if self.lacks:
            raise Unavailable(f"{self.name} cannot run here: {'; '.join(self.lacks)}")
        done = subprocess.run(self.argv("--build"), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ScenarioFailed(f"{self.name} could not be built:\n{done.stderr.rstrip()}")
        return done.stdout.splitlines()[-1]

    def check(self, variants: Iterable[str]) -> None:
        """Raise UsageError with the variants there are, unless all are among them."""
        for variant in variants:
            if variant not in self.variants:
                raise UsageError(
                    f"{self.name} has no variant {variant!r}", f"variants: {' '.join(self.variants)}"
                )

    def spec(
        self, variant: str, built: str, output: Path, arguments: tuple[str, ...] = (), *, force: bool = False
    ) -> RunSpec:
        """Return the run of one variant of what ``build`` built; its stdout goes into the run folder."""
        argv = self.argv(str(self.constants["VARIANT_OPTION"]), variant, "--built", built, *arguments)
        return RunSpec(Program(argv, self.name), output, Options(), force=force, keep_output=True)


def kernels_dir() -> Path:
    """Return the folder of the kernels' sources: of the checkout, or of the installed package."""
    return _shipped("kernels")


def scenarios() -> list[Scenario]:
    """Return every scenario there is, by name."""
    return [load(path) for path in sorted(_shipped("scenarios").glob("[a-z]*.py"))]


def find(name: str) -> Scenario:
    """Return one scenario; raises UsageError with the names there are."""
    found = {scenario.name: scenario for scenario in scenarios()}
    if name not in found:
        raise UsageError(f"there is no scenario {name!r}", f"scenarios: {' '.join(found)}")
    return found[name]


def load(path: Path) -> Scenario:
    """Read docstring and constants of a script without importing it: it may need what is not installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {"__doc__": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:  # not a literal: none of the constants a runner reads
                continue
    return Scenario(path, constants)


def measured(folder: Path) -> dict[str, Any]:
    """Return what the script measured, the last line of JSON it printed; empty where it printed none."""
    try:
        lines = (folder / PROGRAM_OUTPUT).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def _shipped(name: str) -> Path:
    checkout, installed = _PACKAGE.parent / name, _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else checkout


def _lacks_module(name: str) -> str:
    if importlib.util.find_spec(name):
        return ""
    return f"{name} is not installed (pip install 'nsyswrap[scenarios]')"


def _lacks_ninja() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "ninja"
    return "" if shutil.which("ninja") or beside.exists() else "ninja is not installed (pip install ninja)"


def _lacks_nvcc() -> str:
    try:
        find_nvcc()
    except Unavailable as error:
        return str(error)
    return ""


_NEEDS: dict[str, Callable[[], str]] = {
    "torch": lambda: _lacks_module("torch"),
    "ninja": _lacks_ninja,
    "nvcc": _lacks_nvcc,
    "gpu": lambda: device.query().error,
}
