"""Find, build and run scenarios: scripts that each run one experiment.

A script describes itself by literals, see ``Scenario``. It is parsed and never imported.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from nsyswrap.base import paths
from nsyswrap.base.errors import ScenarioFailed, Unavailable, UsageError
from nsyswrap.base.files import parsed, tail, typed
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import PROGRAM_OUTPUT, SCENARIO_FILES, RunFolder, Status
from nsyswrap.base.run_tool import fault_of, run_tool
from nsyswrap.base.text import unknown
from nsyswrap.record import gpus
from nsyswrap.record.program import Program, RunSpec

with lazy_imports():
    from nsyswrap.base import version
    from nsyswrap.record import nvcc
    from nsyswrap.record.in_program import script

_PACKAGE = Path(__file__).parents[1]
_BUILD_TIMEOUT_S = 3600
_OUTPUT_END = 64 << 20  # bytes of what a script printed that are read


@dataclass(frozen=True)
class Scenario:
    """One script and its literals.

    ``VARIANTS`` lists the variants in the order of their runs. ``VARIANT_OPTION`` selects one (default
    ``--variant``). ``NEEDS`` are the requirements of all variants, ``VARIANT_NEEDS`` those of some. ``NSYS``
    has recording options of some variants. ``ALONE`` lists variants that run without nsys: they use a
    profiler of their own, or no GPU. ``KEEPS`` lists variants that print text for people before their
    measurements, and keep files in the run folder. ``CROSS_CHECK``: the script can be timed by several
    clocks. ``LADDER``: each variant repairs one thing in the one before; it has the finding that a variant
    repairs, or ``kernels``. ``LOOK_FOR`` says what to see in the closing table. ``builds``: the script has a
    function ``build``, which ``--build`` calls.
    """

    path: Path
    constants: Mapping[str, Any] = field(repr=False)
    builds: bool = False

    @property
    def name(self) -> str:
        """The script's name without the trailing underscore, which avoids the name of a package."""
        return self.path.stem.rstrip("_")

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return self.explanation.partition("\n")[0]

    @property
    def explanation(self) -> str:
        """The docstring: what is run, and what to look for."""
        return str(self.constants["__doc__"]).strip()

    @property
    def look_for(self) -> str:
        """One sentence: what to see in the closing table."""
        return str(self.constants["LOOK_FOR"])

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants in the order of their runs."""
        return tuple(self.constants["VARIANTS"])

    @property
    def alone(self) -> tuple[str, ...]:
        """The variants that run without nsys."""
        return tuple(self.constants.get("ALONE", ()))

    @property
    def keeps(self) -> tuple[str, ...]:
        """The variants that print text for people, and keep files in ``SCENARIO_FILES`` of the run folder."""
        return tuple(self.constants.get("KEEPS", ()))

    @property
    def can_cross_check(self) -> bool:
        """True if the script can be timed by several clocks."""
        return bool(self.constants.get("CROSS_CHECK"))

    @property
    def repairs(self) -> Mapping[str, str]:
        """The finding that each variant repairs in the one before; empty if the variants are no ladder."""
        return dict(self.constants.get("LADDER", {}))

    @cached_property
    def lacks(self) -> list[str]:
        """The requirements of all variants that this machine does not meet, as texts."""
        return _missing(self.constants["NEEDS"])

    def lacks_for(self, variant: str) -> list[str]:
        """Return the requirements of one variant that this machine does not meet, as texts."""
        return self.lacks + _missing(self.constants.get("VARIANT_NEEDS", {}).get(variant, ()))

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line of the script."""
        return (sys.executable, str(self.path), *arguments)

    def build(self, arguments: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Build what the script runs with these arguments, outside of any measured run.

        Returns the arguments that name the result. Raises ScenarioFailed if the build fails, Unavailable if
        this machine cannot run the scenario.
        """
        if self.lacks:
            raise Unavailable(f"{self.name} cannot run here: {'; '.join(self.lacks)}")
        if not self.builds:
            return ()
        try:
            done = run_tool(self.argv("--build", *arguments), _BUILD_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise ScenarioFailed(f"{self.name} could not be built: its script {fault_of(error)}") from None
        if done.returncode:
            raise ScenarioFailed(f"{self.name} could not be built:\n{done.stderr.rstrip()}")
        return ("--built", done.stdout.splitlines()[-1])

    def check(self, variants: Iterable[str]) -> None:
        """Raise UsageError if the script does not have all these variants."""
        for variant in variants:
            if variant not in self.variants:
                message, hint = unknown("variant", variant, self.variants)
                raise UsageError(f"{message} in scenario {self.name!r}", hint)

    def variant_argv(self, variant: str) -> tuple[str, str]:
        """Return the arguments that select one variant."""
        return str(self.constants.get("VARIANT_OPTION", script.VARIANT_OPTION)), variant

    def clock_argv(self, clock: str) -> tuple[str, ...]:
        """Return the arguments that time all variants that run under nsys with one clock."""
        option, _ = self.variant_argv("")
        variants = [] if option == script.CLOCK_OPTION else [v for v in self.variants if v not in self.alone]
        return (*(part for variant in variants for part in (option, variant)), script.CLOCK_OPTION, clock)

    def keep_argv(self, variant: str, output: Path) -> tuple[str, ...]:
        """Return the arguments that name the folder of a variant's files in the run folder ``output``."""
        return (script.KEEP_OPTION, str(output / SCENARIO_FILES)) if variant in self.keeps else ()

    def spec(
        self, arguments: tuple[str, ...], output: Path, *, variant: str = "", force: bool = False
    ) -> RunSpec:
        """Return the spec of a run under nsys; the script's stdout goes into the run folder."""
        options = RecordingOptions(**self.constants.get("NSYS", {}).get(variant, {}))
        arguments = (*arguments, *self.keep_argv(variant, output))
        return RunSpec(
            Program(self.argv(*arguments), self.name), output, options, force=force, keep_output=True
        )


def run_alone(spec: RunSpec) -> Status:
    """Run the program of a RunSpec without nsys; its run folder has output and status, and no report."""
    folder = RunFolder(spec.output, spec.options.share)
    folder.create({"program": list(spec.program.argv), "nsys": None}, force=spec.force)
    with os.fdopen(folder.open(PROGRAM_OUTPUT), "wb") as output:
        code = subprocess.run(spec.program.argv, stdout=output, check=False).returncode
    code = 128 - code if code < 0 else code  # the exit code of a shell for a signal
    message = f"the program ended with exit code {code}" if code else ""
    status = Status("program_failed" if code else "done", code, None, code, message)
    folder.write_status(status)
    return status


def kernels_dir() -> Path:
    """Return the folder with the sources of the kernels, in the installed package or the checkout."""
    return _shipped("kernels")


def scenarios() -> list[Scenario]:
    """Return all scenarios, sorted by name."""
    return [load(path) for path in paths.matching(_shipped("scenarios"), "[a-z]*.py")]


def find_scenario(name: str) -> Scenario:
    """Return the scenario of this name. Raises UsageError if there is none."""
    by_name = {scenario.name: scenario for scenario in scenarios()}
    if name not in by_name:
        raise UsageError(*unknown("scenario", name, by_name))
    return by_name[name]


def load(path: Path) -> Scenario:
    """Parse docstring and literals of a script, without importing it: it may need missing packages."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {"__doc__": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:  # not a literal, so not part of the description
                continue
    builds = any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)
    return Scenario(path, constants, builds)


@dataclass(frozen=True)
class _Profiled:
    launches: int
    cpu_ops: int
    kernels: int
    kernel_median_us: float | None


@dataclass(frozen=True)
class _Timing:
    range: str
    operator: str
    median_us: float
    profiler: _Profiled | None = None


@dataclass(frozen=True)
class _Measured:
    """What is read of the measurements that a script prints."""

    timings: tuple[_Timing, ...] = ()


def measured(folder: Path) -> dict[str, Any]:
    """Return the last line of JSON that the script printed, its measurements; empty if there is none.

    Raises ScenarioFailed if that line is damaged.
    """
    path = folder / PROGRAM_OUTPUT
    line = next((line for line in reversed(_output(folder)) if line.startswith("{")), "{}")
    try:
        measurements: dict[str, Any] = parsed(json.loads, line)
        typed(_Measured, measurements)
    except ValueError as error:
        raise ScenarioFailed(f"{path} has no valid measurements: {error}", "run the scenario again") from None
    return measurements


def printed(folder: Path) -> str:
    """Return the text that the script printed besides its measurements."""
    return "\n".join(line for line in _output(folder) if not line.startswith("{"))


def _output(folder: Path) -> list[str]:
    try:
        return tail(folder / PROGRAM_OUTPUT, _OUTPUT_END).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def _shipped(name: str) -> Path:
    checkout, installed = _PACKAGE.parent / name, _PACKAGE / "_shipped" / name
    return installed if paths.is_folder(installed) else checkout


def _missing(needs: Iterable[str]) -> list[str]:
    return [missing for need in needs if (missing := NEEDS[need]())]


def _lacks_module(name: str) -> str:
    if importlib.util.find_spec(name):
        return ""
    return f"{name} is not installed ({version.pip_install('scenarios')})"


def _lacks_ninja() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "ninja"
    return (
        ""
        if shutil.which("ninja") or os.access(beside, os.F_OK)
        else f"ninja is not installed ({version.pip_install('scenarios')})"
    )


def _lacks_nvcc() -> str:
    try:
        nvcc.find_nvcc()
    except Unavailable as error:
        return error.message
    return ""


def _lacks_mpi() -> str:
    absent = [program for program in ("mpicxx", "mpirun") if not shutil.which(program)]
    return f"{' and '.join(absent)} not found on PATH (install an MPI, such as Open MPI)" if absent else ""


@cache
def _devices() -> gpus.Devices:
    return gpus.query()


def _lacks_gpus() -> str:
    count = len(_devices().names)
    return _devices().error or ("" if count > 1 else f"two GPUs are needed; this machine has {count}")


NEEDS: dict[str, Callable[[], str]] = {
    "torch": lambda: _lacks_module("torch"),
    "triton": lambda: _lacks_module("triton"),
    "nvtx": lambda: _lacks_module("nvtx"),
    "ninja": _lacks_ninja,
    "nvcc": _lacks_nvcc,
    "mpi": _lacks_mpi,
    "gpu": lambda: _devices().error,
    "gpus": _lacks_gpus,
}
