"""Expand the blocks of a plan into runs: every combination of parameters once per repeat, with a label.

A block is a command or a scenario with its parameters.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import prod
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.base.nsys.options import RecordingOptions, check_trace
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import Share, program_name
from nsyswrap.record import nvcc as compiler
from nsyswrap.record.batch.launchers import NAMES
from nsyswrap.record.batch.plan.toml_table import (
    FLAG,
    ParameterValue,
    Template,
    TomlTable,
    ValueKind,
    as_toml,
    is_one_edit,
)
from nsyswrap.record.batch.task import RUN_DIR, Scalar, TaskSpec
from nsyswrap.record.scenarios import Scenario

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


def read_launch(run: TomlTable) -> LaunchTemplate:
    """Return the launch of a [[runs]]. Raises PlanError for keys that do not fit together."""
    launcher, *options = run.words("launcher") if "launcher" in run.content else ("",)
    if launcher and launcher not in NAMES:
        run.refuse(f"invalid launcher = {as_toml(launcher)}: expected {' or '.join(map(as_toml, NAMES))}")
    for option in options:
        if _COUNTS.match(option):
            run.refuse(f"launcher has {option}: ntasks sets the number of ranks", "omit it")
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


VARIANT = "variant"  # a parameter that every scenario has
REPEAT = "repeat"  # no parameter, but {repeat} is replaced as well
RUN_FOLDER = RUN_DIR.strip("{}")  # the same, when the run begins
_LONGEST_IN_LABEL = 40

_MOST_RUNS = 999_999
Combination: TypeAlias = Mapping[str, ParameterValue]
_CombinationId: TypeAlias = tuple[int, int]  # the number of its block, and its own number in the block


@dataclass(frozen=True)
class RunsEntry:
    """A ``command``, or ``variants`` of a ``scenario`` with ``arguments``, and their parameters.

    ``grid`` has the values of each parameter, for all combinations. Each of the ``points`` is combined with
    all of the grid. ``options`` has the fields of RecordingOptions that are set. ``settings`` has settings of
    each executor by its name; parameters can stand in them. ``where`` begins every error message.
    """

    where: str
    command: tuple[str, ...] = ()
    module: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    scenario: Scenario | None = None
    variants: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    grid: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)
    points: tuple[Combination, ...] = ()
    repeat: int = 1
    name: str = ""
    require: Mapping[str, str] = field(default_factory=dict)
    launch: LaunchTemplate = field(default_factory=LaunchTemplate)
    settings: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters, in order."""
        return [*([VARIANT] if self.variants else []), *self.grid, *(self.points[0] if self.points else ())]

    @property
    def count(self) -> int:
        """The number of its runs."""
        values = prod(map(len, self.grid.values()))
        return values * max(1, len(self.points)) * max(1, len(self.variants)) * self.repeat

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination of parameters. The first parameter changes slowest."""
        axes: list[list[Combination]] = [[{VARIANT: ParameterValue(v, v)} for v in self.variants]]
        axes += [[{name: value} for value in values] for name, values in self.grid.items()]
        axes.append(list(self.points))
        for parts in itertools.product(*filter(None, axes)):
            yield {name: value for part in parts for name, value in part.items()}

    def check(self) -> None:
        """Raise PlanError for a ``{name}`` that is nearly a parameter, and for a parameter that is not used.

        Other texts in braces stay as they are, except where only a parameter makes sense.
        """
        known = [*self.parameters, REPEAT, RUN_FOLDER]
        used = [(name, template.word) for template in self._templates.values() for name in template.names]
        strict = {*self._texts_of_settings(), *self.launch.words, *self._nvcc}
        for name, word in used:
            if name not in known and (word in strict or any(is_one_edit(name, one) for one in known)):
                itself = "" if word in strict else f"; write {{{{{name}}}}} for {{{name}}} itself"
                raise PlanError(
                    f"{self.where}: no parameter named {name!r}, used in {word!r}",
                    f"parameters: {', '.join(known)}{itself}",
                )
            if name == RUN_FOLDER and (word in strict or self.scenario):
                raise PlanError(f"{self.where}: {RUN_DIR} cannot be used in {word!r}")
        self._check_used(used)
        if self.options.get("trace"):
            try:
                check_trace(self.options["trace"], self.options.get("nsys_path"))
            except UsageError as error:
                raise PlanError(f"{self.where}: {error.message}", error.hint) from None

    def _check_used(self, used: Iterable[tuple[str, str]]) -> None:
        placed = {name for name, _ in used} | ({VARIANT} if self.scenario else set())
        for name in self.parameters:
            if name not in placed:
                place = "arguments" if self.scenario else "command"
                raise PlanError(
                    f"{self.where}: the parameter {name!r} is not used: its runs would all be the same",
                    f"write {{{name}}} in the {place} or in a value of env, or in a setting of the scheduler",
                )

    def specs(self, repeat: int, cwd: str, *, titled: bool = False) -> Iterator[TaskSpec]:
        """Yield the planned runs of one repeat. ``titled``: their labels begin with the program's name."""
        for combination in self.combinations():
            texts = {name: value.text for name, value in combination.items()} | {REPEAT: str(repeat)}
            # The placeholder of the run folder stays a text.
            for name, text in texts.items():
                if RUN_DIR in text:
                    raise PlanError(f"{self.where}: {name} = {text!r}: {RUN_DIR} cannot be part of a value")
            yield TaskSpec(
                label=self._label(texts, titled=titled),
                parameters={name: value.plain for name, value in combination.items()},
                repeat=repeat,
                cwd=cwd,
                command=(*self._filled(self.command[:1], texts), *self._arguments(self.command[1:], texts)),
                module=self.module,
                options=self._options(texts),
                scenario=self.scenario.name if self.scenario else "",
                variant=texts[VARIANT] if self.scenario else "",
                arguments=self._arguments(self.arguments, texts),
                require=dict(self.require),
                **self.launch.fields(lambda word, texts=texts: self._filled([word], texts)[0]),  # type: ignore[misc]
                settings={
                    executor: {key: self._setting(value, texts) for key, value in settings.items()}
                    for executor, settings in self.settings.items()
                    if settings
                },
            )

    def _setting(self, value: Scalar, texts: Mapping[str, str]) -> Scalar:
        return self._filled([value], texts)[0] if isinstance(value, str) else value

    def _texts_of_settings(self) -> Iterator[str]:
        values = (value for settings in self.settings.values() for value in settings.values())
        return (value for value in values if isinstance(value, str))

    @cached_property
    def _templates(self) -> dict[str, Template]:
        own = (*self.command, *self._nvcc, *self.arguments, *self._env.values())
        words = (*own, *self.launch.words, *self._texts_of_settings())
        return {word: Template(word) for word in words}

    def _filled(self, words: Iterable[str], texts: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(self._templates[word].fill(texts) for word in words)

    def _arguments(self, words: Sequence[str], texts: Mapping[str, str]) -> tuple[str, ...]:
        """Return words with their parameters. One with empty values alone is no argument: a flag left out."""
        filled = zip(words, self._filled(words, texts), strict=True)
        return tuple(text for word, text in filled if text or not self._templates[word].names)

    @property
    def _nvcc(self) -> tuple[str, ...]:
        return tuple(self.options.get("nvcc", ()))

    @property
    def _env(self) -> dict[str, str]:
        return dict(self.options.get("env", {}))

    def _options(self, texts: Mapping[str, str]) -> RecordingOptions:
        """Return the options of recording: the scenario's own, overridden by the plan. Raises PlanError."""
        own = self.scenario.constants.get("NSYS", {}).get(texts[VARIANT], {}) if self.scenario else {}
        nvcc, env = self._filled(self._nvcc, texts), self._filled(self._env.values(), texts)
        try:
            if nvcc:
                compiler.check(self._filled(self.command[:1], texts)[0], nvcc, module=self.module)
            filled = {"nvcc": nvcc, "env": dict(zip(self._env, env, strict=True))}
            return RecordingOptions(**{**own, **self.options, **filled})
        except UsageError as error:
            raise PlanError(f"{self.where}: {error.message}", error.hint) from None

    def _label(self, texts: Mapping[str, str], *, titled: bool) -> str:
        if Template(self.name).names:
            return " ".join(Template(self.name).fill(texts).split())
        words = [f"{name}={_short(texts[name])}" for name in self.parameters]
        if titled or self.name or not words:
            words.insert(0, self.name or _short(self._title(texts)))
        return " ".join(words)

    def _title(self, texts: Mapping[str, str]) -> str:
        if self.scenario:
            return self.scenario.name
        return program_name(self._filled(self.command, texts))


def _short(text: str) -> str:
    """Return a value for a label, on one line. Of a long one keep the end, where paths differ."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_IN_LABEL else f"…{line[1 - _LONGEST_IN_LABEL :]}"


@dataclass(frozen=True)
class Plan:
    """The runs of a batch, and settings for the machines that run them.

    ``settings`` has the settings of each executor by the executor's name. On a node, the shell
    lines of ``setup`` are executed before each run, ``wrapper`` is the command that starts nsyswrap, and
    ``python`` is the Python that runs it (None: the one that submits). At most ``max_running`` runs run at a
    time (None: no limit). The batch ends if the first ``stop_after_empty`` runs, which had GPUs, have no GPU
    work (None: it goes on). ``notes`` are for the user, before the plan is run. ``share`` says who else may
    read the batch.
    """

    name: str
    specs: tuple[TaskSpec, ...]
    settings: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    python: str | None = None
    max_running: int | None = None
    stop_after_empty: int | None = None
    notes: tuple[str, ...] = ()
    share: Share | None = None

    @property
    def names_python(self) -> bool:
        """True if it says which Python runs nsyswrap on a node: it runs the scripts, too."""
        return bool(self.wrapper or self.python)


def expand(blocks: Sequence[RunsEntry], where: str) -> tuple[tuple[TaskSpec, ...], tuple[str, ...]]:
    """Return the runs of all blocks, and notes for the user. Raises PlanError for wrong parameters.

    Every combination is run once before any is repeated, so that a machine that gets warmer or busier affects
    all of them. A label names the program only if the parameters alone do not tell the combinations apart.
    """
    for block in blocks:
        block.check()
    wanted = sum(block.count for block in blocks)
    if wanted > _MOST_RUNS:
        raise PlanError(
            f"{where}: {wanted:,} runs are too many: the limit is {_MOST_RUNS:,}", "split the plan"
        )
    runs = _once(_all(blocks, titled=False))
    labels = {combination: spec.label for combination, spec in runs}
    if len(set(labels.values())) < len(labels):
        runs = _once(_all(blocks, titled=True))
        labels = _numbered({combination: spec.label for combination, spec in runs})
    twice = wanted - len(runs)
    note = f"{twice} of {wanted} runs occur in more than one [[runs]] and are run once"
    specs = (replace(spec, label=labels[combination]) for combination, spec in runs)
    return tuple(specs), (note,) * bool(twice)


def _all(blocks: Sequence[RunsEntry], *, titled: bool) -> Iterator[tuple[_CombinationId, TaskSpec]]:
    cwd = _current_folder()
    for repeat in range(1, max(block.repeat for block in blocks) + 1):
        for number, block in enumerate(blocks):
            if repeat <= block.repeat:
                for i, spec in enumerate(block.specs(repeat, cwd, titled=titled)):
                    yield (number, i), spec


def _once(runs: Iterable[tuple[_CombinationId, TaskSpec]]) -> list[tuple[_CombinationId, TaskSpec]]:
    """Return the runs without those that equal an earlier one. Equal combinations become one."""
    first: dict[str, _CombinationId] = {}
    same: dict[_CombinationId, _CombinationId] = {}
    kept = []
    for combination, spec in runs:
        earlier = first.setdefault(_identity(spec), combination)
        if earlier == combination:
            kept.append((combination, spec))
        else:
            same.setdefault(combination, earlier)
    return [(same.get(combination, combination), spec) for combination, spec in kept]


def _identity(spec: TaskSpec) -> str:
    """Return a text that is the same for equal runs, much faster than ``TaskSpec.key``."""
    facts = {**vars(spec), **vars(spec.options)}
    for name in ("label", "options", "timeout_s"):
        del facts[name]
    return repr([sorted(value.items()) if isinstance(value, dict) else value for value in facts.values()])


def _numbered(labels: Mapping[_CombinationId, str]) -> dict[_CombinationId, str]:
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
        raise PlanError(
            f"the current folder cannot be used: {error.strerror}", "change to another folder"
        ) from None
