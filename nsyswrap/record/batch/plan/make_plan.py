"""Make a plan from a plan file, which is TOML, or from a command line. docs/batch.md shows a plan."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.base.run_folder import Share, program_word
from nsyswrap.record import scenarios
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.plan.expand import (
    REPEAT,
    RUN_FOLDER,
    VARIANT,
    Plan,
    RunsEntry,
    check_command,
    check_wrapper,
    expand,
    read_launch,
)
from nsyswrap.record.batch.plan.toml_table import (
    COUNT,
    FLAG,
    LIST,
    NSYS,
    PARAMETER,
    SECONDS,
    TABLES,
    TEXT,
    TEXTS,
    ParameterValue,
    Template,
    TomlTable,
    UnusableValue,
    as_toml,
    load,
    of_list,
    of_toml,
    one_of,
    plan_keys,
)
from nsyswrap.record.batch.task import Scalar, TaskSpec

_COMMAND_KEYS, _SCENARIO_KEYS = ("module", "arch", "nvcc"), ("variants", "arguments")
_LONGEST_NAME = 200  # bytes of a plan's name: Linux has folders of 255
_EXAMPLE = 'for example: [[runs]] command = "train.py --batch {b}" grid = { b = [32, 64] }'
_PARAMETER = re.compile(PARAMETER)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAME_AGAIN = "use repeat = N to run the same several times"


def read_plan(path: Path) -> Plan:
    """Return the plan in a TOML file. Raises PlanError with what is wrong and where."""
    keys = plan_keys(list(_with_table()))
    head = TomlTable(load(path), str(path), keys, "")
    if "runs" not in head.content:
        head.refuse("the plan has no [[runs]]", _EXAMPLE)
    runs = [
        TomlTable(content, f"{path}: [[runs]] {number}", keys, "[[runs]]")
        for number, content in enumerate(head.get("runs", TABLES), 1)
    ]
    settings = {
        name: executor.check_settings(head.table(name))
        for name, executor in _with_table().items()
        if name in head.content
    }
    specs, notes = expand([_block(head, run, settings) for run in runs], str(path))
    fixed = {name: _fixed(own) for name, own in settings.items()}
    _check_runs(specs, fixed, str(path))
    node = head.table("node")
    check_wrapper(node, node.words("wrapper"))
    share: Share | None = head.get("share", one_of("group"))
    if share and any(spec.options.keep_environment for spec in specs):
        head.refuse("share cannot be used with keep_environment: others could read the environment")
    return Plan(
        name=_name(head, path.stem),
        specs=specs,
        settings=fixed,
        setup=tuple(node.get("setup", TEXTS, ())),
        wrapper=node.words("wrapper"),
        python=node.get("python", TEXT),
        max_running=head.get("max_running", COUNT),
        stop_after_empty=head.get("stop_after_empty", COUNT),
        notes=notes,
        share=share,
    )


def sweep(
    block: RunsEntry,
    parameters: Sequence[str] = (),
    settings: Mapping[str, Sequence[str]] | None = None,
    name: str = "",
) -> Plan:
    """Return the plan of a block's command with every combination of ``parameters``, each as ``n=1024,2048``.

    Without a ``name`` it has that of its program.

    Values are a row of CSV: ``s="a,b",c`` are two. ``settings`` has the settings of each executor by the
    executor's name, each as ``partition=gpu``, or as ``exclusive`` for a flag. Raises UsageError.
    """
    try:
        checked = checked_settings(settings or {}, block.where)
        own = {name: _of_parameters(one) for name, one in checked.items()}
        block = replace(block, grid=_typed_grid(parameters, block.where), settings=own)
        specs, notes = expand([block], block.where)
        fixed = {name: _fixed(one) for name, one in checked.items()}
        _check_runs(specs, fixed, block.where)
        program = PurePath(program_word(block.command)).stem or block.where
        title = _name(TomlTable({"name": name} if name else {}, block.where), program)
    except PlanError as error:
        raise UsageError(error.message, error.hint) from None
    return Plan(title, specs, fixed, notes=notes, share=block.options.get("share"))


def checked_settings(settings: Mapping[str, Sequence[str]], where: str) -> dict[str, Mapping[str, Scalar]]:
    """Return settings that were typed, by the name of their executor. Raises PlanError."""
    checked = {}
    for name, typed in settings.items():
        parts = [one.partition("=") for one in typed]
        content = {key: value if equals else True for key, equals, value in parts}
        table = TomlTable(content, f"{where}: --{name}")
        checked[name] = executors.find_executor(name).check_settings(table)
    return checked


def _with_table() -> dict[str, executors.Executor]:
    return {name: one for name, one in executors.by_name().items() if one.settings_help}


def _of_parameters(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {key: one for key, one in settings.items() if isinstance(one, str) and Template(one).names}


def _fixed(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {key: value for key, value in settings.items() if key not in _of_parameters(settings)}


def _check_runs(specs: Iterable[TaskSpec], settings: Mapping[str, Mapping[str, Scalar]], where: str) -> None:
    specs = tuple(specs)
    for name, executor in _with_table().items():
        executor.check_runs(specs, settings.get(name, {}), where)


def _typed_grid(parameters: Sequence[str], where: str) -> dict[str, tuple[ParameterValue, ...]]:
    grid: dict[str, tuple[ParameterValue, ...]] = {}
    for parameter in parameters:
        name, equals, values = parameter.partition("=")
        if not name or not equals:
            raise UsageError(f"invalid -p {parameter!r}: expected NAME=V,V,..., for example n=1024,1048576")
        if name in grid:
            raise UsageError(f"-p {name} is given twice", f"use -p {name}=1,2")
        try:
            grid[name] = tuple(of_list(values))
        except UnusableValue as error:
            raise UsageError(f"invalid -p {parameter!r}: {error}") from None
    table = TomlTable({}, f"{where}: -p")
    _check_names(table, list(grid))
    for name, different in grid.items():
        _check_different(table, f"{name} =", [value.text for value in different])
    return grid


def _name(head: TomlTable, default: str) -> str:
    name = " ".join(head.get("name", TEXT, default).split())
    if "/" in name:
        head.refuse(f"invalid name = {as_toml(name)}: expected the name of a folder", "remove the /")
    if len(os.fsencode(name)) > _LONGEST_NAME:
        head.refuse(
            f"invalid name of {len(name)} characters: expected at most {_LONGEST_NAME} bytes", "shorten it"
        )
    return name


def _block(head: TomlTable, run: TomlTable, settings: Mapping[str, Mapping[str, Scalar]]) -> RunsEntry:
    """Return one block. The head of the plan has the defaults, ``settings`` are those of the executors."""
    required = head.table("require")
    program, of_program = _program(run)
    launch = read_launch(run)
    check_command(run, launch, program.get("command", ()))
    grid = _grid(run.table("grid"))
    points = _points(run, grid)
    _check_names(run, [*grid, *(points[0] if points else ())])
    return RunsEntry(
        where=run.where,
        **program,
        grid=grid,
        points=points,
        repeat=run.get("repeat", COUNT, head.get("repeat", COUNT, 1)),
        options={
            **_nsys(head),
            **_nsys(run),
            **of_program,
            "timeout_s": run.get("timeout", SECONDS, head.get("timeout", SECONDS)),
            "env": {**_env(head), **_env(run)},
        },
        name=" ".join(run.get("name", TEXT, "").split()),
        require={key: required.get(key, TEXT) for key in required.content},
        launch=launch,
        settings={
            name: {
                **_of_parameters(settings.get(name, {})),
                **(executor.check_settings(run.table(name)) if name in run.content else {}),
            }
            for name, executor in _with_table().items()
        },
    )


def _program(run: TomlTable) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the command or the scenario of a [[runs]], as fields of Block, and options for its compiler."""
    if ("command" in run.content) == ("scenario" in run.content):
        both = "command" in run.content
        fault = "command cannot be used with scenario" if both else "command or scenario is missing"
        run.refuse(fault, f"use one of them, {_EXAMPLE}")
    is_command = "command" in run.content
    kind, others = ("command", _SCENARIO_KEYS) if is_command else ("scenario", _COMMAND_KEYS)
    for key in others:
        if key in run.content:
            run.refuse(f"{key} cannot be used with {kind}")
    if is_command:
        program = {"command": run.words("command"), "module": run.get("module", FLAG, default=False)}
        return program, {"arch": run.get("arch", TEXT), "nvcc": run.words("nvcc")}
    try:
        scenario = scenarios.find_scenario(run.get("scenario", TEXT))
        variants = run.get("variants", TEXTS, list(scenario.variants))
        scenario.check(variants)
    except UsageError as error:
        raise PlanError(f"{run.where}: {error.message}", error.hint) from None
    if not variants or len(set(variants)) < len(variants):
        run.refuse(
            "invalid variants: expected at least one, each once", f"variants: {' '.join(scenario.variants)}"
        )
    arguments = run.words("arguments") if run.content.get("arguments") else ()
    return {"scenario": scenario, "variants": tuple(variants), "arguments": arguments}, {}


