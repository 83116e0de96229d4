"""Make a plan from the command line: one command with all combinations of parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.base.run_folder import check_share
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.plan.expand import Block, Plan, expand
from nsyswrap.record.batch.plan.parameters import Unusable, Value, of_list
from nsyswrap.record.batch.plan.plan_file import check_different, check_names
from nsyswrap.record.batch.plan.toml_table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.base.run_folder import Share
    from nsyswrap.record.batch.task import Scalar


def sweep(
    block: Block,
    parameters: Sequence[str] = (),
    settings: Mapping[str, Sequence[str]] | None = None,
    share: Share | None = None,
) -> Plan:
    """Return the plan of a block's command with every combination of ``parameters``, each as ``n=1024,2048``.

    Values are a row of CSV: ``s="a,b",c`` are two. ``settings`` has the settings of each executor by the
    executor's name, each as ``partition=gpu``. Raises UsageError.
    """
    check_share(share, keep_environment=block.keep_environment)
    try:
        specs, notes = expand([replace(block, grid=_grid(parameters, block.where))], block.where)
        checked = {
            name: _check_settings(name, typed, block.where) for name, typed in (settings or {}).items()
        }
    except PlanError as error:
        raise UsageError(str(error), error.hint) from None
    return Plan(PurePath(block.command[0]).stem or block.where, specs, checked, notes=notes, share=share)


def _grid(parameters: Sequence[str], where: str) -> dict[str, tuple[Value, ...]]:
    grid: dict[str, tuple[Value, ...]] = {}
    for parameter in parameters:
        name, equals, values = parameter.partition("=")
        if not name or not equals:
            raise UsageError(f"-p {parameter!r} is not NAME=V,V,...", "as in -p n=1024,1048576")
        if name in grid:
            raise UsageError(f"-p {name} is given twice", f"write -p {name}=1,2")
        try:
            grid[name] = tuple(of_list(values))
        except Unusable as error:
            raise UsageError(f"-p {parameter!r}: {error}") from None
    table = Table({}, f"{where}: -p")
    check_names(table, list(grid))
    for name, different in grid.items():
        check_different(table, f"{name} =", [value.text for value in different])
    return grid


def _check_settings(executor: str, assignments: Sequence[str], where: str) -> Mapping[str, Scalar]:
    """Return the settings of ``partition=gpu``, or of ``exclusive`` for a flag."""
    parts = [one.partition("=") for one in assignments]
    content = {key: value if equals else True for key, equals, value in parts}
    return executors.find(executor).check_settings(Table(content, f"{where}: --{executor}"))
