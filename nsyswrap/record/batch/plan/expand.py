"""Expand the blocks of a plan into runs: every combination of parameters once per repeat, with a label.

A block is a command or a scenario, and the parameters it is run with.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from nsyswrap.base.errors import PlanError
from nsyswrap.base.nsys.command import Options
from nsyswrap.record.batch.plan.parameters import Template, Value
from nsyswrap.record.batch.task import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nsyswrap.base.run_folder import Share
    from nsyswrap.record.batch.task import Scalar
    from nsyswrap.record.scenarios import Scenario


VARIANT = "variant"  # the parameter that a scenario brings along
REPEAT = "repeat"  # no parameter, but {repeat} is replaced
_LONGEST_IN_LABEL = 40
_SOURCES = (".py", ".cu")

Combination: TypeAlias = Mapping[str, Value]

_Combination: TypeAlias = tuple[int, int]  # number of its block, and which of the block's
MOST_RUNS = 99_999  # each is a folder, and a task of Slurm's


@dataclass(frozen=True)
class Block:
    """A ``command``, or ``variants`` of a ``scenario`` with ``arguments``, times all combinations.

    ``grid``: values of each parameter, all crossed. ``points``: combinations as they are, each crossed with
    the grid. ``nsys``: those fields of Options that were asked for. ``where`` stands before every complaint.
    """

    where: str
    command: tuple[str, ...] = ()
    module: bool = False
    arch: str | None = None
    scenario: Scenario | None = None
    variants: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    grid: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    points: tuple[Combination, ...] = ()
    repeat: int = 1
    timeout_s: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    nsys: Mapping[str, Any] = field(default_factory=dict)
    nsys_path: str | None = None
    keep_environment: bool = False
    discard_rep: bool = False
    name: str = ""

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters, in order."""
        return [*([VARIANT] if self.variants else []), *self.grid, *(self.points[0] if self.points else ())]

    @property
    def count(self) -> int:
        """How many runs it makes."""
        values = prod(map(len, self.grid.values()))
        return values * max(1, len(self.points)) * max(1, len(self.variants)) * self.repeat

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination once; the first parameter changes slowest."""
        axes: list[list[Combination]] = [[{VARIANT: Value(v, v)} for v in self.variants]]
        axes += [[{name: value} for value in values] for name, values in self.grid.items()]
        axes.append(list(self.points))
        for parts in itertools.product(*filter(None, axes)):
            yield {name: value for part in parts for name, value in part.items()}

    def check(self) -> None:
        """Raise PlanError for ``{name}`` that is no parameter, and for a parameter that is nowhere."""
        known = [*self.parameters, REPEAT]
        used = [(name, template.word) for template in self._templates for name in template.names]
        for name, word in used:
            if name not in known:
                raise PlanError(
                    f"{self.where}: {{{name}}} in {word!r} is no parameter",
                    f"parameters: {', '.join(known)}; {{{{{name}}}}} is {{{name}}} as it stands",
                )
        placed = {name for name, _ in used} | ({VARIANT} if self.scenario else set())
        for name in self.parameters:
            if name not in placed:
                place = "arguments" if self.scenario else "command"
                raise PlanError(
                    f"{self.where}: the parameter {name!r} is used nowhere: all its runs would be the same",
                    f"write {{{name}}} where its value belongs: in the {place}, or in a value of env",
                )

    def specs(self, repeat: int, cwd: str, *, titled: bool = False) -> Iterator[Spec]:
        """Yield the planned runs of one repeat.

        Their labels are those of the combinations; ``titled`` puts in front what is run.
        """
        for combination in self.combinations():
            texts = {name: value.text for name, value in combination.items()} | {REPEAT: str(repeat)}
            yield Spec(
                label=self._label(texts, titled=titled),
                parameters={name: value.plain for name, value in combination.items()},
                repeat=repeat,
                cwd=cwd,
                command=tuple(template.fill(texts) for template in self._command),
                module=self.module,
                arch=self.arch,
                scenario=self.scenario.name if self.scenario else "",
                variant=texts[VARIANT] if self.scenario else "",
                arguments=tuple(template.fill(texts) for template in self._arguments),
                env={name: template.fill(texts) for name, template in self._env.items()},
                nsys=self._options(texts),
                nsys_path=self.nsys_path,
                timeout_s=self.timeout_s,
                keep_environment=self.keep_environment,
                discard_rep=self.discard_rep,
            )

    @cached_property
    def _command(self) -> list[Template]:
        return [Template(word) for word in self.command]

    @cached_property
    def _arguments(self) -> list[Template]:
        return [Template(word) for word in self.arguments]

    @cached_property
    def _env(self) -> dict[str, Template]:
        return {name: Template(text) for name, text in self.env.items()}

    @property
    def _templates(self) -> list[Template]:
        return [*self._command, *self._arguments, *self._env.values()]

    def _options(self, texts: Mapping[str, str]) -> Options:
        """Return what to record: as the scenario wants it, unless the plan says otherwise."""
        own = self.scenario.constants.get("NSYS", {}).get(texts[VARIANT], {}) if self.scenario else {}
        return Options(**{**own, **self.nsys})

    def _label(self, texts: Mapping[str, str], *, titled: bool) -> str:
        words = [f"{name}={_short(texts[name])}" for name in self.parameters]
        if titled or self.name or not words:
            words.insert(0, self.name or _short(self._title(texts)))
        return " ".join(words)

    def _title(self, texts: Mapping[str, str]) -> str:
        """Return what is run: the scenario, or the program as a run folder is called after it."""
        if self.scenario:
            return self.scenario.name
        program = PurePath(self._command[0].fill(texts))
        return program.stem if program.suffix in _SOURCES else program.name


def _short(text: str) -> str:
    """Return a value as labels hold it: on one line, and of a long one the end, as paths differ there."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_IN_LABEL else f"…{line[1 - _LONGEST_IN_LABEL :]}"


