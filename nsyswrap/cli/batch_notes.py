"""What a person should know before a batch begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError
from nsyswrap.base.run_folder import RUNS
from nsyswrap.cli.output import note
from nsyswrap.record.batch.folder import look
from nsyswrap.record.batch.task import read_spec

if TYPE_CHECKING:
    from nsyswrap.record.batch.folder import Batch
    from nsyswrap.record.batch.plan import Plan


def say_of_plan(plan: Plan, executor: str) -> None:
    """Say what was noticed when the plan was read, and what of it counts elsewhere alone."""
    for text in plan.notes:
        note(f"nsyswrap: {text}")
    for_nodes = [key for key in ("setup", "wrapper", "python") if getattr(plan, key)]
    if for_nodes and executor != "slurm":
        note(f"nsyswrap: [node] {', '.join(for_nodes)}: only with --executor slurm; runs here go without it")


def say_of_left_out(batch: Batch) -> None:
    """Say what an earlier plan did that this one does anew: the same plan started elsewhere is another."""
    folders = [batch.folder / RUNS / name for name in batch.left_out.values()]
    done = [folder for folder in folders if look(folder).state == "done"]
    if not done:
        return
    here = str(Path.cwd())
    elsewhere = sorted({cwd for folder in done if (cwd := _planned_from(folder)) not in ("", here)})
    said = f"nsyswrap: {batch.folder}: finished runs that are no part of this plan: {len(done):,}"
    if elsewhere:
        said += f"; planned in {', '.join(elsewhere)}: started in another folder, it is another plan"
    note(said)


def _planned_from(folder: Path) -> str:
    try:
        return read_spec(folder).cwd
    except OutputError:  # damaged
        return ""
