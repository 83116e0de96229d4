"""The table [slurm] of a plan: settings that sbatch gets unchanged. Some are nsyswrap's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.record.batch.plan.parameters import Unusable, of_toml
from nsyswrap.record.batch.plan.toml_table import HEAD_KEYS, Table, as_toml

if TYPE_CHECKING:
    from nsyswrap.record.batch.task import Scalar

_TASKS = "nsyswrap numbers the tasks itself; how many run at a time is max_running, or --max-running"
_LOGS = "the logs lie in the batch's folder, under slurm/"
_STATE = "nsyswrap waits by itself, and reads what sbatch answers"
_RESERVED = {
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


def check(table: Table) -> dict[str, Scalar]:
    """Return the settings of a [slurm] table as they are; a flag is true or false. Raises PlanError."""
    settings: dict[str, Scalar] = {}
    for key, value in table.content.items():
        _check_key(table, key)
        try:
            plain = of_toml(value).plain
        except Unusable as error:
            table.refuse(f"{key} = {as_toml(value)} is {error}")
        if isinstance(plain, str) and not plain.isprintable():
            table.refuse(f"{key} = {as_toml(value)} is not one printable line")
        settings[key] = plain
    return settings


def _check_key(table: Table, key: str) -> None:
    name = key.replace("_", "-")
    if name in _RESERVED:
        table.refuse(f"{key!r} is set by nsyswrap", _RESERVED[name])
    if key in (*HEAD_KEYS, "slurm"):
        table.refuse(
            f"{key!r} is no setting of sbatch",
            "what stands below [slurm] belongs to it: move the line to the head of the file",
        )
    if not name.replace("-", "").isalnum() or not name.isascii() or name.startswith("-"):
        table.refuse(f"{key!r} cannot be an option of sbatch", 'as in partition = "gpu" or cpus-per-task = 4')
    if key != name:
        table.refuse(f"sbatch has no --{key}", f"its options are written with hyphens: {name}")
