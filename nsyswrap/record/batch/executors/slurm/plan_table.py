"""The table [slurm] of a plan: settings that sbatch gets unchanged. Some are nsyswrap's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.record.batch.plan.parameters import Unusable, of_toml
from nsyswrap.record.batch.plan.toml_table import HEAD_KEYS, Table, as_toml

if TYPE_CHECKING:
    from nsyswrap.record.batch.task import Scalar

_TASKS = "use max_running or --max-running to limit the runs at a time"
_LOGS = "logs are written to slurm/ in the batch folder"
_STATE = "nsyswrap reads the output of sbatch and waits for the jobs"
_RESERVED = {
    "array": _TASKS,
    "a": _TASKS,
    "chdir": "runs start in the folder where the batch was started",
    "D": "runs start in the folder where the batch was started",
    "output": _LOGS,
    "o": _LOGS,
    "error": _LOGS,
    "e": _LOGS,
    "wrap": "use setup in [node] for your own lines of the job script",
    "parsable": _STATE,
    "quiet": _STATE,
    "Q": _STATE,
    "wait": _STATE,
    "W": _STATE,
    "test-only": "use --dry-run to show the job script",
}


def check(table: Table) -> dict[str, Scalar]:
    """Return the settings of a [slurm] table as they are; a flag is true or false. Raises PlanError."""
    settings: dict[str, Scalar] = {}
    for key, value in table.content.items():
        _check_key(table, key)
        try:
            plain = of_toml(value).plain
        except Unusable as error:
            table.refuse(f"invalid {key} = {as_toml(value)}: {error}")
        if isinstance(plain, str) and not plain.isprintable():
            table.refuse(f"invalid {key} = {as_toml(value)}: expected one printable line")
        settings[key] = plain
    return settings


def _check_key(table: Table, key: str) -> None:
    name = key.replace("_", "-")
    if name in _RESERVED:
        table.refuse(f"{key!r} is set by nsyswrap", _RESERVED[name])
    if key in (*HEAD_KEYS, "slurm"):
        table.refuse(
            f"no sbatch setting named {key!r}",
            "move the line to the head of the file, before any table",
        )
    if not name.replace("-", "").isalnum() or not name.isascii() or name.startswith("-"):
        table.refuse(f"invalid sbatch setting {key!r}", 'for example partition = "gpu" or cpus-per-task = 4')
    if key != name:
        table.refuse(f"no sbatch setting named {key!r}", f"use hyphens: {name}")
