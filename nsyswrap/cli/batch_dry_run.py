"""What ``--dry-run`` prints: every run of a plan, which of them are done, and how they would be submitted."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from nsyswrap.record.batch.folder import SLURM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from nsyswrap.record.batch.executors.slurm.script import Settings
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.task import Spec


def print_runs(specs: Mapping[int, Spec], states: Mapping[int, RunState], wanted: Collection[int]) -> None:
    """Print a line for each run, as it would be typed; one that would not be run says in a comment why."""
    for number, spec in specs.items():
        env = [f"{name}={shlex.quote(value)}" for name, value in spec.env.items()]
        typed = " ".join([*env, shlex.join(spec.words)])
        state = states[number]
        click.echo(f"{state.folder.name}: {typed}" + ("" if number in wanted else f"  # {state.state}"))


def print_submission(batch: Batch, settings: Settings, wanted: Sequence[int]) -> None:
    """Print the job script, and above it with which tasks it would be submitted."""
    from nsyswrap.record.batch.executors.slurm.script import script  # noqa: PLC0415
    from nsyswrap.record.batch.executors.slurm.tasks import array  # noqa: PLC0415

    path = shlex.quote(str(batch.folder / SLURM / "job-0.sh"))
    submitted = f"sbatch --array={array(wanted, settings.max_running)} {path}\n" if wanted else ""
    click.echo(f"\n{submitted}\n{script(batch, settings)}", nl=False)
