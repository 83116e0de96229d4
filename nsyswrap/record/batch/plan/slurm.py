"""Settings for sbatch: passed through unchanged, except those that nsyswrap sets itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.record.batch.plan.parameters import Unusable, of_toml
from nsyswrap.record.batch.plan.toml_table import KEYS, Table, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.record.batch.task import Scalar

_TASKS = "nsyswrap numbers the tasks itself; how many run at a time is max_running, or --max-running"
_LOGS = "the logs lie in the batch's folder, under slurm/"
_STATE = "nsyswrap waits by itself, and reads what sbatch answers"
RESERVED = {
    "array": _TASKS,
    "a": _TASKS,
    "chdir": "runs start in the folder where the batch was started",
    "D": "runs start in the folder where the batch was started",
    "output": _LOGS,
    "o": _LOGS,
    "error": _LOGS,
    "e": _LOGS,
    "comment": "nsyswrap finds its jobs by it",
    "wrap": "nsyswrap writes the job script: lines of your own go into [node] setup",
    "parsable": _STATE,
    "quiet": _STATE,
    "Q": _STATE,
    "wait": _STATE,
    "W": _STATE,
    "test-only": "--dry-run shows the job script",
}


def settings(table: Table) -> dict[str, Scalar]:
    """Return the settings of a [slurm] table as they are: true for a flag. Raises PlanError."""
    found: dict[str, Scalar] = {}
    for key, value in table.content.items():
        _check_key(table, key)
        try:
            plain = of_toml(value).plain
        except Unusable as error:
            table.refuse(f"{key} = {shown(value)} is {error}")
        if isinstance(plain, str) and not plain.isprintable():
            table.refuse(f"{key} = {shown(value)} is not one printable line")
        found[key] = plain
    return found


def typed(assignments: Iterable[str], where: str) -> dict[str, Scalar]:
    """Return the settings of ``partition=gpu``, or ``exclusive`` for one without a value."""
    parts = [one.partition("=") for one in assignments]
    return settings(Table({key: value if equals else True for key, equals, value in parts}, where))


def _check_key(table: Table, key: str) -> None:
    right = key.replace("_", "-")
    if right in RESERVED:
        table.refuse(f"{key!r} is set by nsyswrap", RESERVED[right])
    if key in KEYS[""]:
        table.refuse(
            f"{key!r} is no setting of sbatch",
            "what stands below [slurm] belongs to it: move the line to the head of the file",
        )
    if not right.replace("-", "").isalnum() or not right.isascii() or right.startswith("-"):
        table.refuse(f"{key!r} cannot be an option of sbatch", 'as in partition = "gpu" or cpus-per-task = 4')
    if key != right:
        table.refuse(f"sbatch has no --{key}", f"its options are written with hyphens: {right}")