def _env(table: TomlTable) -> dict[str, str]:
    env = table.table("env")
    texts = {}
    for name, value in env.content.items():
        if not _VARIABLE.fullmatch(name):
            env.refuse(
                f"invalid name of an environment variable: {name!r}",
                "expected letters, digits and _, not starting with a digit",
            )
        try:
            texts[name] = of_toml(value).text
        except UnusableValue as error:
            env.refuse(f"invalid {name} = {as_toml(value)}: {error}")
    return texts


def _nsys(table: TomlTable) -> dict[str, Any]:
    nsys = table.table("nsys")
    values = {name: nsys.get(key, kind) for key, (name, kind) in NSYS.items() if key in nsys.content}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _grid(table: TomlTable) -> dict[str, tuple[ParameterValue, ...]]:
    grid = {name: tuple(_value(table, name, one) for one in table.get(name, LIST)) for name in table.content}
    for name, values in grid.items():
        _check_different(table, f"{name} =", [value.text for value in values])
    return grid


def _points(run: TomlTable, grid: Mapping[str, Any]) -> tuple[dict[str, ParameterValue], ...]:
    listed = run.get("points", TABLES, ())
    tables = [TomlTable(content, f"{run.where}: point {i}") for i, content in enumerate(listed, 1)]
    _check_points(tables, grid)
    points = tuple(
        {name: _value(point, name, one) for name, one in point.content.items()} for point in tables
    )
    texts = [{name: value.text for name, value in sorted(point.items())} for point in points]
    _check_different(run, "the point", map(as_toml, texts))
    return points


