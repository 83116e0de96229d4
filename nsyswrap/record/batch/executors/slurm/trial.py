"""Try the options of a plan with ``sbatch --test-only``, before anything is written or submitted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.text import printable
from nsyswrap.record.batch.executors.slurm import commands
from nsyswrap.record.batch.executors.slurm.groups import NAME, Group, grouped
from nsyswrap.record.batch.executors.slurm.script import job_script
from nsyswrap.record.batch.folder import Batch
from nsyswrap.record.batch.plan.toml_table import as_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nsyswrap.record.batch.plan.expand import Plan
    from nsyswrap.record.batch.task import TaskSpec

    ToRun = Callable[[], Sequence[TaskSpec]]

_AT_ONCE = 4  # calls of sbatch
_LISTED = 10  # sets of options that are refused


@dataclass(frozen=True)
class _Fault:
    """The names of options that Slurm refuses, and its message."""

    names: Sequence[str]
    message: str


def check(plan: Plan, to_run: ToRun) -> None:
    """Raise Unavailable if Slurm refuses the options of runs that are ``to_run``.

    The message has each set of options that is refused, and the keys of the plan that set it. Nothing
    happens where this cannot be told.
    """
    sets = grouped(plan)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = list(threads.map(lambda one: _tried(plan, one[0]), sets))
    refused = [one for one, message in zip(sets, answers, strict=True) if message]
    if not refused:
        return
    wanted = {spec.key for spec in to_run()}
    lines = []
    for group, specs in refused:
        if own := [spec for spec in specs if spec.key in wanted]:
            lines += [_line(plan, own, group, fault) for fault in _faults(plan, group)]
    if lines:
        more = [f"... and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        shown = [f"  {printable(line)}" for line in (*lines[:_LISTED], *more)]
        raise Unavailable.of_lines(
            ["Slurm refuses these options; nothing was submitted:", *shown],
            "change them, and use the same command",
        )


def _tried(plan: Plan, group: Group) -> str | None:
    nowhere = Batch(Path(), plan.name, "", {})
    return commands.refusal(job_script(nowhere, plan, group=group))


def _faults(plan: Plan, group: Group) -> Iterator[_Fault]:
    """Yield what Slurm refuses: an option is at fault if Slurm says something else without it."""
    while message := _tried(plan, group):
        names = [name for name in group.options if _tried(plan, _without(group, name)) not in (message, None)]
        yield _Fault(names or list(group.options), message)
        if not names:
            return
        group = _without(group, *names)


def _without(group: Group, *names: str) -> Group:
    return replace(group, options={name: value for name, value in group.options.items() if name not in names})


def _line(plan: Plan, specs: Sequence[TaskSpec], group: Group, fault: _Fault) -> str:
    by_place: dict[str, list[str]] = {}
    for name in fault.names:
        by_place.setdefault(_place(plan, specs[0], name), []).append(name)
    places = [
        f"{place} {', '.join(f'{name} = {as_toml(group.options[name])}' for name in names)}"
        for place, names in by_place.items()
    ]
    more = f" and {len(specs) - 1:,} more" if len(specs) > 1 else ""
    return f"{'; '.join(places)}: {fault.message} (run {specs[0].name}{more})"


def _place(plan: Plan, spec: TaskSpec, name: str) -> str:
    """Return the table of the plan that sets an option of a run."""
    if name in spec.settings.get(NAME, {}):
        return "[runs.slurm]"
    return "[slurm]" if name in plan.settings.get(NAME, {}) else "[[runs]]"