@dataclass(frozen=True)
class Plan:
    """What to run, and what has to be known where it runs.

    ``slurm``: settings of sbatch, passed through unchanged. ``setup``: lines of shell before each run;
    ``wrapper``: the command that nsyswrap is started with there; ``python``: the Python that runs it, None
    for the one that submits. ``max_running``: how many at a time, None for as many as there is room for.
    ``notes``: what a person should know before the plan is carried out. ``share``: who else may read it all.
    """

    name: str
    specs: tuple[Spec, ...]
    slurm: Mapping[str, Scalar] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    python: str | None = None
    max_running: int | None = None
    notes: tuple[str, ...] = ()
    share: Share | None = None


def expand(blocks: Sequence[Block], where: str) -> tuple[tuple[Spec, ...], tuple[str, ...]]:
    """Return the runs of all blocks, and notes on them. Raises PlanError for wrong names of parameters.

    All combinations come once before any comes again: a machine that gets warmer or busier meanwhile does so
    for all alike. A label is that of a combination, and names the program only where the parameters do not
    tell them apart.
    """
    for block in blocks:
        block.check()
    wanted = sum(block.count for block in blocks)
    if wanted > MOST_RUNS:
        raise PlanError(f"{where}: that makes {wanted:,} runs, and {MOST_RUNS:,} are the most", "split it up")
    runs = _once(_all(blocks, titled=False))
    labels = {combination: spec.label for combination, spec in runs}
    if len(set(labels.values())) < len(labels):
        runs = _once(_all(blocks, titled=True))
        labels = _numbered({combination: spec.label for combination, spec in runs})
    twice = wanted - len(runs)
    note = f"{twice} of {wanted} runs stand in more than one [[runs]]: they are made once"
    specs = (replace(spec, label=labels[combination]) for combination, spec in runs)
    return tuple(specs), (note,) * bool(twice)


def _all(blocks: Sequence[Block], *, titled: bool) -> Iterator[tuple[_Combination, Spec]]:
    cwd = _current_folder()
    for repeat in range(1, max(block.repeat for block in blocks) + 1):
        for number, block in enumerate(blocks):
            if repeat <= block.repeat:
                for i, spec in enumerate(block.specs(repeat, cwd, titled=titled)):
                    yield (number, i), spec


def _once(runs: Iterable[tuple[_Combination, Spec]]) -> list[tuple[_Combination, Spec]]:
    """Leave out runs that are the same as one before them, and make one of their combinations."""
    first: dict[str, _Combination] = {}
    same: dict[_Combination, _Combination] = {}
    kept = []
    for combination, spec in runs:
        known = first.setdefault(_identity(spec), combination)
        if known == combination:
            kept.append((combination, spec))
        else:
            same.setdefault(combination, known)
    return [(same.get(combination, combination), spec) for combination, spec in kept]


def _identity(spec: Spec) -> str:
    """Return what tells two runs apart, as ``Spec.key`` does, in a fraction of its time."""
    facts = {name: value for name, value in vars(spec).items() if name not in ("label", "timeout_s")}
    return repr([sorted(value.items()) if isinstance(value, dict) else value for value in facts.values()])


def _numbered(labels: Mapping[_Combination, str]) -> dict[_Combination, str]:
    """Tell apart labels that are still the same, by a number."""
    taken, count = set(labels.values()), Counter[str]()
    numbered = {}
    for combination, label in labels.items():
        count[label] += 1
        unique = label
        while count[label] > 1 and unique in taken:
            unique = f"{label} #{count[label]}"
            count[label] += unique in taken
        taken.add(unique)
        numbered[combination] = unique
    return numbered


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise PlanError(f"there is no current folder: {error.strerror}", "go to one that is there") from None