def _check_points(points: Sequence[TomlTable], grid: Mapping[str, Any]) -> None:
    """Raise PlanError unless all points have the same parameters, and none of the grid's."""
    for point in points:
        expected, names = set(points[0].content), set(point.content)
        if not names:
            point.refuse("the point is empty", "for example points = [ { block = 128, unroll = 1 } ]")
        if expected != names:
            odd = ", ".join(sorted(expected ^ names))
            point.refuse(f"some points have no {odd}", "give each point the same parameters")
        if both := names & set(grid):
            point.refuse(f"{', '.join(sorted(both))} is in grid too", "remove one of the two")


def _value(table: TomlTable, name: str, value: object) -> ParameterValue:
    try:
        return of_toml(value)
    except UnusableValue as error:
        table.refuse(f"invalid {name} = {as_toml(value)}: {error}")


def _check_different(table: TomlTable, noun: str, texts: Iterable[str]) -> None:
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            table.refuse(f"{noun} {text} occurs twice", _SAME_AGAIN)
        seen.add(text)


def _check_names(run: TomlTable, names: Sequence[str]) -> None:
    for name in names:
        if not _PARAMETER.fullmatch(name):
            run.refuse(
                f"invalid parameter name {name!r}",
                "expected letters, digits, _ and -, starting with a letter",
            )
        if name in (REPEAT, RUN_FOLDER) or (name == VARIANT and "scenario" in run.content):
            run.refuse(
                f"invalid parameter name {name!r}: nsyswrap sets this parameter",
                f"use {{{name}}} without an entry in grid or points",
            )
