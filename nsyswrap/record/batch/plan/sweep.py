"""A plan that is typed: one command, with all combinations of parameters."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.base.run_folder import check_share
from nsyswrap.record.batch.plan import axes, slurm
from nsyswrap.record.batch.plan.expand import Block, Plan, expand
from nsyswrap.record.batch.plan.parameters import Unusable, Value, of_list
from nsyswrap.record.batch.plan.toml_table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.base.nsys.command import Options
    from nsyswrap.base.run_folder import Share

_WHERE = "sweep"


def sweep(  # noqa: PLR0913 - what a plan can say of one command
    command: Sequence[str],
    parameters: Sequence[str] = (),
    *,
    name: str = "",
    repeat: int = 1,
    module: bool = False,
    arch: str | None = None,
    env: Mapping[str, str] | None = None,
    nsys: Options | None = None,
    nsys_path: str | None = None,
    timeout_s: float | None = None,
    keep_environment: bool = False,
    discard_rep: bool = False,
    share: Share | None = None,
    slurm_settings: Sequence[str] = (),
    max_running: int | None = None,
) -> Plan:
    """Return the plan of ``command`` with every combination of ``parameters``, each as ``n=1024,1048576``.

    Values are a row of CSV: ``s="a,b",c`` are two. ``slurm_settings`` as in ``partition=gpu``. Called after
    its program unless it has a ``name``. Raises UsageError: what was typed is wrong, not a file.
    """
    check_share(share, keep_environment=keep_environment)
    block = Block(
        _WHERE,
        command=tuple(command),
        module=module,
        arch=arch,
        grid=_grid(parameters),
        repeat=repeat,
        timeout_s=timeout_s,
        env=env or {},
        nsys=_set_fields(nsys),
        nsys_path=nsys_path,
        keep_environment=keep_environment,
        discard_rep=discard_rep,
    )
    try:
        specs, notes = expand([block], _WHERE)
        settings = slurm.typed(slurm_settings, f"{_WHERE}: --slurm")
    except PlanError as error:
        raise UsageError(str(error), error.hint) from None
    called = name or PurePath(command[0]).stem or _WHERE
    return Plan(called, specs, settings, max_running=max_running, notes=notes, share=share)


def _grid(parameters: Sequence[str]) -> dict[str, tuple[Value, ...]]:
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
    table = Table({}, f"{_WHERE}: -p")
    try:
        axes.check_names(table, list(grid))
        for name, found in grid.items():
            axes.check_different(table, f"{name} =", [value.text for value in found])
    except PlanError as error:
        raise UsageError(str(error), error.hint) from None
    return grid


def _set_fields(nsys: Options | None) -> dict[str, Any]:
    return {one.name: getattr(nsys, one.name) for one in fields(nsys)} if nsys else {}
