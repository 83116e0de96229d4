"""The keys of [[runs]] for a program on many ranks, and for its GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nsyswrap.base.errors import PlanError
from nsyswrap.record.batch.launchers import NAMES
from nsyswrap.record.batch.plan.toml_table import FLAG, TomlTable, ValueKind, as_toml

_MOST_TASKS = 1_000_000
_STARTERS = ("srun", "mpirun", "mpiexec", "torchrun")
_SEVERAL = re.compile(r" (?:-n ?|--ntasks[= ])(?:[2-9]|1\d)")
_COUNTS = re.compile(r"-(n|np|-np|-ntasks|-nproc[-_]per[-_]node|-nnodes)(=|\d|$)")
_CURE = 'add launcher = "{}" and ntasks to the [[runs]]'


def _is_count(value: object) -> bool:
    return (type(value) is int and 1 <= value <= _MOST_TASKS) or (isinstance(value, str) and bool(value))


def _are_ranks(value: object) -> bool:
    if value == "all":
        return True
    numbers = isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)
    return isinstance(value, list) and numbers and bool(value) and len(set(value)) == len(value)


COUNT_OR_PARAMETER = ValueKind('a whole number, 1 or more, or a parameter such as "{n}"', _is_count)
RANKS = ValueKind('"all", or a list of ranks, each once, for example [0, 8]', _are_ranks)


@dataclass(frozen=True)
class LaunchTemplate:
    """How the program of a [[runs]] is started. ``ntasks`` and ``gpus`` can have parameters; empty: not set.

    ``profiled_ranks``: None for all. ``profiled`` is False for a command that brings its own nsys.
    """

    where: str = ""
    launcher: str = ""
    launcher_options: tuple[str, ...] = ()
    ntasks: str = ""
    profiled_ranks: tuple[int, ...] | None = None
    profiled: bool = True
    gpus: str = ""

    @property
    def words(self) -> Iterator[str]:
        """The texts in which parameters can stand."""
        return filter(None, (self.ntasks, self.gpus, *self.launcher_options))

    def fields(self, fill: Callable[[str], str]) -> dict[str, Any]:
        """Return the fields of a TaskSpec, with parameters filled in. Raises PlanError."""
        ntasks = self._count("ntasks", fill(self.ntasks)) if self.ntasks else 1
        if self.profiled_ranks and self.profiled_ranks[-1] >= ntasks:
            raise PlanError(
                f"{self.where}: profiled_ranks has rank {self.profiled_ranks[-1]}, and ntasks is {ntasks}",
                f"ranks are numbered from 0 to {ntasks - 1}",
            )
        if ntasks > 1 and not self.launcher:
            raise PlanError(
                f"{self.where}: ntasks = {ntasks} needs a launcher: each task would run the whole program",
                f"add launcher = {' or '.join(map(as_toml, NAMES))}, or omit ntasks",
            )
        return {
            "launcher": self.launcher,
            "launcher_options": tuple(map(fill, self.launcher_options)),
            "ntasks": ntasks,
            "profiled_ranks": self.profiled_ranks,
            "profiled": self.profiled,
            "gpus": self._count("gpus", fill(self.gpus)) if self.gpus else None,
        }

    def _count(self, key: str, text: str) -> int:
        if not (text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= _MOST_TASKS):
            raise PlanError(f"{self.where}: invalid {key} = {text!r}: expected a whole number, 1 or more")
        return int(text)


def read(run: TomlTable) -> LaunchTemplate:
    """Return the launch of a [[runs]]. Raises PlanError for keys that do not fit together."""
    launcher, *options = run.words("launcher") if "launcher" in run.content else ("",)
    _check_launcher(run, launcher, options)
    if launcher and "scenario" in run.content:
        run.refuse("launcher cannot be used with scenario", "scenarios start their ranks themselves")
    if launcher and "ntasks" not in run.content:
        run.refuse("launcher needs ntasks, the number of ranks", "for example ntasks = 8")
    if not launcher and "profiled_ranks" in run.content:
        run.refuse("profiled_ranks needs a launcher", _CURE.format(NAMES[0]))
    profiled = run.get("profiled", FLAG, default=True)
    if not profiled and "scenario" in run.content:
        run.refuse("profiled = false cannot be used with scenario", "give the command that runs nsys")
    ranks = run.get("profiled_ranks", RANKS, "all")
    return LaunchTemplate(
        run.where,
        launcher,
        tuple(options),
        str(run.get("ntasks", COUNT_OR_PARAMETER, "")),
        None if ranks == "all" else tuple(sorted(ranks)),
        profiled,
        str(run.get("gpus", COUNT_OR_PARAMETER, "")),
    )


def _check_launcher(run: TomlTable, launcher: str, options: Sequence[str]) -> None:
    if launcher and launcher not in NAMES:
        run.refuse(f"invalid launcher = {as_toml(launcher)}: expected {' or '.join(map(as_toml, NAMES))}")
    for option in options:
        if _COUNTS.match(option):
            run.refuse(f"launcher has {option}: ntasks sets the number of ranks", "omit it")


def check_command(run: TomlTable, launch: LaunchTemplate, command: tuple[str, ...]) -> None:
    """Raise PlanError for a command that starts its tasks where nsys does not see them."""
    name = PurePath(command[0]).name if command else ""
    if name == "srun" and launch.profiled:
        run.refuse(
            "the command begins with srun: nsys does not see the tasks that srun starts",
            'omit srun and add launcher = "srun" and ntasks, or add profiled = false',
        )
    if launch.launcher and name in _STARTERS:
        run.refuse(f"the command begins with {name}, and launcher is set", f"omit {name} in the command")


def check_wrapper(node: TomlTable, wrapper: tuple[str, ...]) -> None:
    """Raise PlanError for a wrapper that starts tasks: each would run the whole run."""
    name = PurePath(wrapper[0]).name if wrapper else ""
    if name in _STARTERS and (name != "srun" or _SEVERAL.search(" ".join(wrapper))):
        cure = _CURE.format(name if name in NAMES else "mpirun")
        node.refuse(f"wrapper begins with {name}: each of its tasks would be the whole run", cure)
