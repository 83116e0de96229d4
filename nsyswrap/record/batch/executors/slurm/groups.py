"""The options of sbatch for each run, and the runs with equal options: each group is submitted together.

They are settings of the table [slurm] of a plan, which sbatch gets unchanged. Some are nsyswrap's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsyswrap.base.errors import PlanError
from nsyswrap.base.records import dataclass
from nsyswrap.record.batch.plan.expand import Plan
from nsyswrap.record.batch.plan.toml_table import HEAD_KEYS, TomlTable, UnusableValue, as_toml, of_toml
from nsyswrap.record.batch.task import Scalar, TaskSpec

if TYPE_CHECKING:
    from nsyswrap.record.batch.folder import Batch

NAME = "slurm"
LONG_NAMES = {
    "J": "job-name",
    "t": "time",
    "n": "ntasks",
    "N": "nodes",
    "c": "cpus-per-task",
    "G": "gpus",
    "p": "partition",
    "A": "account",
    "q": "qos",
    "C": "constraint",
    "w": "nodelist",
    "x": "exclude",
    "L": "licenses",
    "d": "dependency",
    "b": "begin",
}
_GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-socket", "ntasks-per-core", "ntasks-per-gpu")
_RESERVED = {
    **dict.fromkeys(("array", "a"), "use max_running or --max-running to limit the runs at a time"),
    **dict.fromkeys(("chdir", "D"), "runs start in the folder where the batch was started"),
    **dict.fromkeys(("output", "o", "error", "e"), "logs are written to slurm/ in the batch folder"),
    "wrap": "use setup in [node] for your own lines of the job script",
    **dict.fromkeys(
        ("parsable", "quiet", "Q", "wait", "W"), "nsyswrap reads the output of sbatch and waits for the jobs"
    ),
    "test-only": "use --dry-run to show the job script",
}


@dataclass(frozen=True)
class SubmissionGroup:
    """Runs that are submitted with the same ``options``. ``has_ranks``: a launcher starts them."""

    options: Mapping[str, Scalar]
    has_ranks: bool = False


def long_name(key: str) -> str:
    """Return the long name of an option of sbatch: ``time`` for ``t``."""
    return LONG_NAMES.get(key, key)


def options_of(spec: TaskSpec, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the options of sbatch for a run: the plan's ``settings``, its own, and those of its ranks."""
    own = spec.settings.get(NAME, {})
    named = {long_name(key) for key in own}
    options = {**{key: value for key, value in settings.items() if long_name(key) not in named}, **own}
    given = {long_name(key): value for key, value in options.items()}
    if spec.gpus and not given.keys() & set(_GPUS):
        options["gpus"] = spec.gpus
    if spec.launcher:
        # Each node has the same number of torchrun's ranks.
        wanted: dict[str, Scalar] = {} if "ntasks" in given else {"ntasks": spec.ntasks}
        if spec.launcher == "torchrun" and "ntasks-per-node" not in given:
            nodes = str(given.get("nodes", 1))
            count = int(nodes) if nodes.isdecimal() else 0
            wanted |= {} if "nodes" in given else {"nodes": 1}
            if count and spec.ntasks % count == 0:
                wanted["ntasks-per-node"] = spec.ntasks // count
        options |= wanted
    return options


def check_settings(table: TomlTable) -> dict[str, Scalar]:
    """Return the settings of a [slurm] table as they are; a flag is true or false. Raises PlanError."""
    settings: dict[str, Scalar] = {}
    for key, value in table.content.items():
        _check_key(table, key)
        try:
            plain = of_toml(value).plain
        except UnusableValue as error:
            table.refuse(f"invalid {key} = {as_toml(value)}: {error}")
        if isinstance(plain, str) and not plain.isprintable():
            table.refuse(f"invalid {key} = {as_toml(value)}: expected one printable line")
        settings[key] = plain
    return settings


def _check_key(table: TomlTable, key: str) -> None:
    name = key.replace("_", "-")
    if name in _RESERVED:
        table.refuse(f"{key!r} is set by nsyswrap", _RESERVED[name])
    if key in (*HEAD_KEYS, NAME):
        table.refuse(
            f"no sbatch setting named {key!r}", "move the line to the head of the file, before any table"
        )
    if not name.replace("-", "").isalnum() or not name.isascii() or name.startswith("-"):
        table.refuse(f"invalid sbatch setting {key!r}", 'for example partition = "gpu" or cpus-per-task = 4')
    if key != name:
        table.refuse(f"no sbatch setting named {key!r}", f"use hyphens: {name}")


def grouped(plan: Plan) -> list[tuple[SubmissionGroup, list[TaskSpec]]]:
    """Return the runs of the plan by equal options."""
    settings = plan.settings.get(NAME, {})
    known: dict[tuple[object, ...], tuple[SubmissionGroup, list[TaskSpec]]] = {}
    for spec in plan.specs:
        group = SubmissionGroup(options_of(spec, settings), bool(spec.launcher))
        key = (group.has_ranks, *sorted((name, str(value)) for name, value in group.options.items()))
        known.setdefault(key, (group, []))[1].append(spec)
    return list(known.values())


def groups(plan: Plan, batch: Batch) -> dict[int, SubmissionGroup]:
    """Return the group of each run of the plan, by the run's number. Runs of a group share one object."""
    return {batch.numbers[spec.key]: group for group, specs in grouped(plan) for spec in specs}


def check_ranks(specs: Sequence[TaskSpec], settings: Mapping[str, Scalar], where: str) -> None:
    """Raise PlanError for options that do not fit the ranks of a run. ``where`` begins the message."""
    different = {
        repr((spec.launcher, spec.ntasks, spec.profiled, spec.gpus, spec.settings)): spec for spec in specs
    }
    for spec in different.values():
        options = {long_name(key): value for key, value in options_of(spec, settings).items()}
        for message, hint in _faults(spec, options):
            raise PlanError(f"{where}: [slurm]: {message}", hint)


def _faults(spec: TaskSpec, options: Mapping[str, Scalar]) -> Iterator[tuple[str, str]]:
    for key, value in options.items():
        if isinstance(value, str) and not value.isprintable():
            yield f"invalid {key} = {value!r}: expected one printable line", ""
    several = [key for key in _TASKS if str(options.get(key, 1)) not in ("0", "1")]
    if several and not spec.launcher and spec.profiled:
        key, value = several[0], options[several[0]]
        yield (
            f"{key} = {value} needs a launcher: only one task would run the program",
            f'add launcher = "srun" and ntasks = {value} to the [[runs]]',
        )
    if spec.launcher and str(options.get("ntasks", spec.ntasks)) != str(spec.ntasks):
        yield f"ntasks = {options['ntasks']} is not that of the [[runs]], {spec.ntasks}", "omit it in [slurm]"
    if spec.launcher == "torchrun":
        nodes = str(options.get("nodes", 1))
        if not nodes.isdecimal() or not int(nodes) or spec.ntasks % int(nodes):
            yield (
                f"nodes = {nodes}: torchrun starts equally many of its {spec.ntasks} ranks on each node",
                "set nodes to a divisor of ntasks",
            )
